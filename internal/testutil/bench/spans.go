package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// spanCount is the number of bytes that the load of spans reads and writes one by one. perf trace and strace need
// some 50 µs for each: they get a tenth, and the table shows times per call.
const spanCount = 1000000

// bpftraceSpans counts the durations of system calls, with the keys of a summary.
const bpftraceSpans = `tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; @id[tid] = args->id }
tracepoint:raw_syscalls:sys_exit /@s[tid]/ { @[@id[tid]] = hist(nsecs - @s[tid]); delete(@s[tid]); delete(@id[tid]) }`

// bpftraceCount counts system calls by the kernel's stack.
const bpftraceCount = `tracepoint:raw_syscalls:sys_enter /comm=="dd"/ { @[kstack] = count() }`

// spanTool is a tool that measures the durations of system calls.
type spanTool struct {
	name  string
	share int // of spanCount, as a divisor
	argv  func(load []string) []string
}

func (b spanPart) spanTools() []spanTool {
	file := filepath.Join(b.dir, "spans.data")
	before := func(argv ...string) func([]string) []string {
		return func(load []string) []string { return append(argv[:len(argv):len(argv)], load...) }
	}
	g := b.gperf.argv[0]
	bpftrace := func(program string) func([]string) []string {
		return func(load []string) []string {
			return []string{"bpftrace", "-q", "-e", program, "-c", strings.Join(load, " ")}
		}
	}
	count := func(flags ...string) func([]string) []string {
		argv := append([]string{g, "record", "-q", "-o", file, "-e", "raw_syscalls:sys_enter"}, flags...)
		return before(append(argv, "--")...)
	}
	l := []spanTool{
		{"no tool", 1, before()},
		{"gperf span:syscalls/min=1s/", 1, before(g, "record", "-q", "-o", file, "-e", "span:syscalls/min=1s/", "--")},
		{"gperf span:syscalls", 1, before(g, "record", "-q", "-o", file, "-e", "span:syscalls", "--")},
		{"gperf span:syscalls -g", 1, before(g, "record", "-q", "-o", file, "-g", "-e", "span:syscalls", "--")},
		{"gperf span:syscalls/hist/", 1, before(g, "record", "-q", "-o", file, "-e", "span:syscalls/hist/", "--")},
		{"bpftrace, histograms", 1, bpftrace(bpftraceSpans)},
		{"gperf --count", 1, count("--count")},
		{"gperf --count, kernel stacks", 1, count("--count", "-g", "--kernel-callchains")},
		{"gperf --count -g", 1, count("--count", "-g")},
		{"gperf record -g", 1, count("-g")},
		{"bpftrace, counts by kstack", 1, bpftrace(bpftraceCount)},
		{"strace -c -f", 10, before("strace", "-c", "-f", "-o", filepath.Join(b.dir, "strace"))},
	}
	for _, p := range b.perfs {
		argv := append(p.argv[:len(p.argv):len(p.argv)], "trace", "-s", "-o", "/dev/null", "--")
		l = append(l, spanTool{p.name + " trace -s", 10, before(argv...)})
	}
	return l
}

// spans measures how much tools that time each system call slow a program down.
func (b spanPart) spans() error {
	dd, err := exec.LookPath("dd")
	if err != nil {
		return err
	}
	tw := newTable("tool\tns a call: min\tmedian\tmax")
	fmt.Printf("\ndd bs=1 count=%d, %d runs each, %s\n", spanCount, b.runs, loadAverage())
	for _, t := range b.spanTools() {
		count := spanCount / t.share
		argv := t.argv([]string{dd, "if=/dev/zero", "of=/dev/null", "bs=1", "count=" + strconv.Itoa(count)})
		if _, err := exec.LookPath(argv[0]); errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(tw, "%s\tmissing\n", t.name)
			continue
		}
		r := row{tool: tool{name: t.name}}
		for range b.runs {
			u, err := b.timeLoad(argv)
			if b.ctx.Err() != nil {
				return err
			}
			if err != nil { // perf 6.1 crashes while others load BPF programs
				fmt.Fprintf(os.Stderr, "bench: %v\n", err)
				continue
			}
			r.runs = append(r.runs, u)
		}
		if len(r.runs) == 0 {
			fmt.Fprintf(tw, "%s\tfailed\n", t.name)
			continue
		}
		s := r.figures(func(u usage) time.Duration { return u.load })
		perCall := func(d time.Duration) int64 { return d.Nanoseconds() / int64(2*count) }
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\n", t.name, perCall(slices.Min(s)), perCall(median(s)), perCall(slices.Max(s)))
	}
	return tw.Flush()
}

// timeLoad runs a tool with dd, and returns the time that dd reports.
func (b spanPart) timeLoad(argv []string) (u usage, err error) {
	cmd, stderr := b.command(tool{argv: argv[:1]}, nil, argv[1:]...)
	if err := cmd.Run(); err != nil {
		return u, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	_, text, ok := strings.Cut(stderr.String(), "copied, ")
	if !ok {
		return u, fmt.Errorf("%s: dd reports no time:\n%s", cmd, stderr)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
	u.load = time.Duration(seconds * float64(time.Second))
	return u, err
}

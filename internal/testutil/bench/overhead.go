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

// A recorded program hits a probe this number of times in a tight loop, with stacks of this number of frames.
const (
	probeHits   = 100000
	probeFrames = 20
)

// A watcher is a tool that attaches a probe: a recorder, or bpftrace with a script.
type watcher struct {
	name  string
	stack string // the part of the stack that it records
	argv  func(program []string) []string
}

// overhead measures the cost of each hit of a uprobe and of a kprobe in the probed program.
func (b probePart) overhead() error {
	w, err := b.makeWorkloads()
	if err != nil {
		return err
	}
	if err := b.overheadOf("uprobe", "uprobe:"+w.program+":target", w.probe,
		w.deep(probeFrames, probeHits)); err != nil {
		return err
	}
	if _, err := os.Stat("/sys/kernel/tracing/kprobe_events"); err != nil {
		fmt.Println("\nkprobe: this kernel has none")
		return nil
	}
	argv := append(w.deep(probeFrames, probeHits), "syscall")
	return b.overheadOf("kprobe", "kprobe:"+sysGetppid, kernelProbe, argv)
}

// overheadOf measures the cost for one probe: spec is the probe's name for gperf and bpftrace, make creates perf's
// event.
func (b probePart) overheadOf(kind, spec string, makeProbe func() (func(), error), program []string) error {
	remove, err := makeProbe()
	if err != nil {
		return err
	}
	defer remove()
	watchers := b.watchers(spec)
	rows := []*row{{tool: tool{name: "nothing"}}}
	for _, w := range watchers {
		rows = append(rows, &row{tool: tool{name: w.name + "\t" + w.stack}})
	}
	for range b.runs {
		for i, r := range rows {
			argv := program
			if i > 0 {
				argv = watchers[i-1].argv(program)
			}
			u, err := b.timesItself(tool{argv: argv[:1]}, argv[1:]...)
			if err != nil {
				return err
			}
			r.runs = append(r.runs, u)
		}
	}
	fmt.Printf("\na program that hits a %s %d times, %d frames deep, %d runs each in turns, %s\n", kind, probeHits,
		probeFrames, b.runs, loadAverage())
	tw := newTable("watched by\tstacks\tCPU ns a hit: min\tmedian\tmax\twall ns a hit: median")
	cpu, wall := func(u usage) time.Duration { return u.loadCPU }, func(u usage) time.Duration { return u.load }
	alone := rows[0].median(cpu)
	perHit := func(d time.Duration) int64 { return (d - alone).Nanoseconds() / probeHits }
	for _, r := range rows[1:] {
		s := r.figures(cpu)
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\n", r.tool.name, perHit(slices.Min(s)), perHit(median(s)),
			perHit(slices.Max(s)), perHit(r.median(wall)))
	}
	return tw.Flush()
}

// watchers are gperf, the perfs and bpftrace, each without stacks, with stacks by frame pointers, and with complete
// stacks if the tool records them.
func (b probePart) watchers(spec string) (l []watcher) {
	file := filepath.Join(b.dir, "overhead.data")
	for _, stack := range []string{"none", "fp", "dwarf"} {
		for _, t := range append([]tool{b.gperf}, b.perfs...) {
			opts := []string{"record", "-q", "-o", file, "-e", probeEvent}
			if t.name == b.gperf.name {
				opts[len(opts)-1] = spec
			} else {
				opts = append(opts, "-N", "-B") // skip the work after the hits
			}
			if stack != "none" {
				opts = append(opts, "--call-graph", stack)
			}
			l = append(l, watcher{t.name, stack, func(program []string) []string {
				return slices.Concat(t.argv, opts, []string{"--"}, program)
			}})
		}
		if _, err := exec.LookPath("bpftrace"); errors.Is(err, exec.ErrNotFound) || stack == "dwarf" {
			continue
		}
		for _, action := range map[string][]string{
			"none": {`@ = count()`, `printf("%d %llu\n", tid, nsecs)`},
			"fp":   {`@[kstack, ustack] = count()`, `printf("%d %llu %s %s\n", tid, nsecs, kstack, ustack)`},
		}[stack] {
			l = append(l, watcher{"bpftrace " + strconv.Quote(action), stack, func(program []string) []string {
				argv := []string{"bpftrace", "-q", "-o", filepath.Join(b.dir, "bpftrace.out"), "-e",
					spec + " { " + action + " }", "-c"}
				return append(argv, strings.Join(program, " "))
			}})
		}
	}
	return l
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// noPacket is a filter that selects no packet of the load.
const noPacket = "host 192.0.2.77"

// bpftraceDrops counts drops by reason, bpftraceSKB the calls of functions with an sk_buff, as far as
// bpftrace can choose them: by name.
const (
	bpftraceDrops = `tracepoint:skb:kfree_skb { @[args->reason] = count() }`
	bpftraceSKB   = `kprobe:tcp_*,kprobe:ip_*,kprobe:skb_*,kprobe:__skb_*,kprobe:udp_*,kprobe:dev_*
{ @[func] = count() }`
)

// packetTool records packets while the load runs.
type packetTool struct {
	name string
	argv []string // the load follows
}

func (b packetPart) tools() []packetTool {
	file := filepath.Join(b.dir, "packets.data")
	gperf := func(name string, args ...string) packetTool {
		argv := append([]string{b.gperf.argv[0], "record", "-q", "-a", "-o", file}, args...)
		return packetTool{"gperf " + name, append(argv, "--")}
	}
	l := []packetTool{
		{"nothing", nil},
		gperf("-e skb:kfree_skb", "-e", "skb:kfree_skb"),
		gperf("-g -e skb:kfree_skb --packet", "-g", "-e", "skb:kfree_skb", "--packet", noPacket),
		gperf("-e net:net_dev_queue --packet", "-e", "net:net_dev_queue", "--packet", noPacket),
		gperf("--follow --packet", "--follow", "--packet", noPacket),
	}
	for _, p := range b.perfs {
		argv := append(p.argv[:len(p.argv):len(p.argv)], "record", "-q", "-a", "-N", "-B", "-o", file,
			"-e", "skb:kfree_skb", "--")
		l = append(l, packetTool{p.name + " -e skb:kfree_skb", argv})
	}
	if _, err := exec.LookPath("bpftrace"); !errors.Is(err, exec.ErrNotFound) {
		for name, program := range map[string]string{"bpftrace, drops": bpftraceDrops,
			"bpftrace, functions by name": bpftraceSKB} {
			l = append(l, packetTool{name, []string{"bpftrace", "-q", "-e", program, "-c"}})
		}
	}
	return l
}

// packets measures how much of the throughput of the loopback device recorders cost that select no packet of it,
// and how many of a million drops they keep.
func (b packetPart) packets() error {
	load, err := b.build("./internal/testutil/bench/testdata/stream.go")
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name, unit string
		args       []string
	}{{"one TCP connection", "MB/s", nil}, {"UDP datagrams", "packets/s", []string{"-packets"}}} {
		if err := b.throughput(kind.name, kind.unit, append([]string{load}, kind.args...)); err != nil {
			return err
		}
	}
	return b.keptDrops()
}

func (b packetPart) throughput(name, unit string, load []string) error {
	tools := b.tools()
	rates := make([][]float64, len(tools))
	for range b.runs {
		for i, t := range tools {
			rate, err := b.rateOf(t, load)
			if b.ctx.Err() != nil {
				return err
			}
			if err != nil { // perf 6.1 crashes while others load BPF programs
				fmt.Fprintf(os.Stderr, "bench: %v\n", err)
				continue
			}
			rates[i] = append(rates[i], rate)
		}
	}
	fmt.Printf("\nloopback, %s, %d runs each in turns, %s\n", name, b.runs, loadAverage())
	tw := newTable("recorded by\t" + unit + ": min\tmedian\tmax\tof nothing's")
	for i, t := range tools {
		l := rates[i]
		if len(l) == 0 {
			fmt.Fprintf(tw, "%s\tfailed\n", t.name)
			continue
		}
		m := median(l)
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f\t%.1f %%\n", t.name, l[0], m, l[len(l)-1], 100*m/median(rates[0]))
	}
	return tw.Flush()
}

// rateOf runs the load with a tool, and returns the rate that it prints.
func (b packetPart) rateOf(t packetTool, load []string) (float64, error) {
	argv := append(slices.Clone(t.argv), load...)
	if len(t.argv) > 0 && t.argv[0] == "bpftrace" {
		argv = append(slices.Clone(t.argv), strings.Join(load, " "))
	}
	out, err := exec.CommandContext(b.ctx, argv[0], argv[1:]...).Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strconv.ParseFloat(first, 64)
}

// manyDrops is the number of drops that are recorded as fast as the kernel makes them.
const manyDrops = 1000000

var summaryCounts = regexp.MustCompile(`\((\d+) samples\)|Lost (\d+) samples`)

// keptDrops records drops, and prints how many are kept and lost.
func (b packetPart) keptDrops() error {
	drops, err := b.build("./internal/testutil/drops")
	if err != nil {
		return err
	}
	fmt.Printf("\n%d drops, as fast as one thread causes them, %s\n", manyDrops, loadAverage())
	tw := newTable("recorded by\tkept\tlost\tsum\tsent in")
	for _, args := range [][]string{{}, {"-g"}, {"--no-packet"}} {
		argv := append([]string{"record", "-a", "-o", filepath.Join(b.dir, "kept.data"), "-e", "skb:kfree_skb",
			"--filter", `COMM == "drops"`}, args...)
		argv = append(argv, "--", drops, "-n", strconv.Itoa(manyDrops))
		out, err := exec.CommandContext(b.ctx, b.gperf.argv[0], argv...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("gperf: %w\n%s", err, out)
		}
		var kept, lost int
		for _, m := range summaryCounts.FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.Atoi(m[1])
			kept += n
			n, _ = strconv.Atoi(m[2])
			lost += n
		}
		_, took, _ := strings.Cut(string(out), " closed port in ")
		took, _, _ = strings.Cut(took, "\n")
		fmt.Fprintf(tw, "gperf -e skb:kfree_skb %s\t%d\t%d\t%d\t%s\n", strings.Join(args, " "), kept, lost,
			kept+lost, took)
	}
	return tw.Flush()
}

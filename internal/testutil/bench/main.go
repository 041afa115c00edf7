// Bench measures gperf and perf in turns, on the same recordings and the same load, and prints tables: wall-clock
// time, CPU time and peak memory of each command, and gperf's ratio to each perf; for unwinding also the number of
// complete user stacks, bytes per sample and BPF time per sample; for probes the cost of a hit in the program. No
// figure makes it fail.
//
//	go run ./internal/testutil/bench
//	PERF="perf,/opt/perf7/bin/perf" go run ./internal/testutil/bench -n 9 -part read -f my.data
//	PERF="perf,/opt/perf7/bin/perf" go run ./internal/testutil/bench -part dwarf
//	PERF=none go run ./internal/testutil/bench -part runtimes -loads node,java
//	go build ./internal/testutil/bench && ./bench -part probes -gperf ./gperf    # where there are kprobes
//
// PERF lists the perfs to compare with, by commas; each may be a command with arguments. PERF=none measures gperf only.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const event = "skb:kfree_skb"

type bench struct {
	ctx     context.Context // canceled by a signal; the bench then undoes the changes of the machine
	runs    int
	drops   int // in the files for script and report
	big     int // drops in the big file
	rate    int // drops per second while record is measured
	seconds int // of each measured recording
	units   int // short compiles to record
	minutes int // of the long recording

	probeCount int // kprobes to attach at once

	loads       string // of runtimes or churn, separated by commas; "" for all
	loadSeconds int    // of each load of runtimes, and of the libraries

	files   []string
	dir     string // of temporary files
	dropper string
	gperf   tool
	perfs   []tool

	recordings int // number so far
}

// The parts of the benchmark. Each embeds the tools and settings.
type (
	readPart   struct{ *bench } // script and report
	dwarfPart  struct{ *bench } // unwinding of user stacks
	probePart  struct{ *bench } // overhead of probes, time to attach them
	spanPart   struct{ *bench } // slow-down by tools that time system calls
	packetPart struct{ *bench } // packets: throughput that is left
	longPart   struct{ *bench } // memory over a long recording

	runtimePart struct{ *bench } // complete stacks of runtimes
	churnPart   struct{ *bench } // processes and libraries that come and go
)

// A tool is gperf or one of the perfs.
type tool struct {
	name string
	argv []string
}

func main() {
	var b bench
	flag.IntVar(&b.runs, "n", 5, "runs of each command")
	flag.IntVar(&b.drops, "drops", 300000, "drops in the files that are read")
	flag.IntVar(&b.big, "big", 4500000, "drops in the file for measuring memory, about 350 bytes each; 0: no file")
	flag.IntVar(&b.rate, "rate", 100000, "drops per second during recording")
	flag.IntVar(&b.seconds, "seconds", 3, "seconds of each measured recording")
	files := flag.String("f", "",
		"comma-separated perf.data files to read (default: one of gperf, one of the first perf)")
	gperf := flag.String("gperf", "", "gperf to measure (default: built from this checkout)")
	flag.IntVar(&b.units, "compiles", 200, "short compiles to record")
	flag.IntVar(&b.minutes, "minutes", 10, "minutes of the long recording")
	part := flag.String("part", "all",
		"what to measure: read, lines, record, dwarf, overhead, spans, why, packets, long, probes, runtimes, churn, "+
			"or all (except the last seven)")
	flag.StringVar(&b.loads, "loads", "",
		"comma-separated loads of the parts runtimes, and churn: storm, processes, libraries (default: all)")
	flag.IntVar(&b.loadSeconds, "load-seconds", 10, "seconds of each load of the part runtimes, and of the libraries")
	flag.IntVar(&b.probeCount, "probes", 1000, "kprobes to attach at once")
	flag.Parse()
	if flag.NArg() > 0 || b.runs < 1 || b.drops < 1 || b.rate < 1 || b.seconds < 1 || b.units < 1 ||
		b.loadSeconds < 1 || !slices.Contains(strings.Fields(
		"read lines record dwarf overhead spans why packets long probes runtimes churn all"), *part) {
		flag.Usage()
		os.Exit(2)
	}
	if *files != "" {
		b.files = strings.Split(*files, ",")
	}
	var stop context.CancelFunc
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(*gperf, *part); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(gperf, part string) (err error) {
	if b.dir, err = os.MkdirTemp("", "gperf-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.findTools(gperf, part); err != nil {
		return err
	}
	switch part {
	case "probes":
		return probePart{b}.probes()
	case "spans":
		return spanPart{b}.spans()
	case "why":
		return waitPart{b}.why()
	case "packets":
		return packetPart{b}.packets()
	case "long":
		return longPart{b}.long()
	case "runtimes":
		return runtimePart{b}.runtimes()
	case "churn":
		return churnPart{b}.churn()
	}
	for _, p := range []struct {
		name    string
		measure func() error
	}{{"read", readPart{b}.read}, {"read", readPart{b}.readBig}, {"lines", b.lines}, {"record", b.record},
		{"dwarf", dwarfPart{b}.dwarf},
		{"overhead", probePart{b}.overhead}} {
		if part != "all" && part != p.name {
			continue
		}
		if err := p.measure(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) findTools(gperf, part string) (err error) {
	if gperf == "" {
		if gperf, err = b.build("./cmd/gperf"); err != nil {
			return err
		}
	}
	b.gperf = tool{"gperf", []string{gperf}}
	if part == "all" || part == "read" || part == "lines" || part == "record" {
		if b.dropper, err = b.build("./internal/testutil/drops"); err != nil {
			return err
		}
	}
	commands := cmp.Or(os.Getenv("PERF"), "perf")
	if commands == "none" {
		return nil
	}
	for command := range strings.SplitSeq(commands, ",") {
		p := tool{argv: strings.Fields(command)}
		out, err := exec.Command(p.argv[0], append(p.argv[1:], "--version")...).Output()
		if err != nil {
			return fmt.Errorf("ask %q for its version (Debian's package is linux-perf; PERF=… names another): %w",
				command, err)
		}
		p.name = strings.Replace(strings.TrimSpace(string(out)), "perf version", "perf", 1)
		b.perfs = append(b.perfs, p)
	}
	return nil
}

func (b *bench) build(pkg string) (string, error) {
	bin := filepath.Join(b.dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

// time runs one command and discards the output.
func (b *bench) time(t tool, args ...string) (usage, error) {
	cmd, stderr := b.command(t, nil, args...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	return used(cmd.ProcessState, time.Since(start)), nil
}

// command prepares the tool with args; stdout nil is /dev/null itself, not a pipe that must be drained.
func (b *bench) command(t tool, stdout io.Writer, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(b.ctx, t.argv[0], slices.Concat(t.argv[1:], args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // a recorder then ends the command, too
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	return cmd, &stderr
}

// usage holds the resources that one run used.
type usage struct {
	wall, user, system time.Duration
	maxRSS             int64 // bytes

	load, loadCPU time.Duration // wall and CPU time of the recorded load
	samples       int           // in the recording
}

func (u usage) cpu() time.Duration { return u.user + u.system }

func used(p *os.ProcessState, wall time.Duration) usage {
	return usage{wall: wall, user: p.UserTime(), system: p.SystemTime(),
		maxRSS: p.SysUsage().(*syscall.Rusage).Maxrss << 10}
}

// A row of the table: one command and the runs of it.
type row struct {
	tool    tool
	args    []string
	runs    []usage
	against []*row       // the rows it is compared with
	before  func() error // called before each run; may be nil
}

// command returns the row's name, without -i FILE, which is the same in all rows of a table.
func (r *row) command() string {
	return strings.Join(append([]string{r.tool.name}, r.args[:max(0, len(r.args)-2)]...), " ")
}

// figures returns the runs' figures.
func (r *row) figures(figure func(usage) time.Duration) []time.Duration {
	s := make([]time.Duration, 0, len(r.runs))
	for _, u := range r.runs {
		s = append(s, figure(u))
	}
	return s
}

func (r *row) median(figure func(usage) time.Duration) time.Duration {
	return median(r.figures(figure))
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a.Seconds() / b.Seconds()
}

// printRows prints the rows and, below them, the ratios; drops is how many were recorded.
func printRows(rows []*row, drops int, ratioName string, ratioOf func(r, against *row) float64) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	recording := rows[0].args == nil
	fmt.Fprint(w, "command\twall s: min\tmedian\tmax\tCPU s: min\tmedian\tmax\tmax RSS MB")
	if recording {
		fmt.Fprint(w, "\tload's CPU s\tdrops/s\tfewest samples")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprint(w, r.command())
		for _, figure := range []func(usage) time.Duration{func(u usage) time.Duration { return u.wall }, usage.cpu} {
			fmt.Fprint(w, "\t"+spread(r.figures(figure), 3))
		}
		rss := slices.MaxFunc(r.runs, func(a, b usage) int { return cmp.Compare(a.maxRSS, b.maxRSS) }).maxRSS
		fmt.Fprintf(w, "\t%.1f", float64(rss)/(1<<20))
		if recording {
			fewest := slices.MinFunc(r.runs, func(a, b usage) int { return cmp.Compare(a.samples, b.samples) }).samples
			fmt.Fprintf(w, "\t%.3f\t%.0f\t%d", r.median(func(u usage) time.Duration { return u.loadCPU }).Seconds(),
				ratio(time.Duration(drops)*time.Second, r.median(func(u usage) time.Duration {
					return u.load
				})), fewest)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	for _, r := range rows {
		for _, against := range r.against {
			fmt.Printf("%s, medians: %.2f  (%s against %s)\n", ratioName, ratioOf(r, against), r.command(),
				against.command())
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bpftraceOffCPU sums waits by stack, as bpftrace's example offcputime does, but without a kprobe: the stacks are those
// of the thread that runs before.
const bpftraceOffCPU = `tracepoint:sched:sched_switch { @start[args->prev_pid] = nsecs; $s = @start[args->next_pid];
if ($s != 0) { @[kstack, ustack, args->next_comm] = sum(nsecs - $s); delete(@start[args->next_pid]); } }`

// waitPart measures the slow-down by tools that record waits.
type waitPart struct{ bench *bench }

// whyLoad is a program whose threads wait most of the time.
type whyLoad struct {
	name string
	argv []string
	rate *regexp.Regexp // of its output: operations per second
	stop func()
	ofGo bool // its goroutines wait
}

// loads returns the loads whose programs are installed.
func (p waitPart) loads() (loads []whyLoad, err error) {
	if len(p.bench.perfs) > 0 {
		argv := append(slices.Clone(p.bench.perfs[0].argv), "bench", "sched", "pipe", "-l", "100000")
		loads = append(loads, whyLoad{name: "perf bench sched pipe", argv: argv,
			rate: regexp.MustCompile(`(\d+) ops/sec`), stop: func() {}})
	}
	web, err := p.bench.build("./internal/testutil/bench/testdata/web.go")
	if err != nil {
		return nil, err
	}
	loads = append(loads, whyLoad{name: "HTTP server of Go with 16 clients in it", argv: []string{web},
		rate: regexp.MustCompile(`(\d+) requests/s`), stop: func() {}, ofGo: true})
	server, missing := exec.LookPath("redis-server")
	if missing != nil {
		return loads, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cmd := exec.CommandContext(p.bench.ctx, server, "--port", port, "--save", "", "--dir", p.bench.dir)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	argv := []string{"redis-benchmark", "-p", port, "-q", "--csv", "-t", "get", "-n", "300000"}
	stop := func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return append(loads, whyLoad{name: "redis-benchmark -t get", argv: argv,
		rate: regexp.MustCompile(`"GET","([0-9.]+)"`), stop: stop}), nil
}

// tools returns the tools that record waits, each with a function that makes its command line of the load's.
func (p waitPart) tools(of *whyLoad) (l []spanTool) {
	file, g := filepath.Join(p.bench.dir, "waits.data"), p.bench.gperf.argv[0]
	before := func(argv ...string) func([]string) []string {
		return func(load []string) []string { return append(argv[:len(argv):len(argv)], load...) }
	}
	record := func(flags ...string) func([]string) []string {
		return before(slices.Concat([]string{g, "record", "-q", "-a", "-o", file}, flags, []string{"--"})...)
	}
	l = []spanTool{
		{"no tool", 1, before()},
		{"gperf record --off-cpu -g", 1, record("--off-cpu", "-g")},
		{"gperf record --off-cpu --waker -g", 1, record("--off-cpu", "--waker", "-g")},
		{"gperf record --off-cpu --off-cpu-thresh 0 -g", 1, record("--off-cpu", "--off-cpu-thresh", "0", "-g")},
		{"gperf overview", 1, before("sh", "-c", `f=$1; g=$0; shift
			"$g" overview -d 60 -o "$f" >"$f.text" 2>&1 & sleep 2; "$@"; kill -INT $!; wait $!`, g, file)},
		{"bpftrace, off-CPU time", 1, func(load []string) []string {
			path, err := exec.LookPath(load[0]) // bpftrace needs the path
			if err != nil {
				path = load[0]
			}
			command := strings.Join(append([]string{path}, load[1:]...), " ")
			out := filepath.Join(p.bench.dir, "bpftrace")
			return []string{"bpftrace", "-q", "-e", bpftraceOffCPU, "-c", command, "-o", out}
		}},
	}
	if of.ofGo {
		flag := "--goroutines=" + of.argv[0]
		l = append(l, spanTool{"gperf record --goroutines -g", 1, record(flag, "-g")},
			spanTool{"gperf record --goroutines --waker -g", 1, record(flag, "--waker", "-g")},
			spanTool{"runtime/trace", 1, before("env", "RUNTIME_TRACE="+file)})
	}
	for _, perf := range p.bench.perfs {
		argv := slices.Concat(perf.argv, []string{"sched", "record", "-q", "-a", "-o", file, "--"})
		l = append(l, spanTool{perf.name + " sched record", 1, before(argv...)})
	}
	return l
}

// why measures how much tools that record waits slow programs down that wait often.
func (p waitPart) why() error {
	loads, err := p.loads()
	if err != nil {
		return err
	}
	if len(loads) == 0 {
		return errors.New("the part why needs a perf, or redis-server and redis-benchmark")
	}
	for _, load := range loads {
		defer load.stop()
		tools := p.tools(&load)
		rates := make([][]float64, len(tools))
		for range p.bench.runs {
			for i, t := range tools {
				if rate, err := p.rate(load, t); err == nil {
					rates[i] = append(rates[i], rate)
				} else if p.bench.ctx.Err() != nil || !errors.Is(err, exec.ErrNotFound) {
					return err
				}
			}
		}
		fmt.Printf("\n%s, all CPUs recorded, %d runs each in turns, %s\n", load.name, p.bench.runs, loadAverage())
		w := newTable("tool\toperations/s: min\tmedian\tmax\tof those alone")
		for i, t := range tools {
			if len(rates[i]) == 0 {
				fmt.Fprintf(w, "%s\tmissing\n", t.name)
				continue
			}
			m := median(rates[i])
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.1f %%\n", t.name, slices.Min(rates[i]), m, slices.Max(rates[i]),
				100*m/median(rates[0]))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// rate runs a load under a tool, and returns its operations per second.
func (p waitPart) rate(load whyLoad, t spanTool) (float64, error) {
	argv := t.argv(load.argv)
	out := filepath.Join(p.bench.dir, "load")
	f, err := os.Create(out)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	cmd, stderr := p.bench.command(tool{argv: argv[:1]}, f, argv[1:]...)
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	m := load.rate.FindSubmatch(text)
	if m == nil {
		return math.NaN(), fmt.Errorf("%s: no rate in %q", cmd, text)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

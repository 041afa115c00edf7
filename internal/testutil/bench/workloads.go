package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// heavySource takes g++ -O2 some seconds.
const heavySource = `
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

template <int N> struct Node {
	std::map<std::string, std::vector<std::tuple<int, double, std::string>>> rows;
	std::function<int(int)> step = [](int x) { return x * N; };
	int run(const std::string &text) {
		std::regex re("(a|b)*c{" + std::to_string(N) + "}");
		for (std::sregex_iterator i(text.begin(), text.end(), re), end; i != end; ++i)
			rows[i->str()].emplace_back(step(N), i->position(), i->suffix());
		for (auto &row : rows)
			std::sort(row.second.begin(), row.second.end(), [](auto &a, auto &b) { return std::get<2>(a) < std::get<2>(b); });
		return Node<N - 1>().run(text) + std::accumulate(rows.begin(), rows.end(), 0, [](int n, auto &row) { return n + int(row.second.size()); });
	}
};
template <> struct Node<0> { int run(const std::string &) { return 0; } };

int main(int argc, char **argv) { return Node<8>().run(argv[argc - 1]); }
`

// deepSource repeatedly calls target, or with a third argument the getppid system call, at the given depth of
// functions, and prints the wall and the CPU time.
const deepSource = `
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noipa)) void target(long i) { __asm__ volatile("" : : "r"(i) : "memory"); }

static long calls;
static int kernel;

#define LEVEL(name, below, size) \
	__attribute__((noipa)) long below(long); \
	__attribute__((noipa)) long name(long depth) { \
		volatile char room[size]; \
		room[depth % size] = 1; \
		if (depth <= 0) { \
			for (long i = 0; i < calls && !kernel; i++) \
				target(i); \
			for (long i = 0; i < calls && kernel; i++) \
				syscall(SYS_getppid); \
			return 0; \
		} \
		return below(depth - 1) + room[depth % size]; \
	}
LEVEL(f0, f1, 24) LEVEL(f1, f2, 8) LEVEL(f2, f3, 120) LEVEL(f3, f0, 56)

static double now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
	long depth = atol(argv[1]);
	calls = atol(argv[2]);
	kernel = argc > 3;
	double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	long got = f0(depth);
	printf("%.6f %.6f\n", now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return got != depth;
}
`

// workloads holds the recorded programs and the results of recording them.
type workloads struct {
	program          string // deepSource's
	heavy, tiny, all []string
	stackFiles       []string // perf's recordings of stack dumps
}

func (b *bench) makeWorkloads() (*workloads, error) {
	dir := filepath.Join(b.dir, "tiny")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	heavy := filepath.Join(b.dir, "heavy.cc")
	w := &workloads{
		program: filepath.Join(b.dir, "deep"),
		heavy:   []string{"g++", "-O2", "-c", heavy, "-o", filepath.Join(b.dir, "heavy.o")},
		// make bench itself may run with -n or -j in the environment
		tiny: []string{"env", "-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "make", "-s", "-B",
			"-j2", "-C", dir},
	}
	w.all = []string{"sh", "-c", strings.Join(w.heavy, " ") + " & " + strings.Join(w.tiny, " ") + "; wait"}
	files := map[string]string{heavy: heavySource}
	var objects []string
	for i := range b.units {
		files[filepath.Join(dir, fmt.Sprintf("f%d.cc", i))] = fmt.Sprintf(
			"#include <cstddef>\nint f%d(int x) { return x * %d; }\n", i, i)
		objects = append(objects, fmt.Sprintf("f%d.o", i))
	}
	files[filepath.Join(dir, "Makefile")] = "all: " + strings.Join(objects, " ") +
		"\n%.o: %.cc\n\tg++ -O2 -c $< -o $@\n"
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	return w, compile(deepSource, w.program, "-O2", "-fomit-frame-pointer")
}

// deep returns the program with stacks of this number of frames. Five of them are target, main, two of libc and
// _start; the others are one more than the program's depth argument.
func (w *workloads) deep(frames, calls int) []string {
	return []string{w.program, strconv.Itoa(frames - 6), strconv.Itoa(calls)}
}

// calibrate returns the number of calls that use the given CPU time.
func (b *bench) calibrate(w *workloads, d time.Duration) (int, error) {
	const calls = 100_000_000
	argv := w.deep(20, calls)
	u, err := b.timesItself(tool{"", argv[:1]}, argv[1:]...)
	return int(float64(calls) * ratio(d, u.loadCPU)), err
}

// timesItself runs the program, perhaps under a recorder, and returns the times that it prints.
func (b *bench) timesItself(t tool, args ...string) (u usage, err error) {
	var out bytes.Buffer
	cmd, stderr := b.command(t, &out, args...)
	runErr := cmd.Run()
	if runErr != nil {
		runErr = fmt.Errorf("%s: %w\n%s", cmd, runErr, stderr)
	}
	var wall, cpu float64
	if _, err := fmt.Sscan(out.String(), &wall, &cpu); err != nil {
		return u, cmp.Or(runErr, fmt.Errorf("%s: its times: %w", cmd, err))
	}
	if runErr != nil { // bpftrace sometimes aborts when it symbolizes addresses of an exited program
		fmt.Fprintf(os.Stderr, "bench: after the program had ended, %v\n", runErr)
	}
	u.load, u.loadCPU = time.Duration(wall*1e9), time.Duration(cpu*1e9)
	return u, nil
}

const probeEvent = "gperf_bench:target"

// probe creates the uprobe event of target; remove removes it.
func (w *workloads) probe() (remove func(), err error) {
	off, err := symbolOffset(w.program, "target")
	if err != nil {
		return nil, err
	}
	return makeProbe("uprobe_events", fmt.Sprintf("%s:%#x", w.program, off))
}

// kernelProbe does the same for the kernel's getppid.
func kernelProbe() (remove func(), err error) { return makeProbe("kprobe_events", sysGetppid) }

const sysGetppid = "__x64_sys_getppid"

func makeProbe(file, place string) (remove func(), err error) {
	events := "/sys/kernel/tracing/" + file
	if _, err := os.Stat(events); err != nil {
		events = "/sys/kernel/debug/tracing/" + file
	}
	name := strings.Replace(probeEvent, ":", "/", 1)
	undo := func() error { return appendLine(events, "-:"+name) }
	undo() // an event that a killed bench left
	if err := appendLine(events, fmt.Sprintf("p:%s %s", name, place)); err != nil {
		return nil, fmt.Errorf("make probe %s: %w", probeEvent, err)
	}
	return func() {
		err := undo()
		for range 20 { // the kernel releases a recorder's events shortly after the recorder ends
			if err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
			err = undo()
		}
		fmt.Fprintf(os.Stderr, "bench: remove probe %s: %v\n", probeEvent, err)
	}, nil
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return cmp.Or(err, f.Close())
}

func symbolOffset(file, name string) (uint64, error) {
	f, err := elf.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		for _, p := range f.Progs {
			if s.Name == name && p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				return s.Value - p.Vaddr + p.Off, nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no symbol %s", file, name)
}

// countBPF makes the kernel count the run time of BPF programs until restore.
func countBPF() (restore func(), err error) {
	const file = "/proc/sys/kernel/bpf_stats_enabled"
	before, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		return nil, err
	}
	return func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			fmt.Fprintln(os.Stderr, "bench: restore:", err)
		}
	}, nil
}

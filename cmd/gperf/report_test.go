package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gperf/cmd/gperf/cli"
	"gperf/format"
)

// perfRecord records with perf, or skips the test where it may not.
func perfRecord(t *testing.T, o *oracle, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "perf.data")
	if _, err := o.run(t, append([]string{"record", "-q", "-o", file}, args...)...); err != nil {
		t.Skipf("perf cannot record here (root and tracefs are needed): %v", err)
	}
	return file
}

// tip closes reports; perf chooses one of many.
var tip = regexp.MustCompile(`#\n# \([^\n]*\)\n#\n$`)

// TestReportEqualsPerfAlone: whole outputs, byte for byte, but for the tip. Call
// graphs are of the kernel alone: where branches of several DSOs are of the same
// weight, perf orders them by the places of its memory.
func TestReportEqualsPerfAlone(t *testing.T) {
	o := needOracle(t)
	list := []string{"--", "ls", "-lR", "/etc"}
	recordings := map[string]string{
		"samples":     perfRecord(t, o, append([]string{"-e", "cpu-clock", "-F", "1999", "-g", "--kernel-callchains"}, list...)...),
		"whole":       perfRecord(t, o, append([]string{"-e", "cpu-clock", "-F", "1999", "-g"}, list...)...),
		"two events":  perfRecord(t, o, append([]string{"-e", "sched:sched_switch", "-e", "cpu-clock", "-g", "--kernel-callchains"}, list...)...),
		"tracepoints": perfRecord(t, o, append([]string{"-e", "syscalls:sys_enter_newfstatat,syscalls:sys_enter_statx"}, list...)...),
	}
	// In these nothing shows that perf changed between 6.1 and 7.3.
	lasting := []string{"--sort comm -g none", "--sort dso -g none", "--sort comm,dso -g none",
		"--sort pid --percent-limit 1 -g none", "-n --sort cpu,comm -g none",
		"-t, --sort comm,dso -g none", "--sort dso --no-children -g none", "--sort trace -g none --no-children",
		"--show-total-period --sort comm --no-children -g none", "-F overhead,period,comm -g none"}
	graphs := []string{"--sort comm", "--sort comm -g fractal,caller --no-children", "--sort comm -g flat,count",
		"--sort comm -g folded,period",
		"--sort comm --max-stack 4", "--sort dso -g graph,5,2,callee", "--sort comm -G", "--sort pid --percent-limit 1", "-t, --sort comm,dso"}
	newest := []string{"-g none", "--no-children -g none", "-g none --sort sym",
		"-F overhead_children,sample,sym --sort sym -g none", "--comm ls -g none",
		"--comm nobody -g none", "--dsos [kernel.kallsyms] --no-children -g none", "--show-cpu-utilization -g none"}
	newestGraphs := []string{"", "--no-children", "--sort sym"}
	for name, file := range recordings {
		cases, hasGraph := lasting, name == "samples" || name == "two events"
		if hasGraph {
			cases = graphs
		}
		if o.compat == "7.3" {
			cases = append(cases, newest...)
			if hasGraph {
				cases = append(cases, newestGraphs...)
			}
		}
		for _, flags := range cases {
			t.Run(name+" "+flags, func(t *testing.T) {
				args := append([]string{"report", "--stdio", "--no-inline", "-i", file}, strings.Fields(flags)...)
				want, err := o.run(t, args...)
				if err != nil {
					t.Fatal(err)
				}
				// Perf asks the "[...]" of a graph whether it is inlined, which is not set.
				want = strings.ReplaceAll(tip.ReplaceAllString(want, ""), "[...] (inlined)", "[...]")
				var got, stderr bytes.Buffer
				if code := run(args, &got, &stderr); code != exitOK {
					t.Fatalf("exit code %d: %s", code, &stderr)
				}
				if got := tip.ReplaceAllString(got.String(), ""); got != want {
					t.Errorf("differs from perf in line %s", firstDifference(got, want))
				}
			})
		}
	}
}

// TestReportMaxStack: callchains show perf's 127 frames, or as many as were asked for
// when recording, as in script.
func TestReportMaxStack(t *testing.T) {
	long := make([]uint64, 300)
	for i := range long {
		long[i] = 0x400000 + 4*uint64(i)
	}
	chain := u64s(append([]uint64{uint64(len(long) + 1), contextUser}, long...)...)
	for _, test := range []struct {
		recorded uint16 // attr.sample_max_stack
		flags    string
		want     int
	}{
		{0, "", 127},
		{64, "", 127},
		{200, "", 200},
		{200, "--max-stack 8", 8},
		{0, "--max-stack 250", 250},
	} {
		t.Run(fmt.Sprintf("recorded with %d %s", test.recorded, test.flags), func(t *testing.T) {
			attr := format.Attr{Type: format.TypeSoftware, SamplePeriod: 1, SampleType: usual | format.SampleCallchain,
				SampleMaxStack: test.recorded}
			file := makeRecording(t, "x86_64", []format.Attr{attr}, sampleOf(format.MiscUser, 1, chain))
			if test.recorded <= perfMaxStack {
				asPerf(t, file, strings.TrimSpace("report --no-children "+test.flags))
			}
			for _, command := range []string{"report --no-children", "script"} {
				out, _ := gperf(t, strings.Fields(command+" "+test.flags+" -i "+file)...)
				n := 0
				for n < len(long) && strings.Contains(out, fmt.Sprintf("%x", long[n])) {
					n++
				}
				if n != test.want {
					t.Errorf("gperf %s: %d frames, want %d", command, n, test.want)
				}
			}
		})
	}
}

// TestReportOfPipe: perf does not know the content of a pipe when it chooses the columns.
func TestReportOfPipe(t *testing.T) {
	dir := filepath.Join(root, "testdata")
	for _, file := range []string{"drops.perf.pipe.data", "drops.pipe.data"} {
		t.Run(file, func(t *testing.T) {
			asPerf(t, filepath.Join(dir, file), "report", "report --no-children -g none", "report --sort +cpu -g none")
		})
	}
}

// TestCommOfEarlierSamples: samples of a thread before its first name are
// counted by that name, as perf does; script prints the thread's number.
func TestCommOfEarlierSamples(t *testing.T) {
	r := &recorder{attrs: 1}
	samples := func(pid uint32, ips ...uint64) {
		for _, ip := range ips {
			r.sampleAt(miscUser, pid, ip, contextUser, ip, 0x10000200)
		}
	}
	for pid := uint32(100); pid < 105; pid++ {
		r.mmap(pid, 0x10000000, 0x100000, "/nowhere/prog")
	}
	const a, b = 0x10000100, 0x10000110
	samples(100, a)
	samples(101, a, a, b)
	samples(102, a)
	samples(103, a, a, a, a)
	r.comm(100, "sh")
	samples(100, a)
	r.comm(101, "sh")
	samples(101, a)
	samples(102, a)
	r.comm(101, "other")
	samples(101, a, a)
	r.fork(105, 103) // of a process without a name yet
	samples(105, a, a, a, a, a, a)
	r.comm(103, "late")
	samples(103, a)
	r.comm(105, "late")
	samples(105, a)
	r.exit(104, 1)
	samples(104, a, a)
	r.exit(104, 1)
	samples(104, a)
	r.comm(104, "again")
	samples(104, a)
	asPerf(t, r.save(t), "script", "report", "report --sort comm -g none", "report --no-children -g none -n",
		"report --sort pid -g none --no-children",
		"report --sort comm --comm sh -g none", "report --sort comm --comm :101 -g none")
}

// TestNoInline: without inlined functions, which are shown by default.
func TestNoInline(t *testing.T) {
	program := binary(t, dropsProgram)
	r := &recorder{attrs: 1}
	const pid = 4_000_127
	r.mmap(pid, 0x400000, 0x200000, program)
	start, size := goFunction(t, program, "main.main")
	for off := uint64(0); off < size; off += 8 {
		r.chain(pid, 1, start+off)
	}
	name := r.save(t)
	for _, command := range []string{"report --stdio -g caller --max-stack 4", "script"} {
		args := append(strings.Fields(command), "-i", name)
		if with, _ := gperf(t, args...); !strings.Contains(with, "(inlined)") {
			t.Errorf("gperf %s shows no inlined function:\n%s", command, with)
		}
		if without, _ := gperf(t, append(args, "--no-inline")...); strings.Contains(without, "(inlined)") {
			t.Errorf("gperf %s --no-inline shows inlined functions:\n%s", command, without)
		}
	}
}

// goFunction returns where a function of a program that is loaded where it was
// linked is, and the size.
func goFunction(t *testing.T, program, name string) (start, size uint64) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value, s.Size
		}
	}
	t.Fatalf("%s has no function %s", program, name)
	return 0, 0
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return g[i] + "\nwhere perf has\n" + w[i]
		}
	}
	return "the end"
}

// TestReportWrongUse: errors of wrong use name the valid values.
func TestReportWrongUse(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-g", "nonsense"}, `"nonsense" is not graph`},
		{[]string{"--percent-limit", "x"}, "invalid percentage"},
		{[]string{"-t", ",,"}, "one character"},
		{[]string{"--pid", "me"}, `"me" is not an ID`},
		{[]string{"--max-stack", "-3"}, "negative"},
		{[]string{"-i", "file", "symbol", "symbol"}, "-i"},
		{[]string{"--percentage", "half"}, "relative or absolute"},
		{[]string{"-w", "3,x"}, `"x" is not a width`},
		{[]string{"--ignore-callees", "("}, "--ignore-callees"},
		{[]string{"--time-quantum", "0ms"}, "a number above 0"},
		{[]string{"--time-quantum", "3h"}, "with ns, us, ms or s"},
		{[]string{"--parallelism", "0"}, "at least one"},
		{[]string{"--branch-history", "-b"}, "exclude each other"},
		{[]string{"-b", "--mem-mode"}, "exclude each other"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(append([]string{"report"}, test.args...), &stdout, &stderr); code != exitUsage ||
				!strings.Contains(stderr.String(), test.want) {
				t.Errorf("%v: exit code %d, %q; want %d and %q", test.args, code, &stderr, exitUsage, test.want)
			}
		})
	}
}

// TestReportUnknownKey: a misspelt key is suggested; without one like it all are listed,
// the events' fields too.
func TestReportUnknownKey(t *testing.T) {
	for _, test := range []struct{ key, want string }{
		{"prev_stat", "did you mean prev_state"},
		{"symbl", "did you mean symbol"},
		{"syboml_size", "did you mean symbol_size"},
		{"qqqqqqqqqqqqqqqq", "the keys are prev_comm, prev_pid"},
	} {
		t.Run(test.key, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run([]string{"report", "-i", filepath.Join(root, "testdata", "two.data"), "--sort",
				"comm," + test.key}, &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), `"`+test.key+`": `+test.want) {
				t.Errorf("exit code %d, %q; want %d and %q", code, &stderr, exitUsage, test.want)
			}
		})
	}
}

func TestGraphDefault(t *testing.T) {
	c := find(newRoot(io.Discard, io.Discard), "report")
	for _, test := range [][2]string{
		{"-g", "--call-graph=" + graphDefault},
		{"-g --stdio", "--call-graph=" + graphDefault + " --stdio"},
		{"-g caller --stdio", "-g caller --stdio"},
		{"--stdio --call-graph", "--stdio --call-graph=" + graphDefault},
	} {
		if got := strings.Join(cli.Rewrite(c, strings.Fields(test[0])), " "); got != test[1] {
			t.Errorf("%q: got %q, want %q", test[0], got, test[1])
		}
	}
}

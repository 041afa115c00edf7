package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNegatedFlagsOfPerf: --no-FLAG is accepted for each flag of perf (testdata/perf-flags.txt: those of perf 6.1 and
// 7.3, by command).
func TestNegatedFlagsOfPerf(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "perf-flags.txt"))
	if err != nil {
		t.Fatal(err)
	}
	command := ""
	for word := range strings.FieldsSeq(string(b)) {
		if name, ok := strings.CutSuffix(word, ":"); ok {
			command = name
			continue
		}
		var out, stderr bytes.Buffer
		if code := run([]string{command, "--no-" + word, "--help"}, &out, &stderr); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%s --no-%s: exit code %d: %s", command, word, code, &stderr)
		}
	}
}

// checkLines runs command lines, each of which is wrong, and compares their messages.
func checkLines(t *testing.T, lines []wrongLine) {
	for _, c := range lines {
		t.Run(c.line, func(t *testing.T) {
			var out, stderr bytes.Buffer
			args := strings.Fields(c.line)
			if strings.Contains(c.line, ".data") {
				args = perfArgs(t, c.line)
			}
			code := run(args, &out, &stderr)
			(&wrong{strings.Fields(c.line), c.code, c.want}).check(t, code, stderr.String())
		})
	}
}

// wrongLine is a command line with its exit code and parts of gperf's message.
type wrongLine struct {
	line string
	code int
	want []string
}

// TestWrongFlagValues: a value that a flag does not take is refused in words of gperf.
func TestWrongFlagValues(t *testing.T) {
	bad := func(line string, want ...string) wrongLine { return wrongLine{line, exitUsage, want} }
	checkLines(t, []wrongLine{
		bad("record -g=dwarf true", "-g dwarf: it takes no value", "--call-graph takes the method"),
		bad("record --off-cpu-thresh abc true", "--off-cpu-thresh abc: use a number from 0 to 4294967295"),
		bad("record --max-stack -1 true", "--max-stack -1: use a number from 0 to 65535"),
		bad("record -r x true", "-r x: use a whole number"),
		bad("record -F", "-F needs a value (frequency)"),
		bad("record --freq", "-F needs a value (frequency)"),
		bad("record -Q true", "unknown flag: -Q"),
		bad("record -aQ true", "unknown flag: -Q"),
		bad("record --fre-q 99 true", "unknown flag: --fre-q: did you mean --freq?"),
		bad("diff -o x.html", "-o x.html: use a whole number", "--output takes a file"),
		bad("report --max-stack=99999999999999999999 -i two.data", "--max-stack 99999999999999999999: use a whole number"),
		bad("report --children=maybe -i two.data", "--children maybe: it takes no value"),
		bad("script --addr-range=-1 -i two.data", "--addr-range -1: use a number from 0 on"),
		bad("record -a -G x -e cs true", "-G: must define events before cgroups"),
		bad("record --itrace true", "unknown flag: --itrace"),
		bad("report --debuginfod=abc -i two.data", `--debuginfod: "abc" is not a URL`, "https://HOST"),
		bad("report --time 10 -i two.data", "--time 10: a range has a comma"),
		bad("script --time 10 -i two.data", "--time 10: a range has a comma"),
		bad("report --sort= -i two.data", "--sort '': name one key or more"),
		bad("report --weight nosuch -i two.data", `numeric field "nosuch"`, "the fields are prev_pid"),
		bad("report --weight nosuch -i threads.data", `numeric field "nosuch"`, "only tracepoints have fields"),
		bad("report --stats --comm drops -i two.data", "--stats shows all records", "together with --comms"),
		bad("report --tasks -d libc.so.6 -i two.data", "--tasks shows all records", "together with --dsos"),
		bad("report -D --time 1,2 -i two.data", "--dump-raw-trace shows all records", "together with --time"),
		bad("report --latency-hist -U -i spans.data", "--latency-hist shows durations", "together with --hide-unresolved"),
		bad("report --why --slowest 3 -i spans.data", "--slowest shows single spans", "together with --why"),
		bad("report --why --sort comm -i spans.data", "--why shows spans by function", "together with --sort"),
		bad("report --slowest 3 --percent-limit 1 -i spans.data", "--slowest shows single spans", "with --percent-limit"),
		bad("report --stats --why -i spans.data", "--stats shows all records", "together with --why"),
		bad("report --why=0 -i spans.data", "--why 0: use a percentile between 0 and 100"),
		bad("report --slowest 0 -i spans.data", "--slowest 0: use a number above 0"),
		bad("script -D -S main -i two.data", "--dump-raw-trace shows all records", "together with --symbols"),
		bad("script --packets --dsos x -i drops.data", "--packets shows packets", "together with --dsos"),
		bad("version foo", `unexpected argument "foo"`),
		bad("script --insn-trace -i two.data", "--insn-trace: gperf does not decode instruction traces"),
	})
}

// TestMissingCommands: the message names gperf's replacement for a missing command of perf first.
func TestMissingCommands(t *testing.T) {
	missing := func(command, way string) wrongLine {
		return wrongLine{command, exitUsage, []string{"there is no command " + command + ": `gperf record " + way}}
	}
	checkLines(t, []wrongLine{
		missing("trace", "-e span:syscalls COMMAND`"),
		missing("lock", "--off-cpu --waker -g -p PID`"),
		missing("kmem", "-a -g -e kmem:kmalloc`, then `gperf report --weight bytes_alloc`"),
		missing("ftrace", "-e span:FUNCTION COMMAND`"),
		missing("stat", "--count -e EVENTS COMMAND`"),
	})
}

// TestFiltersWithoutMatch: filters that select nothing are reported with the possible values; the exit code is perf's,
// 0.
func TestFiltersWithoutMatch(t *testing.T) {
	good := func(line string, want ...string) wrongLine { return wrongLine{line, exitOK, want} }
	checkLines(t, []wrongLine{
		good("report --stdio --comm nosuch -i two.data", "no sample matches --comms nosuch: the samples have ",
			"drops"),
		good("report --stdio --comm drosp -i two.data", "no sample matches --comms drosp: did you mean drops?"),
		good("report --stdio --dso nosuch -i two.data", "no sample matches --dsos nosuch: the samples have ",
			"[kernel.kallsyms]"),
		good("report --stdio -S nosuch -i two.data", "no sample matches --symbols nosuch"),
		good("report --stdio --tid 3 -i two.data", "no sample matches --tid 3: the samples have "),
		good("report --stdio --time 1,2 -i two.data", "no sample matches --time: the samples are at 3490."),
		good("report --format folded --comm nosuch -i two.data", "no sample matches --comms nosuch"),
		good("script --comm nosuch -i two.data", "no sample matches --comms nosuch"),
		good("script --dso nosuch -i two.data", "no sample matches --dsos nosuch"),
		good("report --stdio --comm nosuch -i two.data -i threads.data", "no sample matches --comms nosuch"),
		good("report --stdio --parallelism 77 -i threads.data", "no sample matches --parallelism 77: the samples have 1"),
		good("report --latency-hist --dso libc -i spans.data", "no sample matches --dsos libc: did you mean libc.so.6?"),
		good("report --latency-hist --comm treu -i spans.data", "no sample matches --comms treu: did you mean true?"),
		good("report -i spans.data --tid 3", "no sample matches --tid 3: the samples have "),
		good("report --latency-hist --filter comm==treu -i spans.data", "no sample matches --filter comm==treu: did you "+
			"mean true?"),
		good("script --tree --dsos libc -i spans.data", "no sample matches --dsos libc: did you mean libc.so.6?"),
	})
}

// TestLackOfField: perf2bolt reads perf's sentence.
func TestLackOfField(t *testing.T) {
	checkLines(t, []wrongLine{{"script -F ip,addr -i two.data", exitError,
		[]string{"event do not have ADDR attribute set. Cannot print 'addr' field."}}})
}

// TestScenarioErrorsOfCommands: a command that cannot be started is explained.
func TestScenarioErrorsOfCommands(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "a-script": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("true\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []wrong{
		{[]string{"nosuchcmd"}, exitError, []string{"cannot run nosuchcmd: there is no such program in $PATH"}},
		{[]string{"-g", "dwarf", "true"}, exitError, []string{"-g takes no method: use --call-graph dwarf"}},
		{[]string{"a-script"}, exitError, []string{"use ./a-script"}},
		{[]string{"./a-script"}, exitError, []string{"nor a script with #!", "sh ./a-script"}},
		{[]string{"./plain"}, exitError, []string{"permission denied", "chmod +x ./plain"}},
		{[]string{"./none"}, exitError, []string{"cannot run ./none: no such file or directory"}},
		{[]string{"echo hello"}, exitError, []string{"as separate words"}},
		{[]string{"cd", "/"}, exitError, []string{"sh -c 'cd …'"}},
		{[]string{"-o", "/proc/x", "true"}, exitError, []string{"writing /proc/x", "takes no new files", "-o"}},
	} {
		r := recordIn(t, dir, append([]string{"-e", "cpu-clock:u"}, c.args...)...)
		c.check(t, r.code, r.stderr)
	}
}

// TestScenarioErrorsOfTargets: names of processes are answered with their IDs.
func TestScenarioErrorsOfTargets(t *testing.T) {
	needEvents(t)
	checkWrong(t, "IDs", []wrong{
		{[]string{"-t", filepath.Base(os.Args[0])}, exitUsage, []string{"-p takes names of processes"}},
		{[]string{"-p", "no-such-process"}, exitUsage, []string{"no running process has this name"}},
		{[]string{"-t", "-7"}, exitUsage, []string{"invalid process or thread ID"}},
		{[]string{"-a", "-G", "no-such-group", "true"}, exitError, []string{`cgroup "no-such-group": `,
			"no such file"}},
	})
}

// TestScenarioErrorsOfSystemCalls: words that name a system call lead to its events.
func TestScenarioErrorsOfSystemCalls(t *testing.T) {
	needTracepoints(t)
	for _, word := range []string{"openat", "syscalls:openat", "syscall:openat", "raw_syscalls:openat",
		"span:syscalls:openat", "span:openat",
		"sys_openat", "__x64_sys_openat"} {
		checkWrong(t, word, []wrong{{[]string{"-e", word}, exitUsage,
			[]string{"openat is a system call", "-e span:syscalls --filter 'id == openat'", "-e syscalls:sys_enter_openat"}}})
	}
}

package main

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

const ownPrograms = "../../testdata/programs/"

var (
	callsC    = programs.C(ownPrograms+"calls.c", "-O1", "-g", "-fno-optimize-sibling-calls", "-pthread")
	throwsCXX = programs.C(ownPrograms+"throws.cc", "-O1", "-g")
)

// recordCalls records and returns the summary; it skips on kernels that refuse.
func recordCalls(t *testing.T, args ...string) string {
	t.Helper()
	needProbes(t, "uprobe")
	needEmitted(t)
	r := recordIn(t, "", args...)
	if r.code != 0 {
		t.Fatalf("exit code %d:\n%s", r.code, r.stderr)
	}
	return r.stderr
}

// counted returns the number of samples of each event.
func counted(t *testing.T, path string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, event := range strings.Fields(mustGperf(t, "script", "-i", path, "-G", "-F", "event")) {
		counts[strings.TrimSuffix(event, ":")]++
	}
	return counts
}

// Calls of functions yield one sample each, with arguments, return value and stack; those that end
// otherwise are counted by the kind of end.
func TestRecordCalls(t *testing.T) {
	path, program := filepath.Join(t.TempDir(), "perf.data"), callsC.Path(t)
	var events []string
	for _, f := range []string{"main", "recurse", "j*", "sleep_us", "exit_*"} {
		events = append(events, "span:"+program+":"+f)
	}
	// The program executes itself once: everything happens twice, and main ends once by exec and once by exit.
	summary := recordCalls(t, "-g", "-o", path, "-e", strings.Join(events, ","), "--", program, "exec")
	ends := map[string]int{}
	cause := regexp.MustCompile(`(\d+) (still open|ended by (?:the exit|exec)|left)`)
	for _, m := range cause.FindAllStringSubmatch(summary, -1) {
		n, _ := strconv.Atoi(m[1])
		ends[m[2]] = n
	}
	if wanted := map[string]int{"ended by the exit": 4, "ended by exec": 1, "left": 20}; !maps.Equal(ends, wanted) {
		t.Errorf("calls without an end: %v, want %v:\n%s", ends, wanted, summary)
	}
	want := map[string]int{"span:recurse": 120, "span:jump": 10, "span:jump_within": 10, "span:sleep_us": 12}
	if got := counted(t, path); !maps.Equal(got, want) {
		t.Errorf("calls: %v, want %v", got, want)
	}
	text := mustGperf(t, "script", "-i", path, "-F", "period,event,ip,sym,trace")
	// The unwind table of the program is built during the first calls.
	if stack := regexp.MustCompile(` us=50000 .*\n\s+\w+ sleep_us\n\s+\w+ main\n`); !stack.MatchString(text) {
		t.Errorf("no stack of the last sleep:\n%s", text)
	}
	sleep := regexp.MustCompile(
		`(\d+) +span:sleep_us: duration=(\d+) start=\d+ why=0x[0-9a-f]+ us=(\d+) retval=(\d+)\n`)
	for _, m := range sleep.FindAllStringSubmatch(text, -1) {
		ns, _ := strconv.Atoi(m[2])
		if us, _ := strconv.Atoi(m[3]); m[1] != m[2] || m[3] != m[4] || ns < us*1000 {
			t.Errorf("%s", m[0])
		}
	}
	tree := mustGperf(t, "script", "-i", path, "--tree")
	nested := regexp.MustCompile(`\|  recurse\(\) \{\n.* us \|    recurse\(\) \{\n.* us \|      recurse\(\) \{\n`)
	if n := len(nested.FindAllString(tree, -1)); n != 20 {
		t.Errorf("%d trees of recurse:\n%s", n, tree)
	}
	t.Run("perf", func(t *testing.T) {
		if n := strings.Count(perfScript(t, path), " span:recurse: duration="); n != 120 {
			t.Errorf("perf prints %d of 120 calls", n)
		}
	})
}

// The durations are at least how long the function sleeps, and at most the time that the program measures around the
// call: the probes, and other programs that run there, take a part of that.
func TestRecordCallDurations(t *testing.T) {
	dir, program := t.TempDir(), callsC.Path(t)
	path, stdout := filepath.Join(dir, "perf.data"), filepath.Join(dir, "stdout")
	recordCalls(t, "-o", path, "-e", "span:"+program+":sleep_us/min=5ms,name=slow/", "--filter", "us > 10000", "--",
		"sh", "-c", program+" > "+stdout)
	text, err := os.ReadFile(stdout)
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Fields(string(text))
	spans := regexp.MustCompile(`slow: duration=(\d+) start=\d+ why=\w+ us=(\d+)`).FindAllStringSubmatch(
		mustGperf(t, "script", "-i", path, "-F", "event,trace"), -1)
	if len(own) != 5 || len(spans) != 4 {
		t.Fatalf("%d spans of %q", len(spans), text)
	}
	for i, m := range spans {
		got, _ := strconv.Atoi(m[1])
		us, measured := (i+2)*10_000, 0
		if measured, err = strconv.Atoi(own[i+1]); err != nil {
			t.Fatal(err)
		}
		if m[2] != fmt.Sprint(us) || got < us*1000 || got > measured {
			t.Errorf("%s: the program measures %d", m[0], measured)
		}
	}
}

// Exceptions pass spans, and goroutines change stacks and threads within them.
func TestRecordCallLanguages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	t.Run("C++", func(t *testing.T) {
		program := throwsCXX.Path(t)
		events := "span:" + program + ":inner,span:" + program + ":outer"
		summary := recordCalls(t, "-g", "-o", path, "-e", events, "--", program)
		if want := "spans without an end: 10 left without a return"; !strings.Contains(summary, want) {
			t.Errorf("want %q:\n%s", want, summary)
		}
		if got, want := counted(t, path), map[string]int{"span:inner": 5, "span:outer": 5}; !maps.Equal(got, want) {
			t.Errorf("calls: %v, want %v", got, want)
		}
	})
	t.Run("Go", func(t *testing.T) {
		program := functionsGo.Path(t)
		events := "span:" + program + ":main.(*T).Method,span:" + program + ":main.main"
		recordCalls(t, "-g", "-o", path, "-e", events, "--", program)
		want := map[string]int{"span:main_T_Method": 5, "span:main_main": 1}
		if got := counted(t, path); !maps.Equal(got, want) {
			t.Errorf("calls: %v, want %v", got, want)
		}
		text := mustGperf(t, "script", "-i", path, "-G", "-F", "trace")
		calls := regexp.MustCompile(`t=0x\w+ a=[0-4] retval=\d+ goroutine=(\d+)\n`).FindAllStringSubmatch(text, -1)
		goroutines := map[string]bool{}
		for _, call := range calls {
			goroutines[call[1]] = true
		}
		if len(calls) != 5 || len(goroutines) != 5 || !strings.Contains(text, "goroutine=1\n") {
			t.Errorf("%d calls of %d goroutines with their arguments:\n%s", len(calls), len(goroutines), text)
		}
	})
}

// Functions of the kernel with one name have spans of their own, also on kernels where each has a kprobe of its own.
// Reading each file calls another function.
func TestRecordCallNamesakes(t *testing.T) {
	needKprobes(t)
	const name = "c_start"
	kallsyms, err := os.ReadFile("/proc/kallsyms")
	if err != nil || strings.Count(string(kallsyms), " t "+name+"\n") < 2 {
		t.Skipf("the kernel does not have several functions %s: %v", name, err)
	}
	called := map[string]string{} // event by file
	for _, file := range []string{"/proc/cpuinfo", "/proc/crypto"} {
		path := filepath.Join(t.TempDir(), "perf.data")
		recordCalls(t, "-o", path, "-e", "span:"+name, "--", "cat", file)
		counts := counted(t, path)
		called[file] = strings.Join(slices.Collect(maps.Keys(counts)), " ")
		if len(counts) != 1 {
			t.Errorf("%s: samples %v, want those of one function", file, counts)
		}
	}
	if called["/proc/cpuinfo"] == called["/proc/crypto"] {
		t.Errorf("both files call one function: %v", called)
	}
}

// Wrong functions are errors with the way out.
func TestRecordCallErrors(t *testing.T) {
	needProbes(t, "uprobe")
	program := callsC.Path(t)
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	address := fmt.Sprintf("%#x", file.Entry)
	for spec, want := range map[string]string{
		"span:" + program + ":recurs":             "did you mean recurse?",
		"span:" + program + ":_start":             "nothing calls it",
		"span:" + program + ":recurse+3":          "name the function without offset",
		"span:" + program + ":recurse depth":      "name none",
		"span:" + program + ":" + address:         "name the function",
		"span:" + program + ":recurse/key=depth/": "the key of calls is the thread",
		"span:./nosuch:main":                      "nosuch",
		"span:sched:sched_switch":                 "span:block:block_rq_issue..block:block_rq_complete/key=",
	} {
		r := recordIn(t, t.TempDir(), "-e", spec, "true")
		if r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", spec, r.code, want, r.stderr)
		}
	}
}

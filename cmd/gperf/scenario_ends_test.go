package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/dso"
	"gperf/internal/testutil/programs"
	"gperf/unwind"
)

var endsProgram = programs.C("../../testdata/programs/ends.c", "-O2", "-pthread")

// ends counts the stacks of a recording by outermost function: stacks that end at entry points, and the others.
type ends struct{ entry, other map[string]int }

var (
	outermost     = regexp.MustCompile(`(?m)^\s+([0-9a-f]+) (.+?)(?:\+0x[0-9a-f]+)? \((.*?)(?:\+0x([0-9a-f]+))?\)$`)
	completeCount = regexp.MustCompile(`User stacks: (\d+) complete`)
)

// endsOf reads where the user stacks of a recording of user code end.
func endsOf(t *testing.T, dir string) (e ends) {
	t.Helper()
	e = ends{map[string]int{}, map[string]int{}}
	tables := map[string]func(off uint64) bool{}
	for _, sample := range samplesOf(scripted(t, dir, "-F", "ip,sym,dso,dsoff", "--max-stack", "1024")) {
		frames := outermost.FindAllStringSubmatch(sample, -1)
		if len(frames) == 0 {
			continue
		}
		m := frames[len(frames)-1]
		name, file := m[2], m[3]
		off, _ := strconv.ParseUint(m[4], 16, 64)
		switch {
		case isEntryPoint(name):
			e.entry[name]++
		case name == "[unknown]" && len(frames) > 1 && marked(tables, file)(off-1):
			e.entry[name+" "+filepath.Base(file)]++
		default:
			e.other[name+" "+file]++
		}
	}
	return e
}

// isEntryPoint reports whether a function is in the list of entry points.
func isEntryPoint(name string) bool {
	name = strings.TrimSuffix(name, ".abi0")
	for _, list := range unwind.EntryPoints {
		for _, entry := range list {
			if ok, _ := filepath.Match(entry, name); ok {
				return true
			}
		}
	}
	return false
}

// marked returns a function that reports whether the unwind table of a file, which may be stripped, marks an entry
// point at an offset.
func marked(tables map[string]func(uint64) bool, file string) func(uint64) bool {
	if is, ok := tables[file]; ok {
		return is
	}
	tables[file] = func(uint64) bool { return false }
	if im, err := dso.Open(file); err == nil {
		defer im.Close()
		if table, err := unwind.Build(im); err == nil {
			tables[file] = func(off uint64) bool {
				vaddr, ok := im.VaddrOfOff(off)
				return ok && table.Lookup(vaddr).RA == unwind.RAUndefined
			}
		}
	}
	return tables[file]
}

// check checks that every stack that record calls complete ends at an entry point, and prints the others. least is the
// part of the stacks that is complete.
func (e ends) check(t *testing.T, stderr string, least float64) {
	t.Helper()
	m := completeCount.FindStringSubmatch(stderr)
	if m == nil {
		t.Skipf("no BPF program can be loaded here:\n%s", stderr)
	}
	n, _ := strconv.Atoi(m[1])
	entry, other := sum(e.entry), sum(e.other)
	t.Logf("of %d stacks, %d are complete, %d end at entry points: %v", entry+other, n, entry, e.entry)
	for _, name := range slices.Sorted(maps.Keys(e.other)) {
		t.Logf("%d end in %s", e.other[name], name)
	}
	switch {
	case n > entry:
		t.Errorf("%d stacks are called complete and do not end at an entry point\n%s", n-entry, stderr)
	case float64(n) < least*float64(entry+other):
		t.Errorf("%d of %d stacks are complete, want %.0f %%\n%s", n, entry+other, least*100, stderr)
	}
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// Stacks of fibers and threads are complete where these begin, and not where a return address happens to be 0.
func TestScenarioEndsOfFibers(t *testing.T) {
	needEvents(t)
	program := endsProgram.Path(t)
	const none = "none"
	for how, entry := range map[string]string{
		"fcontext": "make_fcontext", "makecontext": "", "thread": "", "zero": none,
	} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-e", "cpu-clock:u", "-F", "499", "-g", "--", program, how, "400")
			e := endsOf(t, dir)
			if entry != none {
				e.check(t, r.stderr, 0.95)
				if entry != "" && e.entry[entry] == 0 {
					t.Errorf("no stack ends in %s: %v", entry, e)
				}
				return
			}
			e.check(t, r.stderr, 0)
			const cause = "ends: the return address is 0, in a function that is no known entry point"
			if !strings.Contains(r.stderr, cause) || e.other["body "+program] == 0 {
				t.Errorf("stacks end in %v, and the summary does not say %q:\n%s", e.other, cause, r.stderr)
			}
		})
	}
}

// Over the loads of runtimes, every stack that is called complete ends at an entry point.
func TestScenarioEndsOfRuntimes(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	load, err := filepath.Abs("../../testdata/runtimes/load.sh")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bash", load, "prepare", dir).CombinedOutput(); err != nil {
		t.Fatalf("load.sh prepare: %v\n%s", err, out)
	}
	out, _ := exec.Command("bash", load, "list", dir).Output()
	for _, name := range strings.Fields("node java python php ruby go rust openssl sort ocaml ghc") {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(strings.Fields(string(out)), name) {
				t.Skip("not installed here")
			}
			runs := t.TempDir()
			r := mustRecord(t, runs, "--no-runtimes", "-e", "cpu-clock:u", "-F", "199", "-g", "--",
				"bash", load, "run", dir, "2", name)
			endsOf(t, runs).check(t, r.stderr, 0.9)
		})
	}
	for name, args := range map[string][]string{
		"perl":        {"perl", "functions.pl", "1"},
		"ruby-fibers": {"ruby", "functions.rb", "1"},
		"php-fibers":  {"php", "functions.php", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(args[0])
			if err != nil {
				t.Skip(err)
			}
			args[0], args[1] = path, knownProgram(t, args[1])
			runs := t.TempDir()
			args = append([]string{"--no-runtimes", "-e", "cpu-clock:u", "-F", "499", "-g", "--"}, args...)
			r := mustRecord(t, runs, args...)
			endsOf(t, runs).check(t, r.stderr, 0.9)
		})
	}
}

// Stacks of generated code of Erlang can be walked, and named, with the flag of Erlang that the summary names.
func TestScenarioErlangAdvice(t *testing.T) {
	needEvents(t)
	erl, err := exec.LookPath("erl")
	if err != nil {
		t.Skip("no erl (Debian's erlang-base)")
	}
	const code = `[lists:sort(lists:reverse(lists:seq(1, 20000))) || _ <- lists:seq(1, 500)], halt().`
	const advice = "+JPperf true"
	record := func(flags ...string) (stderr string, named int) {
		dir := t.TempDir()
		args := append([]string{"-e", "cpu-clock:u", "-F", "499", "-g", "--", erl}, flags...)
		r := mustRecord(t, dir, append(args, "-noshell", "-eval", code)...)
		if !completeCount.MatchString(r.stderr) {
			t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
		}
		return r.stderr, strings.Count(scripted(t, dir, "-F", "ip,sym"), " $lists:")
	}
	without, _ := record()
	if strings.Contains(without, "JIT code") && !strings.Contains(without, advice) {
		t.Errorf("%s is not advised:\n%s", advice, without)
	}
	with, named := record(strings.Fields(advice)...)
	if strings.Contains(with, advice) || named == 0 {
		t.Errorf("with %s, %d frames have names:\n%s", advice, named, with)
	}
}

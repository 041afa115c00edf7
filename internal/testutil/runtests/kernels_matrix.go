package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// groups lists the matrix's rows, named by features. A test belongs to the first group that matches the package's
// directory and the test's name.
var groups = []struct {
	name  string
	tests *regexp.Regexp
}{
	{"drops and their reasons", regexp.MustCompile(`gperf Test(ScenarioDrops|RecordCountsEveryDrop)`)},
	{"kprobes, kretprobes", regexp.MustCompile(
		`gperf TestScenario(Kprobe($|Offset|Errors|Command)|Conntrack|LinkDown)|probe TestKernelProbes`)},
	{"many kprobes by glob", regexp.MustCompile(`gperf TestScenarioKprobe(sBy)?Glob`)},
	{"uprobes, uretprobes, USDT", regexp.MustCompile(
		`gperf TestScenario(Stacks$|ReturnValues|Go$|Library|MountNamespace|USDT|Uprobe)|program TestFindIFUNC`)},
	{"arguments of probes", regexp.MustCompile(`gperf TestScenario(Arguments|Values)`)},
	{"no probe is left; `gperf probe`",
		regexp.MustCompile(`gperf TestScenario(ProbesVanish|Killed|ProbeCommand)|probe TestInstallLive`)},
	{"raw tracepoints",
		regexp.MustCompile(
			`gperf TestScenario(RawTracepoint|TracepointArguments)|bpf Test(Emitter|Sampler)|kernel TestFindRaw`)},
	{"breakpoints, groups, terms", regexp.MustCompile(`gperf TestScenario(Breakpoint|StacksByEvent)`)},
	{"filters, cgroups, users", regexp.MustCompile(`gperf TestScenario(Filter|Cgroup|User)`)},
	{"few rights, or none", regexp.MustCompile(
		`gperf Test(ScenarioFewCapabilities|RecordUnprivileged|DoctorUnprivileged|DoctorUserNamespace)`)},
	{"complete user stacks (BPF)",
		regexp.MustCompile(`(record|stacks) Test(DWARF|StackDump|TablesEvicted)|bpf TestLoad$`)},
	{"`-F 99 -a -g`, `cycles`", regexp.MustCompile(`gperf Test(ScenarioWholeMachine|RecordCycles)`)},
	{"read by perf", regexp.MustCompile(`gperf Test(RecordPerfReads|RecordAttrsArePerfs|ScenarioPerfReads)`)},
	{"files, pipes, switching", regexp.MustCompile(`gperf TestRecord(Modes|Killed|DiskFull|Pipe|Switch|Timestamp)`)},
	{"targets, signals, errors", regexp.MustCompile(`gperf TestRecord|record TestRun`)},
	{"`gperf list`, `gperf doctor`", regexp.MustCompile(`gperf Test(List|Doctor)`)},
	{"formats of all tracepoints", regexp.MustCompile(`tracepoint TestTracefs`)},
}

const begin, end = "<!-- matrix: made by testdata/kernels/test.sh -matrix -->\n", "<!-- /matrix -->\n"

// insertMatrix replaces the matrix between the marks in a file by the matrix of the results in dir.
func insertMatrix(file, dir string) error {
	runs, err := readAllResults(dir)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s has no results: testdata/kernels/test.sh KERNEL makes them", dir)
	}
	slices.SortFunc(runs, func(a, b *testRun) int { return slices.Compare(order(a.Kernel), order(b.Kernel)) })
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the matrix, between %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+matrix(runs)+end+after), 0o644)
}

// order sorts kernels by architecture and number.
func order(kernel string) (key []int) {
	name, arm := strings.CutPrefix(kernel, "arm64-")
	key = []int{0}
	if arm {
		key[0] = 1
	}
	for _, number := range strings.Split(name, ".") {
		n, _ := strconv.Atoi(number)
		key = append(key, n)
	}
	return key
}

// matrix returns a table of groups and kernels, followed by the reasons of skipped tests.
func matrix(runs []*testRun) string {
	var b strings.Builder
	notes := notes{}
	head, line := "|", "|---|"
	for _, u := range runs {
		head += " | " + strings.Replace(u.Kernel, "arm64-", "arm64 ", 1)
		line += "---|"
	}
	fmt.Fprintf(&b, "%s |\n%s\n", head, line)
	for i, g := range groups {
		row, some := "| "+g.name, false
		for _, u := range runs {
			cell := cell(u, i, &notes)
			row += " | " + cell
			some = some || cell != ""
		}
		if some {
			fmt.Fprintf(&b, "%s |\n", row)
		}
	}
	var releases []string
	for _, u := range runs {
		releases = append(releases, u.Release)
	}
	fmt.Fprintf(&b,
		"\n✓ tests passed, ✗ failed, (…) were skipped, or parts of them, with the reason below. The kernels: %s.\n\n",
		strings.Join(releases, ", "))
	for i, reason := range notes {
		fmt.Fprintf(&b, "- %s: %s\n", letter(i), reason)
	}
	return b.String()
}

// cell returns the numbers of a group's tests on a kernel by outcome.
func cell(u *testRun, group int, notes *notes) string {
	counts := map[string]int{}
	var letters []string
	for _, r := range u.Results {
		top, _, inner := strings.Cut(r.Test, "/")
		if groupOf(path.Base(r.Package)+" "+top) != group {
			continue
		}
		if !inner {
			counts[r.Outcome]++
		}
		if l := ""; r.Outcome == "SKIP" {
			if l = notes.letter(r.Reason); !slices.Contains(letters, l) {
				letters = append(letters, l)
			}
		}
	}
	var parts []string
	if n := counts["FAIL"]; n > 0 {
		parts = append(parts, fmt.Sprintf("✗ %d", n))
	}
	if n := counts["PASS"]; n > 0 {
		parts = append(parts, fmt.Sprintf("✓ %d", n))
	}
	if n := counts["SKIP"]; n > 0 {
		parts = append(parts, fmt.Sprintf("(%d)", n))
	}
	if len(letters) > 0 {
		slices.Sort(letters)
		parts = append(parts, "<sup>"+strings.Join(letters, ",")+"</sup>")
	}
	return strings.Join(parts, " ")
}

// groupOf returns the group of a package's test, or -1: not all tests depend on the kernel.
func groupOf(test string) int {
	for i, g := range groups {
		if g.tests.MatchString(test) {
			return i
		}
	}
	return -1
}

// notes holds the reasons of skipped tests.
type notes []string

var numbers = regexp.MustCompile(`\d+`)

// letter returns a reason's letter. Reasons that differ only in numbers share a letter.
func (n *notes) letter(reason string) string {
	same := func(other string) bool {
		return numbers.ReplaceAllString(other, "0") == numbers.ReplaceAllString(reason, "0")
	}
	i := slices.IndexFunc(*n, same)
	if i < 0 {
		i = len(*n)
		*n = append(*n, reason)
	}
	return letter(i)
}

func letter(i int) string {
	if i >= 26 {
		return letter(i/26-1) + letter(i%26)
	}
	return string(rune('a' + i))
}

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var (
	datagramsC = programs.C(ownPrograms+"datagrams.c", "-O1")
	receivesC  = programs.C(ownPrograms+"receives.c", "-O1")
)

// graphRoot is the function whose calls are compared, graphGlobs are those that it calls.
const graphRoot = "__sys_sendto"

var graphGlobs = []string{"ip_*", "udp_*"}

// graphCall is a call in a function graph: depth, name and duration in µs, if the line has one.
type graphCall struct {
	depth    int
	name     string
	duration string
}

// graphLine matches the first line of a call, in function_graph's format and in gperf's.
var graphLine = regexp.MustCompile(`^[^|]*?(?:([\d.]+) us[^|]*)?\|  ( *)([\w.]+)\(\)(?:;| \{)`)

// graphEnd matches the last line of a call with others, with the duration in function_graph's format.
var graphEnd = regexp.MustCompile(`^[^|]*?([\d.]+) us[^|]*\|  ( *)\}`)

// graphTrees returns the trees of graphRoot in a text, without the functions that are not known.
func graphTrees(text string, known map[string]bool) (trees [][]graphCall) {
	var parents []graphCall
	for line := range strings.Lines(text) {
		if m := graphEnd.FindStringSubmatch(line); m != nil && len(parents) > 0 && len(m[2])/2 == parents[0].depth {
			trees[len(trees)-1][0].duration = m[1]
		}
		m := graphLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, _, _ := strings.Cut(m[3], ".")
		c := graphCall{depth: len(m[2]) / 2, name: name, duration: m[1]}
		for len(parents) > 0 && parents[len(parents)-1].depth >= c.depth {
			parents = parents[:len(parents)-1]
		}
		switch {
		case c.name == graphRoot:
			parents = parents[:0]
			trees = append(trees, nil)
		case len(parents) == 0 || !known[c.name]: // of another call
			continue
		}
		parents = append(parents, c)
		c.depth = len(parents) - 1
		trees[len(trees)-1] = append(trees[len(trees)-1], c)
	}
	return trees
}

// usualGraph returns the text of the most frequent tree, and how often it occurs. Interrupts and timers make others.
func usualGraph(trees [][]graphCall) (usual string, count int) {
	counts := map[string]int{}
	for _, tree := range trees {
		var b strings.Builder
		for _, c := range tree {
			b.WriteString(strings.Repeat("  ", c.depth) + c.name + "\n")
		}
		counts[b.String()]++
	}
	for text, n := range counts {
		if n > count {
			usual, count = text, n
		}
	}
	return usual, count
}

// medianDuration returns the median of the durations of the roots, in µs.
func medianDuration(trees [][]graphCall) float64 {
	var l []float64
	for _, tree := range trees {
		if us, err := strconv.ParseFloat(tree[0].duration, 64); err == nil {
			l = append(l, us)
		}
	}
	if slices.Sort(l); len(l) == 0 {
		return 0
	}
	return l[len(l)/2]
}

// ftraceGraph returns the output of ftrace's function_graph for a command, and the functions that it traces.
func ftraceGraph(t *testing.T, command ...string) (text string, functions map[string]bool) {
	t.Helper()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tracefsRoot, file), []byte(text), 0); err != nil {
			t.Skipf("ftrace's function_graph: %v", err)
		}
	}
	reset := func() {
		for _, f := range [][2]string{{"current_tracer", "nop"}, {"set_ftrace_filter", ""}, {"set_graph_function", ""},
			{"set_ftrace_pid", ""}} {
			write(f[0], f[1])
		}
	}
	t.Cleanup(reset)
	write("tracing_on", "0")
	write("set_ftrace_filter", strings.Join(append([]string{graphRoot}, graphGlobs...), " "))
	write("set_graph_function", graphRoot)
	write("current_tracer", "function_graph")
	write("trace", "")
	shell := `echo $$ > "$0"/set_ftrace_pid && echo 1 > "$0"/tracing_on && exec "$@"`
	traced := exec.Command("sh", append([]string{"-c", shell, tracefsRoot}, command...)...)
	if out, err := traced.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	write("tracing_on", "0")
	for file, to := range map[string]*string{"trace": &text, "set_ftrace_filter": new(string)} {
		b, err := os.ReadFile(filepath.Join(tracefsRoot, file))
		if err != nil {
			t.Fatal(err)
		}
		if *to = string(b); file != "trace" {
			functions = map[string]bool{}
			for name := range strings.FieldsSeq(*to) {
				name, _, _ = strings.Cut(name, ".")
				functions[name] = true
			}
		}
	}
	return text, functions
}

// The tree of a system call is the one that ftrace's function_graph prints, for the functions that both trace.
func TestScenarioFunctionGraph(t *testing.T) {
	needProbes(t, "kprobe")
	needEmitted(t)
	tracers, err := os.ReadFile(filepath.Join(tracefsRoot, "available_tracers"))
	if err != nil || !strings.Contains(string(tracers), "function_graph") {
		t.Skipf("this kernel has no function_graph (CONFIG_FUNCTION_GRAPH_TRACER): %v", err)
	}
	path, command := filepath.Join(t.TempDir(), "perf.data"), []string{datagramsC.Path(t), "20"}
	events := "span:" + graphRoot + ",span:" + strings.Join(graphGlobs, ",span:")
	r := recordIn(t, "", append([]string{"-o", path, "-e", events, "--"}, command...)...)
	if r.code != 0 {
		t.Fatalf("exit code %d:\n%s", r.code, r.stderr)
	}
	if strings.Contains(r.stderr, "spans without an end") {
		t.Errorf("calls have no end:\n%s", r.stderr)
	}
	ftrace, known := ftraceGraph(t, command...)
	text := mustGperf(t, "script", "-i", path, "--tree")
	recorded := map[string]bool{}
	for _, line := range strings.Split(mustGperf(t, "evlist", "-i", path), "\n") {
		recorded[strings.TrimPrefix(line, "span:")] = true
	}
	maps.DeleteFunc(known, func(name string, _ bool) bool { return !recorded[name] })
	if len(known) < 100 {
		t.Fatalf("both trace %d functions only", len(known))
	}
	want, times := usualGraph(graphTrees(ftrace, known))
	got, seen := usualGraph(graphTrees(text, known))
	if got != want || strings.Count(got, "\n") < 10 || seen < 10 || times < 10 {
		t.Errorf("gperf, %d of 20:\n%s\nfunction_graph, %d of 20:\n%s", seen, got, times, want)
	}
	t.Logf("%d functions, median of %s: gperf %.0f us, function_graph %.0f us\n%s", len(known), graphRoot,
		medianDuration(graphTrees(text, known)), medianDuration(graphTrees(ftrace, known)), got)
}

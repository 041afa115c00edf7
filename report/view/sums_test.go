package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gperf/internal/session"
	"gperf/report/key"
	"gperf/report/table"
	"gperf/symbolize"
)

// sumsPage writes a page of sums, and returns its address. Of clock, 90 samples are of an idle CPU, 4 of an interrupt
// on it, and 6 of a process; sleepy has nothing but idle CPUs. With a baseline, the page compares samples of a process.
func sumsPage(t *testing.T, baseline bool) string {
	t.Helper()
	frames := map[string]*session.Frame{}
	stack := func(event, comm string, samples uint64, names ...string) table.Stack {
		s := table.Stack{Event: table.Event{Name: event, Unit: "count"}, Comm: comm, Group: key.GroupOf(nil, 0),
			Sum: table.Sum{Weight: samples, Samples: samples}, Idle: names[0] == "halt"}
		var list []*session.Frame
		for i, name := range names {
			if frames[name] == nil {
				sym := &symbolize.Symbol{Name: name}
				frames[name] = session.NamedFrame(len(frames), uint64(i), comm == "swapper", nil, sym)
			}
			list = append(list, frames[name])
		}
		chain := session.NewChain(nil, list)
		s.StackKey = session.StackKey{Chain: chain.Key()}
		return s
	}
	var l table.Loader
	if baseline {
		l.AddStacks(table.Recording{Baseline: true}, slices.Values([]table.Stack{
			stack("clock", "prog", 1200, "old", "main"), stack("clock", "prog", 800, "work", "main")}))
		l.AddStacks(table.Recording{}, slices.Values([]table.Stack{
			stack("clock", "prog", 1000, "work", "main"), stack("clock", "prog", 3, "new", "main")}))
	} else {
		l.AddStacks(table.Recording{}, slices.Values([]table.Stack{
			stack("clock", "swapper", 90, "halt", "do_idle"),
			stack("clock", "swapper", 4, "softirq", "halt", "do_idle"), stack("clock", "prog", 6, "main"),
			stack("sleepy", "swapper", 5, "halt", "do_idle")}))
	}
	address, size := writeSums(t, l.Table())
	if size > 300<<10 {
		t.Errorf("a page with a few stacks has %d bytes", size)
	}
	return address
}

// writeSums writes a page of sums, and returns its address and its size in bytes.
func writeSums(t testing.TB, sums *table.Table) (address string, size int) {
	t.Helper()
	var page strings.Builder
	if err := Export(&page, sums, About{Title: "flame graph"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flame.html")
	if err := os.WriteFile(file, []byte(page.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + file, page.Len()
}

// found is the expression for the result of the search in the selected samples.
const found = `document.getElementById("found").textContent`

// TestBrowserSums: a page of sums has no views of time, counts the samples of entries, and hides idle CPUs.
func TestBrowserSums(t *testing.T) {
	b := open(t, sumsPage(t, false), 1200, 800)
	const hidden = "10 of 105 samples, 10; idle is hidden: 90.00 % of all"
	status := func(want string) { t.Helper(); b.until(statusSum + ` === "` + want + `"`) }
	status(hidden)
	if got := b.text(`[...document.querySelectorAll("#tabs button")].map(b => b.textContent).join()`); got !=
		"Flame graph,Functions,Call tree,Function,Breakdown" {
		t.Errorf("the views are %s", got)
	}
	if b.text(`document.getElementById("overview").hidden`) != "true" {
		t.Error("the page has a strip of time")
	}
	b.text(`page.set({search: "halt"})`)
	b.until(found + `.startsWith("40.00 %")`)
	b.keys("i")
	status("100 of 105 samples, 100")
	b.until(found + `.startsWith("94.00 %")`)
	b.click("#toggle-idle")
	status(hidden)
	b.text(`page.set({search: "", metric: "samples", view: "functions"})`)
	b.until(firstRow + `.startsWith("main60.00 %60.00 %6")`)
	if b.text(`document.querySelector("#panel tbody").textContent.includes("prog")`) != "false" {
		t.Error("a command is among the functions")
	}
	b.text(`page.set({view: "fields"})`)
	b.until(firstRow + `.startsWith("prog60.00 %6")`)
	choose(b, "sleepy")
	status("5 of 105 samples")
}

// TestBrowserSumsOfDifferences: changes within the noise have no colour, the widths can be those of the baseline, and
// n goes to the next match of the search.
func TestBrowserSumsOfDifferences(t *testing.T) {
	b := open(t, sumsPage(t, true), 1200, 800)
	box := func(name string) string {
		return `flameView.chart.boxes.find(b => page.table.functions.name[b.fn] === "` + name + `")`
	}
	b.until(`flameView?.chart.boxes.length > 3`)
	for name, want := range map[string]string{"work": "hsl(6 ", "new": "hsl(6 6% ", "main": "hsl(6 6% "} {
		if got := b.text(`flameView.chart.colours(` + box(name) + `)`); !strings.HasPrefix(got, want) ||
			strings.HasPrefix(got, "hsl(6 6% ") != (name != "work") {
			t.Errorf("%s has the colour %s, want %s…", name, got, want)
		}
	}
	if got := b.text(`noiseText(` + box("new") + `)`); !strings.Contains(got, "noise") {
		t.Errorf("a function with 3 samples of 1003 differs by %s", got)
	}
	if b.text(box("old")) != "undefined" {
		t.Error("a function of the baseline alone has a width")
	}
	b.text(`page.set({before: true, search: "/^(old|work)$/"})`)
	b.until(box("old") + ` !== undefined`)
	b.text(`flameView.chart.canvas.focus()`)
	for _, want := range []string{"old", "work", "old"} {
		b.keys("n")
		b.until(`page.table.functions.name[flameView.chart.selected.fn] === "` + want + `"`)
	}
	b.keys("N")
	b.until(`page.table.functions.name[flameView.chart.selected.fn] === "work"`)
	b.keys(kb.Enter)
	b.until(`page.state.zoom > 0`)
}

// BenchmarkBrowserSums opens a page of a flame graph with 104,000 frames: ms/open is the time until it is drawn.
func BenchmarkBrowserSums(b *testing.B) {
	const stacks, own, shared, functions = 4000, 26, 10, 5000
	frames := make([]*session.Frame, functions)
	for i := range frames {
		frames[i] = session.NamedFrame(i, uint64(i), false, nil, &symbolize.Symbol{Name: fmt.Sprintf("function_%d", i)})
	}
	list := make([]table.Stack, stacks)
	for i := range list {
		stack := make([]*session.Frame, own+shared) // the leaf first
		for at := range stack {
			stack[at] = frames[(at*97+i*13)%functions]
			if at >= own {
				stack[at] = frames[at]
			}
		}
		chain := session.NewChain(nil, stack)
		list[i] = table.Stack{Event: table.Event{Name: "clock", Unit: "count"}, Comm: "prog",
			Group: key.GroupOf(nil, 0), Sum: table.Sum{Weight: 1, Samples: 1},
			StackKey: session.StackKey{Chain: chain.Key()}}
	}
	var l table.Loader
	l.AddStacks(table.Recording{}, slices.Values(list))
	address, size := writeSums(b, l.Table())
	tab := open(b, address, 1400, 900)
	b.ReportMetric(float64(size), "bytes")
	var times []float64
	for b.Loop() {
		tab.do(chromedp.Navigate(address))
		tab.until(`document.documentElement.dataset.ready === "true"`)
		times = append(times, tab.number(`(e => e.startTime + e.duration)(performance.getEntriesByName("update")[0])`))
	}
	slices.Sort(times)
	b.ReportMetric(tab.number(`page.tree.length`), "frames")
	b.ReportMetric(times[len(times)/2], "ms/open")
}

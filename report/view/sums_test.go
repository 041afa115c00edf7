package view

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
				frames[name] = session.NamedFrame(i, uint64(i), comm == "swapper", nil, &symbolize.Symbol{Name: name})
			}
			list = append(list, frames[name])
		}
		s.Frames = slices.Values(list)
		return s
	}
	var l table.Loader
	if baseline {
		l.AddStacks(table.Recording{Baseline: true}, []table.Stack{stack("clock", "prog", 1200, "old", "main"),
			stack("clock", "prog", 800, "work", "main")})
		l.AddStacks(table.Recording{}, []table.Stack{stack("clock", "prog", 1000, "work", "main"),
			stack("clock", "prog", 3, "new", "main")})
	} else {
		l.AddStacks(table.Recording{}, []table.Stack{stack("clock", "swapper", 90, "halt", "do_idle"),
			stack("clock", "swapper", 4, "softirq", "halt", "do_idle"), stack("clock", "prog", 6, "main"),
			stack("sleepy", "swapper", 5, "halt", "do_idle")})
	}
	var page strings.Builder
	if err := Export(&page, l.Table(), About{Title: "flame graph"}); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 300<<10 {
		t.Errorf("a page with a few stacks has %d bytes", page.Len())
	}
	file := filepath.Join(t.TempDir(), "flame.html")
	if err := os.WriteFile(file, []byte(page.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// found is the expression for the result of the search in the selected samples.
const found = `document.getElementById("found").textContent`

// TestBrowserSums: a page of sums has no views of time, counts the samples of entries, and hides idle CPUs.
func TestBrowserSums(t *testing.T) {
	b := open(t, sumsPage(t, false), 1200, 800)
	const hidden = "10 of 105 samples, 10; idle CPUs are hidden: 90.00 % of all"
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

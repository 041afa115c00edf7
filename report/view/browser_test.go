package view

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gperf/internal/testutil/chromium"
	"gperf/report/table"
)

// tab is a page in a browser without a window.
type tab struct {
	testing.TB
	ctx context.Context
}

// open opens an address in Chromium, and waits until the page shows the samples.
func open(t testing.TB, url string, width, height int64, opts ...chromedp.EmulateViewportOption) *tab {
	t.Helper()
	b := &tab{t, chromium.Start(t)}
	b.do(chromedp.EmulateViewport(width, height, opts...))
	b.do(chromedp.Navigate(url))
	b.until(`document.documentElement.dataset.ready === "true"`)
	return b
}

func (b *tab) do(a chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, a); err != nil {
		b.Fatal(err)
	}
}

// text returns the value of an expression of JavaScript, as text.
func (b *tab) text(expression string) string {
	b.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return s
}

// number returns the value of an expression of JavaScript.
func (b *tab) number(expression string) float64 {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.Helper()
	for range 2400 { // of 25 ms and more: a busy machine takes long
		if b.text(expression) == "true" {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	b.Fatalf("%s is not true; the panel: %.300s", expression, b.text("document.getElementById('panel').textContent"))
}

// tabTo moves the focus with the key Tab to a button with this text.
func (b *tab) tabTo(text string) {
	b.Helper()
	for range 60 {
		if b.text(`document.activeElement.textContent`) == text {
			return
		}
		b.keys(kb.Tab)
	}
	b.Fatalf("Tab does not reach %s", text)
}

func (b *tab) keys(keys string) { b.Helper(); b.do(chromedp.KeyEvent(keys)) }
func (b *tab) click(css string) { b.Helper(); b.press(chromedp.Click(chromedp.CSS(css))) }
func (b *tab) tap(css string)   { b.Helper(); b.press(chromedp.Tap(chromedp.CSS(css))) }

// press does an action with an element. The page may replace the element after it was found: then it finds the new one.
func (b *tab) press(a chromedp.Action[chromedp.Void]) {
	b.Helper()
	var err error
	for range 5 {
		if err = chromedp.Do(b.ctx, a); err == nil || !strings.Contains(err.Error(), "Could not find node") {
			break
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Parts of the page, as expressions.
const (
	firstRow  = `document.querySelector("#panel tbody tr").textContent`
	statusSum = `document.getElementById("sum").textContent`
	chips     = `document.getElementById("filters").textContent`
	callers   = `functionView.callers.boxes.map(b => page.table.functions.name[b.fn]).join()`
)

// answers checks the page's answers to ten questions. It gets to each with press, which gets an element's selector.
func answers(b *tab, press func(css string)) {
	press("#tab-functions")
	b.until(firstRow + `.includes("push_back")`) // the hottest function
	press("#panel tbody tr button")
	b.until(callers + `.includes("app::compute")`) // its callers: sandwich
	press("#panel .choice button:nth-child(2)")
	// Its source line:
	b.until(`document.querySelector("tr.hot")?.textContent.includes("v.push_back(1); // <b>hot</b>")`)
	press("#tab-timeline")
	b.until(`document.querySelector(".rows button")?.textContent.includes("app")`)
	press("#panel .choice button:nth-child(2)")
	b.until(`document.querySelector(".rows button")?.textContent.includes("worker")`) // the busiest thread
	press(".rows button")
	b.until(chips + `.includes("thread worker 100")`)
	b.until(statusSum + `.startsWith("5,500 of")`)
	press(".chip button")
	b.until(statusSum + `.startsWith("8,000 of")`)
	press("#tab-fields")
	b.until(firstRow + `.includes("app 100")`)
	press("#tab-tree")
	b.until(firstRow + `.includes("main")`)
	press("#panel .choice button:nth-child(2)") // bottom up
	b.until(firstRow + `.includes("push_back")`)
	press("#tab-flame")
	b.until(`flameView.chart.boxes.length > 5`)
	choose(b, "skb:kfree_skb") // another event
	press("#tab-fields")
	b.until(firstRow + `.includes("NO_SOCKET")`) // drops by reason
	press("#panel tbody tr button")
	b.until(chips + `.includes("NO_SOCKET")`)
	press(".chip button")
	b.until(`page.state.fields.length === 0`)
	choose(b, "cpu-clock")
	press("#search")
	b.do(chromedp.KeyEvent("fib"))
	b.until(`document.getElementById("found").textContent.includes("match")`)
	press("#tab-functions")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.text(`page.set({search: ""})`)
}

// choose selects an event in the list at the top, as a browser does after a choice in its own menu.
func choose(b *tab, event string) {
	b.text(`(() => { const list = document.getElementById("event"); list.value = "` + event + `";
		list.dispatchEvent(new Event("change", {bubbles: true})); })()`)
	b.until(`page.state.event === "` + event + `"`)
}

func TestBrowserMouse(t *testing.T) {
	_, url := serve(t, craft(t, false))
	b := open(t, url, 1400, 900)
	answers(b, b.click)
	b.do(chromedp.MouseEvent("mousePressed", 300, 80, chromedp.ButtonLeft)) // a drag over the first half
	b.do(chromedp.MouseEvent("mouseMoved", 500, 80, chromedp.ButtonLeft))
	b.do(chromedp.MouseEvent("mouseReleased", 700, 80, chromedp.ButtonLeft))
	b.until(chips + `.includes("time ")`)
	b.until(`location.hash.includes("range=")`)
	b.do(chromedp.NavigateBack())
	b.until(`page.state.range === null`)
	if got := b.text(`document.images.length + document.title`); got != "0"+hostile+" – gperf view" {
		t.Errorf("a name of the recording is markup: %q", got)
	}
}

// TestBrowserFilters: each filter selects the samples that it names, no others.
func TestBrowserFilters(t *testing.T) {
	data := craft(t, false)
	_, url := serve(t, data)
	b := open(t, url, 1400, 900)
	in := func(sample int, function string) bool {
		for n := data.Stacks[data.Stack[sample]]; n > 0; n = data.Nodes[n].Parent {
			if data.Functions[data.Frames[data.Nodes[n].Frame].Function].Name == function {
				return true
			}
		}
		return false
	}
	reason := func(i int, text string) bool {
		g := data.Group[i]
		return g >= 0 && data.Groups[g].Values[0].Text == text
	}
	between := func(from, to int) string {
		return fmt.Sprintf(`{range: [page.table.first + %de9, page.table.first + %de9]}`, from, to)
	}
	within := func(from, to uint64) func(int) bool {
		return func(i int) bool {
			since := uint64(data.Time[i] - data.Recordings[0].First)
			return since >= from*1e9 && since < to*1e9
		}
	}
	const clock, drops = 0, 1
	for _, c := range []struct {
		state string // fields of the state that page.set gets
		event uint16
		want  func(sample int) bool
	}{
		{`{}`, clock, func(int) bool { return true }},
		{`{cpus: [0]}`, clock, func(i int) bool { return data.CPU[i] == 0 }},
		{`{cpus: [1]}`, clock, func(i int) bool { return data.CPU[i] == 1 }},
		{`{cpus: [2]}`, clock, func(int) bool { return false }},
		{`{threads: ["100/101"]}`, clock, func(i int) bool { return data.Threads[data.Thread[i]].TID == 101 }},
		{`{processes: ["101"]}`, clock, func(int) bool { return false }},
		{`{processes: ["100"], cpus: [1]}`, clock, func(i int) bool { return data.CPU[i] == 1 }},
		{`{focus: ["=fib"]}`, clock, func(i int) bool { return in(i, fib) }},
		{`{hide: ["/^f.b$/"]}`, clock, func(i int) bool { return !in(i, fib) }},
		{`{focus: ["read"], threads: ["100/101"]}`, clock, func(int) bool { return false }},
		{`{event: "skb:kfree_skb"}`, drops, func(int) bool { return true }},
		{`{event: "skb:kfree_skb", fields: [{key: "reason", value: "TCP_FLAGS"}]}`, drops,
			func(i int) bool { return reason(i, "TCP_FLAGS") }},
		// From one range to the next, the page adds and subtracts the samples in between.
		{between(2, 7), clock, within(2, 7)},
		{between(4, 6), clock, within(4, 6)},
		{between(1, 8), clock, within(1, 8)},
		{between(3, 9), clock, within(3, 9)},
		{between(0, 2), clock, within(0, 2)},
	} {
		want := 0
		for i := range data.Time {
			if data.Event[i] == c.event && c.want(i) {
				want++
			}
		}
		b.text(`page.set({...structuredClone(emptyState), event: "cpu-clock", ...` + c.state + `})`)
		if got := b.number(`page.counted.all.count || 0`); got != float64(want) {
			t.Errorf("%s: %v samples, want %d", c.state, got, want)
		}
	}
}

// drag moves a finger between two places.
func (b *tab) drag(fromX, toX, y float64) {
	b.Helper()
	finger, one := 0.0, 1.0
	at := func(x float64) []*input.TouchPoint {
		return []*input.TouchPoint{{X: x, Y: y, ID: &finger, RadiusX: &one, RadiusY: &one, Force: &one}}
	}
	for _, touch := range []struct {
		kind input.DispatchTouchEventType
		at   []*input.TouchPoint
	}{{input.DispatchTouchEventTypeTouchStart, at(fromX)},
		{input.DispatchTouchEventTypeTouchMove, at((fromX + toX) / 2)},
		{input.DispatchTouchEventTypeTouchMove, at(toX)},
		{input.DispatchTouchEventTypeTouchEnd, []*input.TouchPoint{}}} {
		p := input.DispatchTouchEventParams{Type: touch.kind, TouchPoints: touch.at}
		b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.DispatchTouchEvent, p)
			return err
		}))
	}
}

func TestBrowserTouch(t *testing.T) {
	_, url := serve(t, craft(t, false))
	b := open(t, url, 390, 844, chromedp.EmulateTouch, chromedp.EmulateMobile)
	answers(b, b.tap)
	b.drag(100, 200, b.number(`document.getElementById("overview-canvas").getBoundingClientRect().top + 20`))
	b.until(`location.hash.includes("range=")`) // the end of the drag
	b.until(chips + `.includes("time ")`)
	for range 10 { // the browser ignores taps soon after a drag
		time.Sleep(time.Second)
		if b.text(`page.state.range === null`) == "true" {
			break
		}
		b.tap(".chip button")
	}
	b.until(`page.state.range === null`)
	b.tap("#tab-flame")
	b.until(`flameView.chart.boxes.length > 5`)
	// A tap shows the tip; the second one zooms.
	y := b.number(`flameView.chart.canvas.getBoundingClientRect().top + 30`)
	b.do(chromedp.TapXY(100, y))
	b.until(`!document.getElementById("tip").hidden && page.state.zoom === 0`)
	b.do(chromedp.TapXY(100, y))
	b.until(`page.state.zoom > 0`)
}

func TestBrowserKeys(t *testing.T) {
	_, url := serve(t, craft(t, false))
	b := open(t, url, 1400, 900)
	b.keys("3") // functions: the focus is on the hottest one
	b.until(firstRow + `.includes("push_back")`)
	b.keys(kb.Enter)
	b.until(callers + `.includes("app::compute")`)
	b.tabTo("Source")
	b.keys(kb.Enter)
	b.until(`document.querySelector("tr.hot")?.textContent.includes("v.push_back(1); // <b>hot</b>")`)
	b.keys("2") // the timeline
	b.tabTo("Threads")
	b.keys(kb.Enter)
	b.until(`document.querySelector(".rows button")?.textContent.includes("worker")`) // the busiest thread
	b.keys("v" + kb.Enter)
	b.until(chips + `.includes("thread worker 100")`)
	b.keys("c")
	b.until(`page.state.threads.length === 0`)
	b.keys("e") // the next event
	b.until(`page.state.event === "skb:kfree_skb"`)
	b.keys("6")
	b.until(firstRow + `.includes("NO_SOCKET")`) // drops by reason
	b.keys(kb.Enter)
	b.until(chips + `.includes("NO_SOCKET")`)
	b.keys("c")
	b.until(`page.state.fields.length === 0`)
	b.keys("t+") // the time, a shorter one
	b.until(`page.state.range !== null`)
	b.keys(kb.Escape)
	b.until(`page.state.range === null`)
	b.keys("e")
	b.until(`page.state.event === "offcpu-time"`)
	b.keys("ee")
	b.until(`page.state.event === "` + "on-CPU + off-CPU" + `"`)
	b.until(statusSum + `.includes("12.5 s")`)
	b.keys("/")
	b.keys("fib")
	b.until(`document.getElementById("found").textContent.includes("match")`)
	b.keys(kb.Escape)
	b.until(`page.state.search === ""`)
	b.keys(kb.Escape)
	b.keys("1" + kb.ArrowDown + kb.ArrowDown + "f") // focus on a frame
	b.until(`page.state.focus.length === 1`)
	b.keys("cr")
	b.until(`page.state.merge && page.tree.fn.filter(f => page.table.functions.name[f] === "fib").length === 1`)
	b.keys("?")
	b.until(`document.getElementById("about").open`)
	about := b.text(`document.getElementById("about").textContent`)
	if !strings.Contains(about, "samples in ") || strings.Contains(about, "[object") ||
		strings.Contains(about, "false") {
		t.Errorf("the help: %s", about)
	}
}

// TestBrowserNames: labels show the name itself, also of lambdas and operators.
func TestBrowserNames(t *testing.T) {
	_, url := serve(t, craft(t, false))
	b := open(t, url, 1400, 900)
	for name, want := range map[string]string{
		"void std::vector<int>::push_back(int&&)":                      "std::vector<…> push_back",
		"sort<int*, Cmp>::<lambda(int, int)>":                          " sort<…>::<lambda…>",
		"void sort<int>(int*)::<lambda(int)>::operator()(int) const":   " sort<…>::<lambda…>",
		"std::sort<A>(A)::{lambda(B const&)#2}::operator()(B) const":   "std sort<…>::{lambda…#2}",
		"sort<v<int>::iterator, bench(int)::<lambda(int)->bool> >":     " sort<…>",
		"main()::'lambda'(int)::operator()(int) const [clone .isra.0]": " main::'lambda'",
		"foo::{closure#0}::{closure#1}":                                " foo::{closure#0}::{closure#1}",
		"long a::operator-<S*, std::vector<S> >(S*)":                   "a operator-<…>",
		"std::operator<< <char>(std::ostream&, char const*)":           "std operator<< <…>",
		"A::operator->() const":                                        "A operator->",
		"(anonymous namespace)::f(int)":                                "(anonymous namespace) f",
		"decltype(auto) a::b<int>(int)":                                "a b<…>",
		"<T as core::convert::Into<U>>::into":                          "<T as core::convert::Into<…>> into",
		"net/http.(*conn).serve":                                       "net http.(*conn).serve",
		"operator new(unsigned long)":                                  " operator new",
		"[libc.so.6]":                                                  " [libc.so.6]",
	} {
		if got := b.text(fmt.Sprintf(`(p => p.scope + " " + p.base)(nameParts(%q))`, name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestBrowserNearestCallers: the nearest callers of a function are in sight, however many there are.
func TestBrowserNearestCallers(t *testing.T) {
	_, url := serve(t, craft(t, false))
	b := open(t, url, 1400, 60)
	b.text(`page.open(page.table.functions.name.indexOf("fib"))`)
	b.until(`functionView?.callers.boxes.length > 1`)
	b.until(`(s => s.scrollHeight > s.clientHeight && s.scrollTop + s.clientHeight >= s.scrollHeight - 1)` +
		`(functionView.callers.canvas.parentElement)`)
}

// TestBrowserSameName: of two functions of one name, the page shows the one that was opened.
func TestBrowserSameName(t *testing.T) {
	data := craft(t, false)
	for i := range data.Functions {
		if data.Functions[i].Name == sysRead {
			data.Functions[i].Name = fib
		}
	}
	_, url := serve(t, data)
	b := open(t, url, 1400, 900)
	for _, dso := range []string{"/usr/bin/app", "[kernel.kallsyms]"} {
		b.text(`page.open(page.table.functions.name.findIndex((name, i) => name === "fib" &&
			page.table.dsos[page.table.functions.dso[i]] === "` + dso + `"))`)
		b.until(`functionView?.head.textContent.includes("` + dso + `")`)
		b.text(`Object.assign(page.state, fromHash(location.hash), {view: "functions"}), page.update()`)
		b.until(`document.querySelectorAll("#panel tr.selected").length === 1`)
		if row := b.text(`document.querySelector("#panel tr.selected td.dso").title`); row != dso {
			t.Errorf("the function of %s is selected, want %s", row, dso)
		}
	}
}

// A page with a baseline shows the changes.
func TestBrowserDiff(t *testing.T) {
	_, url := serve(t, craft(t, true))
	b := open(t, url+"#view=functions&sort=change", 1400, 900)
	b.until(firstRow + `.includes("fib")`)
	if row := b.text(firstRow); !strings.Contains(row, "−") {
		t.Errorf("fib has not shrunk: %s", row)
	}
}

// An exported page needs no server.
func TestBrowserExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	fd, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if err := Export(fd, craft(t, false), About{Title: hostile}); err != nil {
		t.Fatal(err)
	}
	b := open(t, "file://"+path+"#event=skb%3Akfree_skb&view=functions", 1400, 900)
	b.until(`document.querySelector("#panel tbody .name")?.title.includes("<img src=x onerror")`) // as text
	if got := b.text(`document.images.length + document.title`); got != "0"+hostile+" – gperf view" {
		t.Errorf("the name is markup: %q", got)
	}
}

// A page shows a new table, and messages of the server.
func TestBrowserUpdates(t *testing.T) {
	s, url := serve(t, &table.Table{Nodes: []table.Node{{Parent: -1, Frame: -1}}})
	b := open(t, url, 1400, 900)
	s.Notify("app.data was replaced")
	b.until(`document.getElementById("notices").textContent.includes("app.data was replaced")`)
	if err := s.Show(craft(t, false), About{Version: 2}); err != nil {
		t.Fatal(err)
	}
	b.until(statusSum + `.startsWith("8,000 of")`)
}

// axe-core finds no serious fault in any view. GPERF_AXE is the path of its axe.min.js.
func TestBrowserAccessible(t *testing.T) {
	axe, err := os.ReadFile(os.Getenv("GPERF_AXE"))
	if err != nil {
		t.Skip("GPERF_AXE names no axe.min.js (npm install axe-core)")
	}
	_, url := serve(t, craft(t, true))
	for _, size := range [][2]int64{{1400, 900}, {390, 844}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			checkAccessible(t, open(t, url, size[0], size[1]), string(axe))
		})
	}
}

func checkAccessible(t *testing.T, b *tab, axe string) {
	b.text("(" + "() => {" + axe + "\n})()")
	for _, theme := range []string{"light", "dark"} {
		b.text(`(document.documentElement.dataset.theme = "` + theme + `", page.update())`)
		for _, view := range []string{"flame", "timeline", "functions", "tree", "function", "fields"} {
			b.text(`page.set({view: "` + view + `", showIdle: true, processes: ["100"]})`)
			found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`axe.run().then(r => r.violations.filter(v =>
				["serious", "critical"].includes(v.impact)).map(v => v.id + ": " + v.nodes.map(n => n.target + " " +
				n.failureSummary).slice(0, 3).join("; ")).join("\n"))`, chromedp.EvalAwaitPromise))
			if err != nil || found != "" {
				t.Errorf("%s, %s: %v %s", theme, view, err, found)
			}
		}
	}
}

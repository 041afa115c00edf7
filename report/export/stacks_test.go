package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"

	"gperf/internal/session"
	"gperf/internal/testutil/chromium"
	"gperf/internal/testutil/recording"
	"gperf/report"
	"gperf/symbolize"
)

// open returns one of the project's recordings. Names come from the recording's list of the
// kernel's, and from no file.
func open(t testing.TB, name string) *session.Session {
	t.Helper()
	return recording.Open(t, name, time.Time{})
}

// counted counts the stacks of recordings.
func counted(t testing.TB, c *StackSet, names ...string) *StackSet {
	t.Helper()
	c.MaxStack = 1024
	for _, name := range names {
		if _, err := c.Add(open(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// frame makes a frame of "dso:symbol".
func frame(name string, ip uint64) *session.Frame {
	dso, name, _ := strings.Cut(name, ":")
	m := &session.Map{Start: 0x1000, End: 1 << 63, DSO: &session.DSO{Name: dso}}
	var sym *symbolize.Symbol
	if name != "" {
		sym = &symbolize.Symbol{Start: ip, End: ip + 16, Name: name, Raw: name}
	}
	return session.NamedFrame(0, ip, dso == "[kernel.kallsyms]", m, sym)
}

func pprofOf(t *testing.T, c *StackSet) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	if err := c.Pprof(&b); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var threadStacks = StackSet{Processes: true, Threads: true, CPUs: true}

// reportTotals returns the sums of periods that Text prints for each event.
func reportTotals(t *testing.T, name string) map[string]int64 {
	t.Helper()
	var b strings.Builder
	if _, err := report.Text(&b, open(t, name), report.Options{MaxStack: 1024}); err != nil {
		t.Fatal(err)
	}
	totals := map[string]int64{}
	for _, m := range regexp.MustCompile(`of event '(.*)'\n# Event count \(approx\.\): (\d+)`).FindAllStringSubmatch(
		b.String(), -1) {
		totals[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
	}
	return totals
}

func TestPprofEqualsReport(t *testing.T) {
	want := reportTotals(t, "two.data")
	maps.Copy(want, reportTotals(t, "drops.data"))
	c := threadStacks
	p := pprofOf(t, counted(t, &c, "two.data", "drops.data"))
	got := map[string]int64{}
	for _, s := range p.Sample {
		for i, v := range s.Value {
			got[p.SampleType[i].Type] += v
		}
	}
	want["cpu"] = want["cpu-clock"]
	delete(want, "cpu-clock")
	if delete(got, "samples"); !maps.Equal(got, want) {
		t.Errorf("totals %v, want report's %v", got, want)
	}
}

// TestPprofOfTwo: the metadata of a profile of two recordings.
func TestPprofOfTwo(t *testing.T) {
	c := threadStacks
	p := pprofOf(t, counted(t, &c, "two.data"))
	var types []string
	for _, v := range p.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	if want := []string{"samples/count", "cpu/nanoseconds", "sched:sched_switch/count"}; !slices.Equal(types, want) ||
		p.DefaultSampleType != "cpu" {
		t.Errorf("sample types %v, usually %s; want %v", types, p.DefaultSampleType, want)
	}
	if p.PeriodType.Type != "cpu" || p.Period != 500_000 || p.DurationNanos < 90e6 || p.DurationNanos > 110e6 {
		t.Errorf("period %d of %v, %d ns; want 500000 of cpu, some 100 ms", p.Period, p.PeriodType,
			p.DurationNanos)
	}
	const command = "gperf record -g -F 2000 -e cpu-clock,sched:sched_switch -o two.data -- " +
		"./drops -n 3000 -rate 30000"
	if !slices.Contains(p.Comments, "cmdline: "+command) {
		t.Errorf("no command line in %q", p.Comments)
	}
	s := p.Sample[0]
	if comm, pid, tid := s.Label["comm"], s.NumLabel["pid"],
		s.NumLabel["tid"]; !slices.Equal(comm, []string{"drops"}) || !slices.Equal(pid, []int64{15247}) ||
		len(tid) != 1 || len(s.NumLabel["cpu"]) != 0 {
		t.Errorf("labels %v %v; the recording has no CPUs", s.Label, s.NumLabel)
	}
	main, kernel := p.Mapping[0], p.Mapping[1]
	if main.File != "/tmp/gperf-example/drops" || main.HasFunctions || kernel.File != "[kernel.kallsyms]" ||
		!kernel.HasFunctions || len(kernel.BuildID) != 40 {
		t.Errorf("mappings %v; want drops, without functions, and the kernel", p.Mapping)
	}
	for _, l := range p.Location {
		if l.Mapping == nil || l.Address < l.Mapping.Start || l.Address >= l.Mapping.Limit {
			t.Errorf("location %#x lies outside of its mapping %v", l.Address, l.Mapping)
		}
	}
}

// TestPprofTwice: a recording counted twice yields twice the values of the same
// samples.
func TestPprofOfDifference(t *testing.T) {
	values := func(old, new string) (l []int64) {
		var c StackSet
		if _, err := c.AddBaseline(open(t, old)); err != nil {
			t.Fatal(err)
		}
		sums := map[string]int64{}
		for _, s := range pprofOf(t, counted(t, &c, new)).Sample {
			for i, v := range s.Value {
				if v < 0 != s.DiffBaseSample() && v != 0 {
					t.Errorf("value %d, of the baseline: %t", v, s.DiffBaseSample())
				}
				sums[fmt.Sprint(i, s.Label["comm"], s.Location)] += v
			}
		}
		return slices.Collect(maps.Values(sums))
	}
	differs := func(v int64) bool { return v != 0 }
	if l := values("two.data", "two.data"); slices.ContainsFunc(l, differs) {
		t.Errorf("a recording differs from itself: %d", l)
	}
	// The baseline is scaled, so the values add up to 0, up to rounding.
	sum := int64(0)
	l := values("two.data", "threads.data")
	for _, v := range l {
		sum += v
	}
	if !slices.ContainsFunc(l, differs) || sum < -int64(len(l)) || sum > int64(len(l)) {
		t.Errorf("different recordings: %d, in all %d", l, sum)
	}
}

func TestPprofTwice(t *testing.T) {
	c, d := threadStacks, threadStacks
	one, two := pprofOf(t, counted(t, &c, "drops.data")), pprofOf(t, counted(t, &d, "drops.data", "drops.data"))
	one.Scale(2)
	one.DurationNanos *= 2
	two.Comments = one.Comments
	if got, want := two.String(), one.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothingToWrite(t *testing.T) {
	var b bytes.Buffer
	for name, write := range map[string]func(*StackSet) error{
		"pprof":      func(c *StackSet) error { return c.Pprof(&b) },
		"flamegraph": func(c *StackSet) error { return c.FlameGraph(&b) },
	} {
		if err := write(new(StackSet)); err != ErrNoSamples || b.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, b.Len())
		}
	}
}

func flameGraphOf(t *testing.T, c *StackSet) (page string, data flames) {
	t.Helper()
	var b strings.Builder
	if err := c.FlameGraph(&b); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), `<script id="data" type="application/json">`)
	text, _, _ := strings.Cut(rest, "</script>")
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	return b.String(), data
}

// TestFlameGraphEscapes: names stay within the page's data, and come out of it as
// they were.
func TestFlameGraphEscapes(t *testing.T) {
	const comm, name, event = `<b>"x'</b>`, "f</script><script>alert(1)//\u2028\u2029&amp;{{data}}", "a<b&c"
	c := &StackSet{MaxStack: 9, events: []stackEvent{{name: event, samples: 1, total: 1}},
		tallies: []tally{{tallyKey: keyOf(0, comm, false),
			chain:   session.Chain{User: []*session.Frame{frame("/lib/<x>:"+name, 16)}},
			samples: 1, period: 1}}}
	page, data := flameGraphOf(t, c)
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("%d scripts end in the page; two are its own", n)
	}
	if strings.ContainsAny(page, "\u2028\u2029") || strings.Contains(page, "<b>") {
		t.Error("names are in the page as they are")
	}
	for _, s := range []string{comm, name} {
		if !slices.Contains(data.Names, s) {
			t.Errorf("%q is not among %q", s, data.Names)
		}
	}
	if data.Events[0].Name != event || !slices.Contains(data.DSOs, "/lib/<x>") {
		t.Errorf("event %q, DSOs %q", data.Events[0].Name, data.DSOs)
	}
}

// TestFlameGraphTree checks recursion, samples without a callchain, a leaf with several
// callers, and that heavier frames come first.
func TestFlameGraphTree(t *testing.T) {
	a, b, k, none := frame("prog:a", 0x10), frame("prog:b", 0x40), frame("[kernel.kallsyms]:k", 0x70),
		frame("/lib/x.so:", 0x100)
	c := &StackSet{MaxStack: 3, events: []stackEvent{{name: "cycles"}, {name: "faults", samples: 5, total: 60}},
		tallies: []tally{
			{tallyKey: keyOf(1, "p", false), chain: session.Chain{Kernel: []*session.Frame{k}, User: []*session.Frame{a, a, b}},
				samples: 1, period: 10}, // b is one too many
			{tallyKey: keyOf(1, "p", false), chain: session.Chain{User: []*session.Frame{a, a}}, samples: 3, period: 30},
			{tallyKey: keyOf(1, "q", false), samples: 1, period: 20},
		}}
	c.tallies[2].leaf = none
	_, data := flameGraphOf(t, c)
	if len(data.Events) != 1 {
		t.Fatalf("%d events, want the one with samples", len(data.Events))
	}
	e := data.Events[0]
	var got []string
	for i, d := range e.Depths {
		f := data.NameOf[e.Frames[i]]
		got = append(got, fmt.Sprintf("%s%s %d %d/%d/%d", strings.Repeat(" ", int(d)), data.Names[f[0]], f[2],
			e.Totals[i], e.Selves[i], e.Samples[i]))
	}
	want := []string{"all 0 60/0/5", " p 0 40/0/4", "  a 1 40/0/4", "   a 1 40/30/4", "    k 2 10/10/1",
		" q 0 20/0/1", "  [x.so] 5 20/20/1"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFlameGraphCut: a page contains a limited number of frames, and shows how many are
// missing.
func TestFlameGraphCut(t *testing.T) {
	const many = maxFlame + 500
	page := new(StackSet).flames()
	tree := newFlameTree(page, false)
	for i := range many {
		at := tree.child(0, page.function(strconv.Itoa(i), "", flameUser))
		tree.nodes[at].self = uint64(i + 1)
	}
	e := tree.event(false)
	if n := len(e.Frames); n > maxFlame || n < maxFlame-10 || n+e.Left != many+1 {
		t.Errorf("%d frames, %d left out of %d", n, e.Left, many+1)
	}
	if last := e.Totals[len(e.Totals)-1]; last < e.Narrower || e.Totals[0] != many*(many+1)/2 {
		t.Errorf("the narrowest is %d of %d, although those below %d are left out", last, e.Totals[0], e.Narrower)
	}
}

// TestFlameGraphShorterNames shortens names that are wider than the frames.
func TestFlameGraphShorterNames(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node (Debian package nodejs): nothing runs the page's script")
	}
	page, err := os.ReadFile("flamegraph.html")
	if err != nil {
		t.Fatal(err)
	}
	shorter := regexp.MustCompile(`(?ms)^function shorter\(name\) \{$.*?^\}$`).Find(page)
	for name, want := range map[string]string{
		"JS:*fib /tmp/x.js:1:13":                         "JS:*fib",
		"JS:~get size /srv/my app/set.js:10:2":           "JS:~get size",
		"JS:^emit node:events:467:44":                    "JS:^emit",
		"JS:* file:///srv/x.mjs:1:1":                     "JS:*",
		"LazyCompile:~compile <anonymous>:3:4":           "LazyCompile:~compile",
		"Builtin:ArrayPrototypeForEach":                  "Builtin:ArrayPrototypeForEach",
		"std::vector<int, std::allocator<int> >::size()": "std::vector::size",
		"void deep::inner<long>(unsigned long)":          "deep::inner",
		"github.com/x/y.(*T).Do":                         "y.(*T).Do",
		"ns::Class::operator()(int) const":               "ns::Class::operator()",
		"(anonymous namespace)::f(char const*)":          "(anonymous namespace)::f",
		"core::iter::adapters::map::Map<I,F>::fold":      "core::iter::adapters::map::Map::fold",
		"py::fib:/tmp/x.py":                              "py::fib",
		"py::<module>:/tmp/x.py":                         "py::<module>",
	} {
		script := string(shorter) + "\nprocess.stdout.write(shorter(process.argv[1]))"
		out, err := exec.Command(node, "-e", script, name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(out) != want {
			t.Errorf("%s: %q, want %q", name, out, want)
		}
	}
}

// browser is Chromium, which shows one page after the other.
type browser struct{ ctx context.Context }

func openBrowser(t *testing.T) browser {
	t.Helper()
	b := browser{chromium.Start(t, 5*time.Minute)}
	show(t, b, chromedp.EmulateViewport(1200, 800))
	return b
}

func show[T any](t *testing.T, b browser, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// open shows a page, which has drawn when it returns. Another part of the same page's address alone would not load it
// again.
func (b browser) open(t *testing.T, url string) {
	t.Helper()
	show(t, b, chromedp.Navigate("about:blank"))
	show(t, b, chromedp.Navigate(url))
	const drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
	show(t, b, chromedp.Evaluate[bool](drawn, chromedp.EvalAwaitPromise))
}

// dom returns the elements of a page.
func (b browser) dom(t *testing.T, url string) string {
	t.Helper()
	b.open(t, url)
	return show(t, b, chromedp.Evaluate[string]("document.documentElement.outerHTML"))
}

// element returns the text of the page's element with that id.
func elementText(t *testing.T, dom, id string) string {
	t.Helper()
	m := regexp.MustCompile(`<[^>]* id="` + id + `"[^>]*>([^<]*)<`).FindStringSubmatch(dom)
	if m == nil {
		t.Fatalf("no %s in the page:\n%.2000s", id, dom)
	}
	return html.UnescapeString(m[1])
}

// share returns the percentage of an event's stacks within the zoomed frame that have a
// matching function.
func share(data flames, e *flameEvent, zoomed int, pattern string) string {
	match := regexp.MustCompile(pattern)
	var matched uint64
	within := int32(-1)
	for i := zoomed; i < len(e.Frames) && (i == zoomed || e.Depths[i] > e.Depths[zoomed]); i++ {
		if within >= 0 && e.Depths[i] > within {
			continue
		}
		if within = -1; match.MatchString(data.Names[data.NameOf[e.Frames[i]][0]]) {
			within, matched = e.Depths[i], matched+e.Totals[i]
		}
	}
	return percentText(matched, e.Totals[zoomed])
}

func percentText(part, of uint64) string {
	p := 100 * float64(part) / float64(of)
	if p >= 9.95 || p == 0 {
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 2, 64) + " %"
}

// TestFlameGraphInBrowser searches and zooms by the page's address, and checks the
// drawing.
func TestFlameGraphInBrowser(t *testing.T) {
	page, data := flameGraphOf(t, counted(t, new(StackSet), "two.data", "drops.data"))
	file := filepath.Join(t.TempDir(), "flame graph.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "file://" + strings.ReplaceAll(file, " ", "%20")
	e := data.Events[0]
	zoomed := slices.IndexFunc(e.Frames, func(f int32) bool {
		return data.Names[data.NameOf[f][0]] == "ip_finish_output2"
	})
	if zoomed < 0 {
		t.Fatal("no ip_finish_output2 among the functions")
	}
	b := openBrowser(t)
	for _, test := range []struct {
		address, matched, shown string
	}{
		{"", "", "cpu-clock: 23 samples, 11.5 ms"},
		{"#s=%5E__udp4_lib_(rcv|err)%24", "matched " + share(data, e, 0, "^__udp4_lib_(rcv|err)$"),
			"cpu-clock: 23 samples, 11.5 ms"},
		{"#s=icmp_send&z=" + strconv.Itoa(zoomed), "matched " + share(data, e, zoomed, "icmp_send"),
			"ip_finish_output2: " + percentText(e.Totals[zoomed], e.Totals[0]) + " of cpu-clock"},
		{"#s=udp_sendmsg&z=" + strconv.Itoa(zoomed), "matched 100.0 %", "ip_finish_output2: " +
			percentText(e.Totals[zoomed], e.Totals[0]) + " of cpu-clock"},
		{"#s=(&i=1", "no pattern", "cpu-clock: 23 samples, 11.5 ms"},
		{"#e=2", "", "skb:kfree_skb: 5 samples"},
	} {
		dom := b.dom(t, url+test.address)
		if got := elementText(t, dom, "matched"); got != test.matched {
			t.Errorf("%s: %q, want %q", test.address, got, test.matched)
		}
		if got := elementText(t, dom, "zoomed"); got != test.shown {
			t.Errorf("%s: %q, want %q", test.address, got, test.shown)
		}
	}
	whole, zoom := b.coloured(t, url+"#t=light"), b.coloured(t, url+"#t=dark&z="+strconv.Itoa(zoomed))
	if whole < .2 || zoom <= whole {
		t.Errorf("%.2f of the page are frames, zoomed %.2f; want some, and more when zoomed", whole, zoom)
	}
}

// TestFlameGraphWidthsInBrowser: a frame of the baseline alone is in the page, visible with the
// widths of the baseline.
func TestFlameGraphWidthsInBrowser(t *testing.T) {
	var c StackSet
	if _, err := c.AddBaseline(open(t, "two.data")); err != nil {
		t.Fatal(err)
	}
	page, data := flameGraphOf(t, counted(t, &c, "threads.data"))
	e := data.Events[0]
	vanished := slices.IndexFunc(e.Frames, func(f int32) bool {
		return data.Names[data.NameOf[f][0]] == "__udp4_lib_rcv"
	})
	if vanished < 0 || e.Totals[vanished] != 0 || e.Bases[vanished] == 0 || e.Counted[vanished] == 0 {
		t.Fatalf("frame %d of __udp4_lib_rcv: want one that only the baseline has", vanished)
	}
	file := filepath.Join(t.TempDir(), "diff.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	old := percentText(e.Bases[vanished], e.Bases[0])
	b := openBrowser(t)
	for _, test := range []struct{ address, matched, button string }{
		{"#s=%5E__udp4_lib_rcv%24", "matched 0.0 %", "Old widths"},
		{"#s=%5E__udp4_lib_rcv%24&w=old", "matched " + old, "New widths"},
	} {
		dom := b.dom(t, "file://"+file+test.address)
		if got := elementText(t, dom, "matched"); got != test.matched {
			t.Errorf("%s: %q, want %q", test.address, got, test.matched)
		}
		if got := elementText(t, dom, "widths"); got != test.button {
			t.Errorf("%s: the button is %q, want %q", test.address, got, test.button)
		}
	}
	if part := b.coloured(t, "file://"+file+"#t=light&w=old"); part < .05 {
		t.Errorf("%.2f of the page are coloured frames", part)
	}
}

// coloured is how much of the page has a colour, and so is a frame.
func (b browser) coloured(t *testing.T, url string) float64 {
	t.Helper()
	b.open(t, url)
	im, err := png.Decode(bytes.NewReader(show(t, b, chromedp.CaptureScreenshot())))
	if err != nil {
		t.Fatal(err)
	}
	n, box := 0, im.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA)
			if max(c.R, c.G, c.B)-min(c.R, c.G, c.B) > 30 {
				n++
			}
		}
	}
	return float64(n) / float64(box.Dx()*box.Dy())
}

// TestFolderThread compares the first frame with stackcollapse-perf.pl's for a command
// and two ids.
func TestFolderThread(t *testing.T) {
	for _, test := range []struct {
		comm     string
		pid, tid int32
		want     string
	}{
		{"java", 24636, 25607, "java-24636/25607"},
		{"swapper", 0, 0, "swapper-?/0"},
		{"V8 Worker", 12, 13, "V8_Worker-12/13"},
		{"job 7 x", 12, 13, "job-?/7"},
		{"job 7/8 x", 12, 13, "job-7/8"},
		{"a", 12, 13, "a_-12/13"},
		{" x", 12, 13, ""},
	} {
		f := folder{FoldedOptions: FoldedOptions{TID: true, Tidy: true}}
		k := tallyKey{comm: test.comm, pid: test.pid, tid: test.tid}
		if got := f.thread(&tally{tallyKey: k}); got != test.want {
			t.Errorf("%s %d/%d: %q, want %q", test.comm, test.pid, test.tid, got, test.want)
		}
	}
}

// TestBy: keys are callers of all functions in folded stacks and flame graphs, and labels of a
// profile, where fields with few values are labels, too.
func TestBy(t *testing.T) {
	c := counted(t, &StackSet{By: []string{"reason", "skbaddr"}, Fields: true}, "drops.data")
	var b strings.Builder
	if err := c.Folded(&b, FoldedOptions{}); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^reason=NO_SOCKET;skbaddr=0x[0-9a-f]+;drops;.*;sk_skb_reason_drop 3$`)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 2+1 || !want.MatchString(lines[0]) {
		t.Errorf("folded: %q", lines)
	}
	_, data := flameGraphOf(t, c)
	e := data.Events[0]
	if name := data.Names[data.NameOf[e.Frames[1]][0]]; name != "reason=NO_SOCKET" || e.Totals[1] != 5 {
		t.Errorf("the first frame is %s with %d", name, e.Totals[1])
	}
	p := pprofOf(t, c)
	for _, s := range p.Sample {
		if !s.HasLabel("reason", "NO_SOCKET") || !s.HasLabel("location", "__udp4_lib_rcv+0x4bc") ||
			!s.HasLabel("protocol", "IPv4") || s.Label["skbaddr"] == nil || s.Label["len"] != nil {
			t.Errorf("labels %v, %v", s.Label, s.NumLabel)
		}
	}
	if len(p.Sample) != 2 {
		t.Errorf("%d samples", len(p.Sample))
	}
}

// TestTooManyFields: an event whose fields take too many values keeps samples without labels, which
// are counted.
func TestTooManyFields(t *testing.T) {
	known := map[string]bool{}
	for i := range maxGroups {
		known[strconv.Itoa(i)] = true
	}
	c := StackSet{Fields: true, wakers: wakerFrames{}, fieldGroups: map[int32]map[string]bool{0: known},
		unlabeled: map[int32]uint64{}}
	p := pprofOf(t, counted(t, &c, "drops.data"))
	if n := c.Unlabeled()["skb:kfree_skb"]; n != 5 || len(p.Sample) != 1 || p.Sample[0].Label["reason"] != nil {
		t.Errorf("%d samples without labels; %v", n, p.Sample)
	}
}

// TestFoldedWeights: tracepoints count samples, as perf script does not print periods; spans and
// clocks weigh by time.
func TestFoldedWeights(t *testing.T) {
	for _, c := range []struct {
		name  string
		event stackEvent
		want  string
	}{
		{"tracepoint", stackEvent{name: "skb:kfree_skb", tracepoint: true, unit: "count"}, ";a 3\n"},
		{"span", stackEvent{name: "span:syscalls", tracepoint: true, unit: "nanoseconds"}, ";a 1000\n"},
		{"weight", stackEvent{name: "kmem:kmalloc", tracepoint: true, field: "bytes_req", unit: "bytes"}, ";a 1000\n"},
		{"clock", stackEvent{name: "cpu-clock", unit: "nanoseconds"}, ";a 1000\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := &StackSet{MaxStack: 9, Weight: c.event.field, events: []stackEvent{c.event}, tallies: []tally{{
				tallyKey: keyOf(0, "p", false), chain: session.Chain{User: []*session.Frame{frame("prog:a", 0x10)}},
				samples: 3, period: 1000}}}
			set.tallies[0].chained = true
			var b strings.Builder
			if err := set.Folded(&b, FoldedOptions{}); err != nil || !strings.HasSuffix(b.String(), c.want) {
				t.Errorf("%q, %v; want %q", b.String(), err, c.want)
			}
		})
	}
}

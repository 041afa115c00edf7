package tui

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gperf/report/table"
)

// command is the effect of keys on the list.
type command struct {
	keys []key
	help string
	run  func(l *list)
}

// commands returns all commands, in the order of the help.
func commands() []command {
	return []command{
		{[]key{"enter", "right", "m"}, "menu of what can be done with the selected line", openMenu},
		{[]key{"+", "e"}, "expand or collapse the selected line", toggle},
		{[]key{"E"}, "expand all callchains", func(l *list) { openAll(l, true) }},
		{[]key{"C"}, "collapse all callchains", func(l *list) { openAll(l, false) }},
		{[]key{"i"}, "callchains of callers or of callees", invert},
		{[]key{"c"}, "let callers include the samples of their callees, or not", toggleChildren},
		{[]key{"a"}, "code of the function, with its source lines", annotateSelected},
		{[]key{"d"}, "zoom into the DSO", zoomDSO},
		{[]key{"t"}, "zoom into the thread", zoomThread},
		{[]key{"z"}, "zoom into the function: the samples with it on the stack", zoomFunction},
		{[]key{"k"}, "zoom into the kernel", zoomKernel},
		{[]key{"T"}, "zoom into a range of time", chooseTime},
		{[]key{"left", "esc"}, "back from the last zoom or filter", func(l *list) { l.back() }},
		{[]key{"/"}, "show only functions with a text", promptFilter},
		{[]key{"w"}, "show only samples that match an expression: dport == 53", promptWhere},
		{[]key{"f"}, "find a text in the visible lines", promptSearch},
		{[]key{"n"}, "find the next line with the text", func(l *list) { l.find(1) }},
		{[]key{"N"}, "find the previous line with the text", func(l *list) { l.find(-1) }},
		{[]key{"s"}, "choose the sort keys", chooseKeys},
		{[]key{"tab"}, "next event", func(l *list) { nextEvent(l, 1) }},
		{[]key{"backtab"}, "previous event", func(l *list) { nextEvent(l, -1) }},
		{[]key{"F"}, "percentages of all samples, or of those that the zooms select", toggleRelative},
		{[]key{"P"}, "export this view: text, folded stacks, pprof, flame graph", chooseExport},
		{[]key{" "}, "gperf top: freeze the entries, or go on", freeze},
		{[]key{"?", "h"}, "this help", func(l *list) { l.browser.push(newHelp(l.browser)) }},
		{[]key{"q"}, "quit", func(l *list) { l.browser.quit = true }},
	}
}

func (l *list) key(k key) {
	freezes := k == " " && l.browser.live != nil
	if !freezes && l.scroll.key(k, len(l.rows)) {
		return
	}
	for _, c := range commands() {
		if slices.Contains(c.keys, k) {
			c.run(l)
			return
		}
	}
}

func (l *list) mouse(y int, double bool, wheel int) {
	if wheel != 0 {
		l.at += wheel
		l.limit(len(l.rows))
		return
	}
	at := l.first + y - 2
	if y < 2 || at >= len(l.rows) {
		return
	}
	if double {
		toggle(l)
		return
	}
	l.at = at
}

// toggle opens or closes the selected row.
func toggle(l *list) {
	r := l.selectedRow()
	switch {
	case r == nil:
	case r.open:
		r.open = false
	default:
		l.expand(r, false)
		if !r.open {
			l.browser.say(fmt.Sprintf("no callchain has %g %% of the samples below this line", branchLimit))
			if !l.chains {
				l.browser.say("the recording has no callchains: record them with -g")
			}
		}
	}
	l.refresh()
}

// openAll opens all callchains, as they become visible, or closes them.
func openAll(l *list, open bool) {
	l.all = open
	if r := l.selectedRow(); r != nil { // the entry stays selected
		for r.parent != nil {
			r = r.parent
		}
		for _, e := range l.entries {
			e.collapse()
			e.loaded, e.below = false, nil
		}
		l.refresh()
		l.at = slices.Index(l.rows, r)
	}
}

func invert(l *list) {
	if !l.children {
		l.browser.say("callchains of callees need c: callers include the samples of their callees")
		return
	}
	l.callers = !l.callers
	l.show()
	l.browser.say("callchains show " + map[bool]string{true: "callers", false: "callees"}[l.callers])
}

func toggleChildren(l *list) {
	l.children = !l.children
	l.recount()
	l.browser.say(map[bool]string{true: "callers include the samples of their callees",
		false: "each function has only its own samples"}[l.children])
}

func toggleRelative(l *list) {
	l.relative = !l.relative
	l.setBase()
	l.show()
}

func promptFilter(l *list) {
	l.browser.push(newPrompt(l.browser, "show functions with: ", l.text, func(text string) { l.text = text; l.pick() }))
}

// promptWhere reads the recording again, and selects the samples that match an expression.
func promptWhere(l *list) {
	b := l.browser
	switch {
	case b.live != nil:
		b.say("gperf top --filter selects samples from the start")
		return
	case b.opts.Select == nil:
		b.say(readOnce)
		return
	}
	p := newPrompt(b, "show samples where: ", b.opts.Where, func(where string) {
		b.say("reading …")
		choose := b.opts.Select
		b.later(func() func() {
			o, closing, err := choose(strings.TrimSpace(where))
			if err != nil {
				return func() { b.say(err.Error()) }
			}
			return func() { showOthers(l, o, closing) }
		})
	})
	p.atEnter = true
	b.push(p)
}

// showOthers shows other samples. close frees their files.
func showOthers(l *list, o Options, close func()) {
	p := placeOf(l)
	l.browser.replace(o, close)
	l.use(o.Table, nil)
	l.count()
	p.restore(l)
	l.browser.say("")
}

func promptSearch(l *list) {
	start := l.at
	l.browser.push(newPrompt(l.browser, "find: ", "", func(text string) {
		l.search, l.at = text, start
		l.limit(len(l.rows))
		if r := l.selectedRow(); r != nil && !contains(l.rowText(r), text) {
			l.find(1)
		}
	}))
}

// openMenu shows a menu of the actions for the selected row.
func openMenu(l *list) {
	r := l.selectedRow()
	if r == nil {
		return
	}
	m := newMenu(l.browser, "")
	if l.canOpen(r) {
		m.add("Expand or collapse the callchain", func() { toggle(l) })
	}
	if fn := l.function(); fn >= 0 {
		name := l.table.Functions[fn].Name
		m.add("Code of "+name, func() { annotateSelected(l) })
		m.add("Zoom into function "+name, func() { zoomFunction(l) })
	}
	if d := l.dso(); d >= 0 {
		m.add("Zoom into DSO "+l.table.DSOs[d].Short, func() { zoomDSO(l) })
	}
	m.add("Zoom into the thread with most of its samples", func() { zoomThread(l) })
	if l.browser.live == nil {
		m.add("Zoom into a range of time", func() { chooseTime(l) })
	}
	m.add("Choose the sort keys", func() { chooseKeys(l) })
	if len(l.table.Events) > 1 {
		m.add("Choose the event", func() { chooseEvent(l) })
	}
	m.add("Export this view", func() { chooseExport(l) })
	l.browser.push(m)
}

// chooseTime shows the samples over time.
func chooseTime(l *list) {
	if l.browser.live != nil {
		l.browser.say("an interval has no parts: -d sets its length")
		return
	}
	l.browser.push(newTimeline(l))
}

// chooseEvent shows the events.
func chooseEvent(l *list) {
	m := newMenu(l.browser, "Event")
	for i, e := range l.table.Events {
		if sum := l.table.Sum(table.Filter{Event: i}); sum.Samples > 0 {
			m.add(fmt.Sprintf("%s  (%s)", e.Name, plural(int(sum.Samples), "sample")), func() { l.setEvent(i) })
		}
	}
	l.browser.push(m)
}

// setKeys sorts by other keys.
func (l *list) setKeys(keys []string) {
	l.keys, l.at = keys, 0
	l.recount()
}

// usualChoices are sort keys for all events.
var usualChoices = [][]string{{"symbol"}, {"dso", "symbol"}, {"dso"}, {"comm"}, {"comm", "dso"}, {"tid"}, {"cpu"}}

// choices returns the lists of sort keys to choose from.
func (l *counts) choices() [][]string {
	choices := slices.Concat([][]string{l.usual()}, usualChoices, [][]string{{"comm", "dso", "symbol"}})
	for _, field := range l.table.Fields(l.event) {
		choices = append(choices, []string{field})
	}
	return choices
}

// chooseKeys shows the sort keys.
func chooseKeys(l *list) {
	m := newMenu(l.browser, "Sort by")
	var seen []string
	for _, keys := range l.choices() {
		if text := strings.Join(keys, ","); !slices.Contains(seen, text) {
			seen = append(seen, text)
			m.add(text, func() { l.setKeys(keys) })
		}
	}
	l.browser.push(m)
}

// chooseExport shows the formats.
func chooseExport(l *list) {
	m := newMenu(l.browser, "Export this view")
	m.add("text of the visible lines", func() { exportText(l) })
	m.add("folded stacks", func() { exportTo(l, l.browser.opts.Export.Folded, "folded") })
	m.add("profile for go tool pprof", func() { exportTo(l, l.browser.opts.Export.Pprof, "pb.gz") })
	m.add("flame graph, a page for a browser", func() { exportTo(l, l.browser.opts.Export.FlameGraph, "html") })
	l.browser.push(m)
}

const readOnce = "a pipe can be read only once: write it to a file first"

// exportTo writes the view to a file while keys are handled.
func exportTo(l *list, write func(io.Writer, Selection) error, suffix string) {
	switch {
	case write != nil:
	case l.browser.live != nil:
		l.browser.say("only text can be exported here: gperf record makes a recording for the other formats")
		return
	default:
		l.browser.say(readOnce)
		return
	}
	selection := l.selection()
	l.browser.say("writing …")
	l.browser.later(func() func() {
		text, err := writeFile(suffix, func(w io.Writer) error { return write(w, selection) })
		return func() { l.browser.say(result(text, err)) }
	})
}

func result(file string, err error) string {
	if err != nil {
		return err.Error()
	}
	return "wrote " + file
}

// writeFile writes a new file in the current directory, gperf.SUFFIX or gperf-N.SUFFIX, and returns its name.
func writeFile(suffix string, write func(io.Writer) error) (string, error) {
	name := "gperf." + suffix
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	for n := 2; errors.Is(err, fs.ErrExist) && n < 1000; n++ {
		name = fmt.Sprintf("gperf-%d.%s", n, suffix)
		f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	}
	if err != nil {
		return "", err
	}
	w := bufio.NewWriter(f)
	err = cmp.Or(write(w), w.Flush(), f.Close())
	return name, err
}

// exportText writes the visible lines as text, with whole names.
func exportText(l *list) { l.browser.say(result(writeFile("txt", l.writeText))) }

func (l *list) writeText(w io.Writer) error {
	for _, r := range l.rows {
		if r.branch != nil {
			fmt.Fprintf(w, "%s%6s--%s\n", strings.Repeat(" ", 10+2*r.forks()),
				table.FormatPercent(r.branch.Total.Percent(l.base)), l.branchName(r.branch))
			continue
		}
		e := &l.counted.List[r.entry]
		line := fmt.Sprintf("%9s", table.FormatPercent(e.Total.Percent(l.base)))
		if l.children {
			line += fmt.Sprintf("%9s", table.FormatPercent(e.Self.Percent(l.base)))
		}
		for i := range l.counted.Keys {
			line += fmt.Sprintf("  %-*s", min(l.widths[i], 40), strings.TrimSpace(l.counted.Text(e, i)))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"

	"gperf/internal/text"
	"gperf/report/annotate"
	"gperf/report/table"
)

// code is the page with the instructions of a function and their share of its samples.
type code struct {
	browser *Browser
	title   string
	lines   []annotate.Line
	source  bool
	shown   []int // indexes in lines
	hot     []int // instructions with samples, those with most first
	hottest int   // index in hot that n went to
	scroll
}

// annotateSelected shows the code of the selected function.
func annotateSelected(l *list) {
	fn := l.function()
	if fn < 0 {
		l.browser.say("no function is selected: sort by symbol (s)")
		return
	}
	showCode(l, fn)
}

// annotateNamed shows the code of the function of this name with most samples of its own.
func annotateNamed(l *list, name string) {
	best := -1
	for i := range l.counted.List {
		e := &l.counted.List[i]
		if e.Function < 0 || best >= 0 && e.Self.Weight <= l.counted.List[best].Self.Weight {
			continue
		}
		if f := l.table.Functions[e.Function].Name; f == name || strings.HasPrefix(f, name+"(") {
			best = i
		}
	}
	if best < 0 {
		l.browser.say("no samples in " + name)
		return
	}
	showCode(l, l.counted.List[best].Function)
}

func showCode(l *list, fn int32) {
	f := &l.table.Functions[fn]
	if f.Inlined { // its code is in the function of the symbol
		if at := slices.IndexFunc(l.table.Functions, func(o table.Function) bool {
			return !o.Inlined && !o.Unnamed && o.Start == f.Start && o.DSO == f.DSO
		}); at >= 0 {
			fn, f = int32(at), &l.table.Functions[at]
		}
	}
	at := l.table.Count(l.filter()).BySpot(fn)
	var sum table.Sum
	for _, s := range at {
		sum.Add(s)
	}
	lines, err := l.browser.opts.Code(fn, at)
	if err != nil {
		l.browser.say(err.Error())
		return
	}
	c := &code{browser: l.browser, lines: lines, source: true, title: fmt.Sprintf(" %s  %s  %s, %s", f.Name,
		l.table.DSOs[f.DSO].Short, plural(int(sum.Samples), "sample"), table.FormatPercent(sum.Percent(l.base)))}
	for i, line := range lines {
		if line.Samples > 0 {
			c.hot = append(c.hot, i)
		}
	}
	slices.SortStableFunc(c.hot, func(a, b int) int { return cmp.Compare(lines[b].Period, lines[a].Period) })
	c.pick(0)
	c.goTo(0)
	l.browser.push(c)
}

// pick makes the list of visible lines, and selects line at.
func (c *code) pick(at int) {
	c.shown = c.shown[:0]
	for i, line := range c.lines {
		if c.source || !line.Source {
			c.shown = append(c.shown, i)
		}
		if i == at {
			c.at = max(len(c.shown)-1, 0)
		}
	}
}

// goTo selects the n-th hottest instruction.
func (c *code) goTo(n int) {
	if len(c.hot) == 0 {
		c.browser.say("no samples were taken in this function itself: what it called has them")
		return
	}
	c.hottest = (n + len(c.hot)) % len(c.hot)
	c.at = slices.Index(c.shown, c.hot[c.hottest])
	c.first = max(c.at-5, 0)
}

func (c *code) key(k key) {
	switch k {
	case "H":
		c.goTo(0)
	case "n", "tab":
		c.goTo(c.hottest + 1)
	case "N", "backtab":
		c.goTo(c.hottest - 1)
	case "s":
		at := 0
		if len(c.shown) > 0 {
			at = c.shown[c.at]
		}
		c.source = !c.source
		c.pick(at)
	case "?", "h":
		c.browser.push(newHelp(c.browser))
	case "q", "esc", "left":
		c.browser.pop()
	default:
		c.scroll.key(k, len(c.shown))
	}
}

func (c *code) mouse(y int, _ bool, wheel int) {
	switch at := c.first + y - 1; {
	case wheel != 0:
		c.at += wheel
	case y >= 1 && at < len(c.shown):
		c.at = at
	}
	c.limit(len(c.shown))
}

func (c *code) draw(cv *canvas) {
	cv.line(0, bars, text.Function(c.title, cv.width))
	room := max(cv.height-2, 1)
	c.fit(room, len(c.shown), 0)
	for y := 0; y < room && c.first+y < len(c.shown); y++ {
		line, selected := &c.lines[c.shown[c.first+y]], c.first+y == c.at
		style := normal.Reverse(selected)
		if selected {
			cv.line(1+y, style, "")
		}
		if line.Source {
			cv.put(12, 1+y, cv.tint(style.Dim(!selected), tcell.ColorTeal), line.Text)
			continue
		}
		x := cv.put(0, 1+y, cv.percent(line.Percent, selected), heat(line.Percent, line.Samples > 0))
		cv.put(x, 1+y, style, " │ "+line.Text)
	}
	cv.line(cv.height-1, bars, c.footer())
}

// heat returns the text of an instruction's share.
func heat(percent float64, sampled bool) string {
	if !sampled {
		return strings.Repeat(" ", 9)
	}
	return fmt.Sprintf("%9s", table.FormatPercent(percent))
}

func (c *code) footer() string {
	if c.browser.status != "" {
		return " " + c.browser.status
	}
	text := " "
	if len(c.shown) > 0 {
		if place := c.place(); place != "" {
			text += place + "  "
		}
	}
	return text + "H: hottest  n: next hottest  s: source  Esc: back  ?: help"
}

// place returns the source line of the selected line, or of the instruction after it.
func (c *code) place() string {
	for _, line := range c.lines[c.shown[c.at]:] {
		if !line.Source {
			return line.Place
		}
	}
	return ""
}

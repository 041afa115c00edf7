package tui

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"

	"gperf/report/table"
)

// timeline is the page where a range of time is chosen: the samples over time, in as many intervals as columns.
type timeline struct {
	list     *list
	from, to uint64 // of the whole page, in ns
	sums     []table.Sum
	cursor   int
	mark     int // where the range begins, -1 before that
}

func newTimeline(l *list) *timeline {
	t := &timeline{list: l, mark: -1, cursor: -1}
	t.from, t.to = l.table.Span()
	f := l.filter()
	t.from = max(t.from, f.From)
	if f.To > 0 {
		t.to = min(t.to, f.To)
	}
	width, _ := l.browser.screen.Size()
	t.measure(max(width, 1))
	return t
}

// measure counts the samples of the intervals, if their number is another one.
func (t *timeline) measure(n int) {
	if len(t.sums) == n {
		return
	}
	old := len(t.sums)
	t.sums = t.list.table.Buckets(t.list.filter(), t.from, t.to, n)
	if old > 0 { // the window has another size
		t.cursor = t.cursor * n / old
		t.mark = max(t.mark*n/old, min(t.mark, 0))
		return
	}
	for i, s := range t.sums { // the interval with most samples
		if t.cursor < 0 || s.Weight > t.sums[t.cursor].Weight {
			t.cursor = i
		}
	}
}

func (t *timeline) key(k key) {
	n := max(len(t.sums), 1)
	switch k {
	case "left":
		t.cursor--
	case "right":
		t.cursor++
	case "pgup":
		t.cursor -= max(n/10, 1)
	case "pgdn":
		t.cursor += max(n/10, 1)
	case "home":
		t.cursor = 0
	case "end":
		t.cursor = n - 1
	case "enter", " ":
		t.choose()
	case "?", "h":
		t.list.browser.push(newHelp(t.list.browser))
	case "esc", "q":
		t.list.browser.pop()
	}
	t.cursor = max(min(t.cursor, n-1), 0)
}

// choose sets the begin of the range, and then its end.
func (t *timeline) choose() {
	if t.mark < 0 {
		t.mark = t.cursor
		return
	}
	first, last := t.marked()
	from, to := t.span(first, last)
	t.list.browser.pop()
	t.list.zoomTo(zoom{label: fmt.Sprintf("%s-%s", t.clock(from), t.clock(to)), from: from, to: to})
}

// marked returns the first and the last interval of the range.
func (t *timeline) marked() (first, last int) {
	if t.mark < 0 {
		return t.cursor, t.cursor
	}
	return min(t.mark, t.cursor), max(t.mark, t.cursor)
}

// at returns when interval i begins.
func (t *timeline) at(i int) uint64 {
	return t.from + uint64(float64(i)*(float64(t.to-t.from)+1)/float64(len(t.sums)))
}

// span returns the times of the first and the last ns of intervals.
func (t *timeline) span(first, last int) (from, to uint64) {
	from = t.at(first)
	return from, max(t.at(last+1), from+1) - 1
}

// clock returns a time since the begin of the recording.
func (t *timeline) clock(ns uint64) string {
	begin, _ := t.list.table.Span()
	return fmt.Sprintf("%.3fs", float64(ns-begin)/1e9)
}

func (t *timeline) mouse(_ int, _ bool, wheel int) {
	t.cursor = max(min(t.cursor+wheel, len(t.sums)-1), 0)
	if wheel == 0 {
		t.cursor = max(min(t.list.browser.click.x, len(t.sums)-1), 0)
		t.choose()
	}
}

var levels = []rune(" ▁▂▃▄▅▆▇█")

func (t *timeline) draw(c *canvas) {
	t.measure(max(c.width, 1))
	event := &t.list.table.Events[t.list.event]
	c.line(0, bars, fmt.Sprintf(" Samples of '%s' from %s to %s", event.Name, t.clock(t.from),
		t.clock(t.to)))
	most := uint64(1)
	for _, s := range t.sums {
		most = max(most, s.Weight)
	}
	height := max(c.height-4, 1)
	first, last := t.marked()
	for x, s := range t.sums {
		style := normal
		if x >= first && x <= last {
			style = c.tint(bars, tcell.ColorTeal)
		}
		eighths := int(float64(s.Weight) / float64(most) * float64(8*height))
		if s.Weight > 0 {
			eighths = max(eighths, 1)
		}
		for y := range height {
			level := max(min(eighths-8*(height-1-y), 8), 0)
			c.screen.SetContent(x, 1+y, levels[level], nil, style)
		}
	}
	c.put(0, c.height-3, normal, strings.Repeat("─", c.width))
	from, to := t.span(first, last)
	var sum table.Sum
	for _, s := range t.sums[first : last+1] {
		sum.Add(s)
	}
	c.put(1, c.height-2, normal, fmt.Sprintf("%s to %s: %s, %s", t.clock(from), t.clock(to),
		plural(int(sum.Samples), "sample"), table.FormatPercent(sum.Percent(t.list.base))))
	what := "begin"
	if t.mark >= 0 {
		what = "end"
	}
	c.line(c.height-1, bars, " Left, Right: move  Enter: "+what+" of the range  Esc: back")
}

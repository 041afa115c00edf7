package tui

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"

	"gperf/internal/text"
	"gperf/report/table"
)

// drawing is a list while it is drawn.
type drawing struct {
	list *list
	c    *canvas
	bar  int   // width of the bars, in columns
	keys []int // widths of the keys' columns
}

// newDrawing fits the columns to the screen.
func newDrawing(l *list, c *canvas) *drawing {
	d := &drawing{list: l, c: c, bar: 6, keys: append([]int(nil), l.widths...)}
	if c.width >= 120 {
		d.bar = 12
	}
	minimums := make([]int, len(d.keys))
	room := c.width - d.figures() - 2*len(d.keys)
	for i, key := range l.counted.Keys {
		minimums[i] = min(d.keys[i], 7)
		if key == table.KeySymbol {
			minimums[i] = min(d.keys[i], room*3/5)
		}
	}
	text.Fit(d.keys, minimums, room)
	return d
}

// figures returns how many columns the mark, the bar and the percentages take.
func (d *drawing) figures() int {
	n := 2 + d.bar + 9
	if d.list.children {
		n += 9
	}
	if d.list.browser.live != nil {
		n += rateWidth
	}
	return n
}

func (l *list) draw(c *canvas) { newDrawing(l, c).draw() }

func (d *drawing) draw() {
	l, c := d.list, d.c
	c.line(0, bars, d.title())
	d.drawHead()
	room := max(c.height-3, 1)
	detail := d.detail(room)
	l.fit(room, len(l.rows), len(detail))
	l.fill(room)
	detail = d.detail(room)
	l.fit(room, len(l.rows), len(detail))
	y := 2
	for i := l.first; i < len(l.rows) && y < 2+room; i++ {
		d.drawRow(y, l.rows[i], i == l.at)
		y++
		for _, text := range detail {
			if i == l.at && y < 2+room {
				c.line(y, c.tint(normal, tcell.ColorTeal), "      "+text)
				y++
			}
		}
	}
	if len(l.rows) == 0 {
		c.put(2, 3, normal, d.nothing())
	}
	d.drawFooter()
}

// title returns the first line.
func (d *drawing) title() string {
	l := d.list
	if live := l.browser.live; live != nil {
		return live.title(l)
	}
	e := &l.table.Events[l.event]
	title := fmt.Sprintf(" Samples: %d of event '%s', Event count (approx.): %d", l.counted.All.Samples, e.Name,
		l.counted.All.Weight)
	if where := l.browser.opts.Where; where != "" {
		title += ", where " + where
	}
	return title
}

// nothing says why there are no entries.
func (d *drawing) nothing() string {
	l := d.list
	if l.browser.live != nil && l.counted.All.Samples == 0 && len(l.zooms) == 0 {
		return "no events"
	}
	if where := l.browser.opts.Where; where != "" && l.counted.All.Samples == 0 && len(l.zooms) == 0 {
		return "no samples where " + where + ": w changes this"
	}
	return "no entries: Esc goes back"
}

func (d *drawing) drawHead() {
	l := d.list
	shown := strings.Repeat(" ", 2+d.bar)
	if live := l.browser.live; live != nil {
		shown += live.head(l)
	}
	if l.children {
		shown += "Children     Self"
	} else {
		shown += "Overhead"
	}
	for i, key := range l.counted.Keys {
		shown += fmt.Sprintf("  %-*s", d.keys[i], text.Middle(head(key), d.keys[i]))
	}
	d.c.line(1, bold, shown)
}

// detail returns the whole name of the selected row in lines, if the row shows only a part of it.
func (d *drawing) detail(room int) (lines []string) {
	l, c := d.list, d.c
	r := l.selectedRow()
	if r == nil {
		return nil
	}
	name, shown := "", 0
	if r.branch != nil {
		name = l.branchName(r.branch)
		shown = c.width - d.branchColumn(r) - len("12.34%--")
	} else if n := len(l.counted.Keys); n > 0 {
		last := l.counted.Text(&l.counted.List[r.entry], n-1)
		name, shown = last, d.keys[n-1]
	}
	runes := []rune(name)
	if len(runes) <= shown {
		return nil
	}
	for width := max(c.width-8, 16); len(runes) > 0 && len(lines) < max(room/2, 1); {
		n := min(width, len(runes))
		lines, runes = append(lines, string(runes[:n])), runes[n:]
	}
	return lines
}

// branchColumn returns the column of a branch's percentage.
func (d *drawing) branchColumn(r *row) int {
	return min(4+2*r.forks(), 4+2*20)
}

// forks counts the forks on the way to a branch: frames of one callchain are not indented.
func (r *row) forks() (n int) {
	for p := r.parent; p != nil; p = p.parent {
		if len(p.below) > 1 || p.branch == nil {
			n++
		}
	}
	return n
}

func (d *drawing) drawRow(y int, r *row, selected bool) {
	l, c := d.list, d.c
	style := normal.Reverse(selected)
	if selected {
		c.line(y, style, "")
	}
	mark := "  "
	switch {
	case r.open:
		mark = "- "
	case l.canOpen(r):
		mark = "+ "
	}
	if r.branch != nil {
		d.drawBranch(y, r, style, selected, mark)
		return
	}
	e := &l.counted.List[r.entry]
	x := c.put(0, y, style, mark)
	total, self := e.Total.Percent(l.base), e.Self.Percent(l.base)
	x = c.put(x, y, c.percent(total, selected), bar(total, d.bar))
	if live := l.browser.live; live != nil {
		x = c.put(x, y, style, live.rate(l, e))
	}
	x = c.put(x, y, c.percent(total, selected), fmt.Sprintf("%9s", table.FormatPercent(total)))
	if l.children {
		x = c.put(x, y, c.percent(self, selected), fmt.Sprintf("%9s", table.FormatPercent(self)))
	}
	for i, key := range l.counted.Keys {
		shown := strings.TrimSpace(l.counted.Text(e, i))
		if key == table.KeySymbol {
			shown = text.Function(shown, d.keys[i])
		} else {
			shown = text.Middle(shown, d.keys[i])
		}
		c.put(x+2, y, style, shown)
		x += 2 + d.keys[i]
	}
}

func (d *drawing) drawBranch(y int, r *row, style tcell.Style, selected bool, mark string) {
	l, c := d.list, d.c
	x := d.branchColumn(r)
	c.put(x-2, y, style, mark)
	percent := r.branch.Total.Percent(l.base)
	if p := r.parent; p.branch != nil && len(p.below) == 1 && p.branch.Total == r.branch.Total {
		x = c.put(x, y, style, "        ") // the same callchain goes on
	} else {
		x = c.put(x, y, c.percent(percent, selected), fmt.Sprintf("%6s", table.FormatPercent(percent)))
		x = c.put(x, y, style, "--")
	}
	c.put(x, y, style, text.Function(l.branchName(r.branch), c.width-x))
}

// drawFooter draws the last line: the effect of the last key, or the zooms, or the most important keys.
func (d *drawing) drawFooter() {
	l, c := d.list, d.c
	var parts []string
	for _, z := range l.zooms {
		parts = append(parts, z.label)
	}
	if l.text != "" {
		parts = append(parts, "with "+l.text)
	}
	text := " "
	if len(parts) > 0 {
		text = " " + strings.Join(parts, " > ") + "  (Esc: back)  "
	}
	if l.relative {
		text += "relative  "
	}
	if l.browser.status != "" {
		text = " " + l.browser.status
	} else {
		last := "T: time"
		if l.browser.live != nil {
			last = "Space: freeze"
		}
		text += "?: help  Enter: menu  +: open  a: code  /: filter  s: sort  " + last + "  q: quit"
	}
	c.line(c.height-1, bars, text)
}

package browse

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"

	"gperf/internal/look"
	"gperf/report/samples"
)

// columns are the widths of the list on a screen.
type columns struct {
	bar  int
	keys []int
}

// columns fits the columns to the screen.
func (l *list) columns(width int) columns {
	c := columns{bar: 6, keys: append([]int(nil), l.widths...)}
	if width >= 120 {
		c.bar = 12
	}
	minimums := make([]int, len(c.keys))
	room := width - l.figures(c.bar) - 2*len(c.keys)
	for i, key := range l.counted.Keys {
		minimums[i] = min(c.keys[i], 7)
		if key == samples.KeySymbol {
			minimums[i] = min(c.keys[i], room*3/5)
		}
	}
	look.Fit(c.keys, minimums, room)
	return c
}

// figures returns how many columns the mark, the bar and the percentages take.
func (l *list) figures(bar int) int {
	if l.children {
		return 2 + bar + 18
	}
	return 2 + bar + 9
}

func (l *list) draw(c *canvas) {
	c.line(0, bars, l.title())
	cols := l.columns(c.width)
	l.drawHead(c, cols)
	room := max(c.height-3, 1)
	detail := l.detail(c, cols, room)
	l.fit(room, len(l.rows), len(detail))
	l.fill(room)
	detail = l.detail(c, cols, room)
	l.fit(room, len(l.rows), len(detail))
	y := 2
	for i := l.first; i < len(l.rows) && y < 2+room; i++ {
		l.drawRow(c, y, cols, l.rows[i], i == l.at)
		y++
		for _, text := range detail {
			if i == l.at && y < 2+room {
				c.line(y, c.tint(normal, tcell.ColorTeal), "      "+text)
				y++
			}
		}
	}
	if len(l.rows) == 0 {
		c.put(2, 3, normal, "no entries: Esc goes back")
	}
	l.drawFooter(c)
}

// title returns the first line.
func (l *list) title() string {
	e := &l.table.Events[l.event]
	return fmt.Sprintf(" Samples: %d of event '%s', Event count (approx.): %d", l.counted.All.Samples, e.Name,
		l.counted.All.Weight)
}

func (l *list) drawHead(c *canvas, cols columns) {
	text := strings.Repeat(" ", 2+cols.bar) + "Overhead"
	if l.children {
		text = strings.Repeat(" ", 2+cols.bar) + "Children     Self"
	}
	for i, key := range l.counted.Keys {
		text += fmt.Sprintf("  %-*s", cols.keys[i], look.Middle(head(key), cols.keys[i]))
	}
	c.line(1, bold, text)
}

// detail returns the whole name of the selected row in lines, if the row shows only a part of it.
func (l *list) detail(c *canvas, cols columns, room int) (lines []string) {
	r := l.selectedRow()
	if r == nil {
		return nil
	}
	name, shown := "", 0
	if r.branch != nil {
		name = l.branchName(r.branch)
		shown = c.width - l.branchColumn(cols, r) - len("12.34%--")
	} else if n := len(l.counted.Keys); n > 0 {
		last := l.counted.Text(&l.counted.List[r.entry], n-1)
		name, shown = last, cols.keys[n-1]
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
func (l *list) branchColumn(cols columns, r *row) int {
	return min(4+2*l.forks(r), 4+2*20)
}

// forks counts the forks on the way to a branch: frames of one callchain are not indented.
func (l *list) forks(r *row) (n int) {
	for p := r.parent; p != nil; p = p.parent {
		if len(p.below) > 1 || p.branch == nil {
			n++
		}
	}
	return n
}

func (l *list) drawRow(c *canvas, y int, cols columns, r *row, selected bool) {
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
		l.drawBranch(c, y, cols, r, style, selected, mark)
		return
	}
	e := &l.counted.List[r.entry]
	x := c.put(0, y, style, mark)
	total, self := e.Total.Percent(l.base), e.Self.Percent(l.base)
	x = c.put(x, y, c.percent(total, selected), bar(total, cols.bar))
	x = c.put(x, y, c.percent(total, selected), fmt.Sprintf("%9s", samples.FormatPercent(total)))
	if l.children {
		x = c.put(x, y, c.percent(self, selected), fmt.Sprintf("%9s", samples.FormatPercent(self)))
	}
	for i, key := range l.counted.Keys {
		text := strings.TrimSpace(l.counted.Text(e, i))
		if key == samples.KeySymbol {
			text = look.Function(text, cols.keys[i])
		} else {
			text = look.Middle(text, cols.keys[i])
		}
		c.put(x+2, y, style, text)
		x += 2 + cols.keys[i]
	}
}

func (l *list) drawBranch(c *canvas, y int, cols columns, r *row, style tcell.Style, selected bool, mark string) {
	x := l.branchColumn(cols, r)
	c.put(x-2, y, style, mark)
	percent := r.branch.Total.Percent(l.base)
	if p := r.parent; p.branch != nil && len(p.below) == 1 && p.branch.Total == r.branch.Total {
		x = c.put(x, y, style, "        ") // the same callchain goes on
	} else {
		x = c.put(x, y, c.percent(percent, selected), fmt.Sprintf("%6s", samples.FormatPercent(percent)))
		x = c.put(x, y, style, "--")
	}
	c.put(x, y, style, look.Function(l.branchName(r.branch), c.width-x))
}

// drawFooter draws the last line: what the last key did, or the zooms, or the most important keys.
func (l *list) drawFooter(c *canvas) {
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
	if l.status != "" {
		text = " " + l.status
	} else {
		text += "?: help  Enter: menu  +: open  a: code  /: filter  s: sort  T: time  q: quit"
	}
	c.line(c.height-1, bars, text)
}

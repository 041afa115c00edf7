package tui

import (
	"fmt"
	"strings"
)

// drawText is a page with lines to read.
type drawText struct {
	browser *Browser
	title   string
	lines   []string
	scroll
}

func (t *drawText) key(k key) {
	switch k {
	case "up":
		t.first--
	case "down", "enter":
		t.first++
	case "pgup":
		t.first -= t.room
	case "pgdn", " ":
		t.first += t.room
	case "home":
		t.first = 0
	case "end":
		t.first = len(t.lines)
	case "esc", "q", "left", "?", "h":
		t.browser.pop()
	}
}

func (t *drawText) mouse(_ int, _ bool, wheel int) { t.first += wheel }

func (t *drawText) draw(c *canvas) {
	t.room = max(c.height-2, 1)
	t.first = max(min(t.first, len(t.lines)-t.room), 0)
	c.line(0, bars, " "+t.title)
	for i, line := range t.lines[t.first:min(t.first+t.room, len(t.lines))] {
		c.put(1, 1+i, normal, line)
	}
	c.line(c.height-1, bars, " Esc: back")
}

// newHelp returns the page with the keys.
func newHelp(b *Browser) *drawText {
	t := &drawText{browser: b, title: "Keys"}
	for _, c := range commands() {
		var names []string
		for _, k := range c.keys {
			names = append(names, keyLabel(k))
		}
		t.lines = append(t.lines, fmt.Sprintf("%-16s %s", strings.Join(names, " "), c.help))
	}
	t.lines = append(t.lines, "", "Arrows, PgUp, PgDn, Home and End move. A click selects a line, a second one",
		"expands it, the wheel scrolls.", "", "In the code of a function:", "H                the hottest instruction",
		"n  N             the next or previous one by its samples", "s                with source lines, or without",
		"Esc q            back", "", "In the time line:", "Left Right       move",
		"Enter            begin and end of the range", "Esc q            back")
	return t
}

// keyLabel returns the name of a key as it is printed on keyboards.
func keyLabel(k key) string {
	switch k {
	case "enter", "tab", "esc", "left", "right":
		return strings.ToUpper(string(k[:1])) + string(k[1:])
	case " ":
		return "Space"
	case "backtab":
		return "Shift-Tab"
	}
	return string(k)
}

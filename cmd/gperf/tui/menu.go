package tui

import (
	"strings"

	"gperf/internal/text"
)

// menu is a page with choices, above another one.
type menu struct {
	browser *Browser
	title   string
	items   []item
	scroll
	y int // of the first choice on the screen
}

type item struct {
	text string
	run  func()
}

func newMenu(b *Browser, title string) *menu { return &menu{browser: b, title: title} }

func (m *menu) add(text string, run func()) { m.items = append(m.items, item{text, run}) }

func (m *menu) key(k key) {
	switch {
	case m.scroll.key(k, len(m.items)):
	case k == "enter", k == "right":
		m.browser.pop()
		m.items[m.at].run()
	case k == "esc", k == "left", k == "q":
		m.browser.pop()
	default: // a character selects the next choice that begins with it
		for i := 1; i <= len(m.items); i++ {
			at := (m.at + i) % len(m.items)
			if strings.HasPrefix(strings.ToLower(m.items[at].text), strings.ToLower(string(k))) {
				m.at = at
				return
			}
		}
	}
}

func (m *menu) mouse(y int, double bool, wheel int) {
	switch at := m.first + y - m.y; {
	case wheel != 0:
		m.at += wheel
		m.limit(len(m.items))
	case y < m.y || at >= len(m.items):
		m.browser.pop()
	default:
		m.at = at
		m.key("enter")
	}
}

func (m *menu) draw(c *canvas) {
	const keys = "Enter: choose  Esc: close"
	width := max(len(m.title), len(keys))
	for _, it := range m.items {
		width = max(width, len([]rune(it.text)))
	}
	width = min(width, c.width-6)
	room := min(len(m.items), c.height-5)
	m.fit(room, len(m.items), 0)
	x, y := (c.width-width-4)/2, max((c.height-room-2)/2, 0)
	m.y = y + 1
	edge := func(y int, title string) {
		at := c.put(x, y, bars, " "+title)
		c.put(at, y, bars, strings.Repeat(" ", max(x+width+4-at, 0)))
	}
	edge(y, m.title)
	for i := range room {
		at, style := m.first+i, normal
		mark := "  "
		if at == m.at {
			style, mark = bars, "> "
		}
		shown := text.Middle(m.items[at].text, width)
		end := c.put(x, m.y+i, style, mark+shown)
		c.put(end, m.y+i, style, strings.Repeat(" ", max(x+width+4-end, 0)))
	}
	edge(m.y+room, keys)
}

package tui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gperf/report/top"
)

// topView is the state of the screen, which keys change.
type topView struct {
	block    *top.Block // nil: none yet
	latest   *top.Block // that replaces block when the user continues
	frozen   bool
	selected int    // row, counted over all tables
	name     string // of the selected row, which may be another one in the next block; "" after a key
	open     bool   // the selected row's callchains are shown
	filter   string // rows with this text are shown
	typing   bool   // keys go to the filter
	first    int    // first line shown, below the summary
	scrolled bool   // keys have chosen first
	room     int    // lines for tables on the screen
}

const (
	keyHelp    = "q quit  up/down select  enter stacks  space freeze  / filter"
	scrollHelp = "  pgup/pgdn scroll"
)

// show replaces the block, unless the view is frozen.
func (v *topView) show(b *top.Block) {
	if v.latest = b; !v.frozen {
		v.block = b
	}
}

// key handles a key, one of those that keyName returns. It reports whether the user quits.
func (v *topView) key(k string) (quit bool) {
	if v.typing {
		v.typeKey(k)
		return k == "ctrl-c"
	}
	switch k {
	case "q", "ctrl-c":
		return true
	case "up", "k":
		v.move(-1)
	case "down", "j":
		v.move(1)
	case "pageup":
		v.page(-1)
	case "pagedown":
		v.page(1)
	case "home":
		v.move(-v.selected)
	case "enter":
		v.open, v.scrolled = !v.open, false
	case " ", "f":
		if v.frozen = !v.frozen; !v.frozen {
			v.block = v.latest
		}
	case "/":
		v.typing = true
	case "esc":
		v.filter, v.open = "", false
	}
	return false
}

// move selects another row. body limits it.
func (v *topView) move(rows int) {
	v.selected, v.name, v.scrolled = max(v.selected+rows, 0), "", false
}

// page scrolls by a page: open callchains may be longer than the screen. Otherwise it moves the selection.
func (v *topView) page(step int) {
	if !v.open {
		v.move(20 * step)
		return
	}
	v.first, v.scrolled = v.first+step*max(v.room-1, 1), true // lines limits it
}

// typeKey changes the filter.
func (v *topView) typeKey(k string) {
	switch {
	case k == "enter":
		v.typing = false
	case k == "esc":
		v.typing, v.filter = false, ""
	case k == "backspace":
		if r := []rune(v.filter); len(r) > 0 {
			v.filter = string(r[:len(r)-1])
		}
	case len([]rune(k)) == 1:
		v.filter += k
	}
}

// pick selects rows by the filter.
func (v *topView) pick() func(string) bool {
	if v.filter == "" {
		return nil
	}
	return func(text string) bool { return strings.Contains(text, v.filter) }
}

// maxRows limits the rows of a table, whose texts are made for each drawing.
const maxRows = 1000

// line is a line of the screen.
type line struct {
	text     string
	selected bool
}

// lines returns the screen's lines: the summary, as many as fit of the tables, and the keys.
func (v *topView) lines(height int) []line {
	list := []line{{text: "waiting for samples"}}
	if v.block != nil {
		list[0].text = "gperf top  " + v.block.Summary()
	}
	if v.frozen {
		list[0].text += "  FROZEN"
	}
	body, at := v.body()
	room := max(height-2, 1)
	v.room = room
	switch {
	case v.scrolled:
	case at < v.first:
		v.first = at
	case at >= v.first+room:
		v.first = at - room + 1
	}
	v.first = max(min(v.first, len(body)-room), 0)
	list = append(list, body[v.first:min(v.first+room, len(body))]...)
	for len(list) < height-1 {
		list = append(list, line{})
	}
	footer := v.footer()
	if v.open && len(body) > room {
		footer = fmt.Sprintf("lines %d-%d of %d", v.first+1, min(v.first+room, len(body)), len(body)) + scrollHelp +
			"  " + footer
	}
	return append(list, line{text: footer})
}

// body returns the lines of all tables, and the position of the selected row.
func (v *topView) body() (body []line, at int) {
	if v.block == nil {
		return nil, 0
	}
	tables := v.block.Tables(maxRows, v.pick())
	rows := 0
	for _, t := range tables {
		for i := range t.Rows {
			if v.name != "" && t.Rows[i].Name == v.name {
				v.selected = rows + i
			}
		}
		rows += len(t.Rows)
	}
	v.selected = max(min(v.selected, rows-1), 0)
	n := 0
	for _, t := range tables {
		body = append(body, line{text: t.Title}, line{text: t.Head})
		for i := range t.Rows {
			selected := n == v.selected
			n++
			body = append(body, line{t.Rows[i].Text, selected})
			if !selected {
				continue
			}
			at, v.name = len(body)-1, t.Rows[i].Name
			if v.open {
				body = append(body, graph(&t.Rows[i])...)
			}
		}
		if len(t.Rows) == 0 && v.filter != "" {
			body = append(body, line{text: "    no row contains " + v.filter})
		}
		if t.More > 0 {
			body = append(body, line{text: fmt.Sprintf("and %d more", t.More)})
		}
	}
	return body, at
}

func graph(r *top.Row) (l []line) {
	for _, text := range r.Graph() {
		l = append(l, line{text: text})
	}
	if l == nil {
		l = append(l, line{text: "    no callchains: record them with -g"})
	}
	return l
}

func (v *topView) footer() string {
	switch {
	case v.typing:
		return "filter: " + v.filter + "_"
	case v.filter != "":
		return "filter: " + v.filter + " (esc: none)  " + keyHelp
	}
	return keyHelp
}

// fit cuts a text to width columns, with a mark, and replaces control characters and invalid UTF-8: recordings are
// untrusted.
func fit(text string, width int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == width-1 && len([]rune(text)) > width {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(r) || r == utf8.RuneError {
			r = '?'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

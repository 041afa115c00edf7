// Package tui shows the entries of gperf report, annotate and top on a terminal: keys and the mouse expand, zoom,
// filter, freeze and export them.
package tui

import (
	"fmt"
	"io"
	"time"

	"github.com/gdamore/tcell/v2"

	"gperf/report/annotate"
	"gperf/report/table"
)

// Options are the first view of a Browser, and the parts of the recording that it needs.
type Options struct {
	Path     string // of the recording
	Where    string // the expression that selects the samples, "" if all are shown
	Table    *table.Table
	Keys     []string            // of the entries; nil: by the event
	Usual    map[string][]string // keys by the name of the event, if Keys is nil: see report.EventKeys
	Children bool                // callers include the samples of callees, if there are callchains
	Limit    float64             // entries and branches below this percentage are omitted
	Filter   table.Filter
	Search   string // entries whose functions have this text
	Color    bool
	Function string // shows the code of this function first; "" shows the entries

	// Code returns the lines of a function; Export writes the selected samples. Both are of Table.
	Code   func(function int32, at map[table.Spot]table.Sum) ([]annotate.Line, error)
	Export Exports
	// Select returns the options of the samples that match an expression of --filter, in any goroutine. close frees the
	// files that their Code reads. It is nil where samples are read only once.
	Select func(where string) (o Options, close func(), err error)
}

// Exports write samples in formats of gperf report --format, in any goroutine.
type Exports struct {
	Folded, Pprof, FlameGraph func(w io.Writer, keep Selection) error
}

// Selection is the samples of a view.
type Selection struct {
	Where    string // the expression that they match
	Event    string
	From, To uint64          // ns, both included; To 0: without an end
	Threads  map[Thread]bool // nil: all
	DSO      string          // short name of the sampled function's, "" for any
	Function string          // on the stack, "" for any
}

// Thread is a thread with one of its names.
type Thread struct {
	PID, TID int32
	Comm     string
}

// Browser is an interactive view on a screen.
type Browser struct {
	screen tcell.Screen
	opts   Options
	pages  []page
	close  func() // frees the files of the samples that were selected last; nil: none were
	status string // the result of the last key
	quit   bool
	live   *live    // of gperf top, nil for others
	click  struct { // the last one
		at   time.Time
		x, y int
	}
	buttons tcell.ButtonMask // that are down
}

// page is a part of the view that gets the keys while it is the last one.
type page interface {
	draw(c *canvas)
	key(k key)
	// mouse handles a click on a line of the canvas, a second one soon after, or the wheel by so many lines.
	mouse(y int, double bool, wheel int)
}

// New returns a browser on an initialized screen.
func New(screen tcell.Screen, opts Options) *Browser {
	b := &Browser{screen: screen, opts: opts}
	for r, fallback := range map[rune]string{'█': "#", '▌': "+", '…': "~", '▁': ".", '▂': ".", '▃': ":", '▄': ":",
		'▅': "|", '▆': "|", '▇': "#", '│': "|", '─': "-"} {
		screen.RegisterRuneFallback(r, fallback)
	}
	screen.EnableMouse(tcell.MouseButtonEvents)
	e := newEntries(b)
	b.pages = []page{e}
	if opts.Function != "" {
		annotateNamed(e, opts.Function)
	}
	return b
}

// Run shows the view until the user quits.
func (b *Browser) Run() {
	defer func() { b.replace(b.opts, nil) }()
	b.draw()
	if b.live == nil {
		go prepare(b.entries().counter)
	}
	for !b.quit {
		event := b.screen.PollEvent()
		if event == nil {
			return
		}
		b.handle(event)
		if b.screen.HasPendingEvent() { // of a key that repeats faster than it is drawn
			continue
		}
		b.advance()
		b.draw()
	}
}

// prepare computes the indexes for other sort keys, so that their entries are shown at once.
func prepare(counter *table.Counter) {
	for _, keys := range usualChoices {
		counter.Prepare(keys)
	}
}

// handle changes the state by an event.
func (b *Browser) handle(event tcell.Event) {
	switch e := event.(type) {
	case *tcell.EventResize:
		b.screen.Sync()
	case *tcell.EventKey:
		k := keyOf(e)
		if k == "ctrl-c" {
			b.quit = true
			return
		}
		b.status = ""
		b.top().key(k)
	case *tcell.EventMouse:
		b.mouse(e)
	case *tcell.EventInterrupt:
		if f, ok := e.Data().(func()); ok {
			f()
		}
	}
}

func (b *Browser) mouse(e *tcell.EventMouse) {
	const doubleClick = 400 * time.Millisecond
	x, y := e.Position()
	before := b.buttons
	b.buttons = e.Buttons() & tcell.Button1
	switch {
	case e.Buttons()&tcell.WheelUp != 0:
		b.top().mouse(y, false, -3)
	case e.Buttons()&tcell.WheelDown != 0:
		b.top().mouse(y, false, 3)
	case b.buttons != 0 && before == 0:
		double := e.When().Sub(b.click.at) < doubleClick && y == b.click.y
		b.click.at, b.click.x, b.click.y = e.When(), x, y
		if double {
			b.click.at = time.Time{}
		}
		b.status = ""
		b.top().mouse(y, double, 0)
	}
}

// replace makes other samples the ones that are shown. close frees their files.
func (b *Browser) replace(o Options, close func()) {
	if b.close != nil {
		b.close()
	}
	b.opts, b.close = o, close
}

func (b *Browser) top() page       { return b.pages[len(b.pages)-1] }
func (b *Browser) push(p page)     { b.pages = append(b.pages, p) }
func (b *Browser) entries() *list  { return b.pages[0].(*list) }
func (b *Browser) say(text string) { b.status = text }

// pop removes the last page; the first one quits.
func (b *Browser) pop() {
	if len(b.pages) == 1 {
		b.quit = true
		return
	}
	b.pages = b.pages[:len(b.pages)-1]
}

// draw draws the last page that fills the screen, and those above it.
func (b *Browser) draw() {
	b.screen.Clear()
	b.screen.HideCursor()
	first := len(b.pages) - 1
	for first > 0 && floats(b.pages[first]) {
		first--
	}
	for _, p := range b.pages[first:] {
		p.draw(newCanvas(b.screen, b.opts.Color))
	}
	b.screen.Show()
}

// floats reports whether a page leaves a part of the one below visible.
func floats(p page) bool {
	switch p.(type) {
	case *menu, *prompt:
		return true
	}
	return false
}

// later runs f in a goroutine, and then, where keys are handled, the function that f returns.
func (b *Browser) later(f func() func()) {
	go func() {
		e := tcell.NewEventInterrupt(f())
		for b.screen.PostEvent(e) != nil { // until there is room among keys that are not handled yet
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

// key is a key: a character, or a name.
type key string

var keyNames = map[tcell.Key]key{tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left",
	tcell.KeyRight: "right", tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn", tcell.KeyHome: "home",
	tcell.KeyEnd: "end", tcell.KeyEnter: "enter",
	tcell.KeyEsc: "esc", tcell.KeyTab: "tab", tcell.KeyBacktab: "backtab", tcell.KeyBackspace: "backspace",
	tcell.KeyBackspace2: "backspace",
	tcell.KeyCtrlC:      "ctrl-c", tcell.KeyF1: "?", tcell.KeyCtrlF: "f"}

func keyOf(e *tcell.EventKey) key {
	if e.Key() == tcell.KeyRune {
		return key(e.Rune())
	}
	return keyNames[e.Key()]
}

// scroll is a list of lines with a selected line and a visible window.
type scroll struct {
	at, first int
	room      int // lines of the window, once it was drawn
}

// key moves the selection. It reports whether it knows the key.
func (s *scroll) key(k key, n int) bool {
	switch k {
	case "up":
		s.at--
	case "down":
		s.at++
	case "pgup":
		s.at -= max(s.room-1, 1)
	case "pgdn", " ":
		s.at += max(s.room-1, 1)
	case "home":
		s.at = 0
	case "end":
		s.at = n - 1
	default:
		return false
	}
	s.limit(n)
	return true
}

func (s *scroll) limit(n int) { s.at = max(min(s.at, n-1), 0) }

// fit moves the window so that it shows the selected line and the lines after it that belong to it.
func (s *scroll) fit(room, n, extra int) {
	s.room = room
	s.limit(n)
	s.first = max(min(s.first, s.at, n-1), 0)
	s.first = max(s.first, s.at+1+extra-room)
}

func plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

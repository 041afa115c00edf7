package cli

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Progress reports the progress of slow steps on stderr: in one updated line on a
// terminal, otherwise in one line per step of Report and in none of the others.
type Progress struct {
	prefix   string
	w        io.Writer
	terminal *Terminal // w, or nil if it is not a terminal
	quiet    bool

	mu    sync.Mutex
	steps map[string]*step
	last  time.Time // when a line was shown
	files []string  // that are being read
	read  int       // files that were
}

// step is a step in progress.
type step struct {
	start time.Time
	shown bool
}

// NewProgress returns one whose lines begin with prefix and writes to w. quiet makes it silent.
func NewProgress(prefix string, w io.Writer, quiet bool) *Progress {
	p := &Progress{prefix: prefix, w: w, quiet: quiet, steps: map[string]*step{}}
	if runtime.GOOS != "windows" || !IsDumb() { // consoles may show control sequences as text
		p.terminal, _ = w.(*Terminal)
	}
	return p
}

// A step is reported after quietFor, and then every Interval.
const (
	quietFor = time.Second
	Interval = 100 * time.Millisecond
)

// Report shows that n of so many parts of a step are done.
func (p *Progress) Report(name string, n, of int) {
	if p.terminal != nil {
		p.show(name, func(time.Duration) string { return fmt.Sprintf("%s: %d of %d", name, n, of) })
		return
	}
	p.mu.Lock()
	shown := p.step(name).shown
	p.mu.Unlock()
	if !shown {
		p.show(name, func(time.Duration) string {
			return fmt.Sprintf("%s takes a while: %d of %d so far", name, n, of)
		})
	}
}

// Bytes shows on a terminal that n of so many bytes of a step are done; of is 0 if that is unknown.
func (p *Progress) Bytes(name string, n, of int64) {
	if p.terminal == nil {
		return
	}
	p.show(name, func(since time.Duration) string { return bar(name, n, of, since) })
}

// bar returns the text of a step's progress: the share, bytes, rate and the time left.
func bar(name string, n, of int64, since time.Duration) string {
	const width = 20
	rate := float64(n) / max(since.Seconds(), 1e-3)
	if of <= 0 || n > of {
		return fmt.Sprintf("%s: %.1f MB, %.1f MB/s", name, float64(n)/1e6, rate/1e6)
	}
	done := int(width * n / of)
	left := math.Ceil(float64(of-n) / max(rate, 1))
	return fmt.Sprintf("%s [%s%s] %d%%, %.0f of %.0f MB, %.1f MB/s, %v left", name, strings.Repeat("=", done),
		strings.Repeat(" ", width-done), 100*n/of, float64(n)/1e6, float64(of)/1e6, rate/1e6,
		time.Duration(min(left, 1e6))*time.Second)
}

// Reading shows on a terminal that a file with symbols is being read, until the caller calls done. Several may be read
// at a time.
func (p *Progress) Reading(name string) (done func()) {
	if p.terminal == nil || p.quiet {
		return func() {}
	}
	const symbols = "reading symbols"
	p.mu.Lock()
	p.files = append(p.files, name)
	p.mu.Unlock()
	text := func(time.Duration) string {
		if len(p.files) == 0 {
			return fmt.Sprintf("%s: %d files", symbols, p.read)
		}
		return fmt.Sprintf("%s of %s, %d files so far", symbols, p.files[len(p.files)-1], p.read)
	}
	p.show(symbols, text)
	timer := time.AfterFunc(quietFor, func() { p.show(symbols, text) })
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.read++
		for i, f := range p.files {
			if f == name {
				p.files = append(p.files[:i], p.files[i+1:]...)
				break
			}
		}
	}
}

// Step shows on a terminal that a step goes on, until the caller calls done.
func (p *Progress) Step(name string) (done func()) {
	if p.terminal == nil {
		return func() {}
	}
	text := func(since time.Duration) string { return fmt.Sprintf("%s: %d s", name, since/time.Second) }
	p.show(name, text)
	ticker, ended := time.NewTicker(quietFor), make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				p.show(name, text)
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(ended)
		p.Done(name)
	}
}

// Line shows text on a terminal, in place of the progress of steps, until End.
func (p *Progress) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal == nil || p.quiet {
		return
	}
	p.step("").shown = true
	p.terminal.Overwrite(fmt.Sprintf("%s: %s", p.prefix, text))
}

// Stop removes the line, and shows none from now on: something else fills the terminal.
func (p *Progress) Stop() {
	p.End()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = true
}

// step returns a step, which begins now if it is new.
func (p *Progress) step(name string) *step {
	s := p.steps[name]
	if s == nil {
		s = &step{start: time.Now()}
		p.steps[name] = s
	}
	return s
}

// show prints the text of a step, at most once per Interval.
func (p *Progress) show(name string, text func(since time.Duration) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := p.step(name), time.Now()
	since := now.Sub(s.start)
	if p.quiet || since < quietFor || now.Sub(p.last) < Interval {
		return
	}
	p.last, s.shown = now, true
	if p.terminal != nil {
		p.terminal.Overwrite(fmt.Sprintf("%s: %s", p.prefix, text(since)))
	} else {
		fmt.Fprintf(p.w, "%s: %s\n", p.prefix, text(since))
	}
}

// Done ends a step: the next one of this name begins again.
func (p *Progress) Done(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.steps[name]; s != nil && s.shown && p.terminal != nil {
		p.terminal.Overwrite("")
	}
	delete(p.steps, name)
}

// End removes the line from the terminal. The steps may begin again.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal != nil {
		for _, s := range p.steps {
			if s.shown {
				p.terminal.Overwrite("")
				break
			}
		}
	}
	clear(p.steps)
}

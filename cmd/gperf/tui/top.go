// This file draws the blocks of package top. Keys select a row, show its callchains, filter, freeze and quit.

package tui

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gperf/report/top"
)

// Screen is a terminal that shows a view.
type Screen struct {
	in, out *os.File
	saved   *unix.Termios // of in
	quit    func()

	mu     sync.Mutex
	view   topView
	closed bool
}

// Control sequences of ECMA-48 and xterm.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
	reverse     = "\x1b[7m"
	plain       = "\x1b[0m"
)

// Open takes over a terminal until Close. quit is called once the user quits. Ctrl-C still
// makes a signal.
func Open(in, out *os.File, quit func()) (*Screen, error) {
	saved, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("reading the terminal's settings: %w", err)
	}
	raw := *saved
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("setting the terminal: %w", err)
	}
	s := &Screen{in: in, out: out, saved: saved, quit: quit}
	out.WriteString(enterScreen)
	s.draw()
	go s.readKeys()
	return s, nil
}

// Close gives the terminal back. It may be called several times.
func (s *Screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.out.WriteString(leaveScreen)
	unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.saved)
}

// Show draws a block.
func (s *Screen) Show(b *top.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.show(b)
	s.draw()
	return nil
}

// draw draws the view, except after Close.
func (s *Screen) draw() {
	if s.closed {
		return
	}
	width, height := 80, 24
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		width, height = int(size.Col), int(size.Row)
	}
	var b strings.Builder
	b.WriteString(home)
	for i, l := range s.view.lines(height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		text := fit(l.text, width)
		if l.selected {
			text = reverse + text + plain
		}
		b.WriteString(text + clearLine)
	}
	s.out.WriteString(b.String() + clearBelow)
}

// readKeys handles keys until the user quits, or the terminal is gone.
func (s *Screen) readKeys() {
	var b [64]byte
	for {
		n, err := s.in.Read(b[:])
		if err != nil {
			s.quit()
			return
		}
		for _, k := range topKeyNames(string(b[:n])) {
			if s.key(k) {
				s.quit()
				return
			}
		}
	}
}

func (s *Screen) key(k string) (quit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	quit = s.view.key(k)
	s.draw()
	return quit
}

// sequences are the bytes that terminals send for keys without a character.
var sequences = []struct{ bytes, key string }{
	{"\x1b[A", "up"}, {"\x1bOA", "up"}, {"\x1b[B", "down"}, {"\x1bOB", "down"},
	{"\x1b[5~", "pageup"}, {"\x1b[6~", "pagedown"}, {"\x1b[H", "home"},
	{"\r", "enter"}, {"\n", "enter"}, {"\x7f", "backspace"}, {"\b", "backspace"}, {"\x03", "ctrl-c"},
}

// topKeyNames splits the terminal's input into keys: names, or single characters.
func topKeyNames(input string) (keys []string) {
next:
	for input != "" {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(input, s.bytes); ok {
				keys, input = append(keys, s.key), rest
				continue next
			}
		}
		if input[0] == '\x1b' {
			return append(keys, "esc") // with the rest of an unknown sequence
		}
		r, n := utf8.DecodeRuneInString(input)
		keys, input = append(keys, string(r)), input[n:]
	}
	return keys
}

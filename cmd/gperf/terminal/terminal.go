// Package terminal answers "what may be sent to a terminal?": it recognizes terminals, and escapes control
// characters.
package terminal

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Terminal is an output to a terminal. Recordings are untrusted input: it escapes control
// characters in names of commands and files as cat -v does, ESC as ^[.
type Terminal struct {
	File *os.File
	mu   sync.Mutex
	rest []byte // an incomplete character at the end of the last Write
}

// Output returns a writer to f, which is a terminal if f is one.
func Output(f *os.File) io.Writer {
	if Is(f) {
		return &Terminal{File: f}
	}
	return f
}

// Write writes all of p except an incomplete character at its end, which the next Write
// completes.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, rest := EscapeControls(nil, append(t.rest, p...))
	t.rest = append(t.rest[:0], rest...)
	if _, err := t.File.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// EscapeControls appends text to b and escapes its control characters, except newlines and
// tabs. rest is an incomplete character at the end of text.
func EscapeControls(b, text []byte) (escaped, rest []byte) {
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			return b, text
		}
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			r = rune(text[0]) // a terminal without UTF-8 interprets the byte itself
		}
		switch {
		case r == '\n' || r == '\t':
			b = append(b, byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '^', byte(r)^0x40)
		case r >= 0x80 && r < 0xa0:
			b = append(b, "M-^"...)
			b = append(b, byte(r)^0xc0)
		default:
			b = append(b, text[:n]...)
		}
		text = text[n:]
	}
	return b, nil
}

// Overwrite writes text over the current line.
func (t *Terminal) Overwrite(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, _ := EscapeControls([]byte{'\r'}, []byte(text))
	t.File.Write(append(line, "\x1b[K"...))
}

// Is reports whether a file is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

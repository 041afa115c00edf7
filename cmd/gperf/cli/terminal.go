// This file recognizes terminals, escapes control characters, sends long output through a pager, and shows the
// progress of slow steps.

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"gperf/internal/text"
)

// Terminal is an output to a terminal. Recordings are untrusted input: it escapes control
// characters in names of commands and files as cat -v does, ESC as ^[.
type Terminal struct {
	File *os.File

	device *device
	starts bool   // output starts the pager
	rest   []byte // an incomplete character at the end of the last Write
}

// device is the part that the outputs of a process to a terminal share.
type device struct {
	mu    sync.Mutex
	pager *pager   // nil: none
	line  *os.File // that shows a line of progress; nil: none does
	open  bool     // the last line of output is not ended yet
}

// Output returns a writer to f, which is a terminal if f is one.
func Output(f *os.File) io.Writer { return output(f, new(device)) }

// Outputs returns writers to standard output and error: output to one of them erases the progress that the other one
// shows, and standard error uses the pager of standard output.
func Outputs(stdout, stderr *os.File) (io.Writer, io.Writer) {
	shared := new(device)
	return output(stdout, shared), output(stderr, shared)
}

func output(f *os.File, d *device) io.Writer {
	if IsTerminal(f) {
		return &Terminal{File: f, device: d}
	}
	return f
}

// Write writes all of p except an incomplete character at the end, which the next Write
// completes.
func (t *Terminal) Write(p []byte) (int, error) {
	t.device.mu.Lock()
	defer t.device.mu.Unlock()
	text, rest := EscapeControls(nil, append(t.rest, p...))
	t.rest = append(t.rest[:0], rest...)
	if t.device.line != nil {
		t.device.line.WriteString("\r" + clearLine)
		t.device.line = nil
	}
	if t.device.pager != nil && t.starts {
		t.device.pager.start(t.File)
	}
	var err error
	if t.device.pager.runs() {
		err = t.device.pager.write(text)
	} else {
		_, err = t.File.Write(text)
	}
	if err != nil {
		return 0, err
	}
	if len(p) > 0 {
		t.device.open = p[len(p)-1] != '\n'
	}
	return len(p), nil
}

// EscapeControls appends text to b and escapes control characters, except newlines,
// tabs and the colours of package text. rest is an incomplete character at the end of text.
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
		case r == '\x1b' && color(text) > 0:
			n = color(text)
			b = append(b, text[:n]...)
		case r == '\x1b' && beginsColor(text):
			return b, text
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

// color returns the length of the colour that text begins with, 0 if it begins with none. A name in a recording may
// contain one: it changes only colours, until the next one.
func color(line []byte) int {
	for _, c := range text.Colors {
		if bytes.HasPrefix(line, []byte(c)) {
			return len(c)
		}
	}
	return 0
}

// beginsColor reports whether text is the beginning of a colour.
func beginsColor(line []byte) bool {
	return slices.ContainsFunc(text.Colors, func(c string) bool {
		return len(line) < len(c) && string(line) == c[:len(line)]
	})
}

// clearLine erases the line from the cursor on (ECMA-48).
const clearLine = "\x1b[K"

// Overwrite writes text over the current line, cropped to the terminal's width. It writes nothing within a line of
// output, and while the pager runs.
func (t *Terminal) Overwrite(str string) {
	t.device.mu.Lock()
	defer t.device.mu.Unlock()
	if t.device.pager.runs() || t.device.open {
		return
	}
	line, _ := EscapeControls(nil, []byte(str))
	if width, _ := t.Size(); width > 0 {
		line = []byte(text.Middle(string(line), width-1))
	}
	t.device.line = nil
	if str != "" {
		t.device.line = t.File
	}
	fmt.Fprintf(t.File, "\r%s%s", line, clearLine)
}

// Size returns the size of the window in columns and lines, 0 if it is unknown.
func (t *Terminal) Size() (width, height int) {
	width, height, _ = term.GetSize(int(t.File.Fd()))
	return width, height
}

// IsDumb reports whether the user's terminal knows no control sequences (TERM is "dumb" or empty).
func IsDumb() bool { return os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" }

// StyleOf returns how to write text to an output, with colours as mode says: always, never or auto. auto is a terminal
// with colours, unless NO_COLOR is set (https://no-color.org).
func StyleOf(out io.Writer, mode string) (text.Style, error) {
	t, ok := out.(*Terminal)
	l := text.Style{Color: ok && !IsDumb() && os.Getenv("NO_COLOR") == ""}
	if ok {
		l.Width, _ = t.Size()
	}
	switch mode {
	case "auto":
	case "always", "never":
		l.Color = mode == "always"
	default:
		return l, fmt.Errorf("%q is not auto, always or never", mode)
	}
	return l, nil
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

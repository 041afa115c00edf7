package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"gperf/cmd/gperf/terminal"
)

// pseudoTerminal returns both ends of one.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestTerminalGetsNoControls: control characters of names are escaped on a terminal
// alone.
func TestTerminalGetsNoControls(t *testing.T) {
	const (
		clear = "\x1b[2J\x9b31m"
		shown = "^[[2JM-^[31m"
	)
	r := &recorder{attrs: 1}
	r.comm(100, "evil"+clear)
	r.mmap(100, 0x10000000, 0x1000, "/nowhere/"+clear)
	r.sampleAt(miscUser, 100, 0x10000000, contextUser, 0x10000000)
	file := r.save(t)
	for _, command := range []string{"script", "report --stdio", "report --format folded", "script -D"} {
		args := append(strings.Fields(command), "-i", file)
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "evil"+clear) {
			t.Errorf("gperf %s, into a file: exit code %d:\n%s", command, code, &stdout)
		}
		master, slave := pseudoTerminal(t)
		seen := make(chan string)
		go func() {
			b, _ := io.ReadAll(master) // ends with EIO when slave is closed
			seen <- string(b)
		}()
		out := terminal.Output(slave)
		run(args, out, out)
		slave.Close()
		text := <-seen
		if !strings.Contains(text, "evil"+shown) {
			t.Errorf("gperf %s, to a terminal:\n%q", command, text)
		}
		for _, c := range text {
			if unicode.IsControl(c) && !strings.ContainsRune("\r\n\t", c) || c == unicode.ReplacementChar {
				t.Errorf("gperf %s sends %U to a terminal", command, c)
			}
		}
	}
}

func TestEscapeControls(t *testing.T) {
	for _, test := range []struct{ text, want, rest string }{
		{"plain\n\ttext", "plain\n\ttext", ""},
		{"\x00\x1b\x7f\r", "^@^[^?^M", ""},
		{"\u009b31m", "M-^[31m", ""},
		{"\x9b31m", "M-^[31m", ""},
		{"naïve “ＡＢ” Ã", "naïve “ＡＢ” Ã", ""},
		{"half \xe2\x80", "half ", "\xe2\x80"},
		{"no UTF-8: \xff\xe9.", "no UTF-8: \xff\xe9.", ""},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, rest := terminal.EscapeControls(nil, []byte(test.text))
			if string(got) != test.want || string(rest) != test.rest {
				t.Errorf("%q: %q and %q, want %q and %q", test.text, got, rest, test.want, test.rest)
			}
		})
	}
}

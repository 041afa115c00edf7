package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"gperf/cmd/gperf/cli"
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
	t.Setenv("GPERF_PAGER", "cat")
	t.Setenv("NO_COLOR", "1")
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
		out := cli.Output(slave)
		run(args, out, out)
		slave.Close()
		text := <-seen
		if !strings.Contains(text, "evil"+shown) {
			t.Errorf("gperf %s, to a terminal:\n%q", command, text)
		}
		noControls(t, command, text)
	}
}

// noControls fails if a command sends control characters to a terminal, or invalid UTF-8.
func noControls(t *testing.T, command, text string) {
	t.Helper()
	for i, c := range text {
		if unicode.IsControl(c) && !strings.ContainsRune("\r\n\t", c) || c == unicode.ReplacementChar {
			t.Errorf("gperf %s sends %U to a terminal: %q", command, c, text[max(0, i-50):min(i+50, len(text))])
			return
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
			got, rest := cli.EscapeControls(nil, []byte(test.text))
			if string(got) != test.want || string(rest) != test.rest {
				t.Errorf("%q: %q and %q, want %q and %q", test.text, got, rest, test.want, test.rest)
			}
		})
	}
}

// onTerminal runs a command whose standard output and error are a terminal of this size, and returns its output
// and its exit code.
func onTerminal(t *testing.T, columns, lines uint16, args ...string) (string, int) {
	t.Helper()
	master, slave := pseudoTerminal(t)
	size := unix.Winsize{Col: columns, Row: lines}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with EIO when slave is closed
		seen <- string(b)
	}()
	stdout, stderr := cli.Outputs(slave, slave)
	code := run(args, stdout, stderr)
	slave.Close()
	return strings.ReplaceAll(<-seen, "\r\n", "\n"), code
}

// wideFile writes a recording whose only function has a wide name.
func wideFile(t *testing.T) (file, name string) {
	t.Helper()
	const pid = 4_000_123
	name = "Walker<std::map<std::string, std::vector<std::pair<int, float> > > >::go(std::vector<int>&, int) const"
	if err := os.WriteFile("/tmp/perf-4000123.map", []byte("10000000 1000 "+name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove("/tmp/perf-4000123.map") })
	r := &recorder{attrs: 1}
	r.comm(pid, "wide")
	r.mmap(pid, 0x10000000, 0x1000, "//anon")
	r.sampleAt(miscUser, pid, 0x10000000, contextUser, 0x10000000)
	return r.save(t), name
}

// TestTerminalLook: a terminal gets colours and cropped names, a file neither.
func TestTerminalLook(t *testing.T) {
	file, name := wideFile(t)
	const red = "\x1b[31m 100.00%\x1b[m"
	t.Setenv("GPERF_PAGER", "cat")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	args := []string{"report", "--stdio", "--no-children", "-g", "none", "-i", file}
	text, _ := onTerminal(t, 80, 24, args...)
	if want := "Walker<…>::go(…) const"; !strings.Contains(text, red) || !strings.Contains(text, want) {
		t.Errorf("a terminal of 80 columns gets no %q or no %q:\n%q", red, want, text)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.NewReplacer("\x1b[31m", "", "\x1b[m", "", "\n", "").Replace(line))); n > 80 &&
			!strings.HasPrefix(line, "# To") && !strings.HasPrefix(line, "# (Tip") {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	text, _ = onTerminal(t, 200, 24, args...)
	if !strings.Contains(text, name) {
		t.Errorf("a terminal of 200 columns gets no %s:\n%q", name, text)
	}
	plain, _ := gperf(t, args...)
	if strings.Contains(plain, "\x1b") || !strings.Contains(plain, name) {
		t.Errorf("a file gets\n%q", plain)
	}
	colored, _ := gperf(t, append(args, "--stdio-color")...)
	if strings.NewReplacer("\x1b[31m", "", "\x1b[m", "").Replace(colored) != plain || !strings.Contains(colored, red) {
		t.Errorf("with --stdio-color, a file gets\n%q", colored)
	}
	for _, env := range [][2]string{{"NO_COLOR", "1"}, {"TERM", "dumb"}} {
		t.Run(env[0], func(t *testing.T) {
			t.Setenv(env[0], env[1])
			text, _ := onTerminal(t, 80, 24, args...)
			if strings.Contains(text, "\x1b") || !strings.Contains(text, "100.00%") {
				t.Errorf("%s=%s: %q", env[0], env[1], text)
			}
		})
	}
}

// TestPager: output goes through the pager, and errors before it do not.
func TestPager(t *testing.T) {
	file, _ := wideFile(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("PAGER", "sed s/^/unused:/")
	t.Setenv("GPERF_PAGER", "sed s/^/paged:/")
	report := []string{"report", "--stdio", "-i", file}
	for _, c := range []struct {
		name  string
		args  []string
		pager string
		paged bool
		code  int
	}{
		{"output", report, "sed s/^/paged:/", true, exitOK},
		{"empty", report, "", false, exitOK},
		{"cat", report, "cat", false, exitOK},
		{"missing program", report, "no-such-pager -x", false, exitOK},
		{"--no-pager", append([]string{"--no-pager"}, report...), "sed s/^/paged:/", false, exitOK},
		{"report --no-pager", append(report, "--no-pager"), "sed s/^/paged:/", false, exitOK},
		{"error", []string{"report", "--stdio", "-i", "/nowhere.data"}, "sed s/^/paged:/", false, exitError},
		{"top", []string{"top", "--stdio", "-i", file}, "sed s/^/paged:/", false, exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GPERF_PAGER", c.pager)
			text, code := onTerminal(t, 80, 24, c.args...)
			if strings.Contains(text, "paged:") != c.paged || code != c.code || strings.Contains(text, "unused:") {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, text)
			}
		})
	}
	t.Run("dumb terminal", func(t *testing.T) {
		t.Setenv("TERM", "dumb")
		if text, _ := onTerminal(t, 80, 24, report...); strings.Contains(text, "paged:") {
			t.Errorf("a dumb terminal gets a pager:\n%s", text)
		}
	})
	t.Run("quit early", func(t *testing.T) {
		t.Setenv("GPERF_PAGER", "head -n 1")
		r := &recorder{attrs: 1}
		r.comm(100, "long")
		for range 5000 { // more than a pipe holds
			r.sampleAt(miscUser, 100, 0x10000000, contextUser, 0x10000000)
		}
		text, code := onTerminal(t, 80, 24, "script", "-i", r.save(t))
		if code != 141 || strings.Count(text, "\n") > 2 {
			t.Errorf("exit code %d, want 141, as SIGPIPE ends a program:\n%s", code, text)
		}
	})
}

// TestProgressOfReading: a terminal shows the progress of slow reading, and erases it; a file gets none.
func TestProgressOfReading(t *testing.T) {
	p, slave := pseudoTerminal(t)
	_, stderr := cli.Outputs(slave, slave)
	bar := cli.NewProgress("gperf", stderr, false)
	for n := range int64(13) {
		bar.Bytes("reading perf.data", n*10e6, 200e6)
		time.Sleep(100 * time.Millisecond)
	}
	stderr.Write([]byte("done\n"))
	slave.Close()
	b, _ := io.ReadAll(p)
	const want = "\rgperf: reading perf.data [="
	if text := string(b); !strings.Contains(text, want) || !strings.Contains(text, " of 200 MB, ") ||
		!strings.HasSuffix(text, "\r\x1b[Kdone\r\n") {
		t.Errorf("%q, want one with %q", text, want)
	}
	var file bytes.Buffer
	bar = cli.NewProgress("gperf", &file, false)
	bar.Bytes("reading perf.data", 1, 2)
	time.Sleep(1100 * time.Millisecond)
	bar.Bytes("reading perf.data", 2, 2)
	bar.Reading("libc.so.6")()
	if bar.End(); file.Len() > 0 {
		t.Errorf("a file gets %q", &file)
	}
}

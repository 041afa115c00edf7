package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tmuxPane is a terminal in which gperf runs.
type tmuxPane struct {
	t           *testing.T
	dir, socket string // the directory is the program's
}

// needProgram skips a test if a program is not installed.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed: %v", name, err)
	}
}

// inTmux runs gperf on a terminal of this size, in a new directory.
func inTmux(t *testing.T, width, height int, args string, env ...string) *tmuxPane {
	t.Helper()
	needProgram(t, "tmux")
	p := &tmuxPane{t, t.TempDir(), filepath.Join(t.TempDir(), "tmux")}
	command := fmt.Sprintf("env %s='%s' %s '%s'; echo exit code $?; cat", commandEnv, args, strings.Join(env, " "),
		os.Args[0])
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", p.dir,
		command)
	t.Cleanup(func() { exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	return p
}

func (p *tmuxPane) tmux(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *tmuxPane) keys(keys ...string) { p.tmux(append([]string{"send-keys"}, keys...)...) }

// wait waits until the terminal shows a text that matches.
func (p *tmuxPane) wait(want string) string {
	p.t.Helper()
	match, text := regexp.MustCompile(want), ""
	for end := time.Now().Add(patience(time.Minute)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text = p.tmux("capture-pane", "-p"); match.MatchString(text) {
			return text
		}
	}
	p.t.Fatalf("the terminal does not show %s:\n%s", want, text)
	return ""
}

// browsedFile writes a recording of three threads, with samples in two functions of a program.
func browsedFile(t *testing.T) string {
	t.Helper()
	path := mixProgram.Path(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	const start = 0x10000000
	at := map[string]uint64{}
	for _, s := range symbols {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				at[s.Name] = start + s.Value - p.Vaddr + p.Off
			}
		}
	}
	hot, caller := at["mix"]+4, at["main"]+4
	r := &recorder{attrs: 1}
	for pid := uint32(100); pid < 103; pid++ {
		r.comm(pid, fmt.Sprint("worker", pid))
		r.mmap(pid, start, 1<<20, path)
	}
	for i := range 60 {
		pid := uint32(100 + min(i%6, 2))
		r.time += 20e6
		r.sampleAt(miscUser, pid, hot, contextUser, hot, caller)
		if i%3 == 0 {
			r.sampleAt(miscUser, pid, caller, contextUser, caller)
		}
	}
	return r.save(t)
}

// TestTerminalView does ten tasks with at most six keys each, in terminals of two sizes.
func TestTerminalView(t *testing.T) {
	file := browsedFile(t)
	const hot, caller = `mix$`, `main`
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		for _, task := range []struct {
			name string
			keys []string
			want string // on the screen after the keys
		}{
			{"the hottest function", []string{"c"}, `(?m)^\+ +█+▌? +50\.00%.*` + hot},
			{"its callers", []string{"c", "+"}, `50\.00%--` + caller},
			{"its source line", []string{"c", "a"}, `mix\.c:\d+ .*H: hottest`},
			{"its thread", []string{"c", "t"}, `thread worker102:102 .*Esc`},
			{"a range of time", []string{"T", "Home", "Enter", "PPage", "NPage", "Enter"}, `0\.000s-\d\.\d+s .*Esc`},
			{"another sort key", []string{"s", "Down", "Enter"}, `(?m)Self  Symbol`},
			{"functions with a name", []string{"/", "m", "i", "x", "Enter"}, `with mix .*Esc`},
			{"the entries of its DSO", []string{"c", "d"}, `dso .* .*Esc`},
			{"the threads", []string{"s", "Down", "Down", "Down", "Down", "Enter"}, `worker10[012]`},
			{"back from a zoom", []string{"t", "Escape"}, `worker101`},
			{"an export", []string{"P", "Down", "Enter"}, `wrote gperf\.folded`},
			{"the help", []string{"?"}, `zoom into the DSO`},
		} {
			t.Run(fmt.Sprintf("%dx%d %s", size[0], size[1], task.name), func(t *testing.T) {
				p := inTmux(t, size[0], size[1], "report -i "+file)
				p.wait(`\?: help`)
				keys := task.keys
				if last := len(keys) - 1; keys[last] == "Escape" { // with the next key it would be another key
					p.keys(keys[:last]...)
					p.wait(`thread worker102:102 .*Esc`)
					keys = keys[last:]
				}
				if p.keys(keys...); len(task.keys) > 6 {
					t.Errorf("%d keys", len(task.keys))
				}
				text := p.wait(task.want)
				if lines := strings.Split(text, "\n"); len(lines[0]) == 0 {
					t.Errorf("the first line is empty:\n%s", text)
				}
				p.keys("C-c")
				p.wait(`exit code 0`)
			})
		}
	}
}

// TestTerminalFilter: the view shows the samples that --filter selects, and exports them.
func TestTerminalFilter(t *testing.T) {
	p := inTmux(t, 100, 30, "report --filter tid==101 -i "+browsedFile(t))
	p.wait(`Samples: 10 of event .*, where tid==101(?s:.*)worker101(?s:.*)\?: help`)
	p.keys("P", "Down", "Enter")
	p.wait(`wrote gperf\.folded`)
	p.keys("q")
	p.wait(`exit code 0`)
	b, err := os.ReadFile(filepath.Join(p.dir, "gperf.folded"))
	if err != nil || string(b) != "cpu-clock;worker101;main;mix 10\n" {
		t.Errorf("%v: %s", err, b)
	}
}

// TestTerminalAnnotate: gperf annotate shows the code of a function in the same view.
func TestTerminalAnnotate(t *testing.T) {
	p := inTmux(t, 100, 30, "annotate mix -i "+browsedFile(t))
	p.wait(`mix .*60 samples`)
	p.keys("q")
	p.wait(`Overhead`)
	p.keys("q")
	p.wait(`exit code 0`)
}

// TestTerminalPlain: where the view cannot be, or is not wanted, text is printed.
func TestTerminalPlain(t *testing.T) {
	file := browsedFile(t)
	for _, c := range []struct {
		name, args string
		env        []string
		want       string
	}{
		{"--stdio", "report --stdio --no-pager -i " + file, nil, `Total Lost Samples(?s:.*)exit code 0`},
		{"a dumb terminal", "report -i " + file, []string{"TERM=dumb"}, `Total Lost Samples(?s:.*)exit code 0`},
		{"a flag for text", "report --no-pager --stats -i " + file, nil, `SAMPLE events(?s:.*)exit code 0`},
		{"--tui on a dumb terminal", "report --tui -i " + file, []string{"TERM=dumb"}, `--tui: .*(?s:.*)exit code 2`},
		{"--tui with text", "report --tui --stats -i " + file, nil, `--stats prints text(?s:.*)exit code 2`},
	} {
		t.Run(c.name, func(t *testing.T) { inTmux(t, 100, 50, c.args, c.env...).wait(c.want) })
	}
}

// TestTerminalPager: less shows long reports, and if it ends early, so does gperf.
func TestTerminalPager(t *testing.T) {
	needProgram(t, "less")
	r := &recorder{attrs: 1}
	r.comm(100, "long")
	for range 20000 { // more than a pipe holds
		r.sampleAt(miscUser, 100, 0x10000000, contextUser, 0x10000000)
	}
	p := inTmux(t, 100, 30, "script -i "+r.save(t))
	p.wait(`(?m)^:`)
	p.keys("q")
	p.wait(`exit code 141`)
}

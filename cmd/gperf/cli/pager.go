package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
)

// pager is a program that shows output by pages. It starts at the first output, so that errors before it appear
// without one.
type pager struct {
	command string // for the shell
	cmd     *exec.Cmd
	in      *os.File // nil: it does not run
	signals chan os.Signal
	status  atomic.Int32 // exit code, if the output is not complete; 0: it is
}

// lessFlags make less quit if the text fits the screen, keep colours, chop long lines, and keep the screen as it is.
const lessFlags = "FRSX"

// PagerCommand returns the user's pager, as a command for sh.
func PagerCommand() string {
	command := "less"
	for _, name := range []string{"PAGER", "GPERF_PAGER"} {
		if value, ok := os.LookupEnv(name); ok {
			command = value
		}
	}
	return command
}

// UsePager sends output from now on through the user's pager: GPERF_PAGER, PAGER or less. It does nothing if out is no
// terminal or a dumb one, or if there is no pager.
func UsePager(out io.Writer) {
	t, ok := out.(*Terminal)
	if !ok || IsDumb() {
		return
	}
	command := PagerCommand()
	words := strings.Fields(command)
	if len(words) == 0 || command == "cat" {
		return
	}
	if _, err := exec.LookPath(words[0]); err != nil && !strings.ContainsAny(command, "=;&|'\"$") {
		return
	}
	t.device.pager, t.starts = &pager{command: command}, true
}

// NoPager writes output to the terminal itself from now on.
func NoPager(out io.Writer) {
	if t, ok := out.(*Terminal); ok && !t.device.pager.runs() {
		t.device.pager = nil
	}
}

func (p *pager) runs() bool { return p != nil && p.cmd != nil }

// start starts the program. If that fails, output goes to the terminal.
func (p *pager) start(terminal *os.File) {
	if p.runs() || p.command == "" {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", p.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, terminal, os.Stderr
	cmd.Env = os.Environ()
	for name, value := range map[string]string{"LESS": lessFlags, "LV": "-c"} {
		if _, set := os.LookupEnv(name); !set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if err := cmd.Start(); err != nil {
		w.Close()
		p.command = ""
		return
	}
	p.cmd, p.in = cmd, w
	// A pager handles Ctrl-C itself: gperf waits for it, or it would read the terminal together with the shell.
	p.signals = make(chan os.Signal, 1)
	signal.Notify(p.signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if s, ok := <-p.signals; ok {
			p.status.Store(128 + int32(s.(syscall.Signal)))
			w.Close()
		}
	}()
}

// IsClosedPipe reports whether the error is that of writing to a pipe whose reader exited.
func IsClosedPipe(err error) bool {
	const brokenPipe, noData = syscall.Errno(109), syscall.Errno(232) // Windows: ERROR_BROKEN_PIPE, ERROR_NO_DATA
	return errors.Is(err, syscall.EPIPE) ||
		runtime.GOOS == "windows" && (errors.Is(err, brokenPipe) || errors.Is(err, noData))
}

// write writes to the program. The error is EPIPE if the program exited, or if a signal ended the output.
func (p *pager) write(text []byte) error {
	_, err := p.in.Write(text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		p.status.Store(128 + int32(syscall.SIGPIPE))
	case errors.Is(err, os.ErrClosed):
		return syscall.EPIPE
	}
	return err
}

// CloseOutput waits until the user quits the pager. It returns the exit code of gperf if that was before the end of the
// output, as of a program that SIGPIPE or another signal ends, else 0.
func CloseOutput(out io.Writer) int {
	t, ok := out.(*Terminal)
	if !ok || !t.device.pager.runs() {
		return 0
	}
	t.device.pager.in.Close()
	t.device.pager.cmd.Wait()
	signal.Stop(t.device.pager.signals)
	return int(t.device.pager.status.Load())
}

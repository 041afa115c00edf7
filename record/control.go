package record

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Control is the source of commands for a running recording, and the destination of their
// acknowledgements.
type Control struct {
	Commands io.Reader // nil: no commands
	Acks     io.Writer // nil: no acknowledgements
}

// ParseControl opens the files of --control: fd:COMMANDS[,ACKS] or fifo:COMMANDS[,ACKS].
func ParseControl(s string) (c Control, err error) {
	kind, files, _ := strings.Cut(s, ":")
	open := map[string]func(string) (*os.File, error){"fd": openFD, "fifo": openFIFO}[kind]
	commands, acks, both := strings.Cut(files, ",")
	if open == nil || commands == "" || both && acks == "" {
		return c, fmt.Errorf("%q is neither fd:COMMANDS[,ACKS] nor fifo:COMMANDS[,ACKS]", s)
	}
	if c.Commands, err = open(commands); err == nil && both {
		c.Acks, err = open(acks)
	}
	return c, err
}

func openFD(s string) (*os.File, error) {
	fd, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %q: not a number", s)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return nil, fmt.Errorf("file descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "fd "+s), nil
}

// openFIFO opens a FIFO for both directions, so that it does not wait for the other end.
func openFIFO(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		f.Close()
		return nil, fmt.Errorf("%s is not a FIFO", path)
	}
	return f, nil
}

// A request is a function that the recorder's loop runs between two drains. It returns
// whether the recording is to end.
type request func() (end bool, err error)

// ask makes the loop run a request, until ctx is done.
func (r *recorder) ask(ctx context.Context, do request) {
	select {
	case r.requests <- do:
		r.signal()
	case <-ctx.Done():
	}
}

// schedule makes the loop enable the events after Delay, and disable and enable them at the
// times of Pauses. The recording ends when it disables them for the last time.
func (r *recorder) schedule(ctx context.Context) {
	if r.opts.Delay <= 0 {
		return
	}
	for i, at := range append([]time.Duration{r.opts.Delay}, r.opts.Pauses...) {
		on := i%2 == 0
		last := !on && i == len(r.opts.Pauses)
		t := time.AfterFunc(at, func() {
			r.ask(ctx, func() (bool, error) { return last, r.switchEvents(on) })
		})
		context.AfterFunc(ctx, func() { t.Stop() })
	}
}

// listen makes the loop run the commands from Control.
func (r *recorder) listen(ctx context.Context) {
	if r.opts.Control.Commands == nil {
		return
	}
	lines := bufio.NewScanner(r.opts.Control.Commands)
	lines.Split(controlLine)
	go func() {
		for lines.Scan() {
			command := lines.Text()
			r.ask(ctx, func() (bool, error) { return r.obey(command) })
		}
	}()
}

// controlLine splits at newlines and zero bytes.
func controlLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\n\x00"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// obey runs a command, as in perf.
func (r *recorder) obey(command string) (end bool, err error) {
	for _, c := range controlCommands {
		rest, ok := strings.CutPrefix(command, c.name)
		if !ok {
			continue
		}
		arg := strings.TrimSpace(rest)
		if rest != "" && rest[0] != ' ' {
			r.opts.say("failed: wrong command")
		} else if end, err = c.do(r, arg); err != nil {
			return end, err
		}
		if r.opts.Control.Acks != nil {
			if _, err := io.WriteString(r.opts.Control.Acks, "ack\n"); err != nil {
				r.opts.notice(fmt.Errorf("cannot acknowledge %q: %w", command, err))
			}
		}
		return end, nil
	}
	r.opts.notice(fmt.Errorf("--control: unknown command %q", command))
	return false, nil
}

var controlCommands = []struct {
	name string
	do   func(r *recorder, arg string) (end bool, err error)
}{
	{"enable", func(r *recorder, arg string) (bool, error) { return false, r.switchNamed(arg, true) }},
	{"disable", func(r *recorder, arg string) (bool, error) { return false, r.switchNamed(arg, false) }},
	{"evlist", func(r *recorder, arg string) (bool, error) {
		if r.opts.List != nil {
			r.opts.List(r.fileAttrs(), arg)
		}
		return false, nil
	}},
	{"snapshot", func(*recorder, string) (bool, error) { return false, nil }}, // for AUX areas, which gperf does not record
	{"stop", func(*recorder, string) (bool, error) { return true, nil }},
	{"ping", func(*recorder, string) (bool, error) { return false, nil }},
}

var onOff = map[bool]string{true: "enabled", false: "disabled"}

// switchNamed enables or disables an event by its name, or all if that is empty.
func (r *recorder) switchNamed(name string, on bool) error {
	if name == "" {
		return r.switchEvents(on)
	}
	for i := range r.set.Events {
		if r.set.Events[i].Name == name {
			r.opts.say(fmt.Sprintf("Event %s %s", name, onOff[on]))
			return r.switchEvent(i, on)
		}
	}
	r.opts.say(fmt.Sprintf("failed: can't find '%s' event", name))
	return nil
}

// switchEvents enables or disables all events.
func (r *recorder) switchEvents(on bool) error {
	if on {
		if err := r.enablePrograms(true); err != nil {
			return err
		}
	}
	if err := r.enable(on); err != nil {
		return err
	}
	r.opts.say("Events " + onOff[on])
	if !on {
		return r.enablePrograms(false)
	}
	return nil
}

// switchEvent enables or disables one event. BPF programs on disabled counters do nothing.
func (r *recorder) switchEvent(event int, on bool) error {
	if on {
		if err := r.enablePrograms(true); err != nil {
			return err
		}
	}
	for i := range r.set.Counters {
		if c := &r.set.Counters[i]; c.Event == event {
			if err := r.set.Enable(c, on); err != nil {
				return err
			}
		}
	}
	return nil
}

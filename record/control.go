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

// A request is a function that the recorder's loop runs between two drains. It returns work to do, and whether the
// recording is to end after it.
type request func() (w work, end bool)

// controller passes requests to the recorder's loop: at certain times, and from Control.
type controller struct {
	opts     *plan
	file     *file
	enabler  *enabler
	requests chan request
	signal   func() // wakes the loop
}

// ask makes the loop run a request, until ctx is done.
func (c *controller) ask(ctx context.Context, do request) {
	select {
	case c.requests <- do:
		c.signal()
	case <-ctx.Done():
	}
}

// schedule makes the loop enable the events after Delay, and disable and enable them at the
// times of Pauses. The recording ends when it disables them for the last time.
func (c *controller) schedule(ctx context.Context) {
	if c.opts.Delay <= 0 {
		return
	}
	for i, at := range append([]time.Duration{c.opts.Delay}, c.opts.Pauses...) {
		on := i%2 == 0
		last := !on && i == len(c.opts.Pauses)
		t := time.AfterFunc(at, func() {
			c.ask(ctx, func() (work, bool) { return c.enabler.all(on), last })
		})
		context.AfterFunc(ctx, func() { t.Stop() })
	}
}

// listen makes the loop run the commands from Control.
func (c *controller) listen(ctx context.Context) {
	if c.opts.Control.Commands == nil {
		return
	}
	lines := bufio.NewScanner(c.opts.Control.Commands)
	lines.Split(controlLine)
	go func() {
		for lines.Scan() {
			command := lines.Text()
			c.ask(ctx, func() (work, bool) { return c.obey(command) })
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
func (c *controller) obey(command string) (w work, end bool) {
	for _, known := range controlCommands {
		rest, ok := strings.CutPrefix(command, known.name)
		if !ok {
			continue
		}
		if w = nothing; rest != "" && rest[0] != ' ' {
			c.opts.say("failed: wrong command")
		} else if end = known.end; known.do != nil {
			w = known.do(c, strings.TrimSpace(rest))
		}
		return sequence(w, once(func() error { c.acknowledge(command); return nil })), end
	}
	c.opts.notice(fmt.Errorf("--control: unknown command %q", command))
	return nothing, false
}

func (c *controller) acknowledge(command string) {
	if c.opts.Control.Acks == nil {
		return
	}
	if _, err := io.WriteString(c.opts.Control.Acks, "ack\n"); err != nil {
		c.opts.notice(fmt.Errorf("cannot acknowledge %q: %w", command, err))
	}
}

var controlCommands = []struct {
	name string
	do   func(c *controller, arg string) work // nil: nothing
	end  bool                                 // of the recording
}{
	{name: "enable", do: func(c *controller, arg string) work { return c.switchNamed(arg, true) }},
	{name: "disable", do: func(c *controller, arg string) work { return c.switchNamed(arg, false) }},
	{name: "evlist", do: func(c *controller, arg string) work {
		if c.opts.List != nil {
			c.opts.List(c.file.attrs(), arg)
		}
		return nothing
	}},
	{name: "snapshot"}, // is for AUX areas, which gperf does not record
	{name: "stop", end: true},
	{name: "ping"},
}

var onOff = map[bool]string{true: "enabled", false: "disabled"}

// switchNamed enables or disables an event by its name, or all if that is empty.
func (c *controller) switchNamed(name string, on bool) work {
	if name == "" {
		return c.enabler.all(on)
	}
	events := c.file.set.Events
	for i := range events {
		if events[i].Name == name {
			c.opts.say(fmt.Sprintf("Event %s %s", name, onOff[on]))
			return c.enabler.one(i, on)
		}
	}
	c.opts.say(fmt.Sprintf("failed: can't find '%s' event", name))
	return nothing
}

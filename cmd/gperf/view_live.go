package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"gperf/cmd/gperf/input"
	"gperf/report/table"
	"gperf/report/view"
)

// watch shows the recordings again when a file grew, and reports files that were replaced.
func (v *viewFlags) watch(ctx context.Context, paths []string, inputs []*openInput, about view.About) {
	var wait sync.WaitGroup
	grew := make(chan struct{}, 1)
	for _, in := range inputs {
		if in.fd == nil {
			continue
		}
		wait.Go(func() {
			view.Watch(ctx, in.fd, in.recording.Path, func(c view.Change) {
				if c == view.Grew {
					select {
					case grew <- struct{}{}:
					default:
					}
					return
				}
				what := map[view.Change]string{view.Replaced: "replaced", view.Removed: "removed"}[c]
				message := fmt.Sprintf("%s was %s: this page shows the recording that was there before",
					in.recording.Path, what)
				fmt.Fprintf(v.stderr, "gperf view: %s\n", message)
				v.server.Notify(message)
			})
		})
	}
	wait.Go(func() { v.reload(ctx, grew, paths, about) })
	wait.Wait()
}

// reload reads the recordings again each time that one grew, for at most a third of the time. A file that is still
// written may not be readable: the next change brings the rest.
func (v *viewFlags) reload(ctx context.Context, grew <-chan struct{}, paths []string, about view.About) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-grew:
		}
		began, read := time.Now(), make(chan struct{})
		about.Version++
		go func() {
			defer close(read)
			v.showAgain(paths, about)
		}()
		select {
		case <-ctx.Done(): // gperf ends: the read data is no longer needed
			return
		case <-read:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Since(began)):
		}
	}
}

// showAgain shows the recordings as their files are now, if they can be read.
func (v *viewFlags) showAgain(paths []string, about view.About) {
	inputs, err := v.open(paths, io.Discard)
	defer closeAll(inputs)
	if err != nil {
		return
	}
	if t, _, err := v.load(inputs, io.Discard); err == nil {
		v.server.Show(t, about)
	}
}

// interval is how often the page of a recording that is still made gets new samples.
const interval = time.Second

// showLive shows a recording that arrives on a pipe, from gperf record or on stdin.
func (v *viewFlags) showLive() error {
	reading, endReading := context.WithCancel(context.Background())
	defer endReading()
	from, title, wait, err := v.recorder()
	if err != nil {
		return err
	}
	defer wait()
	src := input.LivePipe(reading, from)
	recording, err := src.Open(title)
	if err != nil {
		return err
	}
	in := &openInput{recording: recording}
	if err := v.input.prepare(in, v.stderr); err != nil {
		recording.Close()
		return err
	}
	defer in.Close()
	about := view.About{Title: title, Live: true, Version: 1}
	l := v.loader
	show := func() error {
		about.Version++
		return v.server.Show(l.Table(), about)
	}
	return v.serve(l.Table(), about, func(ctx context.Context) {
		defer context.AfterFunc(ctx, endReading)()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		l.Ticks, l.Tick = tick.C, show
		skipped, err := l.Add(table.Source{Path: title, Session: in.session})
		about.Live = false
		if err = cmp.Or(err, show()); err != nil && ctx.Err() == nil {
			fmt.Fprintf(v.stderr, "gperf view: %v\n", unknownKey("--by", err))
		}
		in.warn(v.stderr, skipped)
	})
}

// recorder returns the pipe with the recording, its name, and a function that ends the recorder.
func (v *viewFlags) recorder() (from io.Reader, title string, wait func(), err error) {
	if v.record == nil {
		return os.Stdin, "stdin", func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", nil, err
	}
	c := exec.Command(self, slices.Concat([]string{"record", "-o", "-"}, v.record[1:])...)
	c.Stdin, c.Stderr = os.Stdin, v.stderr
	pipe, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("starting gperf record: %w", err)
	}
	return pipe, "gperf " + strings.Join(v.record, " "), func() {
		c.Process.Signal(os.Interrupt) // the user quit; a recorder that has ended ignores it
		io.Copy(io.Discard, pipe)
		c.Wait()
	}, nil
}

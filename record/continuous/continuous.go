// Package continuous records into a directory of bounded size until it is stopped, begins again after errors and when
// a CPU is added, and reads its configuration again on request.
package continuous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/untrusted"
	"gperf/record"
	"gperf/record/perfevent"
	"gperf/record/synth"
)

// Settings define a recording, until they are read again.
type Settings struct {
	Record   record.Options // Run sets its output
	Dir      string
	FileTime time.Duration // of each file
	MaxTotal int64         // size of all files, in bytes
	Push     string        // URL that gperf push sends finished files to; "": none
}

// Options define how Run works.
type Options struct {
	Config string // path of a file with flags
	// Parse returns the settings that the flags of Config and the command line define. It is called for each recording.
	Parse  func(flags []string) (*Settings, error)
	Reload <-chan os.Signal // makes Run read Config again
	Stderr io.Writer        // of gperf push
	// Started is called before the first recording.
	Started func(*Settings)
	// Ended is called after each recording: when Run stops, reads Config again, or has another CPU to record.
	Ended  func(*record.Summary)
	Notice func(error)
}

// partsOfTotal is how many files MaxTotal has room for at least.
const partsOfTotal = 8

// Times until Run records again after an error: they double up to the longest.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
	// steadyTime is how long a recording must last for its error to be a new one.
	steadyTime = 2 * time.Minute
)

// Run records until ctx is done. It returns errors of the first recording; later it reports them, and tries again.
func Run(ctx context.Context, o *Options) error {
	unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // with huge pages, freed parts of a page stay in memory
	c := config{opts: o}
	retry := firstRetry
	for first := true; ; first = false {
		s, err := c.load()
		if err != nil {
			return err
		}
		if first {
			o.Started(s)
		}
		start := time.Now()
		err = o.record(ctx, s)
		steady := time.Since(start) >= steadyTime
		switch {
		case ctx.Err() != nil || err == errStopped:
			return nil
		case err == nil || steady:
			retry = firstRetry
		case first:
			return err
		}
		if err == nil {
			continue
		}
		o.Notice(fmt.Errorf("recording again in %v: %w", retry, err))
		if !o.wait(ctx, retry) {
			return nil
		}
		retry = min(2*retry, longestRetry)
	}
}

// wait waits for a time, at most until a signal to reload. It returns false if ctx is done.
func (o *Options) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-o.Reload:
	case <-time.After(d):
	}
	return true
}

// errStopped means that the recording ended by a command of --control.
var errStopped = errors.New("stopped")

// record records until ctx is done, or until the settings or the CPUs change: then it returns nil.
func (o *Options) record(ctx context.Context, s *Settings) error {
	files, err := openStore(s.Dir, s.MaxTotal)
	if err != nil {
		return err
	}
	defer files.close()
	changed, cancel := context.WithCancel(ctx)
	var pushing sync.WaitGroup
	if s.Push != "" {
		pushing.Go(func() { o.pushFiles(changed, s.Dir, s.Push) })
	}
	defer pushing.Wait()
	defer cancel()
	if err := cancelOnNewCPU(changed, cancel); err != nil {
		return err
	}
	go func() {
		select {
		case <-o.Reload:
			cancel()
		case <-changed.Done():
		}
	}()
	own := s.Record
	r := &own
	r.Output.Path, r.Output.NextFile, r.Output.Checkpoints = s.Dir, files.next, true
	r.Output.Switch = record.Switch{Every: s.FileTime, Aligned: true, Size: max(1, s.MaxTotal/partsOfTotal)}
	r.Notice = exceptNewCPUs(s.Record.Notice)
	r.Dumped = func(path string, _ uint64) {
		files.add(path)
		if err := untrusted.NoAnswer(); err != nil {
			o.Notice(err)
		}
		debug.FreeOSMemory() // the memory for the busiest minute would stay for weeks
	}
	sum, err := record.Run(changed, r)
	if sum != nil {
		o.Ended(sum)
	}
	if err == nil && changed.Err() == nil {
		return errStopped
	}
	return err
}

// exceptNewCPUs passes notices on, except those of CPUs that the next recording includes at once.
func exceptNewCPUs(notice func(error)) func(error) {
	return func(what error) {
		if notice != nil && !errors.Is(what, record.ErrNewCPU) {
			notice(what)
		}
	}
}

// cancelOnNewCPU calls cancel when a CPU comes online that is not online now: the recording has no ring for it.
func cancelOnNewCPU(ctx context.Context, cancel func()) error {
	known, err := synth.OnlineCPUs()
	if err != nil {
		return err
	}
	perfevent.FollowCPUs(ctx, func(cpu int) {
		if !slices.Contains(known, cpu) {
			cancel()
		}
	})
	return nil
}

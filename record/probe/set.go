package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"gperf/record/tracefs"
)

// Set is the probes that the kernel has for one recording.
type Set struct {
	tracefs *tracefs.FS
	lines   map[string][]string // by file: what removes them
}

// Files of tracefs that take definitions.
const (
	kprobeEvents = "kprobe_events"
	uprobeEvents = "uprobe_events"
)

func eventsFile(k Kind) string {
	if k.User() {
		return uprobeEvents
	}
	return kprobeEvents
}

// InstallError says that the kernel does not take a probe.
type InstallError struct {
	Probe *Probe
	Line  string // its definition
	Err   error
}

func (e *InstallError) Error() string {
	return fmt.Sprintf("probe %s (%s): %v", e.Probe, e.Line, e.Err)
}
func (e *InstallError) Unwrap() error { return e.Err }

// NewSet returns an empty set.
func NewSet(t *tracefs.FS) *Set { return &Set{tracefs: t, lines: map[string][]string{}} }

// Add has the kernel watch a probe, under a name that nobody else uses, and
// returns the tracepoint that it has become: "group/event" in tracefs, and its
// number. After an error the set is as before.
func (s *Set) Add(p *Probe) (dir string, id uint64, err error) {
	group := fmt.Sprintf("gperf_%d", os.Getpid())
	for n := 0; ; n++ {
		event := p.Event
		if n > 0 {
			event = fmt.Sprintf("%s_%d", p.Event, n)
		}
		if _, err := s.tracefs.ID(group, event); err == nil {
			continue
		}
		line := p.Definition(group, event)
		if err := s.write(eventsFile(p.Kind), line); err != nil {
			return "", 0, &InstallError{p, line, err}
		}
		f := eventsFile(p.Kind)
		s.lines[f] = append(s.lines[f], "-:"+group+"/"+event)
		id, err := s.tracefs.ID(group, event)
		if err != nil {
			return "", 0, &InstallError{p, line, err}
		}
		return group + "/" + event, id, nil
	}
}

// Remove has the kernel forget the probes. No counter of theirs may be open.
func (s *Set) Remove() error {
	var errs []error
	for file, lines := range s.lines {
		for _, line := range lines {
			if err := s.write(file, line); err != nil && !errors.Is(err, syscall.ENOENT) {
				errs = append(errs, fmt.Errorf("remove probe %s: %w", line[2:], err))
			}
		}
	}
	s.lines = map[string][]string{}
	return errors.Join(errs...)
}

func (s *Set) write(file, line string) error {
	path, err := s.tracefs.Path(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if e := f.Close(); err == nil {
		err = e
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

package stacks

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/untrusted"
	"gperf/symbolize/jit"
	"gperf/unwind"
)

// jitDump is the unwinding information that a process writes for the code that it generates: the process's jitdump
// (JIT_CODE_UNWINDING_INFO). The process's mappings without a file use a table of this code. When the dump grows,
// a new table is built in the background and replaces the previous one.
type jitDump struct {
	path string // of the mapped dump, in this process's file system
	name string // in the process's root
	ino  uint64

	file    *mappedFile // whose table is in use
	next    *mappedFile // whose table is being built; nil if none is
	size    int64       // of the dump, when the latest table was requested
	checked time.Time

	mu       sync.Mutex // of the following, which belong to the goroutine that builds
	follower *jit.Follower
	codes    []unwind.Generated // the oldest first
	bytes    int                // of the functions' unwinding information
	took     time.Duration      // to build the latest table
}

const (
	// followTime is the shortest interval at which the size of a dump is looked at.
	followTime = 250 * time.Millisecond
	// followShare limits the time of building to one part in followShare of a CPU.
	followShare = 20

	maxJITCodes = 1 << 16
	maxJITBytes = 32 << 20
)

// errTooMuchCode is the error of a dump with more unwinding information than gperf keeps.
var errTooMuchCode = errors.New("too much generated code")

func newJITDump(m *format.Mmap) *jitDump {
	j := &jitDump{path: fmt.Sprintf("/proc/%d/root%s", m.PID, m.Filename), name: m.Filename, ino: m.Ino}
	j.file = j.newFile()
	return j
}

// newFile returns the mapped file of the process's generated code.
func (j *jitDump) newFile() *mappedFile { return &mappedFile{name: dso.Anonymous, jit: j} }

// useJITDump gives the mappings without a file of a space the table of a jitdump.
func (p *tracker) useJITDump(s *addrSpace, f *mappedFile) {
	s.jit = f.jit
	var changed []mapping
	for r := range s.maps.All() {
		if m := r.Value; m.file.jit != nil || m.file.isAnonymous() {
			m.file = f
			changed = append(changed, m)
		}
	}
	for _, m := range changed {
		s.insert(m)
	}
	s.stale = true
	f.mapped = p.sweep
	p.generated++
	p.files[fileKey{name: f.name, gen: p.generated}] = f
}

// isAnonymous reports whether the file represents memory without a file, of any process.
func (f *mappedFile) isAnonymous() bool {
	return f.name == dso.Anonymous && f.vm == nil && f.jit == nil
}

// open opens the dump, if it is the mapped file.
func (j *jitDump) open() (*os.File, int64, error) {
	file, err := untrusted.Open(j.path)
	if err != nil {
		return nil, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(file.Fd()), &st); err == nil && st.Ino != j.ino {
		err = fmt.Errorf("open %s: not the mapped file", j.path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, st.Size, nil
}

// build reads the new part of the dump since the last call, and makes f's table of all code in the dump.
func (j *jitDump) build(f *mappedFile) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	begin := time.Now()
	defer func() { j.took = time.Since(begin) }()
	if err := j.read(); err != nil {
		return err
	}
	cfi, err := unwind.NewGeneratedCFI(j.codes, machine)
	if err != nil {
		return err
	}
	f.table = cfi.Table()
	f.object = unwind.NewObject(f.table, func() (*unwind.CFI, error) { return cfi, nil })
	return nil
}

// read reads the functions that were added to the dump since the last call.
func (j *jitDump) read() error {
	file, size, err := j.open()
	if err != nil {
		return err
	}
	defer file.Close()
	if j.follower == nil {
		if j.follower, err = jit.Follow(file); err != nil {
			return err
		}
	}
	j.follower.Next(file, size, func(c jit.Code) {
		j.codes = append(j.codes, unwind.Generated{Start: c.Start, End: c.End, EHFrame: c.EHFrame})
		j.bytes += len(c.EHFrame)
	})
	if len(j.codes) > maxJITCodes || j.bytes > maxJITBytes {
		j.codes = unwind.Newest(j.codes)
		j.bytes = 0
		for _, c := range j.codes {
			j.bytes += len(c.EHFrame)
		}
		if len(j.codes) > maxJITCodes/2 || j.bytes > maxJITBytes/2 {
			return fmt.Errorf("%s: %w", j.path, errTooMuchCode)
		}
	}
	return nil
}

// followJIT requests new tables for the jitdumps that grew, at a limited rate.
func (t *tables) followJIT(now time.Time) {
	if now.Sub(t.followed) < followTime {
		return
	}
	t.followed = now
	for _, p := range t.procs.tracker.byPID {
		if j := p.space.jit; j != nil && p.registered {
			t.follow(j, now)
		}
	}
}

// follow requests a new table for a jitdump that grew.
func (t *tables) follow(j *jitDump, now time.Time) {
	if j.next != nil || j.file.state == fileUnknown || j.file.state == filePending {
		return
	}
	j.mu.Lock()
	wait := max(followTime, followShare*j.took)
	j.mu.Unlock()
	if now.Sub(j.checked) < wait {
		return
	}
	j.checked = now
	st, err := untrusted.Stat(j.path)
	if err != nil || st.Size() == j.size {
		return
	}
	j.size = st.Size()
	j.next = j.newFile()
	j.next.state = filePending
	t.builder.request(j.next)
}

// replaceJIT puts a new table of generated code in the place of the previous one.
func (t *tables) replaceJIT(f *mappedFile) {
	j := f.jit
	if j.next != f {
		return // the first table
	}
	j.next = nil
	if f.state != fileReady || !f.loaded {
		return
	}
	old := j.file
	j.file = f
	for _, p := range t.procs.tracker.byPID {
		if p.space.jit == j {
			t.procs.tracker.useJITDump(p.space, f)
			t.procs.tracker.touch(p)
		}
	}
	t.replaced = append(t.replaced, old)
}

// removeReplaced removes the tables from BPF that no walk uses any more, since update was called.
func (t *tables) removeReplaced() {
	for _, f := range t.replaced {
		if f.loaded {
			t.remove(f)
		}
	}
	t.replaced = nil
}

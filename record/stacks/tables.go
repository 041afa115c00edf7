package stacks

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/runtimes/hotspot"
	"gperf/unwind"
)

// tables loads unwind tables into the BPF programs as soon as they are built, and removes those
// that no process needs.
type tables struct {
	bpf      *bpf.Unwinder
	procs    *registry
	builder  *builder
	madeRoom time.Time     // when tables were last removed for others
	followed time.Time     // when followJIT last looked at jitdumps
	replaced []*mappedFile // of jitdumps: no walk uses the tables of these files after the next update
	swept    time.Time     // when prune last checked all files
	made     uint64
	failed   uint64 // files without a usable table
	// affords, if set, reports whether there is CPU time to build tables: see Options.
	affords   func() bool
	postponed []*mappedFile // until there is
	contested []string      // names of files: see Summary
}

// request starts building the table of the code at an address, as requestFile does.
func (t *tables) request(s *addrSpace, at uint64) bool {
	m := s.find(at)
	return m != nil && t.requestFile(m.file)
}

// requestFile starts building a file's table in the background, and reports whether it did: it
// does nothing if that was requested before.
func (t *tables) requestFile(f *mappedFile) bool {
	switch {
	case f.state == fileReady && !f.loaded: // there was no room
		if t.load(f); f.loaded {
			t.procs.filesChanged(func(g *mappedFile) bool { return g == f })
		}
	case f.state == fileUnknown && t.affords != nil && !t.affords():
		t.postpone(f)
	case f.state == fileUnknown:
		f.noteWritten()
		f.state = filePending
		t.builder.request(f)
		return true
	}
	return false
}

// requestVDSO requests the table of the vdso before the first stack needs it: nearly every process has it.
func (t *tables) requestVDSO() {
	if f := t.procs.tracker.files[fileKey{name: dso.VDSO}]; f != nil && f.state == fileUnknown {
		t.requestFile(f)
	}
}

// postpone makes walks through a file follow frame pointers until there is CPU time to build the file's table.
func (t *tables) postpone(f *mappedFile) {
	f.state, f.postponed = fileFP, true
	t.postponed = append(t.postponed, f)
	t.procs.filesChanged(func(g *mappedFile) bool { return g == f })
}

// retryPostponed makes the next samples in postponed files request the tables, if there is CPU time now.
func (t *tables) retryPostponed() {
	if len(t.postponed) == 0 || !t.affords() {
		return
	}
	for _, f := range t.postponed {
		f.state = fileUnknown
	}
	t.procs.filesChanged(func(f *mappedFile) bool { return f.postponed })
	for _, f := range t.postponed {
		f.postponed = false
	}
	clear(t.postponed)
	t.postponed = t.postponed[:0]
}

// loadBuilt loads the tables that were built since the last call, and returns the files of these tables.
func (t *tables) loadBuilt() (files []*mappedFile) {
	for _, b := range t.builder.take() {
		if t.take(b); b.file.state != filePending {
			b.file.changed = true
			files = append(files, b.file)
		}
		if b.file.jit != nil {
			t.replaceJIT(b.file)
		}
	}
	if len(files) > 0 {
		t.procs.filesChanged(func(f *mappedFile) bool { return f.changed })
	}
	for _, f := range files {
		f.changed = false
	}
	return files
}

// take applies the result of building a table.
func (t *tables) take(b built) {
	f := b.file
	switch {
	case errors.Is(b.err, hotspot.ErrStarting):
		f.state = fileUnknown // the next sample requests it again
		return
	case unavailable(b.err) && t.relocate(f):
		t.builder.request(f)
		return
	case b.err != nil:
		t.refuse(f, b.err)
		return
	}
	f.state, f.refused = fileReady, nil
	t.made++
	t.procs.verbose(f.describe())
	t.load(f)
}

// maxOpens is the maximum number of processes through which gperf tries to open a file.
const maxOpens = 4

// relocate chooses another process that maps a file, to open the file through it. It returns false if there is
// none.
func (t *tables) relocate(f *mappedFile) bool {
	if f.opened++; f.opened >= maxOpens {
		return false
	}
	for pid, p := range t.procs.tracker.byPID {
		if pid == f.pid || unix.Kill(int(pid), 0) == unix.ESRCH {
			continue
		}
		for m := range p.space.maps.All() {
			if m.Value.file == f && (m.Value.identified || f.inode == fileID{}) {
				f.pid, f.at = pid, m.Value
				return true
			}
		}
	}
	return false
}

// load passes a table to BPF. If there is no room yet, the file stays ready for walks in Go, and
// the next sample that BPF cannot walk requests it again.
func (t *tables) load(f *mappedFile) {
	err := t.add(f)
	if full := (*bpf.FullError)(nil); errors.As(err, &full) && t.makeRoom() {
		return
	}
	if err != nil {
		t.refuse(f, err)
		return
	}
	f.loaded = true
}

// refuse makes walks through a file follow frame pointers.
func (t *tables) refuse(f *mappedFile, why error) {
	f.refused = why
	if f.state = fileFP; f.jit == nil {
		if unavailable(why) {
			f.state = fileGone
		}
		t.failed++
	}
	if !errors.Is(why, unwind.ErrNoCFI) {
		t.procs.verbose("no unwind table: " + why.Error())
	}
}

// describe describes the file's table.
func (f *mappedFile) describe() string {
	if f.vm != nil {
		return fmt.Sprintf("%d code heaps of Java process %d", len(f.vm.heaps), f.pid)
	}
	return fmt.Sprintf("unwind table of %s: %d rows, %d rules", f.name, len(f.table.Rows), len(f.table.Rules))
}

// add passes a file's table, or its code heaps, to BPF.
func (t *tables) add(f *mappedFile) (err error) {
	if f.vm != nil {
		f.vm.first, err = t.bpf.AddHeaps(f.vm.heaps)
		return err
	}
	if twin := t.twin(f); twin != nil {
		f.inBPF = twin.inBPF
		f.use(twin.table, t.builder.lean)
	} else {
		table, err := t.bpf.AddTable(f.table, f.entry)
		if err != nil {
			return err
		}
		f.inBPF = &sharedTable{Table: table}
	}
	f.inBPF.users++
	return nil
}

// remove removes the table, or the code heaps, that add passed to BPF.
func (t *tables) remove(f *mappedFile) {
	f.loaded = false
	if f.vm != nil {
		t.bpf.RemoveHeaps(f.vm.first, len(f.vm.heaps))
		return
	}
	for i := range f.shared {
		t.bpf.RemoveFile(&f.shared[i])
	}
	f.shared = nil
	if f.inBPF.users--; f.inBPF.users == 0 {
		t.bpf.RemoveTable(f.inBPF.Table)
	}
}

// makeRoom removes tables from BPF: tables that no walk used since the last time, or all if every table was used.
// It returns false if there are none. Within a second of the last call it only returns true: then there is room,
// or soon will be.
func (t *tables) makeRoom() bool {
	if time.Since(t.madeRoom) < time.Second {
		return true
	}
	t.madeRoom = time.Now()
	var idle, busy []*mappedFile
	used := map[*sharedTable]bool{}
	for _, f := range t.procs.tracker.files {
		if !f.loaded || f.vm != nil { // code heaps need no room
			continue
		}
		if _, seen := used[f.inBPF]; !seen {
			used[f.inBPF] = t.bpf.TakeUsed(f.inBPF.Table)
		}
		if used[f.inBPF] {
			busy = append(busy, f)
		} else {
			idle = append(idle, f)
		}
	}
	if len(idle) == 0 {
		idle = busy
	}
	for _, f := range idle {
		f.reset()
	}
	t.procs.filesChanged(func(f *mappedFile) bool { return f.state == fileUnknown })
	t.procs.update() // no walk uses the tables from here on
	for _, f := range idle {
		t.remove(f)
	}
	return len(idle) > 0
}

// sweepTime is the interval at which prune looks for files that are not mapped any more.
const sweepTime = 10 * time.Second

// prune drops files, and the tables of these files here and in BPF, if no process and no deferred sample mapped
// them in this sweep or the previous one: files of programs that run repeatedly are kept. It returns the objects of the
// dropped files.
func (t *tables) prune(now time.Time, deferred []*deferredSample) (dropped map[*unwind.Object]bool) {
	if now.Sub(t.swept) < sweepTime {
		return nil
	}
	dropped = map[*unwind.Object]bool{}
	t.swept = now
	t.retryPostponed()
	t.procs.tracker.sweep++
	spaces := map[*addrSpace]bool{}
	for _, p := range t.procs.tracker.byPID {
		spaces[p.space] = true
	}
	for _, d := range deferred {
		if !d.walked {
			spaces[d.space] = true
		}
	}
	for s := range spaces {
		s.markMapped(t.procs.tracker.sweep)
	}
	for k, f := range t.procs.tracker.files {
		if f.state == filePending { // the builder sets the object
			continue
		}
		f.releaseCFI()
		if f.mapped+1 >= t.procs.tracker.sweep {
			continue
		}
		if f.loaded {
			t.remove(f)
		}
		delete(t.procs.tracker.files, k)
		dropped[f.object] = true
	}
	return dropped
}

func (s *addrSpace) markMapped(sweep int) {
	for m := range s.maps.All() {
		m.Value.file.mapped = sweep
	}
	if s.vm != nil {
		s.vm.mapped = sweep
	}
}

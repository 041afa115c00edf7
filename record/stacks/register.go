package stacks

import (
	"slices"
	"time"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
)

// bpfProcess is a process as the BPF programs know it.
type bpfProcess struct {
	tgid, execSeq uint32    // execSeq counts the process's execs
	registered    bool      // BPF is to walk the process
	inherited     bool      // it is registered because its parent is: no copy of its own stack has come
	inBPF         bool      // the BPF maps contain an entry for tgid, maybe of an earlier exec
	stale         time.Time // since when BPF waits for a mapping that replaces another one; zero: it does not
}

// bpfMappings is the mappings of an address space as loaded into the BPF programs.
type bpfMappings struct {
	ids    bpf.Mappings
	loaded bool
	stale  bool // the address space changed since
}

// registry follows processes, and keeps the BPF programs up to date about those that are sampled. Only update
// changes the programs' data, once for each drain: most processes that live for milliseconds exited by then, and
// cost no system call.
type registry struct {
	tracker *tracker
	bpf     *bpf.Unwinder
	deleted []uint32       // tgids of exited processes with entries in the BPF maps
	unused  []bpf.Mappings // of address spaces without a process
	maps    []bpf.Mapping  // reused
	verbose func(string)
	exited  []Nameless // that exited

	interpreters       bool     // the functions of interpreters are recorded
	unusedInterpreters []uint32 // without a process
}

func newRegistry(u *bpf.Unwinder, verbose func(string)) *registry {
	g := &registry{bpf: u, verbose: verbose}
	g.tracker = newTracker(g.unregister)
	return g
}

// learn applies the recorder's synthesized records, with a sample id of idSize bytes.
func (g *registry) learn(b []byte, idSize int) {
	for rec := range format.ParseRecords(b, idSize) {
		g.tracker.record(rec)
	}
}

// apply applies a side-band record of the kernel.
func (g *registry) apply(rec format.Record) {
	switch rec := rec.(type) {
	case *format.Lost:
		g.tracker.forget()
	case *format.Fork:
		g.tracker.record(rec)
		g.forked(rec)
	case *format.Comm:
		g.exec(rec)
	default:
		g.tracker.record(rec)
	}
}

// forked registers a child of a sampled process with BPF, so that the child is walked from the first sample on.
func (g *registry) forked(rec *format.Fork) {
	parent, child := g.tracker.byPID[rec.PPID], g.tracker.byPID[rec.PID]
	if rec.IsThread() || parent == nil || child == nil || !parent.registered || parent.tgid != uint32(parent.pid) {
		return
	}
	child.bpfProcess = bpfProcess{tgid: uint32(child.pid), execSeq: parent.execSeq, registered: true, inherited: true}
	g.tracker.touch(child)
}

// exec replaces a process after an exec. The process's count of execs increases by one. A child that is
// registered for its parent, as the children of a shell, is registered again by its first sample after the exec.
func (g *registry) exec(rec *format.Comm) {
	var p bpfProcess
	if old := g.tracker.byPID[rec.PID]; old != nil && old.registered && !old.inherited {
		p = old.bpfProcess
		p.execSeq++
		old.inBPF = false // the entry is the new process's
	}
	g.tracker.record(rec)
	if proc := g.tracker.byPID[rec.PID]; proc != nil && p.registered {
		proc.bpfProcess = p
		g.tracker.touch(proc)
	}
}

// lookUp returns the mappings of a process, and makes BPF walk the process from now on. It
// returns nil if the process exited before gperf could read them.
func (g *registry) lookUp(pid int32, head *bpf.Head) *addrSpace {
	p := g.tracker.get(pid)
	if p == nil {
		return nil
	}
	if !p.registered || p.execSeq != head.Exec {
		p.tgid, p.execSeq, p.registered, p.inherited = head.TGID, head.Exec, true, false
		g.tracker.touch(p)
	} else if head.End == bpf.EndNoProcess && !p.touched {
		g.awaitMapping(p)
	}
	if s := p.space; s.stale || !s.loaded { // update has not seen all its mappings
		s.renew(g.tracker, pid)
	}
	return p.space
}

// mapTime is the maximum time from when the kernel finds room for a mapping to the record of the mapping: between
// the two, the dynamic linker opens and reads a library.
const mapTime = 20 * time.Millisecond

// awaitMapping keeps BPF from walking a process, because a mapping is about to be replaced, until the record of
// the new one comes, or until it can no longer come: there is no record for memory without code.
func (g *registry) awaitMapping(p *process) {
	if p.stale.IsZero() {
		p.stale = time.Now()
	} else if time.Since(p.stale) > mapTime {
		p.stale = time.Time{}
		g.tracker.touch(p)
	}
}

// update passes changed mappings and processes to BPF, and then frees the mappings that no
// process in BPF refers to any more.
func (g *registry) update() {
	for _, tgid := range g.deleted {
		g.bpf.RemoveProcess(tgid)
	}
	g.deleted = g.deleted[:0]
	for _, p := range g.tracker.touched {
		p.touched = false
		if !p.registered || p.exited() || g.tracker.byPID[p.pid] != p {
			continue
		}
		if err := g.publish(p); err != nil {
			g.withdraw(err)
			break
		}
	}
	for _, m := range g.unused {
		g.bpf.RemoveMappings(m)
	}
	g.unused = g.unused[:0]
	for _, number := range g.unusedInterpreters {
		g.bpf.RemoveRuntime(number)
	}
	g.unusedInterpreters = g.unusedInterpreters[:0]
	clear(g.tracker.touched)
	g.tracker.touched = g.tracker.touched[:0]
}

// publish passes a process with all mappings to BPF.
func (g *registry) publish(p *process) error {
	if s := p.space; s.stale || !s.loaded {
		g.tracker.identify(p)
		if s.loaded {
			g.unused = append(g.unused, s.ids)
		}
		if err := g.load(s); err != nil {
			return err
		}
	}
	p.inBPF = true
	return g.bpf.SetProcess(p.tgid, p.execSeq, p.space.ids, p.space.interpreterNumber(), !p.stale.IsZero())
}

// load passes the mappings of an address space to BPF.
func (g *registry) load(s *addrSpace) (err error) {
	g.maps = g.maps[:0]
	for m := range s.maps.All() {
		g.maps = appendMapping(g.maps, m.Value.forBPF())
		g.share(&m.Value)
	}
	s.loaded = false
	if s.ids, err = g.bpf.AddMappings(g.maps); err != nil {
		return err
	}
	s.loaded, s.stale = true, false
	g.findInterpreter(s)
	return nil
}

// share makes BPF walk the code of a mapping in all processes that map the file, so that those that it does not know
// yet need no copy of their stacks. A file with an interpreter is not shared: the names of functions need the process.
func (g *registry) share(m *mapping) {
	f := m.file
	if f.state != fileReady || !f.loaded || f.jit != nil || f.vm != nil || f.runtime != nil || f.noRuntime != nil ||
		slices.ContainsFunc(f.shared, func(s bpf.FileMapping) bool { return s.Off == m.pgoff }) {
		return
	}
	bias, ok := m.bias()
	s, known := f.mappedAt(m.pgoff)
	if !ok || !known {
		return
	}
	if err := g.bpf.SetFile(&s, bias-m.start, f.inBPF.Index()); err != nil {
		g.verbose(err.Error())
		return
	}
	f.shared = append(f.shared, s)
}

// mappedAt returns how BPF knows a mapping at an offset of a file that is ready. It returns false for what is no file.
func (f *mappedFile) mappedAt(off uint64) (m bpf.FileMapping, ok bool) {
	if f.name == dso.VDSO {
		return m, true
	}
	id, changed := inodeOf(f.im.Info), ctimeOf(f.im.Info)
	return bpf.FileMapping{Major: id.maj, Minor: id.min, Inode: id.ino,
		Changed: time.Unix(changed.sec, int64(changed.ns)), Off: off}, id != fileID{}
}

// withdraw removes all processes from BPF if there is no room for another one. Those that are
// sampled again are registered again.
func (g *registry) withdraw(why error) {
	g.verbose(why.Error())
	for _, p := range g.tracker.byPID {
		if p.inBPF {
			g.bpf.RemoveProcess(p.tgid)
		}
		p.registered, p.inBPF, p.touched = false, false, false
		if p.space.loaded {
			g.bpf.RemoveMappings(p.space.ids)
			p.space.loaded = false
			g.dropInterpreter(p.space)
		}
	}
}

// filesChanged marks the processes that map some files, so that update passes the mappings of these processes to
// BPF again.
func (g *registry) filesChanged(changed func(*mappedFile) bool) {
	for _, p := range g.tracker.byPID {
		if p.registered && p.space.mapsFile(changed) {
			p.space.stale = true
			g.tracker.touch(p)
		}
	}
}

// unregister removes a process from BPF, because the pid may be reused.
func (g *registry) unregister(p *process) {
	if p.registered {
		g.exitedJava(p)
	}
	if p.inBPF {
		g.deleted = append(g.deleted, p.tgid)
	}
	g.release(p.space)
}

// release removes an address space from BPF that no process uses any more.
func (g *registry) release(s *addrSpace) {
	if s.refs == 0 && s.loaded {
		g.unused = append(g.unused, s.ids)
		s.loaded = false
		g.dropInterpreter(s)
	}
}

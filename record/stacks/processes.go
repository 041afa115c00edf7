package stacks

import (
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/addrspace"
	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/session/track"
	"gperf/record/synth"
)

// tracker follows the code mappings of every process through side-band records: for walking
// stacks now, as internal/session does later for symbolizing. It reads a process without
// records from /proc when the process is first requested.
type tracker struct {
	byPID map[int32]*process
	files map[fileKey]*mappedFile
	held  time.Time // when holdGenerated last looked for perf maps
	// removed is called for processes whose mappings are replaced or dropped.
	removed func(*process)
	// left are the processes whose EXIT came since the last forgetExited, leftBefore are the processes whose EXIT
	// came before that.
	left, leftBefore []*process
	sweep            int        // counts the sweeps of prune
	vms              int        // counts Java virtual machines
	touched          []*process // processes whose mappings or registration with BPF changed
	generated        uint64     // counts the files of jitdumps' tables
	// buildIDs is true if records identify files by build ID, if the files contain one.
	buildIDs bool
}

// isBuilding reports whether a table is being built.
func (t *tracker) isBuilding() bool {
	for _, f := range t.files {
		if f.state == filePending {
			return true
		}
	}
	return false
}

// process is a process between two execs.
type process struct {
	pid     int32
	space   *addrSpace
	threads track.Threads[struct{}]
	touched bool // it is one of the tracker's touched ones
	// mapped are the numbers of the files with functions whose mappings are in the recording.
	mapped map[int]bool
	holds  holds
	bpfProcess
}

// addrSpace is the mappings of a process, and of forked children that mapped nothing since the fork.
type addrSpace struct {
	maps        addrspace.Space[mapping]
	vm          *mappedFile // the generated code of a Java virtual machine; nil without
	refs        int
	jit         *jitDump     // nil if there is none
	interpreter *interpreter // nil if there is none, or it is not in BPF yet
	bpfMappings
}

// mapping is a range of addresses that contains code.
type mapping struct {
	start, end uint64 // ip
	pgoff      uint64
	name       string
	file       *mappedFile
	identified bool // file is known by more than a build ID
}

// fileKey identifies a file: by build ID, and by device and inode once these are known; mappings without a file by
// name.
type fileKey struct {
	buildID string
	id      fileID
	gen     uint64 // of generated code
	name    string
}

// fileID names a file on this machine.
type fileID struct {
	maj, min uint32
	ino, gen uint64
}

func (f fileID) inode() dso.Inode {
	return dso.Inode{Major: f.maj, Minor: f.min, Number: f.ino, Gen: f.gen}
}

func newTracker(removed func(*process)) *tracker {
	return &tracker{byPID: map[int32]*process{}, files: map[fileKey]*mappedFile{}, removed: removed}
}

// record applies a side-band record.
func (p *tracker) record(rec format.Record) {
	switch rec := rec.(type) {
	case *format.Mmap:
		if proc := p.byPID[rec.PID]; proc != nil && rec.IsUser() && rec.Executable() {
			p.mmap(proc, rec)
		}
	case *format.Fork:
		p.fork(rec)
	case *format.Comm:
		if rec.Exec {
			p.replace(rec.PID, &addrSpace{})
		}
	case *format.Exit:
		if proc := p.byPID[rec.PID]; proc != nil && proc.threads.Exit(rec.TID) {
			p.left = append(p.left, proc)
		}
	}
}

// exited reports whether EXIT of all threads was read.
func (p *process) exited() bool { return len(p.threads) == 0 }

// forgetExited removes the processes whose EXIT came before the last call. A process can be sampled for a while
// after EXIT, while the kernel still frees the process's memory.
func (p *tracker) forgetExited() {
	p.forgetAll(p.leftBefore)
	clear(p.leftBefore)
	p.left, p.leftBefore = p.leftBefore[:0], p.left
}

// forgetAll removes exited processes whose pids were not reused.
func (p *tracker) forgetAll(exited []*process) {
	for _, proc := range exited {
		if p.byPID[proc.pid] == proc {
			p.remove(proc.pid)
		}
	}
}

// fork starts a thread, or a process with the mappings of its parent. The child of an unknown process is unknown.
func (p *tracker) fork(f *format.Fork) {
	parent := p.byPID[f.PPID]
	switch {
	case f.Ran && !f.IsThread(): // the MMAP records follow
		p.replace(f.PID, &addrSpace{})
	case parent == nil:
		p.remove(f.PID) // the pid is reused
	case f.IsThread():
		parent.threads[f.TID] = struct{}{}
	default:
		p.replace(f.PID, parent.space)
	}
}

// replace replaces a process and the process's mappings.
func (p *tracker) replace(pid int32, s *addrSpace) *process {
	p.remove(pid)
	proc := &process{pid: pid, space: s, threads: track.Threads[struct{}]{pid: {}}}
	s.refs++
	p.byPID[pid] = proc
	return proc
}

func (p *tracker) remove(pid int32) {
	if proc := p.byPID[pid]; proc != nil {
		proc.space.refs--
		p.removed(proc)
		delete(p.byPID, pid)
	}
}

// forget drops all state: records were lost.
func (p *tracker) forget() {
	for pid := range p.byPID {
		p.remove(pid)
	}
}

// mmap adds a mapping to a process; it replaces the mappings that it overlaps.
func (p *tracker) mmap(proc *process, m *format.Mmap) {
	s := proc.space
	if s.refs > 1 {
		s.refs--
		s = &addrSpace{maps: s.maps, vm: s.vm, jit: s.jit, refs: 1}
		proc.space = s
	}
	s.stale = true
	proc.bpfProcess.stale = time.Time{}
	p.touch(proc)
	added := mapping{start: m.Start, end: m.Start + m.Len, pgoff: m.Pgoff, name: m.Filename, file: p.file(m)}
	switch {
	case s.vm != nil && m.Filename == dso.Anonymous:
		added.file = s.vm
	case s.jit != nil && added.file.isAnonymous():
		added.file = s.jit.file
	case s.vm == nil && isLibJVM(m):
		p.addVM(s, m, added)
	}
	s.insert(added)
	if s.jit == nil && dso.KindOf(m.Filename) == dso.KindJITDump {
		p.useJITDump(s, newJITDump(m).file)
	}
}

func (p *tracker) touch(proc *process) {
	if proc.registered && !proc.touched {
		proc.touched = true
		p.touched = append(p.touched, proc)
	}
}

// insert adds a mapping; the mappings that it overlaps lose that part.
func (s *addrSpace) insert(m mapping) {
	s.maps = s.maps.With(addrspace.Range[mapping]{Start: m.start, End: m.end, Value: m}, cutMapping)
}

func cutMapping(old *addrspace.Range[mapping], start, end uint64) mapping {
	m := old.Value
	return mapping{start, end, dso.OffOfIP(start, m.start, m.pgoff), m.name, m.file, m.identified}
}

// find returns the mapping that contains ip, nil if there is none.
func (s *addrSpace) find(ip uint64) *mapping {
	if r := s.maps.Find(ip); r != nil {
		return &r.Value
	}
	return nil
}

// mapsFile reports whether any of the mapped files is one of these.
func (s *addrSpace) mapsFile(is func(*mappedFile) bool) bool {
	for m := range s.maps.All() {
		if is(m.Value.file) {
			return true
		}
	}
	return false
}

// program returns the name of an addrSpace's main program: the file at the lowest address, because the kernel maps
// the program there. Runtimes may map memory for code below, such as PHP. It returns "" if there is none.
func (s *addrSpace) program() string {
	for m := range s.maps.All() {
		name := m.Value.file.name
		if dso.KindOf(name) == dso.KindFile {
			return name
		}
	}
	return ""
}

// file returns the file of a mapping, the same one for all mappings of it.
func (p *tracker) file(m *format.Mmap) *mappedFile {
	var k fileKey
	switch {
	case len(m.BuildID) > 0:
		k.buildID = string(m.BuildID)
	case synth.HasFile(m):
		k.id = fileID{m.Maj, m.Min, m.Ino, m.InoGen}
	default:
		k.name = m.Filename
	}
	f := p.files[k]
	switch {
	case f == nil:
		f = p.add(k, newMappedFile(m))
	case f.contested:
		return p.claimant(f, m)
	}
	if f.state != filePending && f.inode == (fileID{}) {
		f.locate(m.PID, mapping{start: m.Start, end: m.Start + m.Len, pgoff: m.Pgoff})
	}
	return f
}

func (p *tracker) add(k fileKey, f *mappedFile) *mappedFile {
	f.mapped = p.sweep
	p.files[k] = f
	return f
}

// get returns a process. If there are no records of the process, or they were lost, get reads the mappings from
// /proc; nil if the process exited.
func (p *tracker) get(pid int32) *process {
	if proc := p.byPID[pid]; proc != nil {
		return proc
	}
	maps, err := procfs.Maps(int(pid))
	if err != nil {
		return nil
	}
	proc := p.replace(pid, &addrSpace{})
	tids, _ := procfs.Threads(int(pid)) // their FORK records may be from before the recording
	for _, tid := range tids {
		proc.threads[int32(tid)] = struct{}{}
	}
	list := slices.Collect(maps)
	for _, mapping := range list {
		if !mapping.Executable() {
			continue
		}
		m := synth.MmapOf(int(pid), mapping)
		if p.buildIDs && synth.HasFile(&m) {
			m.BuildID = synth.BuildID(&m)
		}
		p.mmap(proc, &m)
	}
	for _, m := range synth.AppendCopies(nil, int(pid), list, p.buildIDs) {
		p.mmap(proc, &m)
	}
	return proc
}

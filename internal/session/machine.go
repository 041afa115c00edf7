package session

import (
	"sync"

	"gperf/format"
	"gperf/internal/container"
	"gperf/internal/dso"
	"gperf/symbolize"
)

// machine holds the threads and mappings of the recorded machine, after the records
// applied so far.
type machine struct {
	file        *format.File
	symbols     *symbolize.Symbolizer
	keepExited  bool  // see Options.KeepExited
	keepRecords bool  // each Map keeps the MMAP record, for Tasks
	until       int64 // see endOf

	threads   map[int32]*Thread // by TID
	last      *Thread           // that was asked for last, nil if it exited
	processes map[int32]*process
	running   int               // threads that run, as perf counts them
	cpus      int               // 0 if unknown
	cgroups   map[uint64]cgroup // by ID
	kernel    kernel
	jit       jitDumps
	names     container.NameList
	// bpfLines returns the source lines of BPF programs. The first call reads them.
	bpfLines func() []format.BPFLine

	// known holds all user mappings, dsos the DSOs. Processes of one program use equal mappings, and so share
	// resolved frames.
	known    map[mapKey]*Map
	dsos     map[DSO]*DSO
	ranks    map[string]int32       // of DSOs by name, see Session.Rank
	buildIDs map[string]dso.BuildID // of the BUILD_ID section, by file name
	byInode  map[inodeFile]dso.BuildID
}

// cgroup holds the values that samples of one cgroup share.
type cgroup struct {
	path      string
	container *container.Named // nil if the path names none
}

func newCgroup(path string, names *container.NameList) cgroup {
	c := container.Parse(path)
	if c == (container.Container{}) {
		return cgroup{path: path}
	}
	named := names.Of(c)
	return cgroup{path, &named}
}

func newMachine(opts *Options, keepRecords bool) *machine {
	f := opts.File
	m := &machine{
		file:    f,
		symbols: opts.Symbols,
		// The sums of threads' short waits are at the end of the recording, also those of exited threads.
		keepExited:  opts.KeepExited || f.Has(format.FeatureAuxtrace) || HasWaits(f),
		keepRecords: keepRecords,
		until:       endOf(f, opts.Written),

		threads:   map[int32]*Thread{},
		processes: map[int32]*process{},
		running:   1, // the recorder, which runs before the first switch
		cgroups:   map[uint64]cgroup{},
		kernel:    listedKernel(f),
		bpfLines:  sync.OnceValue(f.BPFLines),
		known:     map[mapKey]*Map{},
		dsos:      map[DSO]*DSO{},
		ranks:     map[string]int32{},
		buildIDs:  map[string]dso.BuildID{},
		byInode:   map[inodeFile]dso.BuildID{},
	}
	m.names = container.ParseNames(f.Sections[format.FeatureNames])
	entries, _ := f.BuildIDs() // ends at a damaged entry
	for _, e := range entries {
		m.buildIDs[e.Filename] = dso.NewBuildID(e.BuildID)
	}
	m.thread(0, 0).setComm("swapper")
	if n, ok := f.NrCPUs(); ok {
		m.cpus = int(n.Available)
	}
	return m
}

// apply updates the state with a side-band record.
func (m *machine) apply(rec format.Record) {
	switch r := rec.(type) {
	case *format.Mmap:
		m.mmap(r)
	case *format.Comm:
		th := m.thread(r.PID, r.TID)
		th.setComm(r.Comm)
		if r.Exec { // as in perf, mappings stay until others overlap them
			th.space.threads.Exec(r.TID)
		}
	case *format.Fork:
		m.fork(r)
	case *format.Exit:
		m.running-- // no record describes an exiting thread's last switch
		if !m.keepExited {
			m.exit(r.TID)
		}
	case *format.KSymbol:
		m.ksymbol(r)
	case *format.Switch:
		if r.Misc&format.MiscSwitchOut != 0 {
			m.running--
		} else {
			m.running++
		}
	case *format.Namespaces:
		m.thread(r.PID, r.TID).namespaces = r.NS
	case *format.Cgroup:
		m.cgroups[r.CgroupID] = newCgroup(r.Path, &m.names)
	case *format.TextPoke:
		m.symbols.Locator().Carried.Add(m, r.Addr, r.New)
	}
}

// parallelism returns the number of running threads, limited to 1 up to the number
// of CPUs, since context switches may be out of order (machine__resolve of
// tools/perf/util/event.c).
func (m *machine) parallelism() int {
	n := m.running
	if m.cpus > 0 {
		n = min(n, m.cpus)
	}
	return max(n, 1)
}

// thread returns the thread. It creates an unknown thread, which shares the process's mappings and is named by
// number.
func (m *machine) thread(pid, tid int32) *Thread {
	if m.last != nil && m.last.TID == tid && m.last.PID >= 0 {
		return m.last
	}
	th, ok := m.threads[tid]
	switch {
	case !ok:
		th = newThread(pid, tid)
		th.space = m.process(pid)
		if tid != pid {
			th.space.threads[tid] = struct{}{}
		}
		m.threads[tid] = th
		m.join(th)
	case th.PID < 0:
		th.PID = pid
		m.join(th)
	}
	m.last = th
	return th // even if pid differs: samples of a dying thread may lack it
}

// process returns a process. It adds an unknown one, whose first thread runs.
func (m *machine) process(pid int32) *process {
	p := m.processes[pid]
	if p == nil {
		p = newProcess(pid, &maps{})
		m.processes[pid] = p
	}
	return p
}

// exit forgets a thread that exited, and the process with the last one.
func (m *machine) exit(tid int32) {
	th := m.threads[tid]
	if th == nil {
		return
	}
	delete(m.threads, tid)
	m.last = nil
	if p := th.space; p.threads.Exit(tid) && m.processes[th.PID] == p {
		delete(m.processes, th.PID)
		if first := m.threads[th.PID]; first != nil && first.space == p { // the leader of later threads, without a name
			delete(m.threads, th.PID)
		}
	}
}

// join sets the leader of a thread that is not the first of its process.
func (m *machine) join(th *Thread) {
	if th.PID != th.TID && th.PID >= 0 {
		th.leader = m.thread(th.PID, th.PID)
	}
}

func (m *machine) fork(r *format.Fork) {
	parent := m.thread(r.PPID, r.PTID)
	if parent.PID != r.PPID { // an earlier process, whose EXIT is missing
		m.exit(r.PTID)
		parent = m.thread(r.PPID, r.PTID)
	}
	m.exit(r.TID)
	if !r.IsThread() {
		inherited := &maps{} // the program's MMAP records follow
		if !r.Ran {
			inherited = parent.space.maps.clone()
		}
		m.processes[r.PID] = newProcess(r.PID, inherited)
	}
	th := m.thread(r.PID, r.TID)
	th.parent = parent.TID
	if parent.Named {
		th.setComm(parent.Comm)
	}
}

func (m *machine) mmap(r *format.Mmap) {
	switch {
	case r.Misc&format.MiscCPUModeMask == format.MiscKernel:
		m.rank(m.kernel.mmap(r, m.buildID(r)))
	case r.IsUser():
		mp := newMap(r, m.buildID(r))
		p := m.thread(r.PID, r.TID).space
		if m.keepRecords {
			mp.record = r
		} else {
			mp = m.share(mp)
		}
		m.rank(mp)
		p.maps = p.maps.with(mp)
		m.jitDump(r, p, mp.DSO)
	}
}

// buildID returns the build ID of a mapping's file. A file without build ID is identified by inode.
func (m *machine) buildID(r *format.Mmap) dso.BuildID {
	if len(r.BuildID) > 0 {
		return dso.NewBuildID(r.BuildID)
	}
	if id, ok := m.buildIDs[r.Filename]; ok {
		return id
	}
	if r.Ino == 0 || !dso.KindOf(r.Filename).HasPath() {
		return dso.BuildID{}
	}
	f := inodeFile{r.Filename,
		dso.Inode{Major: r.Maj, Minor: r.Min, Number: r.Ino, Gen: r.InoGen, Until: m.until}}
	id, ok := m.byInode[f]
	if !ok { // it looks at the file
		id = m.symbols.Locator().ByInode(f.name, f.inode)
		m.byInode[f] = id
	}
	return id
}

// inodeFile is a file that was recorded without build ID.
type inodeFile struct {
	name  string
	inode dso.Inode
}

// share returns the mapping that is shared by all processes with an equal one.
func (m *machine) share(mp *Map) *Map {
	d, ok := m.dsos[*mp.DSO]
	if !ok {
		d = mp.DSO
		m.dsos[*d] = d
	}
	mp.DSO = d
	key := mp.key()
	if same, ok := m.known[key]; ok {
		return same
	}
	m.known[key] = mp
	return mp
}

// rank numbers the DSO of a new mapping.
func (m *machine) rank(mp *Map) {
	if _, ok := m.ranks[mp.DSO.Name]; !ok {
		m.ranks[mp.DSO.Name] = int32(len(m.ranks) + 1)
	}
}

// kernelMap returns the mapping of a kernel address, or nil.
func (m *machine) kernelMap(ip uint64) *Map {
	mp := m.kernel.maps.find(ip)
	if mp == nil && m.kernel.text != nil {
		// The recorded mapping ends with .text: .init.text and other code lie
		// after it.
		if start, end := m.symbols.KernelRange(); ip >= start && ip < end {
			mp = m.kernel.text
		}
	}
	return mp
}

// locate returns the thread of a sample and the mapping of the sampled instruction, or nil.
func (m *machine) locate(s *format.Sample) (*Thread, *Map) {
	m.jitUntil(s.Time)
	th := m.thread(s.PID, s.TID)
	if s.Misc&format.MiscCPUModeMask == format.MiscKernel {
		return th, m.kernelMap(s.IP)
	}
	return th, th.space.maps.find(s.IP)
}

// Package track follows processes, their threads and mappings, cgroups and generated kernel code through side-band
// records, and makes the records that describe them at the start of another file.
//
// Threads has the rules of threads for all packages that follow processes. These keep other data of a process:
// internal/session keeps the same as perf, such as the mappings from before an exec, and record/stacks only code, of
// processes whose mappings it knows.
package track

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"gperf/format"
	"gperf/internal/addrspace"
	"gperf/internal/dso"
)

// Threads are the running threads of a process, by TID. The process exits with the last one, which need not be the
// first.
type Threads[T any] map[int32]T

// Exit removes a thread, and reports whether the process exited with it.
func (t Threads[T]) Exit(tid int32) bool {
	_, ran := t[tid]
	delete(t, tid)
	return ran && len(t) == 0
}

// Exec leaves only the thread that called exec, under the TID of the first thread: no EXIT has its earlier TID.
func (t Threads[T]) Exec(tid int32) {
	first := t[tid]
	clear(t)
	t[tid] = first
}

// Machine is the state of a machine after the records applied so far.
type Machine struct {
	kernel    []byte // records of the kernel's mappings, without sample ids
	processes map[int32]*process
	files     map[string]*format.Mmap    // mappings without addresses, by encoding
	encoded   []byte                     // reused
	symbols   map[uint64]*format.KSymbol // by address
	cgroups   map[uint64]string          // paths by ID
}

// process is a process and its threads. The leader may have exited.
type process struct {
	parent  int32
	threads Threads[thread]
	maps    addrspace.Space[mapping]
}

// thread is a thread's name and, if they are recorded, its namespaces.
type thread struct {
	comm       string
	namespaces []format.Namespace
}

// mapping is the value of a range of addresses.
type mapping struct {
	pgoff uint64
	file  *format.Mmap // shared by all mappings that differ only in addresses
}

// New returns a machine on which nothing runs.
func New() *Machine {
	return &Machine{processes: map[int32]*process{}, files: map[string]*format.Mmap{},
		symbols: map[uint64]*format.KSymbol{}, cgroups: map[uint64]string{}}
}

// Apply applies the records in b, synthesized ones or the kernel's, each of which ends with a sample id of idSize
// bytes. It ignores records that it cannot decode.
func (m *Machine) Apply(b []byte, idSize int) {
	for rec := range format.ParseRecords(b, idSize) {
		m.record(rec)
	}
}

func (m *Machine) record(rec format.Record) {
	switch rec := rec.(type) {
	case *format.Mmap:
		m.mmap(rec)
	case *format.Comm:
		m.comm(rec)
	case *format.Fork:
		m.fork(rec)
	case *format.Exit:
		if p := m.processes[rec.PID]; p != nil && p.threads.Exit(rec.TID) {
			delete(m.processes, rec.PID)
		}
	case *format.Namespaces:
		p := m.process(rec.PID)
		t := p.threads[rec.TID]
		t.namespaces = rec.NS
		p.threads[rec.TID] = t
	case *format.KSymbol:
		if rec.Flags&format.KSymbolUnregister != 0 {
			delete(m.symbols, rec.Addr)
		} else {
			m.symbols[rec.Addr] = rec
		}
	case *format.Cgroup:
		m.cgroups[rec.CgroupID] = rec.Path
	}
}

// process returns a process. It adds an unknown one.
func (m *Machine) process(pid int32) *process {
	p := m.processes[pid]
	if p == nil {
		p = &process{threads: Threads[thread]{}}
		m.processes[pid] = p
	}
	return p
}

// fork adds a thread, or a process with the parent's mappings.
func (m *Machine) fork(f *format.Fork) {
	from := m.processes[f.PPID]
	if !f.IsThread() {
		p := &process{parent: f.PPID, threads: Threads[thread]{}}
		if from != nil && !f.Ran {
			p.maps = from.maps
		}
		m.processes[f.PID] = p
	}
	var t thread
	if from != nil {
		t = from.threads[f.PTID]
	}
	m.process(f.PID).threads[f.TID] = t
}

// comm names a thread. An exec ends the other threads, and replaces the mappings.
func (m *Machine) comm(c *format.Comm) {
	p := m.process(c.PID)
	if c.Exec {
		p.threads.Exec(c.TID)
		p.maps = addrspace.Space[mapping]{}
	}
	t := p.threads[c.TID]
	t.comm = c.Comm
	p.threads[c.TID] = t
}

// mmap adds a mapping; those that it overlaps lose that part.
func (m *Machine) mmap(r *format.Mmap) {
	if r.Misc&format.MiscCPUModeMask == format.MiscKernel {
		m.kernel = r.Append(m.kernel, 0)
		return
	}
	if !r.IsUser() {
		return
	}
	p := m.process(r.PID)
	p.maps = p.maps.With(addrspace.Range[mapping]{Start: r.Start, End: r.Start + r.Len,
		Value: mapping{r.Pgoff, m.file(r)}}, cut)
}

func cut(old *addrspace.Range[mapping], start, _ uint64) mapping {
	return mapping{dso.OffOfIP(start, old.Start, old.Value.pgoff), old.Value.file}
}

// file returns the file of a mapping.
func (m *Machine) file(r *format.Mmap) *format.Mmap {
	file := at(r, 0, 0, 0, 0)
	m.encoded = file.Append(m.encoded[:0], 0)
	known := m.files[string(m.encoded)]
	if known == nil {
		file.BuildID = bytes.Clone(file.BuildID)
		known = &file
		m.files[string(m.encoded)] = known
	}
	return known
}

// at returns the mapping of a file by a process.
func at(file *format.Mmap, pid int32, start, size, pgoff uint64) format.Mmap {
	m := *file
	m.PID, m.TID, m.Start, m.Len, m.Pgoff = pid, pid, start, size, pgoff
	return m
}

// Append appends the records that describe the machine, with sample ids of idSize zeros: readers sort them before
// all others. The order is the same as in package synth.
func (m *Machine) Append(b []byte, idSize int) []byte {
	b = m.appendKernel(b, idSize)
	for _, id := range slices.Sorted(maps.Keys(m.cgroups)) {
		b = (&format.Cgroup{CgroupID: id, Path: m.cgroups[id]}).Append(b, idSize)
	}
	for _, pid := range slices.Sorted(maps.Keys(m.processes)) {
		b = m.processes[pid].append(b, pid, idSize)
	}
	return b
}

func (m *Machine) appendKernel(b []byte, idSize int) []byte {
	for rec := range format.Records(m.kernel) {
		start := len(b)
		b = append(append(b, rec...), make([]byte, idSize)...)
		binary.LittleEndian.PutUint16(b[start+6:], uint16(len(rec)+idSize))
	}
	for _, addr := range slices.Sorted(maps.Keys(m.symbols)) {
		b = m.symbols[addr].Append(b, idSize)
	}
	return b
}

// append appends the records of a process: the leader, the mappings, and the other threads.
func (p *process) append(b []byte, pid int32, idSize int) []byte {
	b = p.threads[pid].append(b, format.Fork{PID: pid, TID: pid, PPID: p.parent, PTID: p.parent}, idSize)
	for r := range p.maps.All() {
		m := at(r.Value.file, pid, r.Start, r.End-r.Start, r.Value.pgoff)
		b = m.Append(b, idSize)
	}
	for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
		if tid != pid {
			b = p.threads[tid].append(b, format.Fork{PID: pid, TID: tid, PPID: pid, PTID: pid}, idSize)
		}
	}
	return b
}

func (t thread) append(b []byte, f format.Fork, idSize int) []byte {
	f.Ran = true
	b = f.Append(b, idSize)
	if t.namespaces != nil {
		b = (&format.Namespaces{PID: f.PID, TID: f.TID, NS: t.namespaces}).Append(b, idSize)
	}
	return (&format.Comm{PID: f.PID, TID: f.TID, Comm: t.comm}).Append(b, idSize)
}

// Files calls found with the name of each mapped file.
func (m *Machine) Files(found func(name string)) {
	for _, f := range m.files {
		if f.Ino != 0 || len(f.BuildID) > 0 {
			found(f.Filename)
		}
	}
}

// Package track follows processes, their threads and mappings, cgroups and generated kernel code through side-band
// records, and makes the records that describe them at the start of another file.
package track

import (
	"encoding/binary"
	"maps"
	"slices"

	"gperf/format"
	"gperf/internal/addrspace"
)

// Machine is the state of a machine after the records applied so far.
type Machine struct {
	kernel    []byte // records of the kernel's mappings, without sample ids
	processes map[int32]*process
	files     map[fileKey]*file
	symbols   map[uint64]*format.KSymbol // by address
	cgroups   map[uint64]string          // paths by ID
}

// process is a process and its threads. The leader may have exited.
type process struct {
	parent  int32
	threads map[int32]thread
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
	file  *file
}

// file holds the values that all mappings of one file share.
type file struct{ fileKey }

type fileKey struct {
	misc        format.Misc
	v2          bool
	buildID     string
	maj, min    uint32
	ino, gen    uint64
	prot, flags uint32
	name        string
}

// New returns a machine on which nothing runs.
func New() *Machine {
	return &Machine{processes: map[int32]*process{}, files: map[fileKey]*file{}, symbols: map[uint64]*format.KSymbol{},
		cgroups: map[uint64]string{}}
}

// Apply applies the records in b, synthesized ones or the kernel's, each of which ends with a sample id of idSize
// bytes. It ignores records that it cannot decode.
func (m *Machine) Apply(b []byte, idSize int) {
	for raw := range format.Records(b) {
		if rec, err := format.ParseRecord(format.RawOf(raw, idSize), 0); err == nil {
			m.record(rec)
		}
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
		if p := m.processes[rec.PID]; p != nil {
			if delete(p.threads, rec.TID); len(p.threads) == 0 {
				delete(m.processes, rec.PID)
			}
		}
	case *format.Namespaces:
		p := m.process(rec.PID)
		t := p.threads[rec.TID]
		t.namespaces = rec.NS
		p.threads[rec.TID] = t
	case *format.KSymbol:
		const unregistered = 1
		if rec.Flags&unregistered != 0 {
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
		p = &process{threads: map[int32]thread{}}
		m.processes[pid] = p
	}
	return p
}

// fork adds a thread, or a process with the parent's mappings.
func (m *Machine) fork(f *format.Fork) {
	from := m.processes[f.PPID]
	if f.PID == f.TID || m.processes[f.PID] == nil {
		p := &process{parent: f.PPID, threads: map[int32]thread{}}
		if from != nil && !f.Ran {
			p.maps = from.maps
		}
		m.processes[f.PID] = p
	}
	var t thread
	if from != nil {
		t = from.threads[f.PTID]
	}
	m.processes[f.PID].threads[f.TID] = t
}

// comm names a thread. An exec ends the other threads, and replaces the mappings.
func (m *Machine) comm(c *format.Comm) {
	p := m.process(c.PID)
	if c.Exec {
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
	if r.Len == 0 || r.Start+r.Len < r.Start {
		return
	}
	p := m.process(r.PID)
	p.maps = p.maps.With(addrspace.Range[mapping]{Start: r.Start, End: r.Start + r.Len,
		Value: mapping{r.Pgoff, m.file(r)}}, cut)
}

func cut(old *addrspace.Range[mapping], start, _ uint64) mapping {
	return mapping{old.Value.pgoff + start - old.Start, old.Value.file}
}

// file returns the same file for all mappings that differ only in addresses.
func (m *Machine) file(r *format.Mmap) *file {
	k := fileKey{r.Misc, r.V2, string(r.BuildID), r.Maj, r.Min, r.Ino, r.InoGen, r.Prot, r.Flags, r.Filename}
	f := m.files[k]
	if f == nil {
		f = &file{k}
		m.files[k] = f
	}
	return f
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
		f := r.Value.file
		b = (&format.Mmap{Misc: f.misc, V2: f.v2, PID: pid, TID: pid, Start: r.Start, Len: r.End - r.Start,
			Pgoff: r.Value.pgoff, BuildID: []byte(f.buildID), Maj: f.maj, Min: f.min, Ino: f.ino, InoGen: f.gen,
			Prot: f.prot, Flags: f.flags, Filename: f.name}).Append(b, idSize)
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
	for k := range m.files {
		if k.ino != 0 || k.buildID != "" {
			found(k.name)
		}
	}
}

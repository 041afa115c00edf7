package session

import (
	"gperf/format"
	"gperf/internal/addrspace"
	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/jit"
)

// DSO is the file or code that a mapping maps, by perf's name: a path, "[vdso]",
// "[kernel.kallsyms]", "[module]".
type DSO struct {
	Name    string
	Short   string // perf report's name if it is not the last part of Name, or ""
	BuildID dso.BuildID
}

// isJIT reports whether the mapping is anonymous memory.
func (d *DSO) isJIT() bool {
	_, ok := dso.PerfMapPID(d.Name) // not KindOf: it is asked for each frame
	return ok
}

// Map is a mapping: ips Start to End-1 of a process, or of the kernel. It is
// immutable for callers, and stays valid after the walk.
type Map struct {
	Start, End uint64
	Pgoff      uint64 // offset of Start in the DSO's file, in bytes
	DSO        *DSO
	Sharing    Sharing
	symbol     *symbolize.Symbol // of code that only a KSYMBOL record or a jitdump describes
	code       *jit.Code         // with source lines: of a jitdump, or of a BPF program
	perfMap    string            // file that may name code without another name, or ""
	record     *format.Mmap      // the mapping's record, if machine.keepRecords
	frames     frameTables
	counted    int // number of the last counted part of a callchain, see Callchains.count
}

// Sharing says which processes see the data of a mapping.
type Sharing byte

const (
	SharedFile  Sharing = iota // a file's or the kernel's, or unknown
	SharedData                 // those that map the file with MAP_SHARED, as data
	PrivateAnon                // the process alone
)

// sharing returns who sees the data of a mapping.
func sharing(r *format.Mmap) Sharing {
	shared, file := r.Flags&format.MapShared != 0, r.Maj|r.Min != 0 || r.Ino|r.InoGen != 0
	switch {
	case !shared && !file:
		return PrivateAnon
	case shared && file && !r.Executable():
		return SharedData
	}
	return SharedFile
}

// mapKey distinguishes mappings.
type mapKey struct {
	start, end, pgoff uint64
	dso               *DSO
	sharing           Sharing
	perfMap           string
}

func (m *Map) key() mapKey { return mapKey{m.Start, m.End, m.Pgoff, m.DSO, m.Sharing, m.perfMap} }

// Off returns the offset of ip in the DSO's file.
func (m *Map) Off(ip uint64) uint64 { return dso.OffOfIP(ip, m.Start, m.Pgoff) }

// SampledAddr returns the address by which perf report distinguishes sampled instructions without a symbol: the offset
// in the file, or in the kernel and without a mapping the ip. It distinguishes callers by the ip.
func (m *Map) SampledAddr(ip uint64) uint64 {
	if m == nil || m.DSO.IsKernel() {
		return ip
	}
	return m.Off(ip)
}

// ShortDSO returns the DSO's name as perf report prints it, also without a mapping.
func (m *Map) ShortDSO() string {
	if m == nil {
		return unknown
	}
	return m.DSO.ShortName()
}

// newMap returns the mapping of a process. As in perf's map__new, anonymous executable memory belongs to a JIT, with
// symbols in /tmp/perf-PID.map.
func newMap(r *format.Mmap, id dso.BuildID) *Map {
	m := &Map{Start: r.Start, End: r.Start + r.Len, Pgoff: r.Pgoff, DSO: &DSO{Name: r.Filename, BuildID: id},
		Sharing: sharing(r)}
	kind := dso.KindOf(r.Filename)
	if r.Flags&format.MapHugeTLB != 0 {
		kind = dso.KindAnonymous
	}
	switch kind {
	case dso.KindVDSO:
		m.DSO.Name, m.Pgoff = dso.VDSO, 0
	case dso.KindAnonymous, dso.KindProcess:
		m.Pgoff = m.Start // DSOs with these names use addresses, not offsets
		if r.Executable() {
			m.DSO.Name = dso.PerfMap(r.PID)
		}
	case dso.KindMemfd, dso.KindNamedMemory: // files, as perf treats them
		if r.Executable() {
			m.perfMap = dso.PerfMap(r.PID)
		}
	}
	return m
}

// PerfMap returns the path of the perf map that may name the mapping's addresses, in addition to or instead of the
// DSO, if the code was generated at run time. Otherwise it returns "".
func (m *Map) PerfMap() string {
	if m.DSO.isJIT() {
		return m.DSO.Name
	}
	return m.perfMap
}

// maps are the mappings of a process at one time. They are immutable: a new mapping
// makes new maps. They also cache the frames and chains resolved with them.
type maps struct {
	space           addrspace.Space[*Map]
	chains, foreign chains
	called          chains // parts whose first address is a return address
	pointers        uint64 // bits of the program's, 0: unknown
}

// pointerBits returns the size of a program's pointers, if the mapping is one that the kernel makes when it executes
// the program: the mappings of the program before may still be known. Otherwise it returns old.
func pointerBits(m *Map, old uint64) uint64 {
	switch name := m.DSO.Name; {
	case name == dso.VDSO && m.End > 1<<32:
		return 64
	case name == dso.VDSO, name == "[vectors]", name == "[sigpage]": // the latter are Arm's
		return 32
	}
	return old
}

func (ms *maps) find(ip uint64) *Map {
	if r := ms.space.Find(ip); r != nil {
		return r.Value
	}
	return nil
}

// list returns all mappings by address.
func (ms *maps) list() []*Map {
	l := make([]*Map, 0, ms.space.Len())
	for r := range ms.space.All() {
		l = append(l, r.Value)
	}
	return l
}

// with returns the mappings with m, which replaces the parts that it overlaps.
func (ms *maps) with(m *Map) *maps {
	cut := func(old *addrspace.Range[*Map], start, end uint64) *Map { return old.Value.part(start, end) }
	return &maps{space: ms.space.With(addrspace.Range[*Map]{Start: m.Start, End: m.End, Value: m}, cut),
		pointers: pointerBits(m, ms.pointers)}
}

// without returns the mappings without m, which is one of them.
func (ms *maps) without(m *Map) *maps {
	return &maps{space: ms.space.Without(m.Start), pointers: ms.pointers}
}

// part returns the part of a mapping from start to end-1.
func (m *Map) part(start, end uint64) *Map {
	return &Map{Start: start, End: end, Pgoff: m.Off(start), DSO: m.DSO, Sharing: m.Sharing,
		symbol: m.symbol, code: m.code, perfMap: m.perfMap, record: m.record}
}

// clone returns the mappings of a forked process. The caches of the clone are empty, because the mappings of the
// two processes diverge.
func (ms *maps) clone() *maps { return &maps{space: ms.space, pointers: ms.pointers} }

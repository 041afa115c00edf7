package stacks

import (
	"cmp"
	"slices"

	"gperf/bpf"
)

// Incomplete counts stacks that ended before their outermost frame, for one cause at one
// place.
type Incomplete struct {
	Cause bpf.End
	// DSO is the file whose code contains the last frame, or the kernel's name of memory
	// without a file, as "//anon"; "" if nothing is mapped there.
	DSO     string
	Program string // the process's main program; "" if the process is unknown
	N       uint64
	Copied  bool // a copy of the stack was walked
}

// placeCounts counts incomplete stacks by cause and place.
type placeCounts map[Incomplete]uint64 // by Incomplete without N

// maxPlaces limits the number of distinct places; further ones are counted without a DSO.
const maxPlaces = 1000

// add counts a stack that ended at ip in a process with these mappings; space is nil if the
// process is unknown. copied means that a copy of the stack was walked.
func (c placeCounts) add(end bpf.End, space *addrSpace, ip uint64, copied bool) {
	k := Incomplete{Cause: end, Copied: copied}
	if space != nil {
		k.Program = space.program()
		if m := space.find(ip); m != nil {
			k.DSO = m.file.name
		}
	}
	if _, known := c[k]; !known && len(c) >= maxPlaces {
		k = Incomplete{Cause: end, Copied: copied}
	}
	c[k]++
}

// list returns the counts, the highest first.
func (c placeCounts) list() (l []Incomplete) {
	for k, n := range c {
		k.N = n
		l = append(l, k)
	}
	slices.SortFunc(l, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.DSO, b.DSO),
			cmp.Compare(a.Program, b.Program))
	})
	return l
}

// earlyEnd is a stack that BPF did not walk to its end. It is counted when the mappings at
// its time are known.
type earlyEnd struct {
	time uint64
	pid  int32
	head bpf.Head
	ip   uint64 // address of its last frame; one byte less for a return address
}

// cause returns why the walk ended, given the process's mappings at its time: if these include
// the address, the mapping was as new as that of an unknown process.
func (e *earlyEnd) cause(s *addrSpace) bpf.End {
	if e.head.End == bpf.EndNoMapping && s != nil && s.find(e.ip) != nil {
		return bpf.EndNoProcess
	}
	return e.head.End
}

// countEarly counts the stacks of up to a time that ended early.
func (r *resolver) countEarly(time uint64) {
	early := r.merged.early
	n := 0
	for ; n < len(early) && early[n].time <= time; n++ {
		e := &early[n]
		r.side.until(e.time, r.apply)
		var s *addrSpace
		if p := r.procs.byPID[e.pid]; p != nil {
			s = p.space
		}
		if e.head.End == bpf.EndNoProcess {
			if s = r.procs.lookUp(e.pid, &e.head); s != nil {
				r.tables.request(s, e.ip)
			}
		}
		r.incomplete.add(e.cause(s), s, e.ip, false)
	}
	r.merged.early = slices.Delete(early, 0, n)
}

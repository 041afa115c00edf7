package stacks

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/untrusted"
)

// Incomplete counts stacks that ended before the outermost frame, for one cause at one place.
type Incomplete struct {
	Cause bpf.End
	// DSO is the file whose code contains the last frame, or the kernel's name of memory
	// without a file, as "//anon"; "" if nothing is mapped there.
	DSO     string
	Program string // the process's main program; "" if the process is unknown
	N       uint64
	Copied  bool // a copy of the stack was walked
	// Again means that a table came too late, but is in the cache now: the next recording loads it in time.
	Again bool
	// Unread is why the DSO could not be read, so that walks there followed frame pointers; "" if that is not the
	// cause.
	Unread string
}

// placeCounts counts incomplete stacks by cause and place.
type placeCounts map[endPlace]uint64

// endPlace is where stacks end.
type endPlace struct {
	Incomplete             // without N, Again and Unread
	late       *mappedFile // whose table came to BPF too late; nil if all tables came in time
	refused    *mappedFile // that contains the last frame, and has no table; nil for others
}

// maxPlaces limits the number of distinct places; further ones are counted without a DSO.
const maxPlaces = 1000

// add counts a stack that ended at ip in a process with these mappings; space is nil if the process is unknown.
// copied means that a copy of the stack was walked. late is the file whose table came to BPF too late, nil if all
// tables came in time.
func (c placeCounts) add(end bpf.End, space *addrSpace, ip uint64, copied bool, late *mappedFile) {
	k := endPlace{Incomplete: Incomplete{Cause: end, Copied: copied}, late: late}
	if space != nil {
		k.Program = space.program()
		if m := space.find(ip); m != nil {
			if k.DSO = m.file.name; m.file.refused != nil && dso.KindOf(k.DSO) == dso.KindFile {
				k.refused = m.file
			}
		}
	}
	if _, known := c[k]; !known && len(c) >= maxPlaces {
		k = endPlace{Incomplete: Incomplete{Cause: end, Copied: copied}}
	}
	c[k]++
}

// list returns the counts, the highest first.
func (c placeCounts) list() (l []Incomplete) {
	for k, n := range c {
		k.N, k.Again, k.Unread = n, k.late != nil && k.late.cached, k.refused.unread(k.Cause)
		l = append(l, k.Incomplete)
	}
	slices.SortFunc(l, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.DSO, b.DSO),
			cmp.Compare(a.Program, b.Program))
	})
	return l
}

// NotAllowed is Incomplete.Unread of a DSO that this process has no right to read.
const NotAllowed = "it may not be read"

// unread returns Incomplete.Unread of a cause.
func (f *mappedFile) unread(end bpf.End) string {
	switch {
	case f == nil || end == bpf.EndDepth || end == bpf.EndCompat:
		return ""
	case errors.Is(f.refused, untrusted.ErrBlocked):
		return untrusted.ErrBlocked.Error()
	case errors.Is(f.refused, fs.ErrPermission):
		return NotAllowed
	case errors.Is(f.refused, dso.ErrNoFile):
		return "it cannot be opened"
	}
	return ""
}

// earlyEnd is a stack that BPF did not walk to the end. It is counted when the mappings at the time of the stack
// are known.
type earlyEnd struct {
	time uint64
	pid  int32
	head bpf.Head
	ip   uint64 // address of the last frame; one byte less for a return address
	only bool   // there is no other frame
}

// cause returns why the walk ended, given the process's mappings at that time: if these include the address, the
// mapping was as new as a mapping of an unknown process.
func (e *earlyEnd) cause(s *addrSpace) bpf.End {
	if e.head.End == bpf.EndNoMapping && s != nil && s.find(e.ip) != nil {
		return bpf.EndNoProcess
	}
	return e.head.End
}

// late returns the file whose table was not yet in BPF when a walk needed it at ip; nil if the walk ended
// otherwise.
func (s *addrSpace) late(end bpf.End, ip uint64) *mappedFile {
	if s == nil || end != bpf.EndNoTable {
		return nil
	}
	if m := s.find(ip); m != nil {
		return m.file
	}
	return nil
}

// sysCall is the instruction that enters the kernel.
var sysCall = []byte{0x0f, 0x05}

// startsThread reports whether an innermost frame with a return address of 0 is that of a new thread: right after the
// system call in libc's clone, the thread's stack contains nothing else.
func (s *addrSpace) startsThread(ip uint64) bool {
	if s == nil {
		return false
	}
	m := s.find(ip)
	if m == nil || m.file.vm != nil {
		return false
	}
	var before [8]byte // the system call, and the first instructions after it
	return m.file.code(dso.OffOfIP(ip, m.start, m.pgoff)-uint64(len(before)), before[:]) &&
		bytes.Contains(before[:], sysCall)
}

// countEarly counts the stacks of up to a time that ended early.
func (r *resolver) countEarly(time uint64) {
	early := r.merged.early
	n := 0
	for ; n < len(early) && early[n].time <= time; n++ {
		e := &early[n]
		r.side.until(e.time, r.apply)
		var s *addrSpace
		if p := r.procs.tracker.byPID[e.pid]; p != nil {
			s = p.space
		}
		if e.head.End == bpf.EndNoProcess {
			if s = r.procs.lookUp(e.pid, &e.head); s != nil {
				r.tables.request(s, e.ip)
			}
		}
		end := e.cause(s)
		if end == bpf.EndZero && e.only && s.startsThread(e.ip) {
			r.merged.ends[end]--
			r.merged.ends[bpf.EndEntry]++
			continue
		}
		r.incomplete.add(end, s, e.ip, false, s.late(end, e.ip))
	}
	r.merged.early = slices.Delete(early, 0, n)
}

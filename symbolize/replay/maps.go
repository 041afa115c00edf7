package replay

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gperf/format"
	"gperf/symbolize"
	"gperf/symbolize/dso"
)

// DSO is what a mapping shows, under perf's name: a path, "[vdso]",
// "[kernel.kallsyms]", "[module]".
type DSO struct {
	Name    string
	Short   string // under which perf report shows it, where that is not the last part of Name
	BuildID dso.BuildID
}

// isJIT tells whether it is memory that no file backs.
func (d *DSO) isJIT() bool { return strings.HasPrefix(d.Name, "/tmp/perf-") }

// Map is a mapping: ips Start to End-1 of a process, or of the kernel. It does
// not change any more once frames refer to it.
type Map struct {
	Start, End uint64
	Pgoff      uint64
	DSO        *DSO
	symbol     *symbolize.Symbol // of text that only a KSYMBOL record tells of
	frames     frameTable
}

// mapKey is what tells one mapping from another.
type mapKey struct {
	start, end, pgoff uint64
	dso               *DSO
}

// Off is the offset in the DSO's file that ip shows.
func (m *Map) Off(ip uint64) uint64 { return dso.OffOfIP(ip, m.Start, m.Pgoff) }

// newMap makes a mapping of a process, nil when it is empty. As in perf's
// map__new, executable memory that no file backs is a JIT's, whose symbols
// would be found in /tmp/perf-PID.map.
func newMap(r *format.Mmap, id dso.BuildID) *Map {
	m := &Map{Start: r.Start, End: r.Start + r.Len, Pgoff: r.Pgoff, DSO: &DSO{Name: r.Filename, BuildID: id}}
	if m.End <= m.Start {
		return nil
	}
	anon := isAnon(r.Filename)
	switch {
	case isVDSO(r.Filename):
		m.DSO.Name, m.Pgoff = dso.VDSO, 0
	case anon || isNoFile(r.Filename):
		m.Pgoff = m.Start // such names stand for addresses, not for offsets
		if r.Executable() {
			m.DSO.Name = fmt.Sprintf("/tmp/perf-%d.map", r.PID)
		}
	}
	return m
}

func isAnon(name string) bool {
	return name == "" || name == "//anon" || strings.HasPrefix(name, "/dev/zero") || strings.HasPrefix(name, "/anon_hugepage")
}

func isNoFile(name string) bool {
	return strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/SYSV") || name == "[heap]"
}

func isVDSO(name string) bool { return name == dso.VDSO || name == "[vdso32]" || name == "[vdsox32]" }

// maps are the mappings of a process at one time, by address, without overlaps.
// They do not change: a new mapping makes new maps. What was resolved against
// them is kept with them.
type maps struct {
	list            []*Map
	chains, foreign chains
}

func (ms *maps) find(ip uint64) *Map {
	i := sort.Search(len(ms.list), func(i int) bool { return ms.list[i].End > ip })
	if i < len(ms.list) && ms.list[i].Start <= ip {
		return ms.list[i]
	}
	return nil
}

// with returns the mappings with m; what it overlaps loses that part.
func (ms *maps) with(m *Map) *maps {
	lo := sort.Search(len(ms.list), func(i int) bool { return ms.list[i].End > m.Start })
	hi := lo
	put := []*Map{m}
	for hi < len(ms.list) && ms.list[hi].Start < m.End {
		old := ms.list[hi]
		if old.Start < m.Start {
			put = append([]*Map{{Start: old.Start, End: m.Start, Pgoff: old.Pgoff, DSO: old.DSO}}, put...)
		}
		if old.End > m.End {
			put = append(put, &Map{Start: m.End, End: old.End, Pgoff: old.Off(m.End), DSO: old.DSO})
		}
		hi++
	}
	return &maps{list: slices.Concat(ms.list[:lo], put, ms.list[hi:])}
}

// clone returns the mappings of a forked process. What was resolved is still
// right for it, but is not shared: the two go their own ways.
func (ms *maps) clone() *maps { return &maps{list: ms.list} }

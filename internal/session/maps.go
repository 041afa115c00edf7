package session

import (
	"slices"
	"sort"
	"strings"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/jit"
)

// DSO is what a mapping shows, under perf's name: a path, "[vdso]",
// "[kernel.kallsyms]", "[module]".
type DSO struct {
	Name    string
	Short   string // under which perf report shows it, where that is not the last part of Name
	BuildID dso.BuildID
}

// isJIT reports whether the mapping is anonymous memory.
func (d *DSO) isJIT() bool { return strings.HasPrefix(d.Name, "/tmp/perf-") }

// Map is a mapping: ips Start to End-1 of a process, or of the kernel. It does
// not change any more once frames refer to it.
type Map struct {
	Start, End uint64
	Pgoff      uint64
	DSO        *DSO
	symbol     *symbolize.Symbol // of code that only a KSYMBOL record or a jitdump describes
	code       *jit.Code         // of a JIT's dump
	perfMap    string            // DSO that may name code that no file names
	record     *format.Mmap      // the mapping's record, if History.keepRecords
	frames     frameTable
	counted    int // number of the part of a callchain that was counted last
}

// mapKey distinguishes mappings.
type mapKey struct {
	start, end, pgoff uint64
	dso               *DSO
	perfMap           string
}

// Off is the offset in the DSO's file that ip shows.
func (m *Map) Off(ip uint64) uint64 { return dso.OffOfIP(ip, m.Start, m.Pgoff) }

// newMap makes a mapping of a process, or nil if it is empty. As in perf's map__new,
// anonymous executable memory belongs to a JIT, with symbols in /tmp/perf-PID.map.
func newMap(r *format.Mmap, id dso.BuildID) *Map {
	m := &Map{Start: r.Start, End: r.Start + r.Len, Pgoff: r.Pgoff, DSO: &DSO{Name: r.Filename, BuildID: id}}
	if m.End <= m.Start {
		return nil
	}
	anon := isAnon(r.Filename) || r.Flags&format.MapHugeTLB != 0
	switch {
	case isVDSO(r.Filename):
		m.DSO.Name, m.Pgoff = dso.VDSO, 0
	case anon || isNoFile(r.Filename):
		m.Pgoff = m.Start // DSOs with these names have addresses, not offsets
		if r.Executable() {
			m.DSO.Name = jit.PerfMap(r.PID)
		}
	case r.Executable() && isNamedMemory(r.Filename):
		m.perfMap = jit.PerfMap(r.PID)
	}
	return m
}

func isAnon(name string) bool {
	return name == "" || name == "//anon" || strings.HasPrefix(name, "/dev/zero") || strings.HasPrefix(name, "/anon_hugepage")
}

// PerfMap returns the name of the perf map, which may name the mapping's addresses
// in addition to or instead of its DSO: that of code generated at run time. It is
// "" if there is none.
func (m *Map) PerfMap() string {
	if m.DSO.isJIT() {
		return m.DSO.Name
	}
	return m.perfMap
}

// isNamedMemory reports whether a mapping is memory that a process has named. perf
// treats it as a file.
func isNamedMemory(name string) bool {
	return strings.HasPrefix(name, "/memfd:") || strings.HasPrefix(name, "[anon:") || strings.HasPrefix(name, "[anon_shmem:")
}

func isNoFile(name string) bool {
	return strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/SYSV") || name == "[heap]"
}

func isVDSO(name string) bool { return name == dso.VDSO || name == "[vdso32]" || name == "[vdsox32]" }

// maps are the mappings of a process at one time, by address, without overlaps.
// They are immutable: a new mapping makes new maps, which share most blocks with
// the old ones, so forks of a process with many mappings cost little. They also
// cache the frames and chains resolved with them.
type maps struct {
	blocks          [][]*Map // none is empty, none has more than blockSize
	chains, foreign chains
}

// blockSize is more than most processes have.
const blockSize = 128

// block returns the index of the first block that has a mapping ending after ip.
func (ms *maps) block(ip uint64) int {
	return sort.Search(len(ms.blocks), func(i int) bool { return last(ms.blocks[i]).End > ip })
}

func last(b []*Map) *Map { return b[len(b)-1] }

func (ms *maps) find(ip uint64) *Map {
	i := ms.block(ip)
	if i == len(ms.blocks) {
		return nil
	}
	b := ms.blocks[i]
	if m := b[sort.Search(len(b), func(i int) bool { return b[i].End > ip })]; m.Start <= ip {
		return m
	}
	return nil
}

// list returns all mappings.
func (ms *maps) list() []*Map { return slices.Concat(ms.blocks...) }

// with returns the mappings with m; overlapped mappings lose that part.
func (ms *maps) with(m *Map) *maps {
	lo := ms.block(m.Start)
	hi := lo
	for hi < len(ms.blocks) && ms.blocks[hi][0].Start < m.End {
		hi++
	}
	if lo == hi { // between two blocks: it joins one of them
		if lo > 0 {
			lo--
		} else {
			hi = min(hi+1, len(ms.blocks))
		}
	}
	return ms.replaced(lo, hi, insert(slices.Concat(ms.blocks[lo:hi]...), m))
}

// without returns the mappings without m, which is one of them.
func (ms *maps) without(m *Map) *maps {
	i := ms.block(m.Start)
	return ms.replaced(i, i+1, slices.DeleteFunc(slices.Clone(ms.blocks[i]), func(x *Map) bool { return x == m }))
}

// replaced returns the mappings with list in place of the blocks lo to hi-1.
func (ms *maps) replaced(lo, hi int, list []*Map) *maps {
	size := blockSize
	if len(list) > size {
		size /= 2 // room for more
	}
	return &maps{blocks: slices.Concat(ms.blocks[:lo], slices.Collect(slices.Chunk(list, size)), ms.blocks[hi:])}
}

// insert returns the list with m; overlapped mappings lose that part.
func insert(list []*Map, m *Map) []*Map {
	lo := sort.Search(len(list), func(i int) bool { return list[i].End > m.Start })
	hi := lo
	put := []*Map{m}
	for hi < len(list) && list[hi].Start < m.End {
		old := list[hi]
		if old.Start < m.Start {
			put = append([]*Map{old.part(old.Start, m.Start)}, put...)
		}
		if old.End > m.End {
			put = append(put, old.part(m.End, old.End))
		}
		hi++
	}
	return slices.Concat(list[:lo], put, list[hi:])
}

// part returns the part of a mapping from start to end-1.
func (m *Map) part(start, end uint64) *Map {
	return &Map{Start: start, End: end, Pgoff: m.Off(start), DSO: m.DSO, symbol: m.symbol, code: m.code, perfMap: m.perfMap, record: m.record}
}

// clone returns the mappings of a forked process. Their cache starts empty, since
// the mappings of the two diverge.
func (ms *maps) clone() *maps { return &maps{blocks: ms.blocks} }

package synth

import (
	"bytes"
	"debug/elf"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/procmem"
)

// codeCopy is code of a file that a process runs in other memory at the same addresses: programs copy their code to
// anonymous memory, or to a file in memory, so that it is in huge pages (node --use-largepages, BOLT's hugify, iodlr,
// libhugetlbfs).
type codeCopy struct {
	procfs.Mapping                // at the addresses of the copy, of the file whose code it is
	of             procfs.Mapping // a mapping of the file itself
	done           bool           // the memory has the file's code; otherwise the process may still copy it
}

// copiesIn returns the copies of code in the mappings of a process.
func copiesIn(pid int, maps []procfs.Mapping) []codeCopy {
	if !slices.ContainsFunc(maps, mayBeCopy) {
		return nil
	}
	mem, err := procmem.Open(pid)
	if err != nil {
		return nil
	}
	defer mem.Close()
	s := copySearch{pid: pid, maps: maps, mem: mem, images: map[string]*dso.Image{}}
	defer s.close()
	for i, m := range maps {
		if m.Inode != 0 && !dso.KindOf(m.Path).InMemory() {
			s.files = append(s.files, i)
		}
	}
	for i := range maps {
		if mayBeCopy(maps[i]) {
			s.search(i)
		}
	}
	return s.found
}

// mayBeCopy reports whether a mapping is of code in memory, or in a file without a name.
func mayBeCopy(m procfs.Mapping) bool {
	return m.Executable() && (dso.KindOf(m.Path).InMemory() || dso.IsDeleted(m.Path))
}

// copySearch finds the copies of code in a process.
type copySearch struct {
	pid    int
	maps   []procfs.Mapping
	files  []int // indexes of the mappings of files in maps
	mem    io.ReaderAt
	images map[string]*dso.Image // by path of the mapping; nil for files that are not ELF
	found  []codeCopy
}

func (s *copySearch) close() {
	for _, im := range s.images {
		im.Close()
	}
}

// neighbours is how many mappings of files below and above a copy may be of others than ELF files, or of its own file.
// Without a limit, a process with tens of thousands of mappings takes the recorder's time.
const neighbours = 16

// search finds the copies in the ith mapping. Its addresses are between the addresses of the file whose code it copies,
// because the file's headers or data stay where they are: the file is the file of the next mapping below or above.
func (s *copySearch) search(i int) {
	at, _ := slices.BinarySearch(s.files, i)
	below, above := slices.Clone(s.files[max(0, at-neighbours):at]), s.files[at:min(at+neighbours, len(s.files))]
	slices.Reverse(below)
	for _, side := range [][]int{below, above} {
		for _, j := range side {
			if im := s.image(i, j); im != nil {
				if s.inFile(im, s.maps[i], s.maps[j]) {
					return
				}
				break
			}
		}
	}
}

// image returns the ELF file of the jth mapping, which is a file's; nil if it is none, or the file of the ith.
func (s *copySearch) image(i, j int) *dso.Image {
	m := s.maps[j]
	if m.Path == s.maps[i].Path {
		return nil
	}
	im, ok := s.images[m.Path]
	if !ok {
		im, _ = dso.Open(dso.PathOf(s.pid, m.Path, m.Inode, m.Start, m.End))
		s.images[m.Path] = im
	}
	return im
}

// inFile finds the copies in m of code of the file that is mapped as of, and reports whether there are complete ones.
// Segments share pages of the file, so that a mapping may be of several: the comparison decides which one it is.
func (s *copySearch) inFile(im *dso.Image, m, of procfs.Mapping) bool {
	var pending []codeCopy
	for _, bias := range biases(im, of) {
		copies := s.parts(im, bias, m, of)
		if slices.ContainsFunc(copies, func(c codeCopy) bool { return c.done }) {
			s.found = append(s.found, copies...)
			return true
		}
		pending = append(pending, copies...)
	}
	s.found = append(s.found, pending...)
	return false
}

const pageSize = 4096 // a divisor of all page sizes

func pageStart(addr uint64) uint64 { return addr &^ (pageSize - 1) }
func pageEnd(addr uint64) uint64   { return pageStart(addr + pageSize - 1) }

// biases returns the possible values of ip - vaddr of a file with this mapping.
func biases(im *dso.Image, m procfs.Mapping) (l []uint64) {
	for _, p := range im.Loads {
		if m.Off < pageStart(p.Off) || m.Off >= pageEnd(p.Off+p.Filesz) {
			continue
		}
		if bias := dso.IPOfOff(p.Off, m.Start, m.Off) - p.Vaddr; !slices.Contains(l, bias) {
			l = append(l, bias)
		}
	}
	return l
}

// parts returns the parts of m at which a file with this bias has code.
func (s *copySearch) parts(im *dso.Image, bias uint64, m, of procfs.Mapping) (l []codeCopy) {
	for _, p := range im.Loads {
		start, end := p.Vaddr+bias, p.Vaddr+bias+p.Filesz
		c := codeCopy{of: of, Mapping: of}
		c.Start, c.End, c.Prot = max(m.Start, pageStart(start)), min(m.End, pageEnd(end)), m.Prot
		if p.Flags&elf.PF_X == 0 || c.Start >= c.End {
			continue
		}
		c.Off = c.Start - start + p.Off
		c.done = s.same(im, max(c.Start, start), min(c.End, end), start-p.Off)
		l = append(l, c)
	}
	return l
}

// comparedPages is the number of pages, spread over a copy, that are compared with the file.
const comparedPages = 8

// same reports whether the memory from an ip to another has the bytes of the file, whose offsets are smaller by shift,
// in most of the compared pages: programs patch their code. Equal bytes, such as zeros, are no evidence.
func (s *copySearch) same(im *dso.Image, start, end, shift uint64) bool {
	same, other := 0, 0
	step := max(pageSize, pageStart((end-start)/comparedPages))
	for at := start; at < end; at += step {
		n := min(pageSize, end-at)
		file, err := im.Bytes(at-shift, n)
		if err != nil || len(bytes.TrimLeft(file, string(file[:1]))) == 0 {
			continue
		}
		mem := make([]byte, n)
		if _, err := s.mem.ReadAt(mem, int64(at)); err == nil && bytes.Equal(file, mem) {
			same++
		} else {
			other++
		}
	}
	return same > other
}

// AppendCopies appends the records of mappings of files whose code the process with these mappings has copied to
// memory at the same addresses. They replace the mappings of the memory.
func AppendCopies(l []format.Mmap, pid int, maps []procfs.Mapping, buildIDs bool) []format.Mmap {
	for _, c := range copiesIn(pid, maps) {
		if c.done {
			l = append(l, c.record(pid, buildIDs))
		}
	}
	return l
}

func (c *codeCopy) record(pid int, buildID bool) format.Mmap {
	m := MmapOf(pid, c.Mapping)
	if buildID {
		of := MmapOf(pid, c.of)
		m.BuildID = BuildID(&of)
	}
	return m
}

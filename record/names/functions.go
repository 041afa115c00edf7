// Package names gives the functions of interpreters addresses in a mapping that no process has, and makes ELF files
// with their names and lines, so that every reader of recordings finds them in the way in which it finds the
// functions of programs.
//
// The build ID of a file is random: records refer to the file before it is complete. Files are stored in perf's
// build-ID cache. A recording contains one file for each kind of runtime, or, if it is read while it is made,
// several: a file that a record refers to is complete by then, and the recording contains it, too.
package names

import (
	"crypto/rand"
	"hash/maphash"
	"maps"
	"slices"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/runtimes"
)

const (
	textOff = 0x1000
	align   = 16
	// maxText limits the addresses of a file, and maxFunctions the functions of a recording.
	maxText      = 1 << 30
	maxFunctions = 1 << 17
	maxFiles     = 1 << 16
)

// Set is the functions of a recording.
type Set struct {
	files   []*file
	current map[string]*file // by name: the files that get functions
	byValue map[key]uint64
	seed    maphash.Seed
	saved   int // number of functions in the stored files
}

// file is an ELF file with functions.
type file struct {
	name   string // of the mapping, one of package dso's
	number int
	id     dso.BuildID
	list   []function
	next   uint64 // offset of the next function
	saved  int    // number of functions in the stored file
}

// function is a function with a place.
type function struct {
	of  *runtimes.Function
	off uint64 // in the file, and vaddr
}

// key identifies a function across processes.
type key struct {
	dso, name, file string
	size            uint32
	lines           uint64 // hash of them
}

// New returns an empty set.
func New() *Set {
	return &Set{current: map[string]*file{}, byValue: map[key]uint64{}, seed: maphash.MakeSeed()}
}

// file returns the file with a name that gets functions.
func (s *Set) file(name string) *file {
	if s.current[name] == nil {
		var id [20]byte
		rand.Read(id[:])
		f := &file{name: name, number: len(s.files), id: dso.NewBuildID(id[:]), next: textOff}
		s.files = append(s.files, f)
		s.current[name] = f
	}
	return s.current[name]
}

// Add returns the address of the first instruction of a function, in a file with a name of package dso's.
// Functions with the same content get the same address. ok is false if the set is full.
func (s *Set) Add(name string, f *runtimes.Function) (ip uint64, ok bool) {
	k := s.key(name, f)
	if ip, ok = s.byValue[k]; ok {
		return ip, true
	}
	c := s.file(name)
	size := (uint64(f.Size) + align) / align * align
	if len(s.byValue) >= maxFunctions || c.next+size > maxText || c.number >= maxFiles {
		return 0, false
	}
	ip = base(c.number) + c.next
	c.list = append(c.list, function{f, c.next})
	s.byValue[k] = ip
	c.next += size
	return ip, true
}

func (s *Set) key(name string, f *runtimes.Function) key {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, l := range f.Lines {
		maphash.WriteComparable(&h, l)
	}
	return key{name, f.Name, f.File, f.Size, h.Sum64()}
}

// Len returns the number of functions.
func (s *Set) Len() int { return len(s.byValue) }

// base returns the address of a file's mapping.
func base(number int) uint64 { return dso.FunctionsBase + uint64(number)*dso.FunctionsSize }

// FileOf returns the number of the file with the function at an address.
func FileOf(ip uint64) int { return int((ip - dso.FunctionsBase) / dso.FunctionsSize) }

// Mapping returns the record of a file's mapping, for a process.
func (s *Set) Mapping(pid int32, number int) *format.Mmap {
	const private = 2
	return &format.Mmap{Misc: format.MiscUser, PID: pid, TID: pid, Start: base(number), Len: dso.FunctionsSize,
		BuildID: s.files[number].id.Bytes(), Prot: format.ProtExec | 1, Flags: private, V2: true,
		Filename: s.files[number].name}
}

// IP returns the address of an instruction at an offset of a function's code of size bytes that begins at ip. It is the
// second byte of the instruction, because readers look up the byte before a return address.
func IP(ip uint64, size, off uint32) uint64 {
	if off >= size {
		off = 0 // the function did not begin yet
	}
	return ip + uint64(off) + 1
}

// Complete ends the files that get functions, and returns the records that contain them. The records' addresses
// are in the mappings, as if the files' bytes had just been written there; a file's first bytes are in the last
// record of the file.
func (s *Set) Complete() (records []*format.TextPoke) {
	const most = 60000
	for _, name := range slices.Sorted(maps.Keys(s.current)) {
		c := s.current[name]
		for _, p := range c.pieces() {
			for off := 0; off < len(p.data); off += most {
				data := p.data[off:min(off+most, len(p.data))]
				records = append(records, &format.TextPoke{Addr: base(c.number) + p.off + uint64(off), New: data})
			}
		}
	}
	clear(s.current)
	return records
}

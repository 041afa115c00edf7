// Package functions answers "which address has a function that is no machine code?": it gives the functions of
// interpreters addresses in a mapping that no process has, and writes an ELF file with their names and lines, so that
// every reader of recordings finds them in the way in which it finds those of programs.
//
// The file's build ID is random: records refer to the file before it is complete. It is stored in perf's build-ID
// cache.
package functions

import (
	"crypto/rand"
	"fmt"
	"hash/maphash"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/runtimes"
)

// Name is the mapped name of the file.
const Name = "[python]"

// Base is the address of the mapping: above the addresses of user space, which end at 1<<47 or 1<<48 unless a program
// asks the kernel for higher ones, and small enough to be a whole number in readers that use floating point.
const Base = 1 << 50

const (
	mappingSize = 1 << 32
	textOff     = 0x1000
	align       = 16
	// maxText limits the addresses of a file, and maxFunctions its functions.
	maxText      = 1 << 30
	maxFunctions = 1 << 18
)

// Set is the functions of a recording.
type Set struct {
	id      dso.BuildID
	list    []function
	byValue map[key]uint64
	seed    maphash.Seed
	next    uint64 // offset of the next function
	saved   int    // number of functions in the stored file
}

// function is a function with its place.
type function struct {
	*runtimes.Function
	off uint64 // in the file, and vaddr
}

// key identifies a function, whichever process has it.
type key struct {
	name, file string
	size       uint32
	lines      uint64 // hash of them
}

// New returns an empty set.
func New() *Set {
	s := &Set{byValue: map[key]uint64{}, seed: maphash.MakeSeed()}
	s.begin()
	return s
}

// begin begins a file.
func (s *Set) begin() {
	var id [20]byte
	rand.Read(id[:])
	s.id = dso.NewBuildID(id[:])
	s.next = textOff
}

// Add returns the address of a function's first instruction. Functions with the same content have the same address.
// ok is false if the set is full.
func (s *Set) Add(f *runtimes.Function) (ip uint64, ok bool) {
	k := s.key(f)
	if ip, ok = s.byValue[k]; ok {
		return ip, true
	}
	size := (uint64(f.Size) + align) / align * align
	if len(s.list) >= maxFunctions || s.next+size > maxText {
		return 0, false
	}
	ip = Base + s.next
	s.list = append(s.list, function{f, s.next})
	s.byValue[k] = ip
	s.next += size
	return ip, true
}

func (s *Set) key(f *runtimes.Function) key {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, l := range f.Lines {
		maphash.WriteComparable(&h, l)
	}
	return key{f.Name, f.File, f.Size, h.Sum64()}
}

// Len returns the number of functions.
func (s *Set) Len() int { return len(s.list) }

// Mapping returns the record of the mapping, for a process.
func (s *Set) Mapping(pid int32) *format.Mmap {
	const private = 2
	return &format.Mmap{Misc: format.MiscUser, PID: pid, TID: pid, Start: Base, Len: mappingSize,
		BuildID: s.id.Bytes(), Prot: format.ProtExec | 1, Flags: private, Filename: Name, V2: true}
}

// IP returns the address of an instruction at an offset of a function's code of size bytes that begins at ip. It is the
// second byte of the instruction, because readers look up the byte before a return address.
func IP(ip uint64, size, off uint32) uint64 {
	if off >= size {
		off = 0 // the function has not begun
	}
	return ip + uint64(off) + 1
}

// String describes the set.
func (s *Set) String() string {
	return fmt.Sprintf("%d functions of interpreters in %s", len(s.list), s.id)
}

package runtimes

import (
	"encoding/binary"
	"errors"
	"io"

	"gperf/internal/procmem"
)

// Function is a function that a runtime runs.
type Function struct {
	Name string
	File string // as the program names it: it need not be a path
	Size uint32 // of the code, in bytes
	// Lines are the lines of the code, by Off; none may be at 0.
	Lines []Line
	// Partial means that File or Lines could not be read now, but perhaps later.
	Partial bool
}

// Line is the source line from an offset of a function's code on.
type Line struct {
	Off  uint32
	Line int32 // 0: none
}

// Interpreted is an interpreted frame, as the BPF programs read it.
type Interpreted struct {
	Code  uint64 // address of the code object
	Check uint32 // a hash of it
	Off   uint32 // of the instruction, in bytes
	// First means that the interpreter's native function ran this frame first, and since then the previous frames
	// that are not First.
	First bool
	// Native is the number of the native frame that this one belongs to, where a runtime's frames are native ones.
	Native uint16
}

// ErrChanged means that the memory changed since BPF read it.
var ErrChanged = errors.New("the code object has changed")

// verify returns ErrChanged if the check of the function in memory is another one, or the error of the check.
func (f Interpreted) verify(check uint32, err error) error {
	if err == nil && check != f.Check {
		return ErrChanged
	}
	return err
}

// le is the order of bytes in processes: Find finds runtimes for little-endian machines only.
var le = binary.LittleEndian

const (
	maxName = 1 << 12 // bytes of a name
	maxCode = 1 << 24 // bytes of a function's code
)

// readAt reads n bytes at an address of a process.
func readAt(mem io.ReaderAt, addr uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := mem.ReadAt(b, int64(addr)); err != nil {
		return nil, err
	}
	return b, nil
}

// readWord reads a word at an address of a process.
func readWord(mem io.ReaderAt, addr uint64) (uint64, error) {
	r := reader{mem: mem}
	return r.word(addr), r.err
}

// reader reads the memory of a process. After the first error all reads return zeros: the caller checks err at the end.
type reader struct {
	mem io.ReaderAt
	err error
}

// bytes returns n bytes at an address.
func (r *reader) bytes(addr uint64, n int) []byte {
	if r.err == nil {
		var b []byte
		if b, r.err = readAt(r.mem, addr, n); r.err == nil {
			return b
		}
	}
	return make([]byte, n)
}

// word returns the word at an address.
func (r *reader) word(addr uint64) uint64 { return le.Uint64(r.bytes(addr, 8)) }

// fetch reads memory at addresses that are read next, together.
func (r *reader) fetch(addrs ...uint64) {
	if pages, ok := r.mem.(*procmem.Pages); ok && r.err == nil {
		pages.Fetch(addrs...)
	}
}

// fail sets the error unless there is one.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

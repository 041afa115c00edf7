package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"gperf/internal/dso"
)

// Kind is a kind of runtime. The numbers must match BPF's enum.
type Kind uint32

// The runtimes whose functions are named.
const (
	KindPython Kind = iota + 1
	KindRuby
	KindPHP
	KindPerl
	KindV8
	KindJava
)

// Known lists the versions whose functions gperf can name.
const Known = "CPython 3.8 to 3.14, Ruby 3.0 to 3.4, PHP 8.0 to 8.4, Perl 5.36 to 5.40, " +
	"Node.js 18 to 24, Java 8 to 25"

// Runtime is a runtime in a program or library.
type Runtime interface {
	// String returns name and version: CPython 3.11.
	String() string
	// DSO returns the name of the mapping for the runtime's functions, one of the constants in package dso.
	DSO() string
	// Walk returns what BPF needs to know, where the file is loaded with a bias.
	Walk(bias uint64) Walk
	// In returns the runtime of a process, in which the file is loaded with a bias.
	In(bias uint64) Process
}

// Process is the runtime of a process.
type Process interface {
	// Frames returns a stack's native frames in their order, with the functions of the runtime: nil if no function
	// belongs to the stack. The result is valid until the next call for the Stack.
	Frames(s *Stack) []Part
	// Function reads a function from the memory of the process. The error is ErrChanged if another one is there.
	Function(mem io.ReaderAt, f Interpreted) (*Function, error)
}

// Walk describes a runtime to BPF, as struct runtime: the body is a struct of the runtime's kind.
type Walk struct {
	Kind Kind
	_    uint32
	Body [16]uint64
}

// newWalk encodes a struct with the layout of BPF's struct.
func newWalk(k Kind, body any) Walk {
	w := Walk{Kind: k}
	var b [8 * len(w.Body)]byte
	if _, err := binary.Encode(b[:], binary.LittleEndian, body); err != nil {
		panic(fmt.Sprintf("runtimes: %T: %v", body, err)) // too large for Body
	}
	for i := range w.Body {
		w.Body[i] = le.Uint64(b[8*i:])
	}
	return w
}

// finders find the runtimes in files that may contain them, by the files' names. The files are for 64-bit machines
// with the least significant byte first, and errors need not name the files.
var finders = []struct {
	name string
	may  func(name string) bool
	find func(im *dso.Image) (Runtime, error)
}{
	{"Python", mayHavePython, findPython},
	{"Ruby", mayHaveRuby, findRuby},
	{"PHP", mayHavePHP, findPHP},
	{"Perl", mayHavePerl, findPerl},
	{"Java", mayHaveJava, findJava},
	{"V8", mayHaveV8, findV8},
}

// MayHave reports whether a file may contain a runtime, by the file's name: libpython3.11.so.1.0, python3.
func MayHave(name string) bool {
	for _, f := range finders {
		if f.may(name) {
			return true
		}
	}
	return false
}

// Find returns the runtime in a file, or nil if the file contains none. It returns an error for a runtime that
// gperf does not understand.
func Find(im *dso.Image, name string) (Runtime, error) {
	if !im.Is64 || im.ByteOrder() != binary.LittleEndian {
		return nil, nil
	}
	for _, f := range finders {
		if !f.may(name) {
			continue
		}
		r, err := f.find(im)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path.Base(im.Path), f.name, err)
		}
		if r != nil {
			return r, nil
		}
	}
	return nil, nil
}

// maxObject is the size of the part of an object that BPF reads, in bytes.
const maxObject = 256

// ErrVersion means that the version of an interpreter is not known.
var ErrVersion = errors.New("unknown version")

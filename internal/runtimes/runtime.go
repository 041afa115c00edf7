package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"gperf/internal/dso"
)

// Kind is a kind of runtime.
type Kind uint32

// The runtimes whose functions are named.
//
//bpf:enum kind RUNTIME_
const (
	kindPython Kind = iota + 1
	kindRuby
	kindPHP
	kindPerl
	kindV8
	kindJava
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
	// Walk returns the description of the runtime for BPF, where the file is loaded with a bias.
	Walk(bias uint64) Walk
	// In returns the runtime of a process, in which the file is loaded with a bias.
	In(bias uint64) Process
}

// Process is the runtime of a process.
type Process interface {
	// Frames returns a stack's native frames in their order, with the functions of the runtime. nil means that no
	// function belongs to the stack. The result is valid until the next call for the same Stack.
	Frames(s *Stack) []Part
	// Function reads a function from the memory of the process. The error is ErrChanged if another one is there.
	Function(mem io.ReaderAt, f Interpreted) (*Function, error)
}

// Walk describes a runtime to BPF: the body is a struct of the runtime's kind.
//
//bpf:struct runtime
type Walk struct {
	Kind Kind
	_    uint32
	Body [16]uint64
}

// newWalk encodes a struct that BPF has, too.
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

// finder finds a runtime in files that may contain it, by the patterns of the files' names. The files are for 64-bit
// machines with the least significant byte first, and errors need not name the files.
type finder struct {
	name     string
	patterns []string
	find     func(im *dso.Image) (Runtime, error)
}

var finders = []finder{
	{"Python", []string{"*python*"}, findPython},      // libpython3.11.so.1.0, python3
	{"Ruby", []string{"*ruby*"}, findRuby},            // libruby-3.1.so.3.1.2, ruby
	{"PHP", []string{"php*", "libphp*"}, findPHP},     // php-fpm8.2, libphp.so
	{"Perl", []string{"perl*", "libperl*"}, findPerl}, // perl5.36.0, libperl.so.5.36
	{"Java", []string{"libjvm.so"}, findJava},
	{"V8", []string{"node*", "libnode*"}, findV8}, // node, libnode.so.108
}

// may reports whether a file may contain the runtime.
func (f finder) may(name string) bool {
	return slices.ContainsFunc(f.patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	})
}

// MayHave reports whether a file may contain a runtime, by the file's name: libpython3.11.so.1.0, python3.
func MayHave(name string) bool {
	return slices.ContainsFunc(finders, func(f finder) bool { return f.may(name) })
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
//
//bpf:define maxObject OBJECT
const maxObject = 256

// errVersion means that the version of an interpreter is not known.
var errVersion = errors.New("unknown version")

package dso

import (
	"bytes"
	"io"
	"sync"
)

// Functions that are no machine code, because an interpreter runs them, get addresses that no process uses: above
// user space, which ends at 1<<47 or 1<<48 unless a program asks the kernel for higher addresses, and small enough
// to be a whole number in readers that use floating point. Each file with such functions gets a part of these
// addresses.
const (
	FunctionsBase = 1 << 50
	FunctionsSize = 1 << 32
)

// Names of files with functions, by language.
const (
	PythonName     = "[python]"
	RubyName       = "[ruby]"
	PHPName        = "[php]"
	PerlName       = "[perl]"
	JavaScriptName = "[javascript]"
	JavaName       = "[java]"
)

// anyFunctions is the name of a file whose mapping's name is not known.
const anyFunctions = "[functions]"

// Carried are the files with functions that a recording contains.
type Carried struct {
	mu    sync.Mutex
	files map[carriedKey]*sparse // incomplete
	bytes int                    // of all files
	done  map[BuildID]*sparse
}

const (
	maxCarried     = 256 << 20 // bytes of all files
	maxCarriedFile = 64 << 20  // size of a file
)

// carriedKey identifies a file of a recording.
type carriedKey struct {
	recording any
	at        uint64 // the address of the mapping
}

// Add adds some bytes of a recording's file at their address in the file's mapping. The first bytes of the file
// must be added last. It copies b.
func (c *Carried) Add(recording any, addr uint64, b []byte) {
	at, off := carriedKey{recording, addr &^ (FunctionsSize - 1)}, addr%FunctionsSize
	if addr < FunctionsBase || addr >= 2*FunctionsBase || off+uint64(len(b)) > maxCarriedFile {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += len(b); c.bytes > maxCarried {
		return
	}
	if c.files == nil {
		c.files, c.done = map[carriedKey]*sparse{}, map[BuildID]*sparse{}
	}
	f := c.files[at]
	if f == nil {
		f = &sparse{}
		c.files[at] = f
	}
	f.parts = append(f.parts, part{int64(off), bytes.Clone(b)})
	f.size = max(f.size, int64(off)+int64(len(b)))
	if off > 0 {
		return
	}
	delete(c.files, at)
	if im, err := NewImage(f, f.size, anyFunctions); err == nil && !im.BuildID().IsZero() {
		c.done[im.BuildID()] = f
	}
}

// open returns the file with a build ID, nil if the recording does not contain it.
func (c *Carried) open(id BuildID) *Image {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.done[id]
	if f == nil {
		return nil
	}
	im, err := NewImage(f, f.size, anyFunctions)
	if err != nil {
		return nil
	}
	return im
}

// sparse is a file with holes, which are read as zeros.
type sparse struct {
	parts []part
	size  int64
}

// part is the bytes at an offset.
type part struct {
	off int64
	b   []byte
}

// ReadAt implements io.ReaderAt.
func (f *sparse) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 || off >= f.size {
		return 0, io.EOF
	}
	n = int(min(int64(len(b)), f.size-off))
	clear(b[:n])
	for _, p := range f.parts {
		from, to := max(off, p.off), min(off+int64(n), p.off+int64(len(p.b)))
		if from < to {
			copy(b[from-off:to-off], p.b[from-p.off:])
		}
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

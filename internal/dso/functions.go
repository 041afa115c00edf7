package dso

import (
	"bytes"
	"sync"
)

// Functions that are no machine code, because an interpreter runs them, have addresses that no process has: above those
// of user space, which end at 1<<47 or 1<<48 unless a program asks the kernel for higher ones, and small enough to be a
// whole number in readers that use floating point. Each file with such functions has a part of these addresses.
const (
	FunctionsBase = 1 << 50
	FunctionsSize = 1 << 32
)

// PythonName is the name of files with Python functions.
const PythonName = "[python]"

// IsFunctions reports whether a DSO has functions that an interpreter runs.
func IsFunctions(name string) bool { return name == PythonName }

// Carried are the files with functions that a recording contains.
type Carried struct {
	mu    sync.Mutex
	files map[uint64]*sparse // incomplete, by the address of their mapping
	size  uint64
	done  map[BuildID][]byte
}

// sparse is a file of which some bytes are known.
type sparse struct{ b []byte }

// maxCarried limits the size of all these files together, in bytes.
const maxCarried = 256 << 20

// Add adds some bytes of a file at the address that they have in its mapping. The first bytes come last.
func (c *Carried) Add(addr uint64, b []byte) {
	if addr < FunctionsBase {
		return
	}
	at, off := addr&^(FunctionsSize-1), addr%FunctionsSize
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[at]
	if f == nil {
		f = &sparse{}
	}
	if grow := int64(off) + int64(len(b)) - int64(len(f.b)); grow > 0 {
		if c.size += uint64(grow); c.size > maxCarried {
			c.size -= uint64(grow)
			return
		}
		f.b = append(f.b, make([]byte, grow)...)
	}
	copy(f.b[off:], b)
	if c.files == nil {
		c.files, c.done = map[uint64]*sparse{}, map[BuildID][]byte{}
	}
	c.files[at] = f
	if off > 0 {
		return
	}
	delete(c.files, at)
	if im, err := NewImage(bytes.NewReader(f.b), int64(len(f.b)), PythonName); err == nil && !im.BuildID().IsZero() {
		c.done[im.BuildID()] = f.b
	}
}

// open returns the file with a build ID, nil if the recording does not contain it.
func (c *Carried) open(id BuildID) *Image {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.done[id]
	if b == nil {
		return nil
	}
	im, err := NewImage(bytes.NewReader(b), int64(len(b)), PythonName)
	if err != nil {
		return nil
	}
	return im
}

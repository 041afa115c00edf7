package format

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// source provides the bytes of a file or pipe. Positions are in bytes from its start.
type source interface {
	// more returns the bytes from pos on, which begin with have: at least n, or
	// all that are left. They are borrowed from the chunk; the chunk is nil if
	// they are not, or if have is all that is left.
	more(have []byte, pos int64, n int) ([]byte, *chunk, error)
	// size returns its size in bytes, or endless if unknown.
	size() int64
}

// recording is the source of a File.
type recording interface {
	source
	// part returns n bytes from pos on, or all that are left.
	part(pos int64, n int) ([]byte, error)
}

// endless is the size of a source of unknown size.
const endless = 1<<63 - 1

// file is a file that is read, not mapped: a mapped file that is truncated while it
// is read ends the process.
type file struct {
	r      io.ReaderAt
	length int64 // when it was opened
}

func (f *file) size() int64 { return f.length }

func (f *file) more(have []byte, pos int64, n int) ([]byte, *chunk, error) {
	left := f.length - pos
	if left <= int64(len(have)) {
		return have, nil, nil
	}
	c := newChunk(int(min(int64(n), left)))
	b := c.mem[:min(int64(len(c.mem)), left)]
	copy(b, have)
	got, err := f.read(b[len(have):], pos+int64(len(have)))
	return b[:len(have)+got], c, err
}

func (f *file) part(pos int64, n int) ([]byte, error) {
	b := make([]byte, max(0, min(int64(n), f.length-pos)))
	got, err := f.read(b, pos)
	return b[:got], err
}

func (f *file) read(b []byte, pos int64) (int, error) {
	n, err := f.r.ReadAt(b, pos)
	if err != nil && err != io.EOF {
		return n, fmt.Errorf("reading at offset %#x: %w", pos, err)
	}
	return n, nil
}

// chunk is memory with a part of a file. Records and a scanner borrow from it. When
// all of them have released it, it is reused for another part. If a record is never
// released, the garbage collector frees the chunk.
type chunk struct {
	mem   []byte
	users atomic.Int32
}

// chunkSize is how much of a file is read at a time, in bytes.
const chunkSize = 1 << 20

var chunks = sync.Pool{New: func() any { return &chunk{mem: make([]byte, chunkSize)} }}

// lending is the number of users of a chunk while a scanner lends parts of it: the scanner itself counts to how many
// records. The number of records in a chunk is far below it.
const lending = 1 << 30

// newChunk returns a chunk of n bytes or more, whose parts are lent.
func newChunk(n int) *chunk {
	c := &chunk{}
	if n > chunkSize {
		c.mem = make([]byte, n)
	} else {
		c = chunks.Get().(*chunk)
	}
	c.users.Store(lending)
	return c
}

// close ends the lending: lent records have borrowed from the chunk.
func (c *chunk) close(lent int) { c.release(lending - lent) }

// release ends the use by n records.
func (c *chunk) release(n int) {
	if c != nil && c.users.Add(-int32(n)) == 0 && len(c.mem) == chunkSize {
		chunks.Put(c)
	}
}

// stream is a pipe. Data read while it is keeping can be read again.
type stream struct {
	r       io.Reader
	kept    []byte // from the start on
	keeping bool
	pos     int64 // of r's next byte
}

func (s *stream) size() int64 { return endless }

func (s *stream) part(pos int64, n int) ([]byte, error) {
	b, _, err := s.more(nil, pos, n)
	return b, err
}

func (s *stream) more(have []byte, pos int64, n int) (b []byte, _ *chunk, err error) {
	if len(have) == 0 && pos < int64(len(s.kept)) {
		have = s.kept[pos:]
	}
	switch {
	case len(have) >= n:
	case s.keeping && pos <= int64(len(s.kept)):
		s.kept, err = s.read(s.kept, int(pos)+n)
		have = s.kept[min(pos, int64(len(s.kept))):]
	default:
		if err = s.skipTo(pos + int64(len(have))); err == nil {
			have, err = s.read(slices.Clip(have), n)
		}
	}
	return slices.Clip(have), nil, err
}

// read appends to b until it has at least n bytes. It does not wait for more: the
// pipe may be live.
func (s *stream) read(b []byte, n int) ([]byte, error) {
	for len(b) < n {
		// Memory grows with the bytes read, not with a length in the file.
		b = slices.Grow(b, max(64<<10, min(n-len(b), chunkSize)))
		got, err := s.r.Read(b[len(b):cap(b)])
		b = b[:len(b)+got]
		s.pos += int64(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			return b, fmt.Errorf("reading at offset %#x: %w", s.pos, err)
		}
	}
	return b, nil
}

func (s *stream) skipTo(pos int64) error {
	if pos < s.pos {
		return errorf(pos, nil, "a pipe can be read only once")
	}
	got, err := io.CopyN(io.Discard, s.r, pos-s.pos)
	s.pos += got
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading at offset %#x: %w", s.pos, err)
	}
	return nil
}

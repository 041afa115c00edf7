package format

import (
	"fmt"
	"io"
	"slices"
)

// source is where the bytes of a file come from.
type source interface {
	// more returns the bytes from pos on, which begin with have: at least n, or
	// all that are left. Positions are in bytes from the file's start.
	more(have []byte, pos int64, n int) ([]byte, error)
	// size is the file's size in bytes, endless when it is not known.
	size() int64
}

// endless is the size of what ends when it ends.
const endless = 1<<63 - 1

// chunkSize is how much of a file is read at a time, in bytes. Records are
// borrowed from their chunk, which lives as long as one of them, or from the
// Mapping.
const chunkSize = 1 << 20

func sourceOf(r io.ReaderAt, size int64) source {
	if m, ok := r.(*Mapping); ok {
		return m
	}
	return &readerAt{r, size}
}

// more borrows from the mapping.
func (m *Mapping) more(_ []byte, pos int64, n int) ([]byte, error) {
	if pos >= int64(len(m.b)) {
		return nil, nil
	}
	end := min(pos+max(chunkSize, int64(n)), int64(len(m.b)))
	return m.b[pos:end:end], nil
}

func (m *Mapping) size() int64 { return m.Size() }

// readerAt is a file that is read.
type readerAt struct {
	r      io.ReaderAt
	length int64
}

func (s *readerAt) size() int64 { return s.length }

func (s *readerAt) more(have []byte, pos int64, n int) ([]byte, error) {
	left := min(s.length-pos-int64(len(have)), max(chunkSize, int64(n-len(have))))
	if left <= 0 {
		return have, nil
	}
	buf := slices.Grow(have[:len(have):len(have)], int(left))[:len(have)+int(left)]
	got, err := s.r.ReadAt(buf[len(have):], pos+int64(len(have)))
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading at offset %#x: %w", pos, err)
	}
	return buf[:len(have)+got], nil
}

// stream is a pipe. What is read of it until keeping ends can be read again.
type stream struct {
	r       io.Reader
	kept    []byte // from the start on
	keeping bool
	pos     int64 // of r's next byte
}

func (s *stream) size() int64 { return endless }

func (s *stream) more(have []byte, pos int64, n int) (b []byte, err error) {
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
	return slices.Clip(have), err
}

// read appends to b until it is n bytes long, and what comes with them. It does
// not wait for more: the pipe may be live.
func (s *stream) read(b []byte, n int) ([]byte, error) {
	for len(b) < n {
		// Memory is taken as bytes come, not as a length in the file promises.
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

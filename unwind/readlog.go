package unwind

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"gperf/internal/dso"
)

// readLog is a file that remembers which of its bytes were read, and their digest. A result computed from these
// bytes alone is the same for each file that has them at the same places.
type readLog struct {
	file   io.ReaderAt
	sum    hash.Hash
	ranges []byte // in the order of reading: see appendRange
	last   byteRange
	end    uint64 // of the last one of ranges
	failed bool   // a part could not be read
}

type byteRange struct{ off, n uint64 }

func newReadLog(im *dso.Image) *readLog {
	l := &readLog{file: im, sum: sha256.New()}
	l.sum.Write(binary.LittleEndian.AppendUint64(nil, im.Size))
	return l
}

// ReadAt implements io.ReaderAt. It is called by one goroutine at a time.
func (l *readLog) ReadAt(b []byte, off int64) (int, error) {
	n, err := l.file.ReadAt(b, off)
	l.failed = l.failed || err != nil && err != io.EOF
	if l.sum.Write(b[:n]); uint64(off) == l.last.off+l.last.n {
		l.last.n += uint64(n)
	} else {
		l.closeRange()
		l.last = byteRange{uint64(off), uint64(n)}
	}
	return n, err
}

// closeRange adds the last range to ranges: its distance from the previous one, which is negative for a read of
// an earlier part, and its length, as varints.
func (l *readLog) closeRange() {
	if l.last.n > 0 {
		l.ranges = binary.AppendVarint(l.ranges, int64(l.last.off-l.end))
		l.ranges = binary.AppendUvarint(l.ranges, l.last.n)
		l.end = l.last.off + l.last.n
	}
	l.last = byteRange{}
}

// digest returns the SHA-256 of the file's size and of the bytes that were read until now.
func (l *readLog) digest() []byte { return l.sum.Sum(nil) }

// replay returns the digest of a file with the same size and ranges as another one. ok is false if it cannot be read.
func replay(im *dso.Image, ranges []byte) (digest []byte, ok bool) {
	l, r := newReadLog(im), windowReader{file: im, b: make([]byte, 0, windowSize)}
	for in, end := bytes.NewReader(ranges), uint64(0); in.Len() > 0; {
		distance, err1 := binary.ReadVarint(in)
		n, err2 := binary.ReadUvarint(in)
		off := end + uint64(distance)
		if err1 != nil || err2 != nil || off > im.Size || n > im.Size-off || !r.copy(l.sum, off, n) {
			return nil, false
		}
		end = off + n
	}
	return l.digest(), true
}

const windowSize = 256 << 10

// windowReader reads a file in large pieces.
type windowReader struct {
	file io.ReaderAt
	off  uint64
	b    []byte // of the file at off
}

// copy writes n bytes of the file at off to w. It returns false if the file has fewer.
func (r *windowReader) copy(w io.Writer, off, n uint64) bool {
	for n > 0 {
		if off < r.off || off >= r.off+uint64(len(r.b)) {
			got, _ := r.file.ReadAt(r.b[:cap(r.b)], int64(off)) // an error shows by too few bytes
			if r.off, r.b = off, r.b[:got]; got == 0 {
				return false
			}
		}
		part := r.b[off-r.off:]
		part = part[:min(uint64(len(part)), n)]
		w.Write(part)
		off, n = off+uint64(len(part)), n-uint64(len(part))
	}
	return true
}

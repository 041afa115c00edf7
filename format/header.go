package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// The file header: struct perf_file_header of tools/perf/util/header.h.
const (
	magic2         = "PERFILE2"
	magic2Swapped  = "2ELIFREP"
	fileHeaderSize = 104
	sectionSize    = 16 // struct perf_file_section
	attrEntryExtra = 16 // the section of its ids, behind each attr
)

// section is struct perf_file_section: a part of the file.
type section struct{ off, size uint64 }

func (s section) end() uint64 { return s.off + s.size }

// fits tells whether the section lies within a file of size bytes.
func (s section) fits(size int64) bool {
	return s.off <= uint64(size) && s.size <= uint64(size)-s.off
}

// featureBits is the bitmap of the features that a file has: 256 bits.
type featureBits [4]uint64

func (f *featureBits) set(n Feature)      { f[n/64] |= 1 << (n % 64) }
func (f *featureBits) has(n Feature) bool { return f[n/64]>>(n%64)&1 != 0 }

// list returns the features in the order of their sections in the table.
func (f *featureBits) list() (l []Feature) {
	for i, w := range f {
		for ; w != 0; w &= w - 1 {
			l = append(l, Feature(i*64+bits.TrailingZeros64(w)))
		}
	}
	return l
}

// fileHeader is struct perf_file_header, whose first two fields are the magic
// and this header's size.
type fileHeader struct {
	attrSize uint64 // of one entry: attr and the section of its ids
	attrs    section
	data     section
	features featureBits
}

func (h *fileHeader) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, magic2...)
	for _, v := range [...]uint64{fileHeaderSize, h.attrSize, h.attrs.off, h.attrs.size, h.data.off, h.data.size,
		0, 0 /* event types: unused since Linux 3.8 */, h.features[0], h.features[1], h.features[2], h.features[3]} {
		b = le.AppendUint64(b, v)
	}
	return b
}

// ErrNotPerfData says that a file does not begin as a perf.data file does.
var ErrNotPerfData = errors.New("not a perf.data file")

func parseFileHeader(r io.ReaderAt) (fileHeader, binary.ByteOrder, error) {
	var b [fileHeaderSize]byte
	n, err := r.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return fileHeader{}, nil, fmt.Errorf("reading the file header: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case n >= 8 && string(b[:8]) == magic2:
	case n >= 8 && string(b[:8]) == magic2Swapped:
		order = binary.BigEndian
	default:
		return fileHeader{}, nil, errorf(0, ErrNotPerfData, "the file begins with %q instead of %q", b[:min(n, 8)], magic2)
	}
	if n < fileHeaderSize {
		return fileHeader{}, nil, errorf(0, io.ErrUnexpectedEOF, "the file ends after %d bytes of its %d-byte header", n, fileHeaderSize)
	}
	c := cursor{b: b[8:], order: order}
	if size := c.u64(); size != fileHeaderSize {
		return fileHeader{}, nil, errorf(8, nil, "file header of %d bytes instead of %d: pipe-mode and ancient files are not read", size, fileHeaderSize)
	}
	h := fileHeader{attrSize: c.u64()}
	h.attrs = section{c.u64(), c.u64()}
	h.data = section{c.u64(), c.u64()}
	c.take(16)
	for i := range h.features {
		h.features[i] = c.u64()
	}
	return h, order, nil
}

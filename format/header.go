package format

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"strings"
)

// The file header: struct perf_file_header of tools/perf/util/header.h.
const (
	magic1         = "PERFFILE"
	magic2         = "PERFILE2"
	magic2Swapped  = "2ELIFREP"
	fileHeaderSize = 104
	sectionSize    = 16 // struct perf_file_section
	attrEntryExtra = 16 // struct perf_file_section of its ids, after each attr
)

// section is struct perf_file_section: a part of the file.
type section struct{ off, size uint64 }

func (s section) end() uint64 { return s.off + s.size }

// fits reports whether the section lies within a file of size bytes.
func (s section) fits(size int64) bool {
	return s.off <= uint64(size) && s.size <= uint64(size)-s.off
}

// featureBits is the bitmap of the features in a file: 256 bits.
type featureBits [4]uint64

func (f *featureBits) set(n Feature) { f[n/64] |= 1 << (n % 64) }

// list returns the features in the order of the section table.
func (f *featureBits) list() (l []Feature) {
	for i, w := range f {
		for ; w != 0; w &= w - 1 {
			l = append(l, Feature(i*64+bits.TrailingZeros64(w)))
		}
	}
	return l
}

// fileHeader is struct perf_file_header after its first two fields, the magic and the size
// of the header.
type fileHeader struct {
	size     uint64 // of this header
	attrSize uint64 // of one entry: the attr and the section of its ids, in bytes
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

// Kinds of files, by the size of their header in bytes.
const (
	pipeHeaderSize = 16                   // struct perf_pipe_file_header
	oldHeaderSize  = fileHeaderSize - 4*8 // before Linux 2.6.32: no features
)

// ErrNotPerfData is the error for a file that does not begin with perf.data's magic.
var ErrNotPerfData = errors.New("not a perf.data file")

// IsRecording reports whether a file that begins with these 8 bytes is a recording.
func IsRecording(head []byte) bool {
	magic := string(head[:min(len(head), 8)])
	return magic == magic1 || magic == magic2 || magic == magic2Swapped
}

// parseMagic returns the byte order of a file that begins with b, and the size of its
// header. The magic of version 1 is the same in both byte orders, so parseMagic derives
// the order from the header's size.
func parseMagic(b []byte) (Order, uint64, error) {
	order := LittleEndian
	magic := string(b[:min(len(b), 8)])
	switch {
	case magic == magic2Swapped, magic == magic1 && len(b) >= 16 && b[8] == 0:
		order = BigEndian
	case magic == magic2, magic == magic1:
	case len(b) == 0:
		return LittleEndian, 0, errorf(-1, ErrNotPerfData, "the file is empty")
	case strings.HasPrefix(magic, "\x1f\x8b"):
		return LittleEndian, 0, errorf(-1, ErrNotPerfData, "it is compressed with gzip: decompress it first (gunzip)")
	case strings.HasPrefix(magic, "\x28\xb5\x2f\xfd"):
		return LittleEndian, 0, errorf(-1, ErrNotPerfData, "it is compressed with zstd: decompress it first (unzstd)")
	default:
		return LittleEndian, 0, errorf(0, ErrNotPerfData, "the file begins with %q instead of %q", magic, magic2)
	}
	if len(b) < pipeHeaderSize {
		return LittleEndian, 0, errorf(0, io.ErrUnexpectedEOF, "the file ends after %d bytes of its header", len(b))
	}
	size := order.Uint64(b[8:])
	if size != fileHeaderSize && size != pipeHeaderSize && size != oldHeaderSize {
		return LittleEndian, 0, errorf(8, nil, "a file header of %d bytes: it has %d, or %d in pipe mode", size,
			fileHeaderSize, pipeHeaderSize)
	}
	return order, size, nil
}

// parseFileHeader decodes b, the complete header of a file in file mode.
func parseFileHeader(b []byte, order Order) fileHeader {
	c := cursor{b: b[16:], order: order}
	h := fileHeader{size: uint64(len(b)), attrSize: c.u64()}
	h.attrs = section{c.u64(), c.u64()}
	h.data = section{c.u64(), c.u64()}
	c.take(16)
	for i := range h.features {
		h.features[i] = c.u64() // 0 after the end of an old header
	}
	return h
}

package format

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Compressor writes records as PERF_RECORD_COMPRESSED or COMPRESSED2, which together
// contain one zstd stream. A reader can decompress each of them after its predecessors, to
// at most Piece bytes. A record inside the stream may span two pieces.
//
// perf's readers (perf_session__process_compressed_event of
// tools/perf/util/session.c) require more: each piece inflates to at least one
// byte and at most the size in the COMPRESSED section, and from perf 7 on the
// size of the record is a multiple of 8.
type Compressor struct {
	out    *Writer
	kind   Type
	level  int
	enc    *zstd.Encoder
	piece  []byte // records not yet compressed
	rec    []byte // a compressed record
	before int64  // bytes before compression
	after  int64  // bytes after compression
}

const (
	// pieceSize leaves room in a record for the padding, and for a piece that does not shrink.
	pieceSize = 60 << 10
	// zstdWindow bounds the memory of readers, in bytes.
	zstdWindow = 1 << 20
	// zstdBlockHeader is the size of a block's header, in bytes. The header of an empty block
	// is all zeros.
	zstdBlockHeader = 3
)

// NewCompressor returns a Compressor that writes to w with zstd's levels 1 to 22. kind is
// TypeCompressed or TypeCompressed2. TypeCompressed2 stores the length of its data; perf
// before 6.16 cannot read it.
func NewCompressor(w *Writer, kind Type, level int) (*Compressor, error) {
	c := &Compressor{out: w, kind: kind, level: level}
	var err error
	c.enc, err = zstd.NewWriter((*compressed)(c), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("zstd level %d: %w", level, err)
	}
	return c, nil
}

// compressed collects the output of the encoder for one piece.
type compressed Compressor

func (c *compressed) Write(b []byte) (int, error) {
	c.rec = append(c.rec, b...)
	return len(b), nil
}

// Write compresses records. Records may stay in memory until Flush.
func (c *Compressor) Write(records []byte) error {
	for len(records) > 0 {
		n := min(len(records), pieceSize-len(c.piece))
		c.piece = append(c.piece, records[:n]...)
		records = records[n:]
		if len(c.piece) == pieceSize {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush writes all records that are still in memory.
func (c *Compressor) Flush() error {
	if len(c.piece) == 0 {
		return nil
	}
	head := HeaderSize
	if c.kind == TypeCompressed2 {
		head += 8
	}
	c.rec = append(c.rec[:0], make([]byte, head)...)
	if _, err := c.enc.Write(c.piece); err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	if err := c.enc.Flush(); err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	if c.kind == TypeCompressed2 {
		binary.LittleEndian.PutUint64(c.rec[HeaderSize:], uint64(len(c.rec)-head))
		c.rec = append(c.rec, make([]byte, -len(c.rec)&7)...)
	}
	for len(c.rec)%8 != 0 { // 3 has an inverse modulo 8
		c.rec = append(c.rec, make([]byte, zstdBlockHeader)...)
	}
	if len(c.rec) > maxRecordSize {
		return fmt.Errorf("compressing: %d bytes expanded to %d", len(c.piece), len(c.rec))
	}
	binary.LittleEndian.PutUint32(c.rec, uint32(c.kind))
	binary.LittleEndian.PutUint16(c.rec[6:], uint16(len(c.rec)))
	c.before += int64(len(c.piece))
	c.after += int64(len(c.rec))
	c.piece = c.piece[:0]
	return c.out.Write(c.rec)
}

// Sizes returns the number of bytes before compression, and after it.
func (c *Compressor) Sizes() (before, after int64) { return c.before, c.after }

// Section returns the COMPRESSED section: the parameters that readers need before the
// first record, and the ratio so far.
func (c *Compressor) Section() Section {
	ratio := 0.0
	if c.after > 0 {
		ratio = float64(c.before) / float64(c.after)
	}
	return CompressedSection(c.level, int(ratio+0.5))
}

// CompressedSection returns the COMPRESSED section of a file that a Compressor writes
// (env.comp_* in tools/perf/util/header.c). ratio is 0 if it is not yet known.
func CompressedSection(level, ratio int) Section {
	v := Compression{Type: CompressionZstd, Level: uint32(level), Ratio: uint32(ratio), MmapLen: pieceSize}
	return sectionOf(FeatureCompressed, &v, passCompression)
}

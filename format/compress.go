package format

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Compressor writes records as PERF_RECORD_COMPRESSED or COMPRESSED2. Together they
// hold one zstd stream. Each of them can be decompressed after its predecessors,
// and inflates to at most Piece bytes. A compressed record may span two of them.
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
	piece  []byte // not yet compressed
	rec    []byte // a compressed record
	before int64  // bytes that went in
	after  int64  // that came out
}

const (
	// pieceSize leaves room in a record for a piece that does not get smaller, and
	// for the padding.
	pieceSize = 60 << 10
	// zstdWindow bounds the memory that reading takes.
	zstdWindow = 1 << 20
	// zstdBlockHeader is the size of a block's header; of an empty block, it is all zeros.
	zstdBlockHeader = 3
)

// NewCompressor returns a Compressor to w, of zstd's levels 1 to 22. kind is
// TypeCompressed, or TypeCompressed2, which says how long its data is and which perfs
// before 6.16 do not read.
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

// compressed collects the encoder's output for a piece.
type compressed Compressor

func (c *compressed) Write(b []byte) (int, error) {
	c.rec = append(c.rec, b...)
	return len(b), nil
}

// Write compresses records. The last of them may stay in memory until Flush.
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

// Flush writes all that is still in memory.
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
		return fmt.Errorf("compressing: %d bytes became %d", len(c.piece), len(c.rec))
	}
	binary.LittleEndian.PutUint32(c.rec, uint32(c.kind))
	binary.LittleEndian.PutUint16(c.rec[6:], uint16(len(c.rec)))
	c.before += int64(len(c.piece))
	c.after += int64(len(c.rec))
	c.piece = c.piece[:0]
	return c.out.Write(c.rec)
}

// Sizes returns the bytes written, and their compressed size in the file.
func (c *Compressor) Sizes() (before, after int64) { return c.before, c.after }

// Section returns the COMPRESSED section: the parameters that readers need before
// the first record, and the ratio so far.
func (c *Compressor) Section() Section {
	ratio := 0.0
	if c.after > 0 {
		ratio = float64(c.before) / float64(c.after)
	}
	return CompressedSection(c.level, int(ratio+0.5))
}

// CompressedSection is the COMPRESSED section of a file that a Compressor writes
// (struct perf_header's env.comp_* of tools/perf/util/header.c). The ratio is 0
// until it is known.
func CompressedSection(level, ratio int) Section {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0) // version
	b = le.AppendUint32(b, 1)    // PERF_COMP_ZSTD
	b = le.AppendUint32(b, uint32(level))
	b = le.AppendUint32(b, uint32(ratio))
	return Section{FeatureCompressed, le.AppendUint32(b, pieceSize)}
}

package format

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// inflater decompresses the COMPRESSED records of a file. They contain pieces of one zstd
// stream, which perf never closes. A record inside the stream may span two pieces
// (zstd_compress_stream_to_records of tools/perf/util/zstd.c). An inflater is a scanner's
// source.
type inflater struct {
	piece []byte // the unread rest of the current piece
	in    uint64 // compressed bytes so far
	out   uint64 // decompressed bytes so far
	pull  func() ([]byte, bool)
	stop  func() // stops the decoder
	err   error
}

// maxWindow is the largest window of zstd's levels, level -22's, in bytes.
const maxWindow = 128 << 20

// These limits bound the decompressed size of a file, in bytes. Equal stacks shrink to
// about 1/100 of their size, hostile data to about 1/30,000.
const (
	maxInflation   = 1000
	minMaxInflated = 16 << 20
)

func newInflater() *inflater {
	d := new(inflater)
	d.pull, d.stop = iter.Pull(d.run)
	return d
}

// run yields the decompressed data. It yields nil when it needs another piece.
func (d *inflater) run(yield func([]byte) bool) {
	defer func() {
		if p := recover(); p != nil { // damaged data ends only this stream
			d.err = fmt.Errorf("zstd: %v", p)
		}
	}()
	dec, err := zstd.NewReader(pieces{d, yield}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		d.err = err
		return
	}
	defer dec.Close()
	for d.err == nil {
		buf := make([]byte, 64<<10)
		n, err := dec.Read(buf)
		if d.out += uint64(n); d.out > minMaxInflated+maxInflation*d.in {
			d.err = fmt.Errorf("%d bytes inflate to more than %d", d.in, d.out)
			return
		}
		if n > 0 && !yield(buf[:n:n]) {
			return
		}
		d.err = err
	}
}

// pieces is the reader from which the decoder of an inflater takes its input.
type pieces struct {
	d     *inflater
	yield func([]byte) bool
}

func (p pieces) Read(b []byte) (int, error) {
	for len(p.d.piece) == 0 {
		if !p.yield(nil) {
			return 0, io.EOF
		}
	}
	n := copy(b, p.d.piece)
	p.d.piece = p.d.piece[n:]
	return n, nil
}

// add passes the next piece to the inflater.
func (d *inflater) add(piece []byte) {
	d.piece = piece
	d.in += uint64(len(piece))
}

func (d *inflater) size() int64 { return endless }

// more appends the next decompressed data to have, until the pieces are used up.
func (d *inflater) more(have []byte, _ int64, n int) ([]byte, *chunk, error) {
	for len(have) < n {
		b, ok := d.pull()
		switch {
		case !ok:
			return nil, nil, d.err
		case b == nil:
			return have, nil, nil
		case len(have) == 0:
			have = b
		default:
			have = append(slices.Clip(have), b...)
		}
	}
	return have, nil, nil
}

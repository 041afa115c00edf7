package format

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// inflater is what the COMPRESSED records of a file hold: pieces of one zstd
// stream, which is never closed, and in which records lie one after another
// without regard to the pieces' bounds (zstd_compress_stream_to_records of
// tools/perf/util/zstd.c). It is a scanner's source.
type inflater struct {
	piece []byte // the rest of the current record
	in    uint64 // bytes of all records so far
	out   uint64 // bytes that they inflated to
	pull  func() ([]byte, bool)
	stop  func() // ends the decoder
	err   error
}

// maxWindow is the largest window of zstd's levels, in bytes: that of -22.
const maxWindow = 128 << 20

// Limits of what a file's records inflate to, in bytes: equal stacks shrink to
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

// run yields the inflated data, and nil whenever it needs another piece.
func (d *inflater) run(yield func([]byte) bool) {
	defer func() {
		if p := recover(); p != nil { // damaged data must not end more than this stream
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

// pieces is what an inflater's decoder reads.
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

// add gives the inflater the next piece.
func (d *inflater) add(piece []byte) {
	d.piece = piece
	d.in += uint64(len(piece))
}

func (d *inflater) size() int64 { return endless }

// more appends the next data to have, as far as the pieces reach.
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

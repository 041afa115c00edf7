package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"github.com/klauspost/compress/flate"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
)

// pieceSize is the number of a member's bytes in one piece; the last piece contains the rest.
const pieceSize = 256 << 10

// piece is a piece of a member: the offset of the deflated bytes within the member, and the CRC-32 of the contents.
type piece struct {
	off int64
	crc uint32
}

// deflater deflates written data in pieces, several at a time on all cores.
// Together the pieces are one ordinary stream.
type deflater struct {
	out   io.Writer
	index *[]byte // an entry for each piece is appended to it
	buf   []byte
	works []work
}

// work deflates one piece at a time.
type work struct {
	w   *flate.Writer
	out bytes.Buffer
	crc uint32
}

func newDeflater(out io.Writer, index *[]byte) *deflater {
	return &deflater{out: out, index: index, works: make([]work, runtime.GOMAXPROCS(0))}
}

func (d *deflater) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if d.buf == nil {
			d.buf = make([]byte, 0, len(d.works)*pieceSize)
		}
		// Write a full piece only when more data follows, because the type of the last piece differs.
		if len(d.buf) == cap(d.buf) {
			err = d.flush(false)
			continue
		}
		part := p[n:min(len(p), n+cap(d.buf)-len(d.buf))]
		d.buf = append(d.buf, part...)
		n += len(part)
	}
	return n, err
}

// Close writes the rest, and ends the stream.
func (d *deflater) Close() error { return d.flush(true) }

func (d *deflater) flush(last bool) error {
	n := max(1, (len(d.buf)+pieceSize-1)/pieceSize)
	var done sync.WaitGroup
	for i := range n {
		part := d.buf[i*pieceSize : min(len(d.buf), (i+1)*pieceSize)]
		done.Go(func() { d.works[i].deflate(part, last && i == n-1) })
	}
	done.Wait()
	empty := len(d.buf) == 0
	d.buf = d.buf[:0]
	for i := range d.works[:n] {
		w := &d.works[i]
		if !empty {
			*d.index = binary.LittleEndian.AppendUint32(binary.AppendUvarint(*d.index, uint64(w.out.Len())), w.crc)
		}
		if _, err := w.out.WriteTo(d.out); err != nil {
			return err
		}
	}
	return nil
}

// deflate deflates a piece into out, which takes everything.
func (w *work) deflate(part []byte, last bool) {
	w.out.Reset()
	if len(part) == pieceSize && !last && bytes.Equal(part, noPiece) {
		w.crc = zeros().crc
		w.out.Write(zeros().out.Bytes())
		return
	}
	w.deflatePart(part, last)
}

// noPiece is a piece of zeros, and zeros is the deflated form. It is the most frequent piece, because partial files
// keep the size of the file.
var (
	noPiece = make([]byte, pieceSize)
	zeros   = sync.OnceValue(func() *work {
		w := new(work)
		w.deflatePart(noPiece, false)
		return w
	})
)

func (w *work) deflatePart(part []byte, last bool) {
	w.crc = crc32.ChecksumIEEE(part)
	if w.w == nil {
		w.w, _ = flate.NewWriter(&w.out, flate.DefaultCompression)
	} else {
		w.w.Reset(&w.out)
	}
	w.w.Write(part)
	if last {
		w.w.Close()
	} else {
		w.w.Flush()
	}
}

// parseIndex returns the pieces of members with these sizes in bytes, inflated and
// deflated. It trusts nothing in the index.
func parseIndex(b []byte, sizes [][2]uint64) ([][]piece, error) {
	const least = 5 // bytes of an entry
	all := make([][]piece, len(sizes))
	for i, size := range sizes {
		n := size[0] / pieceSize
		if size[0]%pieceSize != 0 {
			n++
		}
		if n > uint64(len(b))/least {
			return nil, fmt.Errorf("%w: its index is too short", ErrDamaged)
		}
		pieces := make([]piece, n, n+1)
		var off uint64
		for j := range pieces {
			length, k := binary.Uvarint(b)
			if k <= 0 || len(b) < k+4 || length > size[1]-off {
				return nil, fmt.Errorf("%w: its index does not fit", ErrDamaged)
			}
			pieces[j] = piece{int64(off), binary.LittleEndian.Uint32(b[k:])}
			off += length
			b = b[k+4:]
		}
		all[i] = append(pieces, piece{off: int64(off)}) // the end
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: its index is too long", ErrDamaged)
	}
	return all, nil
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// inflate fills p with the piece that is deflated in r.
func inflate(p []byte, r io.Reader, crc uint32) error {
	f := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(f)
	f.(flate.Resetter).Reset(r, nil)
	if _, err := io.ReadFull(f, p); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if crc32.ChecksumIEEE(p) != crc {
		return fmt.Errorf("%w: checksum mismatch", ErrDamaged)
	}
	return nil
}

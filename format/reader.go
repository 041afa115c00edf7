package format

import (
	"fmt"
	"io"
	"slices"
)

// chunkSize is how much of the file is read at a time, in bytes. Records are
// borrowed from their chunk, which lives as long as one of them, or from the
// Mapping.
const chunkSize = 1 << 20

// Reader yields a file's records in the order of time.
type Reader struct {
	f     *File
	pos   int64 // in the file, of buf[0]
	end   int64 // of the data
	buf   []byte
	order Sorter[Raw]
	done  bool

	// Skipped counts the parts of the data that could not be used, by what
	// was wrong with the first of each kind.
	Skipped Skipped
}

// Skipped is what was passed over, and why.
type Skipped struct {
	Count int
	First error
}

// Add counts one more.
func (s *Skipped) Add(err error) {
	if s.Count == 0 {
		s.First = err
	}
	s.Count++
}

// Merge adds what another reader passed over.
func (s *Skipped) Merge(o Skipped) {
	if s.Count == 0 {
		s.First = o.First
	}
	s.Count += o.Count
}

// Records starts reading the file's data.
func (f *File) Records() *Reader {
	return &Reader{f: f, pos: int64(f.data.off), end: int64(f.data.end())}
}

// Next returns the next record; io.EOF behind the last one. Any other error is
// that of the file's ReaderAt, and ends the reading.
func (r *Reader) Next() (Raw, error) {
	for {
		if rec, ok := r.order.Next(); ok {
			return rec, nil
		}
		if r.done {
			return Raw{}, io.EOF
		}
		if err := r.advance(); err != nil {
			return Raw{}, err
		}
	}
}

// advance reads records until some may be ready.
func (r *Reader) advance() error {
	for {
		rec, err := r.read()
		switch {
		case err == io.EOF:
			r.done = true
			r.order.Flush()
			return nil
		case err != nil:
			return err
		case rec.Type == TypeFinishedRound:
			r.order.Round()
			return nil
		case rec.Time == 0 || rec.Time == 1<<64-1:
			r.order.PutNow(rec)
			return nil
		}
		r.order.Put(rec.Time, rec)
	}
}

// read returns the next record in the order of the file.
func (r *Reader) read() (Raw, error) {
	if r.pos >= r.end {
		return Raw{}, io.EOF
	}
	if err := r.fill(headerSize); err != nil {
		return Raw{}, err
	}
	if len(r.buf) < headerSize {
		return r.stop("the data ends within a record's header")
	}
	o := r.f.Order
	rec := Raw{Type: Type(o.Uint32(r.buf)), Misc: Misc(o.Uint16(r.buf[4:])), Off: r.pos}
	size := int(o.Uint16(r.buf[6:]))
	if size < headerSize {
		return r.stop("a record of %d bytes, %s: what follows cannot be found", size, rec.Type)
	}
	if err := r.fill(size); err != nil {
		return Raw{}, err
	}
	if len(r.buf) < size {
		return r.stop("the data ends after %d of the %d bytes of a %s record", len(r.buf), size, rec.Type)
	}
	rec.Data = r.buf[headerSize:size:size]
	rec.Time = r.f.time(rec.Type, rec.Data)
	r.skip(int64(size) + payload(rec, r.f))
	return rec, nil
}

// payload is the number of bytes that follow a record without being part of
// its size.
func payload(rec Raw, f *File) int64 {
	if rec.Type != TypeAuxtrace || len(rec.Data) < 8 {
		return 0
	}
	return int64(min(f.Order.Uint64(rec.Data), uint64(f.data.end())))
}

// stop ends the reading where the data makes no sense any more.
func (r *Reader) stop(msg string, args ...any) (Raw, error) {
	r.Skipped.Add(errorf(r.pos, nil, "%s; the last %d bytes of records are lost", fmt.Sprintf(msg, args...), r.end-r.pos))
	r.pos = r.end
	return Raw{}, io.EOF
}

// fill sees to it that buf holds n bytes, or all that are left.
func (r *Reader) fill(n int) error {
	if len(r.buf) >= n {
		return nil
	}
	left := int(min(r.end-r.pos-int64(len(r.buf)), chunkSize))
	if left == 0 {
		return nil
	}
	if m, ok := r.f.r.(*Mapping); ok {
		m.drop(r.pos)
		r.buf = m.b[r.pos:min(r.pos+max(chunkSize, int64(n)), r.end)]
		return nil
	}
	buf := slices.Grow(r.buf[:len(r.buf):len(r.buf)], left)[:len(r.buf)+left]
	got, err := r.f.r.ReadAt(buf[len(r.buf):], r.pos+int64(len(r.buf)))
	r.buf = buf[:len(r.buf)+got]
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading the records at offset %#x: %w", r.pos, err)
	}
	return nil
}

func (r *Reader) skip(n int64) {
	r.pos += n
	r.buf = r.buf[min(n, int64(len(r.buf))):]
}

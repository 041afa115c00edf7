package format

import (
	"bytes"
	"fmt"
	"io"
)

// scanner reads records in file order.
type scanner struct {
	src   source
	order Order
	pos   int64 // of buf[0], in the file
	end   int64 // end of the records, in the file
	buf   []byte
	chunk *chunk // owns buf
	lent  int    // number of records with memory of chunk
	rest  int64  // size of the payload after the last record, in bytes
	// open says that the data may grow: at its end, read returns errUnfinished
	// instead of an error.
	open bool
}

// errUnfinished means that the next record is not complete yet.
var errUnfinished = errorf(-1, nil, "the record is not complete yet")

// read sets rec to the next record, without its time, or returns io.EOF after the last.
// After an *Error the rest of the data is unusable.
func (s *scanner) read(rec *Raw) error {
	if s.rest > 0 {
		s.skip(s.rest)
		s.rest = 0
	}
	if s.pos >= s.end {
		s.close()
		return io.EOF
	}
	if err := s.fill(HeaderSize); err != nil {
		return err
	}
	if len(s.buf) < HeaderSize {
		if len(s.buf) == 0 && s.end == endless && !s.open {
			return io.EOF
		}
		return s.short("the data ends within a record's header")
	}
	*rec = Raw{Type: Type(s.order.Uint32(s.buf)), Misc: Misc(s.order.Uint16(s.buf[4:])), Off: s.pos}
	size := int(s.order.Uint16(s.buf[6:]))
	if rec.Type == TypeCompressed2 {
		if err := s.fill(compressed2Header); err != nil {
			return err
		}
		size = compressed2Size(s.buf, s.order, size)
	}
	if size < HeaderSize {
		if s.truncated() {
			return s.truncation()
		}
		return s.stop("a record of %d bytes, %s: what follows cannot be found", size, rec.Type)
	}
	if err := s.fill(size); err != nil {
		return err
	}
	if len(s.buf) < size {
		return s.short("the data ends after %d of the %d bytes of a %s record", len(s.buf), size, rec.Type)
	}
	rec.Data, rec.chunk = s.buf[HeaderSize:size:size], s.chunk
	s.lent++
	s.skip(int64(size))
	s.rest = payload(rec, s.order)
	return nil
}

// payload returns the number of bytes after a record that belong to it and are not part of its size.
func payload(rec *Raw, order Order) int64 {
	switch {
	case rec.Type == TypeAuxtrace && len(rec.Data) >= 8:
		return int64(min(order.Uint64(rec.Data), endless))
	case rec.Type == TypeHeaderTracing && len(rec.Data) >= 4:
		size := int64(order.Uint32(rec.Data))
		if size > int64(len(rec.Data)-4) { // simpleperf's record contains it
			return size
		}
	}
	return 0
}

// payload returns the data after the last record, and skips it.
func (s *scanner) payload() ([]byte, error) {
	n := int(min(s.rest, maxPayload))
	if err := s.fill(n); err != nil {
		return nil, err
	}
	return bytes.Clone(s.buf[:min(n, len(s.buf))]), nil
}

// maxPayload limits tracing data, in bytes.
const maxPayload = 1 << 30

// The header of PERF_RECORD_COMPRESSED2: struct perf_event_header and the
// size of the compressed data in bytes, which are then padded to a multiple of 8.
const compressed2Header = HeaderSize + 8

// compressed2Size returns a record's size in bytes if its 16-bit size has overflowed.
func compressed2Size(b []byte, order Order, size int) int {
	if len(b) < compressed2Header {
		return size
	}
	data := order.Uint64(b[HeaderSize:])
	if data > maxPayload {
		return size
	}
	whole := (compressed2Header + int(data) + 7) &^ 7
	if whole&maxRecordSize == size {
		return whole
	}
	return size
}

// short stops reading if the data is truncated, unless it may grow.
func (s *scanner) short(msg string, args ...any) error {
	switch {
	case s.open:
		return errUnfinished
	case s.end != endless && int64(len(s.buf)) < s.end-s.pos:
		return s.truncation()
	}
	return s.stop(msg, args...)
}

// truncation returns the error for a file that was truncated.
func (s *scanner) truncation() error {
	return fmt.Errorf("file truncated while reading: the last %d bytes of records are lost", s.end-s.pos)
}

// truncated reports whether the file is shorter than it was when it was opened. A read returns zeros if the file is
// truncated at the same time.
func (s *scanner) truncated() bool {
	if s.open || s.end == endless {
		return false
	}
	b, chunk, err := s.src.more(nil, s.end-1, 1)
	if chunk != nil {
		chunk.close(0)
	}
	return err == nil && len(b) == 0
}

// stop stops reading at unusable data.
func (s *scanner) stop(msg string, args ...any) error {
	text := fmt.Sprintf(msg, args...)
	if s.end == endless {
		text += "; what follows is lost"
	} else {
		text += fmt.Sprintf("; the last %d bytes of records are lost", s.end-s.pos)
	}
	err := errorf(s.pos, nil, "%s", text)
	s.close()
	s.pos = s.end
	return err
}

// fill reads until buf has n bytes, or all that are left.
func (s *scanner) fill(n int) error {
	if len(s.buf) >= n {
		return nil
	}
	buf, c, err := s.src.more(s.buf, s.pos, n)
	if err != nil {
		return err
	}
	if c != nil {
		s.chunk.close(s.lent)
		s.chunk, s.lent = c, 0
	}
	s.buf = buf[:min(int64(len(buf)), s.end-s.pos)]
	return nil
}

// close releases the memory. Do not read after it.
func (s *scanner) close() {
	s.chunk.close(s.lent)
	s.buf, s.chunk, s.lent = nil, nil, 0
}

func (s *scanner) skip(n int64) {
	if n >= s.end-s.pos {
		s.pos, s.buf = s.end, nil
		return
	}
	s.pos += n
	s.buf = s.buf[min(n, int64(len(s.buf))):]
}

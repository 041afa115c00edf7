package format

import (
	"errors"
	"io"
)

// Reader yields a file's records in the order of time, or of the file. perf's own records have no time: the Reader
// yields them at their position in the file.
type Reader struct {
	f     *File
	parts []*part
	// unordered keeps the records in file order.
	unordered bool
	// roundFirst has FINISHED_ROUND before the records of the round.
	roundFirst bool

	// Skipped counts the unusable parts of the data, by the error of the first of
	// each kind.
	Skipped Skipped
	// Late counts the records that are older than earlier yielded ones: they were written after the end of their round.
	Late int
}

// Skipped counts the skipped parts by error.
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

// Merge adds the counts of another reader.
func (s *Skipped) Merge(o Skipped) {
	if s.Count == 0 {
		s.First = o.First
	}
	s.Count += o.Count
}

// Records starts reading the file's data. On a pipe, call it only once. If only
// samples have times (before Linux 2.6.38), all records come in file order, as in
// perf: samples must not move away from the records around them.
func (f *File) Records() *Reader {
	r := &Reader{f: f, unordered: f.Attrs[0].Flags&FlagSampleIDAll == 0}
	for _, d := range f.data {
		p := &part{r: r, src: d.src, scan: d.scanner(f.Order)}
		p.start, p.end = p.scan.pos, p.scan.end
		r.parts = append(r.parts, p)
	}
	return r
}

// RecordsAsWritten starts reading the file's data in the order of the file.
func (f *File) RecordsAsWritten() *Reader {
	r := f.Records()
	r.unordered = true
	return r
}

// RecordsByRound starts reading the file's data in the order of time, except
// FINISHED_ROUND records: they come before the records of their round.
func (f *File) RecordsByRound() *Reader {
	r := f.Records()
	r.roundFirst = true
	return r
}

// Progress returns how many bytes of the data have been read, and of how many: 0 if their number is unknown, as in a
// pipe.
func (r *Reader) Progress() (n, of int64) {
	for _, p := range r.parts {
		n += p.scan.pos - p.start
		if p.end == endless {
			return n, 0
		}
		of += p.end - p.start
	}
	return n, of
}

// Next returns the next record, or io.EOF after the last. Any other error ends the
// reading; it is returned only with File.Strict, and counted otherwise.
func (r *Reader) Next() (rec Raw, err error) { return rec, r.next(&rec) }

// Append appends the next records to l, as many as its capacity allows, but none after a FINISHED_ROUND: the next round
// of a live recording may take long. The error is Next's.
func (r *Reader) Append(l []Raw) ([]Raw, error) {
	for n := len(l); n < cap(l); n++ {
		if err := r.next(&l[:n+1][n]); err != nil {
			return l, err
		}
		l = l[:n+1]
		if l[n].Type == TypeFinishedRound {
			break
		}
	}
	return l, nil
}

// next sets rec to the next record.
func (r *Reader) next(rec *Raw) error {
	if len(r.parts) == 1 {
		return r.parts[0].next(rec)
	}
	return r.merge(rec)
}

// merge sets rec to the oldest of the parts' next records, the first part's if several are.
func (r *Reader) merge(rec *Raw) error {
	var oldest *part
	for _, p := range r.parts {
		if !p.peeked {
			err := p.next(&p.peek)
			if err != nil && err != io.EOF {
				return err
			}
			p.peeked, p.ended = true, err == io.EOF
		}
		if !p.ended && (oldest == nil || p.peek.Time < oldest.peek.Time) {
			oldest = p
		}
	}
	if oldest == nil {
		return io.EOF
	}
	oldest.peeked = false
	*rec = oldest.peek
	return nil
}

// part is the records of one file. A directory has several.
type part struct {
	r          *Reader
	src        recording
	scan       *scanner
	start, end int64 // of its records
	order      RoundSorter[queued]
	done       bool
	// held is how many bytes of memory order holds back, borrowed how many of a
	// file's chunks.
	held, borrowed int

	inflated  *scanner // of the contents of COMPRESSED records; nil before the first
	inflating int64    // offset of the current COMPRESSED record
	damaged   bool     // the rest of the compressed data is unreadable
	sampled   bool     // the part has yielded a sample

	peek          Raw
	peeked, ended bool
}

// queued is a record in the sorter.
type queued struct {
	Raw
	aside int // size of Data if it must be read again, in bytes; 0: Data is in memory
}

func (p *part) next(rec *Raw) error {
	for {
		if q := p.order.Next(); q != nil {
			if q.aside > 0 {
				if err := p.readAgain(q); err != nil {
					p.r.f.Truncated = true
					p.r.Skipped.Add(err)
					continue
				}
			}
			*rec = q.Raw
			return nil
		}
		if p.done {
			return io.EOF
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
}

// maxHeld limits the memory, in bytes, that a part holds back to sort. Without
// FINISHED_ROUND, records that are further apart stay out of order. Data of a file
// does not count: above maxHeld it is read again when needed.
const maxHeld = 64 << 20

// queuedSize is the approximate size in bytes of a record in a RoundSorter, without its data.
const queuedSize = 128

// advance reads records until some may be ready.
func (p *part) advance() error {
	for {
		var q queued
		rec := &q.Raw
		err := p.read(rec)
		switch {
		case err == io.EOF:
			p.done = true
			p.endInflating()
			p.order.Flush()
			p.r.Late += p.order.Late
			return nil
		case err != nil:
			return err
		case rec.Type == TypeFinishedRound:
			if p.r.roundFirst {
				p.order.PutNow(q)
			}
			p.order.Round()
			if !p.r.roundFirst {
				p.order.PutNow(q)
			}
			p.held, p.borrowed = 0, 0
			return nil
		case p.r.unordered || rec.Time == 0 || rec.Time == 1<<64-1:
			p.order.PutNow(q)
			return nil
		}
		p.put(&q)
		if p.held > maxHeld {
			p.order.Half()
			p.held, p.borrowed = p.held/2, p.borrowed/2
			return nil
		}
	}
}

// put adds a record to the sorter.
func (p *part) put(q *queued) {
	p.held += queuedSize
	switch {
	case q.chunk == nil:
		p.held += len(q.Data)
	case p.borrowed < maxHeld:
		p.borrowed += len(q.Data)
	default:
		q.aside = len(q.Data)
		q.Release()
	}
	p.order.Put(q.Time, *q)
}

// readAgain reads the data of a record that was put aside.
func (p *part) readAgain(q *queued) (err error) {
	q.Data, err = p.src.part(q.Off+HeaderSize, q.aside)
	if err == nil && len(q.Data) < q.aside {
		err = errorf(q.Off, io.ErrUnexpectedEOF, "file truncated while reading")
	}
	return err
}

// read sets rec to the next record in the order of the file, including those in COMPRESSED records.
func (p *part) read(rec *Raw) error {
	for {
		err := io.EOF
		if p.inflated != nil {
			err = p.readInflated(rec)
		}
		if err == io.EOF {
			err = p.scan.read(rec)
		}
		if err == nil {
			p.note(rec)
			p.r.f.repair.Apply(rec.Type, &rec.Misc, &rec.Data, p.r.f.Order)
			rec.Time = p.r.f.time(rec.Type, rec.Data)
			return nil
		}
		var bad *Error
		switch {
		case err == io.EOF && p.inflated != nil && len(p.inflated.buf) > 0:
			err = errorf(p.inflating, nil, "the compressed data ends after %d bytes of a record", len(p.inflated.buf))
			p.inflated.buf = nil
			fallthrough
		case errors.As(err, &bad):
			if p.r.f.Strict {
				return err
			}
			p.r.Skipped.Add(err)
		case err == io.EOF, p.r.f.Strict:
			return err
		default: // keep the records read before
			p.scan.end = p.scan.pos
			p.r.f.Truncated = true
			p.r.Skipped.Add(err)
		}
	}
}

// note prepares for the data after a record.
func (p *part) note(rec *Raw) {
	switch rec.Type {
	case TypeCompressed, TypeCompressed2:
		p.inflate(rec)
	case TypeSample:
		p.sampled = true
	case TypeHeaderAttr:
		if p.sampled {
			p.r.Skipped.Add(errorf(rec.Off, nil,
				"event attribute after the first sample: samples of this event cannot be decoded"))
		}
	}
}

// inflate passes a COMPRESSED record's piece to the inflater.
func (p *part) inflate(rec *Raw) {
	if p.damaged {
		return
	}
	piece := rec.Data
	if rec.Type == TypeCompressed2 {
		if len(piece) < 8 {
			p.r.Skipped.Add(rec.tooShort("its size"))
			return
		}
		size := p.r.f.Order.Uint64(piece)
		piece = piece[8:]
		piece = piece[:min(size, uint64(len(piece)))]
	}
	if p.inflated == nil {
		p.inflated = &scanner{src: newInflater(), order: p.scan.order, end: endless, open: true}
	}
	p.inflated.src.(*inflater).add(piece)
	p.inflating = rec.Off
}

// readInflated sets rec to the next record of the current piece, or returns io.EOF.
func (p *part) readInflated(rec *Raw) error {
	err := p.inflated.read(rec)
	switch {
	case err == errUnfinished:
		return io.EOF
	case err != nil:
		return p.damage(err, "what is compressed from here on is lost")
	case rec.Type == TypeCompressed || rec.Type == TypeCompressed2:
		return p.damage(nil, "a %s record within a compressed one: what is compressed from here on is lost", rec.Type)
	}
	rec.Off = p.inflating
	return nil
}

// damage stops reading compressed data.
func (p *part) damage(err error, msg string, args ...any) error {
	p.endInflating()
	p.damaged = true
	return errorf(p.inflating, err, msg, args...)
}

func (p *part) endInflating() {
	if p.inflated != nil {
		p.inflated.src.(*inflater).stop()
		p.inflated = nil
	}
}

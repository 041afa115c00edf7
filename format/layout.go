package format

import (
	"encoding/binary"
	"math/bits"
)

// Mmap2Filename is the position of the file name in a PERF_RECORD_MMAP2, in bytes after the header: it
// follows pid and tid, addr, len and pgoff, device and inode or build ID, prot and flags.
const Mmap2Filename = 8 + 3*8 + 24 + 8

// SampleLayout gives the positions of fields in the records of one event. In samples they are in bytes
// after the header, in other records (attr.sample_id_all) in bytes before the end of the record.
//
// The order of the fields is the order of perf_output_sample and perf_event__output_id_sample of
// kernel/events/core.c.
type SampleLayout struct {
	ID, IP, TID, Time, Period int // of samples; -1: absent. ID prefers IDENTIFIER
	Fixed                     int // end of the fields of fixed size, which precede the counter values
	IDFromEnd, TimeFromEnd    int // of other records; 0: absent
	Trailer                   SampleType

	readFormat           ReadFormat
	read, callchain, raw bool
}

// fixedFields are the fields of fixed size, in their order.
var fixedFields = [...]SampleType{SampleIdentifier, SampleIP, SampleTID, SampleTime, SampleAddr,
	SampleID, SampleStreamID,
	SampleCPU, SamplePeriod}

// trailerFields are the fields at the end of records that are not samples, the last one first.
var trailerFields = [...]SampleType{SampleIdentifier, SampleCPU, SampleStreamID, SampleID, SampleTime}

// NewSampleLayout returns the layout of the records of an event.
func NewSampleLayout(a *Attr) SampleLayout {
	st := a.SampleType
	l := SampleLayout{ID: -1, IP: -1, TID: -1, Time: -1, Period: -1, readFormat: a.ReadFormat,
		read: st&SampleRead != 0, callchain: st&SampleCallchain != 0, raw: st&SampleRaw != 0}
	at := map[SampleType]*int{SampleIP: &l.IP, SampleTID: &l.TID, SampleTime: &l.Time, SamplePeriod: &l.Period}
	for _, bit := range fixedFields {
		if st&bit == 0 {
			continue
		}
		if at[bit] != nil {
			*at[bit] = l.Fixed
		}
		if bit == SampleIdentifier || bit == SampleID && l.ID < 0 {
			l.ID = l.Fixed
		}
		l.Fixed += 8
	}
	if a.Flags&FlagSampleIDAll == 0 {
		return l
	}
	l.Trailer = st
	end := 0
	for _, bit := range trailerFields {
		if st&bit == 0 {
			continue
		}
		end += 8
		switch {
		case bit == SampleTime:
			l.TimeFromEnd = end
		case bit == SampleIdentifier, bit == SampleID && l.IDFromEnd == 0:
			l.IDFromEnd = end
		}
	}
	return l
}

// Callchain returns the position of the callchain, which begins with its length, in the body of a
// little-endian sample. It returns -1 if the sample has none, or is too short for it.
func (l *SampleLayout) Callchain(body []byte) int {
	if !l.callchain {
		return -1
	}
	at := l.afterRead(body)
	if at < 0 || at+8 > len(body) {
		return -1
	}
	if n := binary.LittleEndian.Uint64(body[at:]); n > uint64(len(body)-at-8)/8 {
		return -1
	}
	return at
}

// Raw returns the position of the raw data, which begin with their size, in the body of a little-endian
// sample. It returns -1 if the sample has none, or is too short for their size.
func (l *SampleLayout) Raw(body []byte) int {
	if !l.raw {
		return -1
	}
	at := l.afterRead(body)
	if l.callchain {
		if at = l.Callchain(body); at >= 0 {
			at += 8 + 8*int(binary.LittleEndian.Uint64(body[at:]))
		}
	}
	if at < 0 || at+4 > len(body) {
		return -1
	}
	return at
}

// afterRead returns the end of the counter values in a sample, -1 if the sample is too short for them.
func (l *SampleLayout) afterRead(body []byte) int {
	if !l.read {
		return l.Fixed
	}
	if l.Fixed+8 > len(body) {
		return -1
	}
	n := l.readFormat.words(binary.LittleEndian.Uint64(body[l.Fixed:]))
	if n > uint64(len(body)-l.Fixed)/8 {
		return -1
	}
	return l.Fixed + 8*int(n)
}

// perCounter returns the number of words for each counter in struct read_format: its value, id and
// count of lost records.
func (rf ReadFormat) perCounter() uint64 {
	return uint64(1 + bits.OnesCount64(uint64(rf&(ReadID|ReadLost))))
}

// times returns the number of times in struct read_format.
func (rf ReadFormat) times() uint64 {
	return uint64(bits.OnesCount64(uint64(rf & (ReadTotalTimeEnabled | ReadTotalTimeRunning))))
}

// words returns the number of words in struct read_format; first is the first of them, for a group
// the number of counters. A number of counters that no record can hold counts as the largest one.
func (rf ReadFormat) words(first uint64) uint64 {
	if rf&ReadGroup == 0 {
		return rf.times() + rf.perCounter()
	}
	return 1 + rf.times() + rf.perCounter()*min(first, maxRecordSize)
}

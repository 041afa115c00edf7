package format

import (
	"errors"
	"io"
	"iter"
	"math"
)

// maxHead limits the search for the first sample of a pipe, in bytes.
const maxHead = 256 << 20

// readHead reads the records of a pipe-mode file up to the first sample. In pipe mode,
// perf's own records replace the sections of file mode.
func (f *File) readHead() error {
	f.Complete = true
	f.data = []data{{f.src, section{pipeHeaderSize, uint64(f.src.size()) - pipeHeaderSize}}}
	s := f.data[0].scanner(f.Order)
	for s.pos-pipeHeaderSize < maxHead {
		var rec Raw
		err := s.read(&rec)
		var bad *Error
		if err == io.EOF || errors.As(err, &bad) {
			break // the Reader gets here again and reports the defect
		}
		if err != nil {
			return err
		}
		if rec.endsHead() {
			break
		}
		if err := f.describe(s, rec); err != nil {
			return err
		}
	}
	if len(f.Attrs) == 0 {
		var why error
		if len(f.Warnings) > 0 {
			why = errors.Unwrap(f.Warnings[0])
		}
		return errorf(-1, why, "no event is described before the first sample")
	}
	return nil
}

// endsHead reports whether the record is a sample, may contain samples, or says that samples
// follow: the first one of a live recording may be far away.
func (r Raw) endsHead() bool {
	return r.Type == TypeFinishedInit || r.Type == TypeSample || r.Type == TypeCompressed || r.Type == TypeCompressed2
}

// Head yields the records before the first sample, in file order. It reports no defects;
// Records reports them.
func (f *File) Head() iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		s := f.data[0].scanner(f.Order)
		for start := s.pos; s.pos-start < maxHead; {
			var rec Raw
			if s.read(&rec) != nil || rec.endsHead() || !yield(rec) {
				return
			}
		}
	}
}

// describe stores a record that describes the recording.
func (f *File) describe(s *scanner, rec Raw) error {
	c := &cursor{b: rec.Data, order: f.Order}
	switch rec.Type {
	case TypeHeaderAttr:
		if err := f.describeEvent(rec); err != nil {
			f.warn(err)
		}
	case TypeHeaderFeature:
		if n := c.u64(); n < uint64(len(f.hdr.features)*64) && !c.short {
			f.addSection(Feature(n), c.b)
		}
	case TypeHeaderTracing:
		b, err := s.payload()
		if err != nil {
			return err
		}
		f.addSection(FeatureTracingData, b)
	case TypeHeaderBuildID:
		// The section contains these records, headers included.
		f.addSection(FeatureBuildID, rec.Append(f.Sections[FeatureBuildID], f.Order))
	case TypeEventUpdate:
		f.updateEvent(c)
	}
	return nil
}

func (f *File) addSection(n Feature, b []byte) {
	f.hdr.features.set(n)
	f.Sections[n] = b
}

// describeEvent adds the event of a HEADER_ATTR record: an attr, whose size field gives
// its length, and ids up to the end of the record.
func (f *File) describeEvent(rec Raw) error {
	c := cursor{b: rec.Data, order: f.Order}
	c.u32()
	size := int(min(c.u32(), math.MaxInt32))
	switch {
	case c.short || size > len(rec.Data):
		return errorf(rec.Off, nil, "%s record of %d bytes is too short for its attr of %d bytes", rec.Type,
			len(rec.Data)+HeaderSize, size)
	case size == 0: // perf before 2.6.33 wrote no size
		size = min(minAttrSize, len(rec.Data))
	}
	a, err := parseAttr(rec.Data[:size], f.Order)
	if err != nil {
		return errorf(rec.Off, err, "event %d", len(f.Attrs))
	}
	f.addAttr(a, rec.Data[size:])
	return nil
}

// eventUpdateName is PERF_EVENT_UPDATE__NAME: the name that the user gave the event.
const eventUpdateName = 2

// updateEvent stores the name from an EVENT_UPDATE record.
func (f *File) updateEvent(c *cursor) {
	kind, id := c.u64(), c.u64()
	if i, ok := f.byID[id]; ok && kind == eventUpdateName {
		f.Attrs[i].Name = c.cstring()
	}
}

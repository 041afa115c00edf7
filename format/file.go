package format

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/format/tracepoint"
)

// File is an open perf.data file: what it says about itself. Its records come
// from Records.
type File struct {
	Order    binary.ByteOrder
	Attrs    []Attr
	Sections map[Feature][]byte
	Tracing  *TracingData // nil without tracepoints

	// Complete tells whether the recording was finished: that data.size is set.
	Complete bool
	// Warnings tell what is wrong with the file without keeping it from being
	// read.
	Warnings []error

	r    io.ReaderAt
	size int64
	hdr  fileHeader
	data section
	byID map[uint64]int // counter id → index in Attrs
	// layout is the attrs' common sample layout, by which a sample's id is found
	layouts []layout
}

// Open reads everything but the records of a perf.data file of size bytes. The
// file may still grow while it is read.
func Open(r io.ReaderAt, size int64) (*File, error) {
	hdr, order, err := parseFileHeader(r)
	if err != nil {
		return nil, err
	}
	f := &File{Order: order, Sections: map[Feature][]byte{}, r: r, size: size, hdr: hdr, byID: map[uint64]int{}}
	if err := f.readAttrs(); err != nil {
		return nil, err
	}
	f.locateData()
	f.readFeatures()
	f.readTracing()
	if err := f.nameAttrs(); err != nil {
		f.warn(err)
	}
	f.nameTracepoints()
	for i := range f.Attrs {
		f.layouts = append(f.layouts, newLayout(&f.Attrs[i]))
	}
	return f, nil
}

func (f *File) warn(err error) { f.Warnings = append(f.Warnings, err) }

// read returns the bytes of a section that lies within the file.
func (f *File) read(s section, what string) ([]byte, error) {
	if !s.fits(f.size) {
		return nil, errorf(int64(s.off), io.ErrUnexpectedEOF, "%s: %d bytes, but the file ends at %#x", what, s.size, f.size)
	}
	b := make([]byte, s.size)
	if _, err := f.r.ReadAt(b, int64(s.off)); err != nil {
		return nil, errorf(int64(s.off), err, "%s", what)
	}
	return b, nil
}

func (f *File) readAttrs() error {
	entry := int(min(f.hdr.attrSize, 1<<16))
	if entry < minAttrSize+attrEntryExtra {
		return errorf(16, nil, "attr entries of %d bytes are shorter than %d", f.hdr.attrSize, minAttrSize+attrEntryExtra)
	}
	b, err := f.read(f.hdr.attrs, "attrs")
	if err != nil {
		return err
	}
	for i := 0; len(b) >= entry; i, b = i+1, b[entry:] {
		a, err := parseAttr(b[:entry-attrEntryExtra], f.Order)
		if err != nil {
			return errorf(int64(f.hdr.attrs.off)+int64(i*entry), err, "event %d", i)
		}
		c := cursor{b: b[entry-attrEntryExtra : entry], order: f.Order}
		ids, err := f.read(section{c.u64(), c.u64()}, fmt.Sprintf("ids of event %d", i))
		if err != nil {
			return err
		}
		for c := (cursor{b: ids, order: f.Order}); len(c.b) >= 8; {
			id := c.u64()
			a.IDs = append(a.IDs, id)
			f.byID[id] = i
		}
		f.Attrs = append(f.Attrs, a)
	}
	if len(f.Attrs) == 0 {
		return errorf(int64(f.hdr.attrs.off), nil, "the file describes no event")
	}
	return nil
}

// locateData bounds the data by what is there: a recording that was killed has
// a data.size of 0, one that was cut has less than it says.
func (f *File) locateData() {
	f.data = f.hdr.data
	f.Complete = f.data.size != 0
	if f.data.off > uint64(f.size) {
		f.warn(errorf(int64(f.data.off), io.ErrUnexpectedEOF, "the file ends at %#x, before its records begin", f.size))
		f.data = section{uint64(f.size), 0}
	}
	rest := uint64(f.size) - f.data.off
	switch {
	case !f.Complete:
		f.data.size = rest
		f.warn(errorf(-1, nil, "the recording was not finished properly (its data size is 0): reading to the end of the file"))
	case f.data.size > rest:
		f.warn(errorf(-1, nil, "the file was cut short: %d of its %d bytes of records are there", rest, f.data.size))
		f.data.size = rest
		f.Complete = false
	}
}

func (f *File) readFeatures() {
	features := f.hdr.features.list()
	table := section{f.hdr.data.end(), uint64(len(features) * sectionSize)}
	early := section{f.hdr.data.off - table.size, table.size}
	places, err := f.readTable(table)
	if !f.Complete {
		// Only gperf's own files have a table before the data.
		places, err = f.readTable(early)
		if err != nil || !contiguous(places, early.off) {
			return
		}
	}
	if err != nil {
		f.warn(err)
		return
	}
	for i, n := range features {
		data, err := f.read(places[i], fmt.Sprintf("feature section %d", n))
		if err != nil {
			f.warn(err)
			continue
		}
		f.Sections[n] = data
	}
}

func (f *File) readTable(at section) ([]section, error) {
	b, err := f.read(at, "table of the feature sections")
	if err != nil {
		return nil, err
	}
	var places []section
	for c := (cursor{b: b, order: f.Order}); len(c.b) > 0; {
		places = append(places, section{c.u64(), c.u64()})
	}
	return places, nil
}

// contiguous tells whether the sections lie one behind another up to end, as
// those that a Writer puts before the data do.
func contiguous(places []section, end uint64) bool {
	places = slices.SortedFunc(slices.Values(places), func(a, b section) int { return cmp.Compare(a.off, b.off) })
	var last section
	for _, p := range places {
		if p.off < last.end() || p.off > end || p.size > end-p.off {
			return false
		}
		last = p
	}
	return len(places) > 0 && end-last.end() < 8
}

func (f *File) readTracing() {
	data, ok := f.Sections[FeatureTracingData]
	if !ok {
		return
	}
	var err error
	if f.Tracing, err = parseTracingData(data); err != nil {
		f.warn(err)
	}
}

// nameTracepoints names the tracepoint events that no EVENT_DESC has named.
func (f *File) nameTracepoints() {
	for i := range f.Attrs {
		a := &f.Attrs[i]
		if t := f.Tracepoint(i); t != nil && a.Name == "" {
			a.Name = t.System + ":" + t.Name
		}
	}
}

// Tracepoint returns the format of event i's raw data, nil when it is no
// tracepoint or the file does not hold it.
func (f *File) Tracepoint(i int) *tracepoint.Format {
	a := &f.Attrs[i]
	if a.Type != TypeTracepoint || f.Tracing == nil {
		return nil
	}
	return f.Tracing.Format(int(a.Config))
}

// EventByID returns the index in Attrs of the event that a counter's id
// belongs to.
func (f *File) EventByID(id uint64) (int, bool) {
	i, ok := f.byID[id]
	return i, ok
}

// EventName returns the name of event i as perf shows it.
func (f *File) EventName(i int) string {
	if name := strings.TrimRight(f.Attrs[i].Name, ", "); name != "" {
		return name
	}
	return f.Attrs[i].defaultName()
}

// DataOffset, DataSize and FeatureOffset tell where the file says its parts
// lie, in bytes.
func (f *File) DataOffset() uint64    { return f.hdr.data.off }
func (f *File) DataSize() uint64      { return f.hdr.data.size }
func (f *File) FeatureOffset() uint64 { return f.hdr.data.end() }

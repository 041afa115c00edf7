package format

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/format/tracepoint"
)

// File is an open perf.data file, with its attrs and sections. Records returns its records.
type File struct {
	Order    Order
	Attrs    []Attr
	Sections map[Feature][]byte
	Tracing  *TracingData // nil without tracepoints

	// Version is the version of the file format: 1 before Linux 3.6, 2 since then.
	Version int
	// Pipe reports whether the file is in pipe mode: attrs and sections are records.
	Pipe bool
	// Complete reports whether the recording was finished: that data.size is set and, if gperf wrote it, that it has
	// the sections known at the end. After a Checkpoint it has not.
	Complete bool
	// Truncated is set when the file ends before its parts do, also when that
	// happens while it is read.
	Truncated bool
	// Warnings are the defects of the file that do not prevent reading it.
	Warnings []error
	// Strict makes the first defect end the reading.
	Strict bool

	src    recording
	hdr    fileHeader
	data   []data
	budget uint64         // bytes of sections that may still be read
	byID   map[uint64]int // counter id → index in Attrs
	// layouts are the attrs' sample layouts. All have the id in the same place.
	layouts []SampleLayout
	repair  Repair
	// stacks are those that samples of hiperf refer to, nil without.
	stacks HiperfStacks
}

// Files of a recording that is a directory.
const (
	// DirData has the header and the first records. data.0, data.1 and so on have the records of one thread each,
	// without a header.
	DirData = "data"
	// DirKcore is a directory with copies of the recorded machine's /proc/kallsyms, /proc/modules and /proc/kcore.
	DirKcore = "kcore_dir"
)

// data is a range of records: in the file itself, or in another file of the same directory.
type data struct {
	src recording
	at  section
}

func (d data) scanner(order Order) *scanner {
	return &scanner{src: d.src, order: order, pos: int64(d.at.off), end: int64(d.at.end())}
}

// Open reads everything except the records of a perf.data file of size bytes, in
// file mode or pipe mode. The file may grow while it is read.
func Open(r io.ReaderAt, size int64) (*File, error) { return open(&file{r, size}) }

// OpenStream reads everything before the first sample of a pipe in pipe mode.
func OpenStream(r io.Reader) (*File, error) {
	s := &stream{r: r, keeping: true}
	defer func() { s.keeping = false }()
	b, err := s.part(0, pipeHeaderSize)
	if err == nil && FileMode(b) {
		err = errorf(-1, nil, "a file-mode recording cannot be read from a pipe")
	}
	if err != nil {
		return nil, err
	}
	return open(s)
}

// FileMode reports whether a file that begins with these 16 bytes is in file mode, so that reading it requires random
// access.
func FileMode(head []byte) bool {
	_, size, err := parseMagic(head)
	return err == nil && size != pipeHeaderSize
}

func open(src recording) (*File, error) {
	b, err := src.part(0, pipeHeaderSize)
	if err != nil {
		return nil, err
	}
	order, size, err := parseMagic(b)
	if err != nil {
		return nil, err
	}
	f := &File{Order: order, Sections: map[Feature][]byte{}, src: src, byID: map[uint64]int{}, Version: 2,
		Pipe: size == pipeHeaderSize}
	if string(b[:8]) == magic1 {
		f.Version = 1
	}
	if f.Pipe {
		err = f.readHead()
	} else {
		err = f.readHeader(int(size))
	}
	if err != nil {
		return nil, err
	}
	f.readTracing()
	if err := f.nameAttrs(); err != nil {
		f.warn(err)
	}
	f.nameTracepoints()
	for i := range f.Attrs {
		f.layouts = append(f.layouts, NewSampleLayout(&f.Attrs[i]))
		f.repair.Add(&f.Attrs[i])
	}
	return f, nil
}

// AddData adds a file of records only, for example data.0 of a directory.
func (f *File) AddData(r io.ReaderAt, size int64) {
	f.data = append(f.data, data{&file{r, size}, section{0, uint64(size)}})
}

// warn adds a defect of a part of the file.
func (f *File) warn(err error) {
	what := "damaged"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		f.Truncated, what = true, "truncated"
	}
	f.Warnings = append(f.Warnings, fmt.Errorf("%s: %w", what, err))
}

func (f *File) readHeader(size int) error {
	b, err := f.src.part(0, size)
	if err != nil {
		return err
	}
	if len(b) < size {
		return errorf(0, io.ErrUnexpectedEOF, "the file ends after %d bytes of its %d-byte header", len(b), size)
	}
	f.hdr = parseFileHeader(b[:size], f.Order)
	// No part of a file is used twice, so sections cannot claim more memory than
	// the file's size.
	f.budget = uint64(f.src.size())
	if err := f.readAttrs(); err != nil {
		return err
	}
	if f.hdr.data.off < f.hdr.size {
		return errorf(int64(f.hdr.data.off), nil, "the records begin within the file header")
	}
	f.locateData()
	f.readFeatures()
	return nil
}

// read returns the bytes of a section that lies within the file.
func (f *File) read(s section, what string) ([]byte, error) {
	if size := f.src.size(); !s.fits(size) {
		return nil, errorf(int64(s.off), io.ErrUnexpectedEOF, "%s: %d bytes, but the file ends at %#x",
			what, s.size, size)
	}
	if s.size > f.budget {
		return nil, errorf(int64(s.off), nil, "%s: %d bytes, which overlap another part", what, s.size)
	}
	f.budget -= s.size
	b, err := f.src.part(int64(s.off), int(s.size))
	if err != nil {
		return nil, errorf(int64(s.off), err, "%s", what)
	}
	if uint64(len(b)) < s.size {
		return nil, errorf(int64(s.off), io.ErrUnexpectedEOF, "%s: %d of %d bytes", what, len(b), s.size)
	}
	return b, nil
}

func (f *File) readAttrs() error {
	entry := int(min(f.hdr.attrSize, 1<<16))
	if entry < minAttrSize+attrEntryExtra {
		return errorf(16, nil, "attr entries of %d bytes are shorter than %d", f.hdr.attrSize,
			minAttrSize+attrEntryExtra)
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
		f.addAttr(a, ids)
	}
	if len(f.Attrs) == 0 {
		return errorf(int64(f.hdr.attrs.off), nil, "the file describes no event")
	}
	return nil
}

// addAttr adds an event. ids are the IDs of its counters, 8 bytes each.
func (f *File) addAttr(a Attr, ids []byte) {
	for c := (cursor{b: ids, order: f.Order}); len(c.b) >= 8; {
		id := c.u64()
		a.IDs = append(a.IDs, id)
		f.byID[id] = len(f.Attrs)
	}
	f.Attrs = append(f.Attrs, a)
}

// locateData limits the data to the file's end: a killed recording has a data.size
// of 0, a truncated one has less data than its data.size.
func (f *File) locateData() {
	at, size := f.hdr.data, uint64(f.src.size())
	f.Complete = at.size != 0
	if at.off > size {
		f.warn(errorf(int64(at.off), io.ErrUnexpectedEOF, "the file ends at %#x, before its records begin", size))
		at = section{size, 0}
	}
	rest := size - at.off
	switch {
	case !f.Complete:
		at.size = rest
		f.Warnings = append(f.Warnings,
			errors.New("the recording was not finished properly (its data size is 0): reading to the end of the file"))
	case at.size > rest:
		f.Warnings = append(f.Warnings, fmt.Errorf("truncated: the file has %d of %d bytes of records", rest, at.size))
		at.size = rest
		f.Complete, f.Truncated = false, true
	}
	f.data = []data{{f.src, at}}
}

func (f *File) readFeatures() {
	features := f.hdr.features.list()
	places, err := f.readTable(f.hdr.data.end(), len(features))
	if !f.Complete || err != nil {
		features = slices.DeleteFunc(features, func(n Feature) bool { return slices.Contains(lateFeatures, n) })
		places = f.earlyPlaces(len(features))
	}
	if err != nil && f.Complete {
		f.warn(err)
	}
	if places == nil {
		return
	}
	var missing Skipped
	for i, n := range features {
		data, err := f.read(places[i], fmt.Sprintf("feature section %d", n))
		if err != nil {
			missing.Add(err)
			continue
		}
		f.Sections[n] = data
	}
	if missing.Count > 0 {
		f.warn(errorf(-1, missing.First, "%d of %d feature sections cannot be read, the first",
			missing.Count, len(features)))
	}
	f.stacks, _ = decoded(f, FeatureHiperfStacks, parseHiperfStacks)
	if !f.Has(FeatureSampleTime) && f.OfGperf() { // after a Checkpoint
		f.Complete = false
	}
}

// earlyPlaces returns the positions of the n sections that a Writer writes before the data, or nil. Only gperf writes
// sections there, with their table after them.
func (f *File) earlyPlaces(n int) []section {
	at := f.hdr.data.off - uint64(n*sectionSize)
	places, err := f.readTable(at, n)
	if err != nil || !contiguous(places, at) {
		return nil
	}
	return places
}

// readTable reads the positions of n sections.
func (f *File) readTable(at uint64, n int) ([]section, error) {
	b, err := f.read(section{at, uint64(n * sectionSize)}, "table of the feature sections")
	if err != nil {
		return nil, err
	}
	var places []section
	for c := (cursor{b: b, order: f.Order}); len(c.b) > 0; {
		places = append(places, section{c.u64(), c.u64()})
	}
	return places, nil
}

// contiguous reports whether the sections are adjacent up to end, like those that a Writer writes before the data.
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
	if !ok && !f.Pipe {
		data, ok = f.tracingRecord()
	}
	if !ok {
		return
	}
	var err error
	if f.Tracing, err = parseTracingData(data); err != nil {
		f.warn(err)
	}
}

// nameTracepoints sets the names of tracepoint events that EVENT_DESC does not name.
func (f *File) nameTracepoints() {
	for i := range f.Attrs {
		a := &f.Attrs[i]
		if t := f.Tracepoint(i); t != nil && a.Name == "" {
			a.Name = t.System + ":" + t.Name
		}
	}
}

// Tracepoint returns the format of event i's raw data, or nil if the event is not a tracepoint or the file does not
// contain its format.
func (f *File) Tracepoint(i int) *tracepoint.Format {
	a := &f.Attrs[i]
	if a.Type != TypeTracepoint || f.Tracing == nil {
		return nil
	}
	return f.Tracing.Format(int(a.Config))
}

// EventByID returns the index in Attrs of the event of the counter with this ID.
func (f *File) EventByID(id uint64) (int, bool) {
	i, ok := f.byID[id]
	return i, ok
}

// EventName returns the name of event i as perf prints it.
func (f *File) EventName(i int) string {
	if name := strings.TrimRight(f.Attrs[i].Name, ", "); name != "" {
		return name
	}
	return f.Attrs[i].DefaultName()
}

// DataOffset, DataSize and FeatureOffset return the position of the data and of the table of sections in the file's
// header, in bytes.
func (f *File) DataOffset() uint64    { return f.hdr.data.off }
func (f *File) DataSize() uint64      { return f.hdr.data.size }
func (f *File) FeatureOffset() uint64 { return f.hdr.data.end() }

// OfGperf reports whether gperf made the recording.
func (f *File) OfGperf() bool { return strings.HasPrefix(f.String(FeatureVersion), "gperf ") }

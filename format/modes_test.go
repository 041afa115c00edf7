package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

// pipeFile returns testFile as a pipe-mode file: records replace the header and sections.
// compressed splits the samples into COMPRESSED records of a few bytes.
func pipeFile(t testing.TB, compressed bool) []byte {
	t.Helper()
	le := binary.LittleEndian
	b := le.AppendUint64([]byte(magic2), pipeHeaderSize)
	for _, a := range testAttrs() {
		b = appendFilled(b, TypeHeaderAttr, 0, 0, func(b []byte) []byte {
			b = a.Append(b)
			for _, id := range a.IDs {
				b = le.AppendUint64(b, id)
			}
			return b
		})
	}
	b = appendFilled(b, TypeHeaderFeature, 0, 0, func(b []byte) []byte {
		return append(le.AppendUint64(b, uint64(FeatureHostname)), StringSection(FeatureHostname, "host").Data...)
	})
	tracing := (&TracingData{Order: LittleEndian, LongSize: 8, PageSize: 4096,
		Events: []TracepointText{{"skb", []byte(kfreeFormat)}}}).Section().Data
	tracing = append(tracing, make([]byte, -len(tracing)&7)...)
	b = appendFilled(b, TypeHeaderTracing, 0, 0, func(b []byte) []byte {
		return le.AppendUint32(b, uint32(len(tracing)))
	})
	b = append(b, tracing...)
	entry := BuildIDSection([]BuildIDEntry{{Misc: MiscUser, PID: -1, BuildID: BuildID{1, 2, 3},
		Filename: "/bin/prog"}}).Data
	le.PutUint32(entry, uint32(TypeHeaderBuildID))
	b = append(b, entry...)
	b = appendFilled(b, TypeEventUpdate, 0, 0, func(b []byte) []byte {
		return append(le.AppendUint64(le.AppendUint64(b, eventUpdateName), 12),
			"my-clock\x00\x00\x00\x00\x00\x00\x00\x00"...)
	})
	attrs := testAttrs()
	b = (&Comm{PID: 100, TID: 100, Comm: "prog"}).Append(b, attrs[0].SampleIDSize())

	var samples []byte
	raw := make([]byte, 12)
	le.PutUint16(raw, 7)
	for _, time := range []uint64{1, 4, 6, 2, 3, 5} {
		samples = appendTestSample(samples, 10, time, []uint64{ContextKernel, 1, ContextUser, 2}, raw)
	}
	samples = AppendMark(samples, TypeFinishedRound)
	if !compressed {
		return append(b, samples...)
	}
	return append(b, compress(t, samples, 100)...)
}

// compress returns records as one zstd stream that is never closed, split into COMPRESSED
// and COMPRESSED2 records of n bytes in turn.
func compress(t testing.TB, records []byte, n int) (b []byte) {
	t.Helper()
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(records); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := 0; z.Len() > 0; i++ {
		piece := z.Next(n)
		kind := TypeCompressed
		if i%2 == 1 {
			kind = TypeCompressed2
		}
		b = appendFilled(b, kind, 0, 0, func(b []byte) []byte {
			if kind == TypeCompressed2 {
				b = binary.LittleEndian.AppendUint64(b, uint64(len(piece)))
			}
			b = append(b, piece...)
			if kind == TypeCompressed2 {
				b = append(b, make([]byte, -len(piece)&7)...)
			}
			return b
		})
	}
	return b
}

// times reads all records and returns the times, without those of records that have none.
func times(t testing.TB, r *Reader) (l []uint64) {
	t.Helper()
	for {
		raw, err := r.Next()
		if err == io.EOF {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Time != 0 {
			l = append(l, raw.Time)
		}
	}
}

func TestPipe(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		b := pipeFile(t, compressed)
		for name, open := range map[string]func() (*File, error){
			"file":   func() (*File, error) { return Open(bytes.NewReader(b), int64(len(b))) },
			"stream": func() (*File, error) { return OpenStream(bytes.NewReader(b)) },
			"slow":   func() (*File, error) { return OpenStream(iotest.OneByteReader(bytes.NewReader(b))) },
		} {
			f, err := open()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !f.Pipe || len(f.Warnings) > 0 || len(f.Attrs) != 2 || f.Tracepoint(0) == nil {
				t.Errorf("%s: pipe %v, warnings %v, attrs %v", name, f.Pipe, f.Warnings, f.Attrs)
			}
			if got := []string{f.String(FeatureHostname), f.EventName(0), f.EventName(1)}; !reflect.DeepEqual(got,
				[]string{"host", "skb:kfree_skb", "my-clock"}) {
				t.Errorf("%s: %q", name, got)
			}
			ids, err := f.BuildIDs()
			if err != nil || len(ids) != 1 || ids[0].Filename != "/bin/prog" || ids[0].BuildID.String() != "010203" {
				t.Errorf("%s: build IDs %v, %v", name, ids, err)
			}
			head := 0
			for range f.Head() {
				head++
			}
			if head != 7 {
				t.Errorf("%s: %d records before the first sample, want 7", name, head)
			}
			r := f.Records()
			if got := times(t, r); !reflect.DeepEqual(got, []uint64{1, 2, 3, 4, 5, 6}) || r.Skipped.Count > 0 {
				t.Errorf("%s: compressed %v: times %v, skipped %v", name, compressed, got, r.Skipped)
			}
		}
	}
}

// TestPipeAttrSize: the size of an attr in a pipe may be any number, also where int has 32 bits.
func TestPipeAttrSize(t *testing.T) {
	b := pipeFile(t, false)
	binary.LittleEndian.PutUint32(b[pipeHeaderSize+HeaderSize+4:], 1<<31)
	f, err := OpenStream(bytes.NewReader(b))
	if err == nil && len(f.Attrs) == 2 {
		t.Errorf("%d attrs, no error", len(f.Attrs))
	}
}

// A Reader of a stream returns records at once: it does not wait for a full block.
func TestPipeIsLive(t *testing.T) {
	b := pipeFile(t, false)
	r, w := io.Pipe()
	defer w.Close()
	go w.Write(b)
	f, err := OpenStream(r)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := f.Records().Next(); err != nil || raw.Type != TypeHeaderAttr {
		t.Errorf("first record %v, %v", raw, err)
	}
}

func TestCompressedDamage(t *testing.T) {
	b := pipeFile(t, true)
	whole := len(b)
	for i := len(b) - 150; i < whole; i++ {
		c := bytes.Clone(b)
		c[i] ^= 0x5a
		f, err := Open(bytes.NewReader(c), int64(len(c)))
		if err != nil {
			continue // the damage is in the head
		}
		times(t, f.Records())
	}
	// A truncated stream is reported.
	f, err := Open(bytes.NewReader(b[:whole-50]), int64(whole-50))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Records()
	times(t, r)
	if r.Skipped.Count == 0 {
		t.Error("a truncated stream is not reported")
	}
}

func TestCompressed2SizeWraps(t *testing.T) {
	le := binary.LittleEndian
	for _, data := range []int{0, 1, 8, 65519, 65520, 65521, 70000, 200001} {
		whole := (compressed2Header + data + 7) &^ 7
		b := le.AppendUint32(nil, uint32(TypeCompressed2))
		b = le.AppendUint16(b, 0)
		b = le.AppendUint16(b, uint16(whole))
		b = le.AppendUint64(b, uint64(data))
		if got := compressed2Size(b, LittleEndian, whole&maxRecordSize); got != whole {
			t.Errorf("%d bytes of data: record of %d bytes, want %d", data, got, whole)
		}
	}
	b := le.AppendUint64(make([]byte, HeaderSize), 1<<40)
	if got := compressed2Size(b, LittleEndian, 24); got != 24 {
		t.Errorf("absurd size: record of %d bytes, want 24", got)
	}
}

func TestDirectory(t *testing.T) {
	m := testFile(t, true)
	f := m.open(t)
	want := times(t, f.Records())
	raw := make([]byte, 12)
	binary.LittleEndian.PutUint16(raw, 7)
	for _, list := range [][]uint64{{2, 20, 21}, {1, 8, 30}} {
		var b []byte
		for _, time := range list {
			b = appendTestSample(b, 10, time, nil, raw)
			want = append(want, time)
		}
		f.AddData(bytes.NewReader(b), int64(len(b)))
	}
	got := times(t, f.Records())
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got[1:] {
		if got[i] > got[i+1] {
			t.Fatalf("out of order: %v", got)
		}
	}
}

// The flags of attrs are C bit-fields, which big-endian machines lay out from
// the other end of the word.
func TestBigEndianAttr(t *testing.T) {
	want := Attr{Type: TypeTracepoint, Size: AttrSize, Config: 7, SampleType: SampleIP | SampleTime,
		Flags: (FlagDisabled | FlagSampleIDAll | FlagSigtrap).WithPreciseIP(2), Wakeup: 3, SampleMaxStack: 127}
	le := want.Append(nil)
	be := swapped(le, []int{4, 4, 8, 8, 8, 8, -8, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8})
	// precise_ip takes bits 48 and 47: its own two bits keep their order.
	be[40+1] ^= 1
	be[40+2] ^= 1 << 7
	got, err := parseAttr(be, BigEndian)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// swapped reverses the bytes of fields with these widths. A negative width reverses the
// bits.
func swapped(b []byte, widths []int) (out []byte) {
	for _, w := range widths {
		bits := w < 0
		w = max(w, -w)
		for i := w - 1; i >= 0; i-- {
			x := b[i]
			if bits {
				x = b[w-1-i]
				x = x>>4 | x<<4
				x = x>>2&0x33 | x<<2&0xcc
				x = x>>1&0x55 | x<<1&0xaa
			}
			out = append(out, x)
		}
		b = b[w:]
	}
	return append(out, b...)
}

func TestOpenErrors(t *testing.T) {
	good := testFile(t, true).b
	patch := func(off int, v uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[off:], v)
		return b
	}
	for _, test := range []struct {
		b    []byte
		want string
	}{
		{nil, "the file is empty"},
		{[]byte("#!/bin/sh, of all things"), "instead of"},
		{[]byte("\x1f\x8b\x08\x00 and so on and on"), "gunzip"},
		{[]byte("\x28\xb5\x2f\xfd and so on and on"), "unzstd"},
		{[]byte(magic2), "the file ends after 8 bytes of its header"},
		{patch(8, 99), "a file header of 99 bytes"},
		{good[:50], "the file ends after 50 bytes of its 104-byte header"},
		{patch(16, 12), "attr entries of 12 bytes"},
		{patch(24, 1<<40), "attrs: "},
		{patch(32, 0), "describes no event"},
		{patch(40, 16), "begin within the file header"},
		{patch(fileHeaderSize+AttrSize+8, 1<<50), "ids of event 0"},
		{append([]byte(magic2), 16, 0, 0, 0, 0, 0, 0, 0), "no event is described"},
	} {
		_, err := Open(bytes.NewReader(test.b), int64(len(test.b)))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.want, err)
		}
	}
}

// Sections that claim the same bytes several times get them once.
func TestSectionsCannotOverlap(t *testing.T) {
	m := testFile(t, true)
	b := m.b
	f := m.open(t)
	n := len(f.hdr.features.list())
	table := b[f.hdr.data.end():]
	for i := range n {
		binary.LittleEndian.PutUint64(table[i*16:], 0)
		binary.LittleEndian.PutUint64(table[i*16+8:], uint64(len(b)/2))
	}
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range f.Sections {
		total += len(s)
	}
	if total > len(b) || len(f.Warnings) == 0 {
		t.Errorf("%d bytes of sections in a file of %d, warnings %v", total, len(b), f.Warnings)
	}
}

func TestStrict(t *testing.T) {
	b := pipeFile(t, false)
	b = append(b, 9, 0, 0, 0, 0, 0, 3, 0)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f.Strict = true
	r := f.Records()
	for err == nil {
		_, err = r.Next()
	}
	if err == io.EOF || !strings.Contains(err.Error(), "a record of 3 bytes, SAMPLE") {
		t.Errorf("ended with %v", err)
	}
}

// A big-endian compiler puts the first bit-field of a branch's flags highest. The order of
// bits inside a field stays.
func TestBigEndianBranchFlags(t *testing.T) {
	for be, want := range map[uint64]uint64{
		1 << 63:          1,                // mispred
		1 << 62:          2,                // predicted
		0xfffe << 44:     0xfffe << 4,      // cycles
		6<<40 | 1<<38:    6<<20 | 1<<24,    // type, spec
		4<<34 | 5<<31:    4<<26 | 5<<30,    // new_type, priv
		1<<62 | 1<<30:    2 | 1<<33,        // not_taken
		1<<62 | 0x3fffff: 2 | 0x3fffff<<34, // reserved
	} {
		w := NewWords(BigEndian.AppendUint64(nil, be), BigEndian)
		if got := w.Bits(0); got != want {
			t.Errorf("%#x: got %#x, want %#x", be, got, want)
		}
	}
	w := NewWords(LittleEndian.AppendUint64(nil, 0x42), LittleEndian)
	if got := w.Bits(0); got != 0x42 {
		t.Errorf("little-endian: %#x", got)
	}
}

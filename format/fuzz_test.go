package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"

	"gperf/format/tracepoint"
	"gperf/internal/testutil/inputs"
)

// small is a recording of a few hundred bytes. Mutations of small inputs reach deeper code
// than those of large ones.
type small struct {
	attr    Attr
	records []byte
	data    section // in the file
}

// appendRaw appends a record of any type.
func appendRaw(b []byte, t Type, misc Misc, body ...any) []byte {
	var w bytes.Buffer
	for _, v := range body {
		if s, ok := v.(string); ok {
			w.WriteString(s)
		} else if err := binary.Write(&w, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return appendFilled(b, t, misc, 0, func(b []byte) []byte { return append(b, w.Bytes()...) })
}

// newSmall returns a recording with one sample that has every field, and records of many
// types.
func newSmall() *small {
	s := &small{attr: Attr{
		Type:             TypeSoftware,
		SampleType:       (1<<25 - 1) &^ SampleAux &^ SampleWeightStruct,
		ReadFormat:       ReadGroup | ReadID | ReadLost | ReadTotalTimeEnabled,
		Flags:            FlagSampleIDAll | FlagFreq,
		BranchSampleType: branchHWIndex,
		SampleRegsUser:   3,
		SampleRegsIntr:   1,
		SampleStackUser:  16,
		IDs:              []uint64{7},
	}}
	const id, ip, tid, when = uint64(7), uint64(0x401000), uint64(5 | 5<<32), uint64(1000)
	trailer := []uint64{tid, when, id, id, 0, id}
	b := appendRaw(nil, TypeMmap2, MiscUser, tid, ip, uint64(4096), uint64(0), uint64(0), uint64(0), uint64(0),
		uint64(ProtExec), "/bin/true\x00\x00\x00\x00\x00\x00\x00", trailer)
	b = appendRaw(b, TypeComm, MiscCommExec, tid, "true\x00\x00\x00\x00", trailer)
	b = appendRaw(b, TypeFork, 0, tid, tid, when, trailer)
	b = appendRaw(b, TypeNamespaces, 0, tid, uint64(1), uint64(2), uint64(3), trailer)
	b = appendRaw(b, TypeKSymbol, 0, ip, uint64(16|1<<32), "bpf\x00\x00\x00\x00\x00", trailer)
	b = appendRaw(b, TypeAuxtrace, 0, uint64(8), uint64(0), uint64(0), uint64(0), uint64(0))
	b = append(b, "payload!"...)
	b = appendRaw(b, TypeSample, MiscUser, id, ip, tid, when, ip /* addr */, id, id, uint64(0), uint64(1), /* period */
		[]uint64{1, 50, 9, id, 0}, []uint64{2, ContextUser, ip}, uint32(4), "raw!", []uint64{1, 1, ip, ip, 1},
		[]uint64{2, 1, 2}, []uint64{16, 0, 0, 16}, uint64(3), uint64(4), uint64(5), []uint64{2, 1}, uint64(6),
		uint64(7), uint64(8), uint64(9))
	b = appendRaw(b, TypeFinishedRound, 0)
	s.records = b
	return s
}

// file returns the recording in file mode.
func (s *small) file() []byte {
	a := s.attr.Append(nil)
	h := fileHeader{size: fileHeaderSize, attrSize: AttrSize + attrEntryExtra}
	ids := section{fileHeaderSize, 8}
	h.attrs = section{ids.end(), AttrSize + attrEntryExtra}
	h.data = section{h.attrs.end(), uint64(len(s.records))}
	s.data = h.data
	h.features.set(FeatureHostname)
	b := h.append(nil)
	b = binary.LittleEndian.AppendUint64(b, s.attr.IDs[0])
	b = append(b, a...)
	b = binary.LittleEndian.AppendUint64(b, ids.off)
	b = binary.LittleEndian.AppendUint64(b, ids.size)
	b = append(b, s.records...)
	host := StringSection(FeatureHostname, "host").Data
	b = binary.LittleEndian.AppendUint64(b, uint64(len(b))+sectionSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(host)))
	return append(b, host...)
}

// pipe returns the recording in pipe mode.
func (s *small) pipe() []byte {
	b := append([]byte("PERFILE2"), pipeHeaderSize, 0, 0, 0, 0, 0, 0, 0)
	b = appendRaw(b, TypeHeaderAttr, 0, s.attr.Append(nil), s.attr.IDs)
	b = appendRaw(b, TypeHeaderFeature, 0, uint64(FeatureHostname), StringSection(FeatureHostname, "host").Data)
	return append(b, s.records...)
}

// compressed returns the recording with its records in a COMPRESSED record.
func (s *small) compressed(t Type) []byte {
	c := *s
	body := deflate(s.records)
	if t == TypeCompressed2 {
		n := uint64(len(body))
		body = append(binary.LittleEndian.AppendUint64(nil, n), append(body, make([]byte, -n&7)...)...)
	}
	c.records = appendRaw(nil, t, 0, body)
	return c.file()
}

// deflate returns a zstd stream that is flushed but not closed, like perf's.
func deflate(data []byte) []byte {
	var w bytes.Buffer
	enc, err := zstd.NewWriter(&w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	enc.Write(data)
	enc.Flush()
	return w.Bytes()
}

// addSmall adds the small recordings to a fuzz target, in both byte orders.
func addSmall(f *testing.F) {
	f.Helper()
	s := newSmall()
	for _, data := range [][]byte{s.file(), s.pipe()} {
		twin, err := inputs.SwapBytes(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(twin)
	}
	f.Add(s.compressed(TypeCompressed))
	f.Add(s.compressed(TypeCompressed2))
}

// TestSmall checks that the seeds decode completely.
func TestSmall(t *testing.T) {
	s := newSmall()
	twin := func(b []byte) []byte {
		b, err := inputs.SwapBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, data := range map[string][]byte{
		"file": s.file(), "pipe": s.pipe(), "compressed": s.compressed(TypeCompressed), "compressed2": s.compressed(TypeCompressed2),
		"big-endian file": twin(s.file()), "big-endian pipe": twin(s.pipe()),
	} {
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		types, bad := readAll(t, f, len(data))
		if bad.Count > 0 || len(f.Warnings) > 0 {
			t.Errorf("%s: %v, %v", name, bad.First, f.Warnings)
		}
		for _, typ := range []Type{TypeMmap2, TypeComm, TypeFork, TypeNamespaces, TypeKSymbol, TypeAuxtrace, TypeSample,
			TypeFinishedRound} {
			if types[typ] != 1 {
				t.Errorf("%s: %d %s records", name, types[typ], typ)
			}
		}
		if host := f.String(FeatureHostname); host != "host" {
			t.Errorf("%s: host name %q", name, host)
		}
	}
}

// readAll decodes and counts all records of a file of size bytes.
func readAll(t *testing.T, f *File, size int) (types map[Type]int, bad Skipped) {
	t.Helper()
	types = map[Type]int{}
	r := f.Records()
	compressed := 0
	var s Sample
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %v: %v", types, err)
		}
		types[rec.Type]++
		if rec.Off < 0 || rec.Off > int64(size) {
			t.Fatalf("%s at %#x of %#x", rec.Type, rec.Off, size)
		}
		if rec.Type == TypeCompressed || rec.Type == TypeCompressed2 {
			compressed += len(rec.Data)
		}
		if rec.Type == TypeSample {
			err = f.Sample(rec, &s)
		} else {
			var decoded Record
			if decoded, err = f.Record(rec); err == nil && decoded == nil {
				t.Fatalf("%s: neither record nor error", rec.Type)
			}
		}
		if err != nil {
			bad.Add(err)
		}
	}
	n := 0
	for _, count := range types {
		n += count
	}
	if compressed == 0 && n > size/HeaderSize {
		t.Fatalf("%d records in %d bytes", n, size)
	}
	bad.Merge(r.Skipped)
	return types, bad
}

// FuzzOpen opens arbitrary files and decodes their header and sections.
func FuzzOpen(f *testing.F) {
	addSmall(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if (err == nil) == (file == nil) {
			t.Fatal("neither file nor error, or both")
		}
		if err != nil {
			return
		}
		if len(file.Attrs) == 0 || len(file.Attrs) > len(data)/minAttrSize {
			t.Fatalf("%d events in %d bytes", len(file.Attrs), len(data))
		}
		for i := range file.Attrs {
			file.EventName(i)
			file.Tracepoint(i)
		}
		sections := 0
		for _, b := range file.Sections {
			sections += len(b)
		}
		if sections > len(data) {
			t.Fatalf("%d bytes of sections in %d", sections, len(data))
		}
	})
}

// FuzzReader reads the records of arbitrary files. It reads pipe-mode files also as a
// stream.
func FuzzReader(f *testing.F) {
	addSmall(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		types, _ := readAll(t, file, len(data))
		if !file.Pipe {
			return
		}
		stream, err := OpenStream(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("what can be read as a file cannot as a stream: %v", err)
		}
		streamed, _ := readAll(t, stream, len(data))
		for typ, n := range types {
			if streamed[typ] != n {
				t.Fatalf("%d %s records in a file are %d in a stream", n, typ, streamed[typ])
			}
		}
	})
}

// FuzzTracingData reads arbitrary tracing data and prints data with its formats.
func FuzzTracingData(f *testing.F) {
	t := TracingData{LongSize: 8, PageSize: 4096, HeaderPage: []byte("page"), HeaderEvent: []byte("event"),
		Ftrace: [][]byte{[]byte("name: function\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\nprint fmt: \"%x\", REC->common_type\n")},
		Events: []TracepointText{{"sched",
			[]byte("name: wake\nID: 2\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:__data_loc char[] s;\toffset:2;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\", __get_str(s)\n")}},
		Printk: []byte("0x1 : \"text\"\n"), Cmdlines: []byte("1 init\n")}
	section := t.Section().Data
	f.Add(section, []byte("\x02\x00\x06\x00\x03\x00ab\x00"))
	f.Add(bigEndianTracing(section), []byte("\x00\x02\x00\x03\x00\x06ab\x00"))
	if data, err := os.ReadFile("../testdata/drops.data"); err == nil {
		if file, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
			f.Add(file.Sections[FeatureTracingData], []byte("raw data"))
		}
	}
	f.Fuzz(func(t *testing.T, data, raw []byte) {
		tracing, err := parseTracingData(data)
		if tracing == nil && err == nil {
			t.Fatal("neither data nor error")
		}
		if tracing == nil {
			return
		}
		if len(tracing.formats)+len(tracing.failed) > len(data)/8 {
			t.Fatalf("%d formats, %d unreadable ones in %d bytes", len(tracing.formats), len(tracing.failed), len(data))
		}
		env := tracing.Env()
		for _, format := range tracing.formats {
			if text := format.AppendPrint(nil, raw, &env); len(text) > tracepoint.MaxPrint(len(raw)) {
				t.Fatalf("%d bytes of text from %d", len(text), len(raw))
			}
		}
	})
}

// bigEndianTracing returns a section of tracing data in big-endian order.
func bigEndianTracing(section []byte) []byte {
	s := newSmall()
	file := s.pipe()
	body := appendRaw(nil, TypeHeaderTracing, 0, uint32(len(section)), uint32(0))
	file = append(append(file, body...), section...)
	file = append(file, make([]byte, -len(section)&7)...)
	twin, err := inputs.SwapBytes(file)
	if err != nil {
		panic(err)
	}
	return twin[len(twin)-(len(section)+7)&^7:][:len(section)]
}

// FuzzCompressed reads arbitrary bytes as the zstd stream of two COMPRESSED records.
func FuzzCompressed(f *testing.F) {
	s := newSmall()
	stream := deflate(s.records)
	f.Add(stream, uint16(len(stream)/2), false)
	f.Add(stream, uint16(0), true)
	f.Add(deflate(bytes.Repeat(s.records, 100)), uint16(40), true)
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16, second bool) {
		if len(stream) > maxRecordSize-compressed2Header-8 {
			return
		}
		c, at := *s, min(int(cut), len(stream))
		c.records = nil
		for _, piece := range [][]byte{stream[:at], stream[at:]} {
			if second {
				n := uint64(len(piece))
				c.records = appendRaw(c.records, TypeCompressed2, 0, n, piece, make([]byte, -n&7))
			} else {
				c.records = appendRaw(c.records, TypeCompressed, 0, piece)
			}
		}
		data := c.file()
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		types, bad := readAll(t, file, len(data))
		if types[TypeCompressed]+types[TypeCompressed2] != 2 {
			t.Fatalf("%v, %v", types, bad.First)
		}
		var e *Error
		if bad.Count > 0 && !errors.As(bad.First, &e) {
			t.Fatalf("an error without a place: %v", bad.First)
		}
	})
}

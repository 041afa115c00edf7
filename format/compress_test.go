package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// noise returns a record that zstd cannot shrink.
func noise(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	binary.LittleEndian.PutUint32(b, uint32(TypeSample))
	binary.LittleEndian.PutUint32(b[4:], uint32(size)<<16)
	return b
}

// perf's readers require that each record decompresses to between 1 and pieceSize bytes,
// and that its own size is a multiple of 8. All flushed pieces together equal the input.
func TestCompressor(t *testing.T) {
	for i, level := range []int{1, 3, 9, 22} {
		kind := [...]Type{TypeCompressed, TypeCompressed2}[i%2]
		r := rand.New(rand.NewPCG(1, uint64(level)))
		file, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w, err := NewWriter(file, []Attr{{}}, []Section{CompressedSection(level, 0)})
		if err != nil {
			t.Fatal(err)
		}
		start := w.Size()
		c, err := NewCompressor(w, kind, level)
		if err != nil {
			t.Fatal(err)
		}
		var in []byte
		var flushed []int
		write := func(b []byte) {
			if err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			in = append(in, b...)
		}
		for size := 8; size < 1<<16; size = size*5/4 + 8 {
			write(noise(r, size&^7))
			write(bytes.Repeat([]byte{9, 0, 0, 0, 0, 0, 8, 0}, size))
			if size%3 == 0 {
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				flushed = append(flushed, len(in))
			}
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil || len(flushed) == 0 {
			t.Fatalf("%v, flushed %d times", err, len(flushed))
		}
		if before, after := c.Sizes(); before != int64(len(in)) || after != w.Size()-start {
			t.Errorf("%d bytes became %d, instead of %d and %d", before, after, len(in), w.Size()-start)
		}
		data, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		out, ends := inflatePieces(t, kind, data[start:])
		if !bytes.Equal(out, in) {
			t.Errorf("level %d: %d bytes come out of %d", level, len(out), len(in))
		}
		for _, at := range flushed {
			if !slices.Contains(ends, at) {
				t.Errorf("level %d: what was flushed at %d goes on in another record", level, at)
			}
		}
	}
}

// inflatePieces decompresses records, each with its predecessors. ends contains the
// decompressed size after each record.
func inflatePieces(t *testing.T, kind Type, data []byte) (out []byte, ends []int) {
	t.Helper()
	var stream []byte
	for len(data) > 0 {
		size := int(binary.LittleEndian.Uint16(data[6:]))
		if size < 8 || size > len(data) || size%8 != 0 || Type(binary.LittleEndian.Uint32(data)) != kind {
			t.Fatalf("a record of %d bytes, type %d", size, binary.LittleEndian.Uint32(data))
		}
		if kind == TypeCompressed2 {
			n := int(binary.LittleEndian.Uint64(data[8:]))
			if n > size-16 || size-16-n >= 8 {
				t.Fatalf("a record of %d bytes with %d", size, n)
			}
			stream = append(stream, data[16:16+n]...)
		} else {
			stream = append(stream, data[8:size]...)
		}
		data = data[size:]
		dec, err := zstd.NewReader(bytes.NewReader(stream), zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		before := len(out)
		if out, err = io.ReadAll(dec); !errors.Is(err, io.ErrUnexpectedEOF) { // Compressor never closes the stream
			t.Fatal(err)
		}
		dec.Close()
		if n := len(out) - before; n < 1 || n > pieceSize {
			t.Fatalf("a piece of %d bytes", n)
		}
		ends = append(ends, len(out))
	}
	return out, ends
}

// gperf can read the attrs and sections that it writes to a pipe.
func TestPipeWriter(t *testing.T) {
	attrs := []Attr{
		{Type: TypeTracepoint, Config: 7, Size: AttrSize, SampleType: SampleIP | SampleIdentifier, Name: "skb:kfree_skb", IDs: []uint64{11, 12}},
		{Type: TypeSoftware, Config: 9, Size: AttrSize, SampleType: SampleIP | SampleTID | SampleIdentifier, Name: "dummy:u", IDs: []uint64{13, 14}},
	}
	tracing := TracingData{LongSize: 8, PageSize: 4096,
		Events: []TracepointText{{System: "skb", Text: []byte("name: kfree_skb\nID: 7\nformat:\n\nprint fmt: \"\"\n")}}}
	var out bytes.Buffer
	w, err := NewPipeWriter(&out, attrs, []Section{StringSection(FeatureHostname, "host"), tracing.Section(),
		NrCPUs{4, 2}.Section(),
		{FeatureCPUTopology, make([]byte, 1<<16)}}) // exceeds the size of a record
	if err != nil {
		t.Fatal(err)
	}
	mark := AppendMark(nil, TypeFinishedInit)
	if err := w.Write(mark); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil || w.Size() != int64(out.Len()) || !bytes.HasSuffix(out.Bytes(), mark) {
		t.Errorf("%v, %d bytes of %d", err, w.Size(), out.Len())
	}
	f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Attrs) != 2 || f.Attrs[0].Name != "skb:kfree_skb" || f.Attrs[1].Name != "dummy:u" ||
		!slices.Equal(f.Attrs[1].IDs, attrs[1].IDs) ||
		f.Attrs[1].SampleType != attrs[1].SampleType {
		t.Errorf("attrs: %+v", f.Attrs)
	}
	n, ok := f.NrCPUs()
	if f.String(FeatureHostname) != "host" || !ok || n != (NrCPUs{4, 2}) || f.Sections[FeatureCPUTopology] != nil ||
		len(f.Sections[FeatureTracingData]) == 0 {
		t.Errorf("sections: %v", f.Sections)
	}
	attrs[0].IDs = make([]uint64, 1<<13)
	if _, err := NewPipeWriter(io.Discard, attrs, nil); err == nil {
		t.Error("an attr with more ids than a record holds is written")
	}
}

package format

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"gperf/internal/testutil/inputs"
)

// appendCase encodes a record, or returns nil if gperf does not write records of its type.
func appendCase(rec Record, idSize int) []byte {
	switch r := rec.(type) {
	case *Mmap:
		if r.V2 { // gperf writes each mapping as MMAP2
			return r.Append(nil, idSize)
		}
	case interface{ Append([]byte, int) []byte }:
		return r.Append(nil, idSize)
	case interface {
		AppendTo([]byte, SampleType) []byte
	}:
		return append(r.AppendTo(nil, 0), make([]byte, idSize)...)
	}
	return nil
}

// The encoders write the bytes of recordCases, from which TestRecords decodes, and then padding and the sample id.
func TestAppendLayouts(t *testing.T) {
	left := []Type{TypeMmap2, TypeComm, TypeFork, TypeLost, TypeLostSamples, TypeNamespaces, TypeKSymbol, TypeCgroup,
		TypeTextPoke}
	for i, tc := range recordCases() {
		const idSize = 24
		rec := appendCase(tc.want(LittleEndian), idSize)
		if rec == nil {
			continue
		}
		left = slices.DeleteFunc(left, func(typ Type) bool { return typ == tc.typ })
		if tc.typ == TypeTextPoke {
			tc.misc = MiscUser // perf ignores it
		}
		raw, data := RawOf(rec, 0), bytesOf(LittleEndian, tc.fields...)
		data = append(data, make([]byte, -len(data)&7+idSize)...)
		if raw.Type != tc.typ || raw.Misc != tc.misc || !bytes.Equal(raw.Data, data) {
			t.Errorf("case %d: %s, misc %#x:\n%x, want misc %#x:\n%x", i, raw.Type, raw.Misc, raw.Data, tc.misc, data)
		}
	}
	if len(left) > 0 {
		t.Errorf("no case of %s", left)
	}
}

// A sample id is decoded as it was encoded, with each set of fields.
func TestSampleIDLayouts(t *testing.T) {
	all := SampleTID | SampleTime | SampleID | SampleStreamID | SampleCPU | SampleIdentifier
	for _, without := range []SampleType{0, SampleTID, SampleTime, SampleID, SampleStreamID, SampleCPU,
		SampleIdentifier} {
		want := &Comm{PID: 1, TID: 2, Comm: "sh", ID: RecordID{PID: -1, TID: 4, Time: 5, ID: 6, CPU: 7}}
		raw := RawOf(want.AppendTo(nil, all&^without), 0)
		switch without {
		case SampleTID:
			want.ID.PID, want.ID.TID = 0, 0
		case SampleTime:
			want.ID.Time = 0
		case SampleCPU:
			want.ID.CPU = 0
		}
		if rec, err := ParseRecord(raw, all&^without); err != nil || !reflect.DeepEqual(rec, want) {
			t.Errorf("without %v: %+v, %v, want %+v", without, rec, err, want)
		}
	}
}

// SwapBytes turns the little-endian bytes of recordCases into the big-endian bytes.
func TestSwapLayouts(t *testing.T) {
	skipped := []Type{
		TypeHeaderAttr,                  // bytesOf does not mirror bit-fields
		TypeHeaderTracing, TypeAuxtrace, // recordCases lacks the payload
		TypeHeaderFeature, // recordCases has no feature section
		// SwapBytes refuses the other types.
		TypeCompressed, TypeCompressed2, TypeBPFMetadata, TypeSchedstatCPU, TypeSchedstatDomain, TypeSimpleperfDSO,
	}
	file := func(o Order, tc recordCase) []byte {
		data := bytesOf(o, tc.fields...)
		header := bytesOf(o, uint64(16), uint32(tc.typ), uint16(tc.misc), uint16(HeaderSize+len(data)))
		magic := []byte("PERFILE2")
		if o == BigEndian {
			slices.Reverse(magic)
		}
		return slices.Concat(magic, header, data)
	}
	for i, tc := range recordCases() {
		if slices.Contains(skipped, tc.typ) {
			continue
		}
		got, err := inputs.SwapBytes(file(LittleEndian, tc))
		if want := file(BigEndian, tc); err != nil || !bytes.Equal(got, want) {
			t.Errorf("case %d: %s: %v\n%x, want\n%x", i, tc.typ, err, got, want)
		}
	}
}

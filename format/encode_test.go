package format

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
)

// A sample is decoded as it was encoded, with each set of fields. Raw data is padded so that records have a multiple of
// 8 bytes.
func TestSampleAppendTo(t *testing.T) {
	all := SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr | SampleID | SampleStreamID | SampleCPU |
		SamplePeriod | SampleCallchain | SampleRaw
	for _, without := range append(fixedFields[:], 0, SampleCallchain, SampleRaw, SampleCallchain|SampleRaw) {
		a := Attr{Type: TypeSoftware, Size: AttrSize, SampleType: all &^ without, IDs: []uint64{7}}
		want := Sample{Misc: MiscUser, ID: 7, IP: 1 << 40, PID: -1, TID: 2, Time: 3, Addr: 4, StreamID: 5, CPU: 6,
			Period: 8, Callchain: wordsOf(ContextKernel, 9, 10), Raw: make([]byte, 12)}
		rec := want.AppendTo([]byte("before"), a.SampleType)[len("before"):]
		records := slices.Collect(Records(append(rec, 1, 2, 3)))
		if len(records) != 1 || len(records[0])%8 != 0 {
			t.Fatalf("without %v: records %x", without, records)
		}
		var got Sample
		f := File{Attrs: []Attr{a}, layouts: []SampleLayout{NewSampleLayout(&a)}}
		if err := f.Sample(RawOf(records[0], 0), &got); err != nil {
			t.Fatalf("without %v: %v", without, err)
		}
		if again := got.AppendTo(nil, a.SampleType); !slices.Equal(again, rec) {
			t.Errorf("without %v:\n got %x\nwant %x", without, again, rec)
		}
		if without == 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	}
}

func wordsOf(values ...uint64) Words {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return NewWords(b, LittleEndian)
}

// Records of bytes ends before an incomplete record.
func TestRawRecords(t *testing.T) {
	one := (&Comm{PID: 1, Comm: "a"}).Append(nil, 8)
	two := (&Comm{PID: 2, Comm: "longer than a"}).Append(nil, 8)
	whole := slices.Concat(one, two)
	for n := range len(whole) + 1 {
		want := 0
		if n >= len(one) {
			want++
		}
		if n == len(whole) {
			want++
		}
		if got := slices.Collect(Records(whole[:n])); len(got) != want {
			t.Errorf("%d records in %d bytes, want %d", len(got), n, want)
		}
	}
	small := slices.Clone(whole)
	binary.LittleEndian.PutUint16(small[6:], HeaderSize-1)
	if got := slices.Collect(Records(small)); len(got) != 0 {
		t.Errorf("records %x", got)
	}
	if raw := RawOf(one, 8); raw.Type != TypeComm || len(raw.Data) != len(one)-16 {
		t.Errorf("%+v", raw)
	}
}

package format

import (
	"encoding/binary"
	"testing"
)

// TestSampleLayout compares the positions of a layout with the fields that File.Sample
// decodes. Every word of the sample has a different value.
func TestSampleLayout(t *testing.T) {
	const all = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr | SampleID |
		SampleStreamID | SampleCPU |
		SamplePeriod | SampleRead | SampleCallchain | SampleRaw
	for _, tc := range []struct {
		name string
		st   SampleType
		rf   ReadFormat
	}{
		{"all fields", all, ReadGroup | ReadID | ReadTotalTimeEnabled},
		{"one counter", all, ReadID | ReadLost | ReadTotalTimeRunning},
		{"no counter values", all &^ SampleRead, 0},
		{"no callchain", all &^ SampleCallchain, ReadID},
		{"ID instead of IDENTIFIER", all &^ SampleIdentifier, ReadID},
		{"few fields", SampleIP | SampleCallchain | SampleRaw, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Attr{SampleType: tc.st, ReadFormat: tc.rf, Flags: FlagSampleIDAll}
			l := NewSampleLayout(&a)
			le := binary.LittleEndian
			b := make([]byte, 512)
			for i := 0; i < len(b); i += 8 {
				le.PutUint64(b[i:], uint64(i)+1<<32)
			}
			if tc.rf&ReadGroup != 0 {
				le.PutUint64(b[l.Fixed:], 2)
			}
			if at := l.afterRead(b); l.callchain {
				le.PutUint64(b[at:], 3)
			}
			raw := l.Raw(b)
			le.PutUint32(b[raw:], 12)
			f := &File{Order: LittleEndian, Attrs: []Attr{a}, layouts: []SampleLayout{l}}
			var s Sample
			if err := f.Sample(Raw{Type: TypeSample, Data: b}, &s); err != nil {
				t.Fatal(err)
			}
			for _, field := range []struct {
				name string
				at   int
				got  uint64
			}{{"ip", l.IP, s.IP}, {"time", l.Time, s.Time}, {"period", l.Period, s.Period}, {"id", l.ID, s.ID}} {
				if field.at >= 0 && field.name != "id" && le.Uint64(b[field.at:]) != field.got {
					t.Errorf("%s is not at %d: %#x", field.name, field.at, field.got)
				}
				if field.at < 0 && field.got != 0 {
					t.Errorf("%s has no position, but the value %#x", field.name, field.got)
				}
			}
			if at := l.Callchain(b); l.callchain &&
				(s.Callchain.Len() != 3 || s.Callchain.At(0) != le.Uint64(b[at+8:])) {
				t.Errorf("the callchain at %d is %d words", at, s.Callchain.Len())
			}
			if len(s.Raw) != 12 || string(s.Raw) != string(b[raw+4:raw+16]) {
				t.Errorf("the raw data at %d are % x", raw, s.Raw)
			}
			if l.Callchain(b[:l.Fixed]) != -1 || l.Raw(b[:raw]) != -1 {
				t.Error("a short sample has a callchain or raw data")
			}
		})
	}
}

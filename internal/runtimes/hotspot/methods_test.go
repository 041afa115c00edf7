package hotspot

import (
	"encoding/binary"
	"slices"
	"testing"
)

// TestText decodes the encoding of class files.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"grüße":                    "grüße",
		"a\xc0\x80b":               "a\x00b",
		"\xed\xa0\xbd\xed\xb8\x80": "😀",
		"\xed\xa0":                 "\xed\xa0",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestNumber decodes compressed numbers, before and after byte 0 was left out of them.
func TestNumber(t *testing.T) {
	for _, c := range []struct {
		bytes    []byte
		excluded uint32
		want     uint32
		failed   bool
	}{
		{bytes: []byte{0}},
		{bytes: []byte{191}, want: 191},
		{bytes: []byte{192, 0}, want: 192},
		{bytes: []byte{200, 2}, want: 200 + 2<<6},
		{bytes: []byte{1}, excluded: 1},
		{bytes: []byte{192, 1}, excluded: 1, want: 191},
		{bytes: []byte{0}, excluded: 1, failed: true},
		{bytes: []byte{255}, failed: true},
	} {
		s := stream{b: c.bytes, excluded: c.excluded}
		if got := s.number(); s.failed != c.failed || got != c.want {
			t.Errorf("%x: %d, %v; want %d", c.bytes, got, s.failed, c.want)
		}
	}
}

// TestLines decodes a table of line numbers.
func TestLines(t *testing.T) {
	// 200 + 1 << 6 is 132 bytes of code, and 9 is five lines back.
	got := lines([]byte{0xff, 0, 20, 5<<3 | 1, 0xff, 200, 1, 9, 0, 1}, 0)
	if want := []MethodLine{{0, 10}, {5, 11}, {137, 6}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// madePlace is a compiled method, 200, with another method, 100, inlined at offset 50.
func madePlace(pcs, scopes []byte) *Place {
	return &Place{Code: 0x1000, Size: 100, method: 200, pcs: pcs, scopes: scopes, metadata: []uint64{100, 200},
		at: &methodFields{pcSize: 16, pcScope: 4}}
}

func madePCs() (b []byte) {
	for _, pc := range [][2]uint32{{0xffffffff, 0}, {50, 8}} {
		b = binary.LittleEndian.AppendUint32(b, pc[0])
		b = binary.LittleEndian.AppendUint32(b, pc[1])
		b = append(b, make([]byte, 8)...)
	}
	return b
}

var madeScopes = []byte{4: 0, 2, 21, 8: 4, 1, 6}

// TestCalls finds the methods of an instruction, and the compiled method where none is described.
func TestCalls(t *testing.T) {
	p := madePlace(madePCs(), madeScopes)
	if got := p.Calls(0x1000 + 40); !slices.Equal(got, []Call{{100, 5}, {200, 20}}) {
		t.Errorf("%+v", got)
	}
	if got := p.Calls(0x1000 + 60); !slices.Equal(got, []Call{{200, noBCI}}) {
		t.Errorf("after the last description: %+v", got)
	}
}

// FuzzCalls decodes descriptions: nothing may panic or take long.
func FuzzCalls(f *testing.F) {
	f.Add(madePCs(), madeScopes, uint32(40), false)
	f.Add(madePCs(), []byte{8: 9, 1, 1}, uint32(50), true)
	f.Fuzz(func(t *testing.T, pcs, scopes []byte, off uint32, excludes bool) {
		p := madePlace(pcs, scopes)
		if excludes {
			p.at.excluded = 1
		}
		if n := len(p.Calls(p.Code + uint64(off))); n == 0 || n > maxInlined {
			t.Errorf("%d methods", n)
		}
		lines(scopes, p.at.excluded)
	})
}

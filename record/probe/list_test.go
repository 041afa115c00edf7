package probe

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gperf/symbolize/dso"
)

// note is one of .note.stapsdt on a 64-bit machine.
func note(owner, provider, name, args string) (b []byte) {
	le := binary.LittleEndian
	pad := func() {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	desc := provider + "\x00" + name + "\x00" + args + "\x00"
	b = le.AppendUint32(b, uint32(len(owner)+1))
	b = le.AppendUint32(b, uint32(24+len(desc)))
	b = le.AppendUint32(b, 3)
	b = append(b, owner+"\x00"...)
	pad()
	for _, address := range []uint64{0x1234, 0x2000, 0} {
		b = le.AppendUint64(b, address)
	}
	b = append(b, desc...)
	pad()
	return b
}

func TestMarkers(t *testing.T) {
	first, second := note("stapsdt", "libstdcxx", "throw", "8@%rdi 8@%rsi"), note("stapsdt", "python", "gc__start", "")
	all := slices.Concat(first, note("GNU", "x", "y", ""), second)
	if got, want := markers(all, binary.LittleEndian, 8), []string{"libstdcxx:throw", "python:gc__start"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for n := range all {
		if got := markers(all[:n], binary.LittleEndian, 8); len(got) > 1 && n < len(all)-4 || n < len(first)-8 && len(got) > 0 {
			t.Errorf("of %d bytes: %q", n, got)
		}
	}
}

func FuzzMarkers(f *testing.F) {
	f.Add(note("stapsdt", "libstdcxx", "throw", "8@%rdi"), 8)
	f.Add(note("GNU", "", "", ""), 4)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00stapsdt\x00"), 8)
	f.Fuzz(func(t *testing.T, b []byte, word int) {
		for _, m := range markers(b, binary.LittleEndian, 4+word&4) {
			if !strings.Contains(m, ":") {
				t.Errorf("%q", m)
			}
		}
	})
}

func TestMarkersOfFile(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
	out, err := exec.Command("readelf", "-n", lib).Output()
	if err != nil || !strings.Contains(string(out), "stapsdt") {
		t.Skipf("readelf (binutils), or %s with markers, is missing: %v", lib, err)
	}
	got, err := Markers(lib)
	if n := strings.Count(string(out), "    Provider: "); err != nil || len(got) != n {
		t.Errorf("%d markers, %v; readelf has %d", len(got), err, n)
	}
}

func TestFunctionsOfText(t *testing.T) {
	if _, err := Functions("list_test.go"); !errors.Is(err, dso.ErrNotELF) {
		t.Error(err)
	}
}

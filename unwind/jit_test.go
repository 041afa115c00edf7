package unwind

import (
	"debug/elf"
	"errors"
	"testing"
)

// jitFrame is the .eh_frame, 32 bytes after the start of a function of 26 bytes: CFA rsp + 8, from byte 4 on
// rsp + 0x70.
var jitFrame = []byte{
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
	20, 0, 0, 0, 28, 0, 0, 0, 0xe0 - 32, 0xff, 0xff, 0xff, 26, 0, 0, 0, 0, 0x44, 0x0e, 0x70, 0, 0, 0, 0,
}

func TestGeneratedCFI(t *testing.T) {
	at := func(start uint64) Generated { return Generated{Start: start, End: start + 26, EHFrame: jitFrame} }
	other := Generated{Start: 0x2010, End: 0x2020, EHFrame: []byte{1, 2, 3}}
	f, err := NewGeneratedCFI([]Generated{at(0x2000), at(0x1000), at(0x3000), other, at(0x3000), {Start: 5, End: 4}},
		elf.EM_X86_64)
	if err != nil {
		t.Fatal(err)
	}
	table := f.Table()
	const inner = "cfa=rsp+112 ra=c-8 fp=s"
	for vaddr, want := range map[uint64]string{0x0fff: "none", 0x1000: "cfa=rsp+8 ra=c-8 fp=s", 0x1004: inner,
		0x1019: inner, 0x101a: "none", 0x2004: "none", 0x2014: "none", 0x3004: inner} {
		if got := table.Lookup(vaddr).String(); got != want {
			t.Errorf("%#x: %s, want %s", vaddr, got, want)
		}
	}
	if _, err := NewGeneratedCFI([]Generated{other}, elf.EM_X86_64); !errors.Is(err, ErrNoCFI) {
		t.Error(err)
	}
}

// FuzzGeneratedCFI: any .eh_frame of generated code makes a valid table, or none.
func FuzzGeneratedCFI(f *testing.F) {
	f.Add(uint64(0x1000), uint64(26), jitFrame)
	f.Add(uint64(1)<<63, ^uint64(0), jitFrame[:40])
	f.Fuzz(func(t *testing.T, start, size uint64, frame []byte) {
		c, err := NewGeneratedCFI([]Generated{{Start: start, End: start + size, EHFrame: frame}}, elf.EM_X86_64)
		if err != nil {
			return
		}
		if !c.Table().valid() {
			t.Error("not valid")
		}
	})
}

package dso

import (
	"debug/elf"
	"testing"
)

// TestBias: a mapping begins at a page, and the page may begin with the end of another
// segment.
func TestBias(t *testing.T) {
	im := &Image{Loads: []elf.ProgHeader{
		{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: 0, Vaddr: 0, Filesz: 0x1500},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Off: 0x1500, Vaddr: 0x2500, Filesz: 0x3000}, // as lld lays it out
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Off: 0x4500, Vaddr: 0x6500, Filesz: 0x100},
	}}
	for _, tc := range []struct {
		name              string
		start, end, pgoff uint64
		bias              uint64
		ok                bool
	}{
		{"from the code's page on", 0x7f0000002000, 0x7f0000006000, 0x1000, 0x7f0000000000, true},
		{"from within the code on", 0x7f0000003000, 0x7f0000006000, 0x2000, 0x7f0000000000, true},
		{"no code", 0x7f0000006000, 0x7f0000007000, 0x8000, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bias, ok := im.Bias(tc.start, tc.end, tc.pgoff)
			if bias != tc.bias || ok != tc.ok {
				t.Errorf("%#x, %v; want %#x, %v", bias, ok, tc.bias, tc.ok)
			}
		})
	}
}

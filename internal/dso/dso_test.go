package dso

import (
	"debug/elf"
	"fmt"
	"testing"
)

func load(flags elf.ProgFlag, off, vaddr, filesz, memsz uint64) elf.Prog64 {
	return elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(flags), Off: off, Vaddr: vaddr, Filesz: filesz,
		Memsz: memsz, Align: 0x1000}
}

func TestAddresses(t *testing.T) {
	const r, rx, rw = elf.PF_R, elf.PF_R | elf.PF_X, elf.PF_R | elf.PF_W
	layouts := map[string][]elf.Prog64{
		// GNU ld, position independent: off equals vaddr except for data.
		"pie": {load(r, 0, 0, 0x600, 0x600), load(rx, 0x1000, 0x1000, 0x2345, 0x2345), load(rw, 0x4de8, 0x5de8, 0x250, 0x900)},
		// GNU ld, fixed address.
		"exec": {load(r, 0, 0x400000, 0x600, 0x600), load(rx, 0x1000, 0x401000, 0x1234, 0x1234)},
		// lld: file offsets of neighbours are packed, vaddrs a page apart.
		"lld": {load(r, 0, 0x200000, 0x6c4, 0x6c4), load(rx, 0x6d0, 0x2016d0, 0x500, 0x500), load(rw, 0xbd0, 0x202bd0, 0x100, 0x200)},
		// A program linked at an address below which nothing is mapped, vaddr < off.
		"low": {load(rx, 0x10000, 0x400, 0x800, 0x800)},
		// The same bytes mapped twice: the vaddr is the code's.
		"twice": {load(r, 0x1000, 0x9000, 0x1000, 0x1000), load(rx, 0x1000, 0x3000, 0x1000, 0x1000)},
	}
	const none = ^uint64(0)
	for _, c := range []struct {
		layout     string
		off, vaddr uint64 // none: no equivalent of the other one
	}{
		{"pie", 0, 0},
		{"pie", 0x5ff, 0x5ff},
		{"pie", 0x600, none}, // between segments
		{"pie", 0x1000, 0x1000},
		{"pie", 0x3344, 0x3344},
		{"pie", 0x3345, none},
		{"pie", 0x4de8, 0x5de8},
		{"pie", 0x5037, 0x6037},
		{"pie", none, 0x66e8}, // end of .bss
		{"exec", 0x1000, 0x401000},
		{"exec", 0x2233, 0x402233},
		{"exec", none, 0x1000},
		{"lld", 0x6cf, none}, // padding
		{"lld", 0x6d0, 0x2016d0},
		{"lld", 0xbcf, 0x201bcf},
		{"lld", 0xbd0, 0x202bd0},
		{"lld", none, 0x201bd0},
		{"low", 0x10000, 0x400},
		{"low", 0x107ff, 0xbff},
		{"low", 0x400, none},
		{"twice", 0x1234, 0x3234},
	} {
		t.Run(fmt.Sprintf("%s off %#x vaddr %#x", c.layout, c.off, c.vaddr), func(t *testing.T) {
			im := imageOf(t, elfFile{progs: layouts[c.layout]}.bytes())
			if c.off != none {
				got, ok := im.VaddrOfOff(c.off)
				if ok != (c.vaddr != none) || ok && got != c.vaddr {
					t.Errorf("%s: vaddr of off %#x = %#x, %t, want %#x", c.layout, c.off, got, ok, c.vaddr)
				}
			}
			if c.vaddr != none {
				got, ok := im.OffOfVaddr(c.vaddr)
				if ok != (c.off != none) || ok && got != c.off {
					t.Errorf("%s: off of vaddr %#x = %#x, %t, want %#x", c.layout, c.vaddr, got, ok, c.off)
				}
			}
		})
	}
}

// TestOffOfVaddrInBSS: the zero-filled end of a segment takes no bytes in the file, but perf continues the offsets
// for symbols there.
func TestOffOfVaddrInBSS(t *testing.T) {
	im := imageOf(t, elfFile{progs: []elf.Prog64{load(elf.PF_R|elf.PF_W, 0x4de8, 0x5de8, 0x250, 0x900)}}.bytes())
	if off, ok := im.OffOfVaddr(0x6100); !ok || off != 0x5100 {
		t.Errorf("off of vaddr 0x6100 = %#x, %t, want 0x5100", off, ok)
	}
	if vaddr, ok := im.VaddrOfOff(0x5100); ok {
		t.Errorf("vaddr of off 0x5100 = %#x, want none: no segment contains this byte", vaddr)
	}
}

func TestMappings(t *testing.T) {
	for _, c := range []struct{ ip, start, pgoff, off uint64 }{
		{0x55d0c0a01234, 0x55d0c0a01000, 0x1000, 0x1234},
		{0x401234, 0x400000, 0, 0x1234},
		{0x7f0000000fff, 0x7f0000000000, 0x26000, 0x26fff},
		{0xffffffff81000010, 0xffffffff81000000, 0xffffffff81000000, 0xffffffff81000010}, // the kernel: off is ip
	} {
		t.Run(fmt.Sprintf("%#x", c.ip), func(t *testing.T) {
			if got := OffOfIP(c.ip, c.start, c.pgoff); got != c.off {
				t.Errorf("OffOfIP(%#x, %#x, %#x) = %#x, want %#x", c.ip, c.start, c.pgoff, got, c.off)
			}
			if got := IPOfOff(c.off, c.start, c.pgoff); got != c.ip {
				t.Errorf("IPOfOff(%#x, %#x, %#x) = %#x, want %#x", c.off, c.start, c.pgoff, got, c.ip)
			}
		})
	}
}

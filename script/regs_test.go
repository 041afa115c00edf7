package script

import (
	"encoding/binary"
	"testing"

	"gperf/format"
)

func fileOf(arch string) *format.File {
	f := &format.File{Order: format.LittleEndian, Sections: map[format.Feature][]byte{}}
	f.Sections[format.FeatureArch] = format.StringSection(format.FeatureArch, arch).Data
	return f
}

// The names come from arch/*/include/uapi/asm/perf_regs.h as perf prints them.
func TestRegisterNames(t *testing.T) {
	for _, tc := range []struct {
		arch string
		bit  int
		want string
	}{
		{"x86_64", 0, "AX"}, {"x86_64", 7, "SP"}, {"x86_64", 8, "IP"}, {"x86_64", 9, "FLAGS"}, {"x86_64", 16, "R8"},
		{"x86_64", 23, "R15"},
		{"x86_64", 24, "unknown"}, {"x86_64", 32, "XMM0"}, {"x86_64", 63, "XMM15"},
		{"i686", 6, "BP"}, {"i586", 8, "IP"},
		{"aarch64", 0, "x0"}, {"aarch64", 29, "x29"}, {"aarch64", 30, "lr"}, {"aarch64", 31, "sp"},
		{"aarch64", 32, "pc"}, {"aarch64", 46, "vg"}, {"aarch64", 40, "unknown"},
		{"armv7l", 0, "r0"}, {"armv7l", 11, "fp"}, {"armv8l", 12, "ip"}, {"armv7l", 13, "sp"}, {"armv7l", 14, "lr"},
		{"armv7l", 15, "pc"}, {"armv7l", 16, "unknown"},
		{"sparc64", 0, "unknown"},
	} {
		if got := registerNames(fileOf(tc.arch))(tc.bit); got != tc.want {
			t.Errorf("%s, bit %d: %s, want %s", tc.arch, tc.bit, got, tc.want)
		}
	}
}

func TestAppendRegs(t *testing.T) {
	b := binary.LittleEndian.AppendUint64(nil, 0x10)
	b = binary.LittleEndian.AppendUint64(b, 0xfedcba9876543210)
	values := format.NewWords(b, format.LittleEndian)
	p := &printer{regs: registerNames(fileOf("x86_64"))}
	for mask, want := range map[uint64]string{
		1 | 1<<9:        " ABI:2    AX:0x10 FLAGS:0xfedcba9876543210 ",
		1<<16 | 1<<32:   " ABI:2    R8:0x10  XMM0:0xfedcba9876543210 ",
		1 | 1<<1 | 1<<2: " ABI:2    AX:0x10    BX:0xfedcba9876543210 ", // fewer values than the mask asks for
		0:               " ABI:2 ",
	} {
		if got := string(p.appendRegs(nil, 2, mask, values)); got != want {
			t.Errorf("mask %#x: %q, want %q", mask, got, want)
		}
	}
}

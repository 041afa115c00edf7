package unwind

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// arm64CIE begins a CIE of arm64: CFA sp+0, return address in x30.
var arm64CIE = []any{uint32(0xffffffff), 3, "", 1, 0x78, arm64LR, cfaDefCFA, arm64SP, 0}

// TestRulesARM64 checks the rules of arm64's CFI.
func TestRulesARM64(t *testing.T) {
	inLR := Rule{CFA: CFARSP, RA: RAReg, RAOff: arm64LR}
	for _, c := range []struct {
		name string
		ins  []any
		want Rule
	}{
		{"leaf", nil, inLR},
		{"restored", []any{cfaOffset | 30, 1, cfaSameValue, 30}, inLR},
		{"frame", []any{cfaDefCFAOffset, 48, cfaOffset | 29, 6, cfaOffset | 30, 5},
			Rule{CFA: CFARSP, CFAOff: 48, RAOff: -40, FP: FPAtCFA, FPOff: -48}},
		{"signed", []any{cfaGNUWindowSave, cfaDefCFAOffset, 16, cfaOffset | 30, 2},
			Rule{CFA: CFARSP, CFAOff: 16, RAOff: -16}},
		{"by x29", []any{cfaDefCFA, 29, 32, cfaOffset | 29, 4, cfaOffset | 30, 3},
			Rule{CFA: CFARBP, CFAOff: 32, RAOff: -24, FP: FPAtCFA, FPOff: -32}},
		{"large", []any{cfaDefCFAOffset, 0x80, 0x80, 4, cfaOffset | 29, 0x80, 0x40, cfaOffset | 30, 0xff, 0x3f},
			Rule{CFA: CFARSP, CFAOff: 0x10000, RA: RAAtSP, RAOff: 8, FP: FPAtSP}},
		{"large, by x29", []any{cfaDefCFA, 29, 0x80, 0x80, 4, cfaOffset | 29, 0x80, 0x40, cfaOffset | 30, 0xff, 0x3f},
			Rule{CFA: CFARBP, CFAOff: 0x10000, RA: RAAtFP, RAOff: 8, FP: FPAtFP}},
		{"in another register", []any{cfaRegister, 30, 17}, Rule{CFA: CFARSP, RA: RAReg, RAOff: 17}},
		{"in a vector register", []any{cfaRegister, 30, 70}, ruleUnsupported},
		{"outermost", []any{cfaUndefined, 30}, ruleEnd},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parseSection(elf.EM_AARCH64, asm(entry32(arm64CIE...),
				entry32(append([]any{uint32(0), uint64(0x2000), uint64(16)}, c.ins...)...)), false)
			if got := f.Table().Lookup(0x2000); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestSignalARM64 walks from a signal handler through the vdso to a leaf function, whose return address is in the link
// register that the kernel saved.
func TestSignalARM64(t *testing.T) {
	f := fdes(elf.EM_AARCH64,
		[]any{0x2000, 0x2010, cfaDefCFAOffset, 16, cfaOffset | 29, 2, cfaOffset | 30, 1}, // the handler
		[]any{0x2010, 0x2020}, // a leaf
		[]any{0x2020, 0x2030, cfaUndefined, 30},
	)
	f.known = []known{{0x3003, 0x300c, ruleSignal, false}}
	words := make([]uint64, 128)
	words[1] = 0x3004
	at := 2 + arm64ABI.context/8
	words[at+arm64LR], words[at+arm64SP], words[at+arm64PC] = 0x2025, stackAt+500, 0x2014
	regs := NewRegs(elf.EM_AARCH64, 0x2004, stackAt, 0)
	wantWalk(t, regs, testStack(words...), testSpace(f), EndOfStack,
		Frame{IP: 0x2004}, Frame{IP: 0x3004}, Frame{IP: 0x2014}, ret(0x2025))
}

// TestLinkRegister checks that code without CFI is left by the link register, unless that is the address after a call
// in the same code.
func TestLinkRegister(t *testing.T) {
	f := fdes(elf.EM_AARCH64, []any{0x2000, 0x2010, cfaUndefined, 30})
	regs := NewRegs(elf.EM_AARCH64, 0x3000, stackAt, 1)
	regs.Set(arm64LR, 0x00ab_0000_0000_2005)
	wantWalk(t, regs, testStack(), testSpace(f), EndOfStack, Frame{IP: 0x3000}, ret(0x2005))
	regs.Set(arm64LR, 0x3010)
	wantWalk(t, regs, testStack(), testSpace(f), NoRule, Frame{IP: 0x3000})
}

// TestFunctionEdges checks that code without CFI is left by the link register, if that is an address in the same code,
// only at the first and last instructions of functions.
func TestFunctionEdges(t *testing.T) {
	const at, lr, fp = 0x2008, 0x2100, stackAt + 48
	const (
		push, store, load = 0xa9be7bfd, 0xa9017bfd, 0xa9417bfd // with a frame of 32 bytes
		sub, add          = 0xd10083ff, 0x910083ff
		point, end, other = 0x910003fd, 0xd65f03c0, 0x91000400
	)
	for _, c := range []struct {
		name string
		code [4]uint32 // from 8 bytes before ip on
		want uint64    // the first caller
		sp   uint64    // its sp - stackAt
	}{
		{"ret", [4]uint32{0, 0, end}, lr, 0},
		{"retaa", [4]uint32{0, 0, 0xd65f0bff}, lr, 0},
		{"retab", [4]uint32{0, 0, 0xd65f0fff}, lr, 0},
		{"paciasp", [4]uint32{0, 0, 0xd503233f}, lr, 0},
		{"pacibsp", [4]uint32{0, 0, 0xd503237f}, lr, 0},
		{"autiasp", [4]uint32{0, 0, 0xd50323bf}, lr, 0},
		{"bti c", [4]uint32{0, 0, 0xd503245f}, lr, 0},
		{"stp", [4]uint32{0, 0, push}, lr, 0},
		{"mov after stp", [4]uint32{0, push, point}, lr, 32},
		{"sub", [4]uint32{0, 0, sub}, 0x3001, 64},
		{"stp after sub", [4]uint32{0, sub, store}, lr, 32},
		{"add after sub and stp", [4]uint32{sub, store, point | 16<<10}, lr, 32},
		{"add before ret", [4]uint32{0, load, add, end}, lr, 32},
		{"add before autiasp", [4]uint32{0, load, add, 0xd50323bf}, lr, 32},
		{"add", [4]uint32{0, 0, add, other}, 0x3001, 64},
		{"mov alone", [4]uint32{0, 0, point}, 0x3001, 64},
		{"stp alone", [4]uint32{0, 0, store}, 0x3001, 64},
		{"in the function", [4]uint32{push, point, other}, 0x3001, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			words := make([]uint64, 16)
			words[(fp-stackAt)/8], words[(fp-stackAt)/8+1] = fp+32, 0x3001
			s := &codeSpace{code: asm(c.code[0], c.code[1], c.code[2], c.code[3]), arm64: true}
			w := walk{u: &Unwinder{}, mem: testStack(words...), allRegs: true, space: s,
				code: code{space: s, abi: &arm64ABI}}
			w.regs = NewRegs(elf.EM_AARCH64, at, stackAt, fp)
			w.regs.Set(arm64LR, lr)
			w.m = w.space.Mapping(at)
			if next, why := w.step(at); next == stop || w.regs.IP() != c.want || w.regs.SP()-stackAt != c.sp {
				t.Errorf("%v, %v: caller %#x, sp %#x", next, why, w.regs.IP(), w.regs.SP())
			}
		})
	}
}

// TestGoARM64 checks the rules of a Go program for arm64 by the instructions that make and remove frames.
func TestGoARM64(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program: not in short mode")
	}
	im := goDrops(t, "arm64", "")
	table, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	s := im.Section(".text")
	code, err := im.Bytes(s.Offset, s.Size)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) (uint32, Rule) {
		return binary.LittleEndian.Uint32(code[i:]), table.Lookup(s.Addr + uint64(i))
	}
	frames, wrong, ends := 0, 0, 0
	for i := 0; i+16 <= len(code) && wrong < 20; i += 4 {
		if n := goFrameEnd(code[i:]); n > 0 {
			ends++
			_, before := at(i)
			_, restored := at(i + 4)
			want := Rule{CFA: CFARSP, CFAOff: n, RAOff: int16(-n), FP: FPAtSP, FPOff: -8}
			if before != ruleEntry && (restored != want || before != goFrame(n)) {
				wrong++
				t.Errorf("end of a frame of %d bytes at %#x: %v, then %v; want %v", n, s.Addr+uint64(i), before,
					restored, want)
			}
		}
		push, before := at(i)
		save, pushed := at(i + 4)
		point, saved := at(i + 8)
		_, inside := at(i + 12)
		// str x30, [sp, #-N]!; stur x29, [sp, #-8]; sub x29, sp, #8
		if push&0xffe00fff != 0xf8000ffe&0xffe00fff || save != 0xf81f83fd || point != insnGoFrame {
			continue
		}
		n := -(int32(push<<11) >> 23)
		// x29 = sp - 8 with sp = CFA - n, where x30 is; the caller's x29 is below it.
		frame := Rule{CFA: CFARBP, CFAOff: n + 8, RAOff: int16(-n), FP: FPAtCFA, FPOff: int16(-n - 8),
			Flags: FlagConvention}
		got := fmt.Sprint(before, "; ", pushed, "; ", saved, "; ", inside)
		want := fmt.Sprint(ruleLeaf, "; ", Rule{CFA: CFARSP, CFAOff: n, RAOff: int16(-n)}, "; ",
			Rule{CFA: CFARSP, CFAOff: n, RAOff: int16(-n), FP: FPAtSP, FPOff: -8}, "; ", frame)
		if frames++; got != want && inside != ruleFP && !strings.Contains(got, "end") {
			wrong++
			t.Errorf("frame of %d bytes at %#x:\n got %s\nwant %s", n, s.Addr+uint64(i), got, want)
		}
	}
	if frames < 500 || ends < 500 {
		t.Errorf("%d frames and %d ends, want more", frames, ends)
	}
}

// goFrameEnd returns the size of the frame that code removes, whose first instruction restores x29 and whose second one
// pops the frame; 0 for other code.
func goFrameEnd(code []byte) int32 {
	load, pop := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:])
	switch {
	case load == 0xa97ffbfd && pop&0xffc003ff == 0x910003ff: // ldp x29, x30, [sp, #-8]; add sp, sp, #N
		return int32(pop >> 10 & 0xfff)
	case load == 0xf85f83fd && pop&0xfff00fff == 0xf84007fe: // ldur x29, [sp, #-8]; ldr x30, [sp], #N
		return int32(pop >> 12 & 0xff)
	}
	return 0
}

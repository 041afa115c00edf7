package unwind

import (
	"debug/elf"
	"encoding/binary"
	"testing"
)

// wholeSpace has one mapping of all code.
type wholeSpace struct{ m Mapping }

func (s *wholeSpace) Mapping(ip uint64) *Mapping {
	if ip < s.m.Start || ip >= s.m.End {
		return nil
	}
	return &s.m
}

// TestWalkI386: stacks of 32-bit programs have words of 4 bytes. The CFI of generated code describes a frame, the frame
// pointer leads to the next one.
func TestWalkI386(t *testing.T) {
	// A CIE of i386: code alignment 1, data alignment -4, return address in column 8; cfa = esp+4, ra at cfa-4. The
	// FDE's code has pushed 8 bytes: cfa = esp+12.
	cie := []byte{1, 0, 1, 0x7c, 8, 0x0c, 4, 4, 0x88, 1, 0, 0}
	var b []byte
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(cie)+4))
	b = le.AppendUint32(b, 0)
	b = append(b, cie...)
	fde := []byte{0x0e, 12, 0, 0}
	b = le.AppendUint32(b, uint32(12+len(fde)))
	b = le.AppendUint32(b, uint32(len(b)))
	b = le.AppendUint32(b, 0x1000)
	b = le.AppendUint32(b, 0x100)
	b = append(b, fde...)
	f, err := NewGeneratedCFI([]Generated{{Start: 0x1000, End: 0x2000, EHFrame: b}}, elf.EM_386)
	if err != nil {
		t.Fatal(err)
	}
	space := &wholeSpace{Mapping{Start: 0x1000, End: 0x2000,
		Object: NewObject(nil, func() (*CFI, error) { return f, nil })}}
	words := []uint32{1, 2, 0x1804, 7, 0, 0, 0xff20, 0x1904, 0, 0x1a04}
	copy(words[6:], []uint32{0xff24, 0x1904})
	var stack []byte
	for _, w := range words {
		stack = le.AppendUint32(stack, w)
	}
	const at = 0xff00
	// In perf's order: ax, bx, cx, dx, si, di, bp, sp, ip.
	regs, ok := PerfRegs(elf.EM_386, 0x1ff, []uint64{0, 1, 2, 3, 4, 5, at + 24, at, 0x1040})
	if !ok {
		t.Fatal("registers are missing")
	}
	var u Unwinder
	frames, why := u.Walk(nil, &regs, &Stack{Addr: at, Bytes: stack, Is32: true}, space)
	want := []uint64{0x1040, 0x1804, 0x1904}
	for i := range min(len(frames), len(want)) {
		if frames[i].IP != want[i] {
			t.Errorf("frame %d is %#x, want %#x", i, frames[i].IP, want[i])
		}
	}
	if len(frames) < len(want) {
		t.Errorf("got %d frames, the walk ended because of %v", len(frames), why)
	}
}

// TestVsyscall32: the code that enters the kernel has pushed three registers.
func TestVsyscall32(t *testing.T) {
	stack := make([]byte, 64)
	le := binary.LittleEndian
	le.PutUint32(stack, 0xff30)
	le.PutUint32(stack[12:], 0x1804)
	regs := NewRegs(elf.EM_386, 0xf7fc0579, 0xff00, 0)
	mem := &Stack{Addr: 0xff00, Bytes: stack, Is32: true}
	if !(Vsyscall32{}).Caller(&regs, mem, false) || regs.IP() != 0x1804 || regs.SP() != 0xff10 || regs.FP() != 0xff30 {
		t.Errorf("ip %#x, sp %#x, fp %#x", regs.IP(), regs.SP(), regs.FP())
	}
	if (Vsyscall32{}).Caller(&regs, mem, true) {
		t.Error("a frame that has called another is of other code")
	}
}

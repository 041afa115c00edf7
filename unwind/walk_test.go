package unwind

import (
	"debug/elf"
	"fmt"
	"slices"
	"testing"

	"gperf/internal/dwarf"
)

// testSpace maps code and nothing else.
func testSpace(f *CFI) *space1 {
	s := &space1{Mapping{Start: 0x1000, End: 0x41000}}
	if f != nil {
		table := f.Table()
		s.m.Object = NewObject(table, func() (*CFI, error) { return f, nil })
	}
	return s
}

// fdes parses FDEs, each a start, an end and instructions, under the CIE of the
// machine.
func fdes(m elf.Machine, list ...[]any) *CFI {
	cie := entry32(uint32(0xffffffff), 3, "", plain)
	if m == elf.EM_AARCH64 {
		cie = entry32(uint32(0xffffffff), 3, "", 1, 0x78, arm64LR, cfaDefCFA, arm64SP, 0)
	}
	b := cie
	for _, l := range list {
		start, end := uint64(l[0].(int)), uint64(l[1].(int))
		b = append(b, entry32(append([]any{uint32(0), start, end - start}, l[2:]...)...)...)
	}
	return parseSection(m, b, false)
}

const stackAt = 0x7fff0000

func testStack(words ...uint64) *Stack {
	s := &Stack{Addr: stackAt}
	for _, w := range words {
		s.Bytes = append(s.Bytes, asm(w)...)
	}
	return s
}

func wantWalk(t *testing.T, regs Regs, mem Memory, space Space, why Reason, want ...Frame) {
	t.Helper()
	var u Unwinder
	got, gotWhy := u.Walk(nil, &regs, mem, space)
	if !slices.Equal(got, want) || gotWhy != why {
		t.Errorf("got %#v, %v; want %#v, %v", got, gotWhy, want, why)
	}
}

// ret is a frame found by its return address.
func ret(ip uint64) Frame { return Frame{IP: ip, Return: true} }

func TestWalk(t *testing.T) {
	f := fdes(elf.EM_X86_64,
		[]any{0x2000, 0x2010},
		[]any{0x2010, 0x2020, cfaDefCFAOffset, 24},
		[]any{0x2020, 0x2030, cfaDefCFA, 6, 16, cfaOffset | 6, 2},
		[]any{0x2030, 0x2040, cfaUndefined, 16},
		[]any{0x2040, 0x2050, cfaDefCFA, 3, 16, cfaOffset | 6, 2},                         // by rbx
		[]any{0x2050, 0x2060, cfaDefCFAOffset, 16, cfaOffset | 3, 2},                      // saves rbx
		[]any{0x2060, 0x2070, cfaDefCFAExpression, 4, 0x79, 0, 0x23, 8},                   // r9 + 8
		[]any{0x2070, 0x2080, cfaDefCFAExpression, 7, 0x77, 0, 0x06, 0x06, 0x06, 0x23, 1}, // reads nonsense
		[]any{0x2080, 0x2090, cfaUndefined, 6},
	)
	s := testSpace(f)
	x86 := func(ip, fp uint64) Regs { return NewRegs(elf.EM_X86_64, ip, stackAt, fp) }
	end := uint64(0x2031)

	t.Run("leaf, frame, rbp, end", func(t *testing.T) {
		wantWalk(t, x86(0x2000, stackAt+48), testStack(0x2011, 1, 2, 0x2021, 3, 4, 0, end, 0), s, EndOfStack,
			Frame{IP: 0x2000}, ret(0x2011), ret(0x2021), ret(end))
	})
	t.Run("a call at the end of a function", func(t *testing.T) {
		wantWalk(t, x86(0x2000, 0), testStack(0x2010, end), s, EndOfStack, Frame{IP: 0x2000}, ret(0x2010), ret(end))
	})
	t.Run("a sampled first instruction", func(t *testing.T) {
		wantWalk(t, x86(0x2010, 0), testStack(1, 2, end), s, EndOfStack, Frame{IP: 0x2010}, ret(end))
	})
	t.Run("the stack was not copied far enough", func(t *testing.T) {
		wantWalk(t, x86(0x2000, 0), testStack(0x2011, 1), s, Unreadable, Frame{IP: 0x2000}, ret(0x2011))
	})
	t.Run("no mapping", func(t *testing.T) {
		wantWalk(t, x86(0x2000, 0), testStack(0x90000), s, NoMapping, Frame{IP: 0x2000}, ret(0x90000))
	})
	t.Run("no entry", func(t *testing.T) {
		wantWalk(t, x86(0x2000, 7), testStack(0x3000), s, NoRule, Frame{IP: 0x2000}, ret(0x3000))
	})
	t.Run("return address 0", func(t *testing.T) {
		wantWalk(t, x86(0x2000, 0), testStack(0), s, ZeroReturn, Frame{IP: 0x2000})
	})
	t.Run("rbp leads down", func(t *testing.T) {
		wantWalk(t, x86(0x2011, stackAt+8), testStack(0, 0x2021, 0x2021, 0), s, NoProgress,
			Frame{IP: 0x2011}, ret(0x2021))
	})
	t.Run("depth", func(t *testing.T) {
		words := slices.Repeat([]uint64{0x2001}, 300)
		regs, u := x86(0x2000, 0), Unwinder{}
		if got, why := u.Walk(nil, &regs, testStack(words...), s); len(got) != MaxDepth || why != Depth {
			t.Errorf("%d frames, %v", len(got), why)
		}
		u.MaxDepth = 9
		if got, why := u.Walk(make([]Frame, 3), &regs, testStack(words...), s); len(got) != 3+9 || why != Depth {
			t.Errorf("%d frames, %v", len(got), why)
		}
	})
	t.Run("a callee-saved register, by full CFI", func(t *testing.T) {
		regs := x86(0x2050, 0)
		regs.Set(3, 77)
		wantWalk(t, regs, testStack(stackAt+24, 0x2041, 9, 5, end), s, EndOfStack, Frame{IP: 0x2050},
			ret(0x2041), ret(end))
	})
	t.Run("a register of the innermost frame", func(t *testing.T) {
		regs := x86(0x2040, 0)
		regs.Set(3, stackAt)
		wantWalk(t, regs, testStack(5, end), s, EndOfStack, Frame{IP: 0x2040}, ret(end))
		wantWalk(t, x86(0x2040, 0), testStack(5, end), s, NoRule, Frame{IP: 0x2040}) // not known
	})
	t.Run("an expression", func(t *testing.T) {
		regs := x86(0x2060, 0)
		regs.Set(9, stackAt+8)
		wantWalk(t, regs, testStack(5, end), s, EndOfStack, Frame{IP: 0x2060}, ret(end))
		wantWalk(t, x86(0x2070, 0), testStack(5, end), s, Unreadable, Frame{IP: 0x2070})
	})
	t.Run("rbp is lost", func(t *testing.T) {
		wantWalk(t, x86(0x2080, stackAt+16), testStack(0x2021, 1, 0, end), s, Unreadable,
			Frame{IP: 0x2080}, ret(0x2021))
	})
	t.Run("without a table", func(t *testing.T) {
		bare := testSpace(nil)
		bare.m.Object = NewObject(nil, func() (*CFI, error) { return f, nil })
		wantWalk(t, x86(0x2000, stackAt+48), testStack(0x2011, 1, 2, 0x2021, 3, 4, 0, end, 0), bare, EndOfStack,
			Frame{IP: 0x2000}, ret(0x2011), ret(0x2021), ret(end))
	})
}

// Rows stay when the CFI is released, and go with their object.
func TestForget(t *testing.T) {
	cfi := fdes(elf.EM_X86_64, []any{0x2000, 0x2010}, []any{0x2030, 0x2040, cfaUndefined, 16})
	opened := 0
	o := NewObject(nil, func() (*CFI, error) { opened++; return cfi, nil })
	space := &space1{Mapping{Start: 0x2000, End: 0x3000, Object: o}}
	var u Unwinder
	walk := func(want int) {
		t.Helper()
		regs := NewRegs(elf.EM_X86_64, 0x2001, stackAt, 0)
		got, why := u.Walk(nil, &regs, testStack(0x2031), space)
		if len(got) != 2 || why != EndOfStack || opened != want {
			t.Errorf("%v, %v, opened %d times, want %d", got, why, opened, want)
		}
	}
	walk(1)
	o.Release()
	walk(1)
	u.Forget(map[*Object]bool{NewObject(nil, nil): true})
	walk(1)
	u.Forget(map[*Object]bool{o: true})
	walk(2)
}

// TestWalkFramePointers: code without CFI, as of Go and of compilers that run in
// the process, is walked by frame pointers.
func TestWalkFramePointers(t *testing.T) {
	s := testSpace(nil)
	regs := NewRegs(elf.EM_X86_64, 0x2000, stackAt, stackAt+16)
	wantWalk(t, regs, testStack(1, 2, stackAt+32, 0x3000, 0, 0x4000), s, ZeroReturn, Frame{IP: 0x2000},
		ret(0x3000), ret(0x4000))
	regs = NewRegs(elf.EM_X86_64, 0x2000, stackAt, 0x1234)
	wantWalk(t, regs, testStack(1), s, NoTable, Frame{IP: 0x2000})
	regs = NewRegs(elf.EM_X86_64, 0x2000, stackAt, 0x1238)
	wantWalk(t, regs, testStack(1), s, Unreadable, Frame{IP: 0x2000})
}

// TestWalkSignal: a signal came at the first instruction of a function. The
// restorer keeps all registers in the ucontext.
func TestWalkSignal(t *testing.T) {
	f := parseSection(elf.EM_X86_64, asm(
		entry32(uint32(0), 1, "zRS", 1, 0x78, 16, 1, peAbsptr),
		entry32(uint32(4+4+1+4+3+2+4), uint64(0x2fff), uint64(16), 0,
			cfaDefCFAExpression, 4, 0x77, 0xa0, 0x01, 0x06,
			cfaExpression, 6, 3, 0x77, 0xf8, 0x00,
			cfaExpression, 3, 3, 0x77, 0x80, 0x01,
			cfaExpression, 16, 3, 0x77, 0xa8, 0x01)), true)
	g := fdes(elf.EM_X86_64, []any{0x2000, 0x2010}, []any{0x2010, 0x2020, cfaDefCFA, 3, 8},
		[]any{0x2030, 0x2040, cfaUndefined, 16})
	f.secs = append(f.secs, g.secs...)
	f.fdes, f.cies, f.known = nil, nil, nil
	f.parse()

	words := make([]uint64, 64)
	words[0] = 0x3000                    // the handler returns to the restorer
	words[1+SignalRIP/8] = 0x2010        // interrupted there
	words[1+SignalRSP/8] = stackAt + 400 // on whichever stack
	words[1+128/8] = stackAt + 408       // rbx, by which the CFA is found
	words[408/8] = 0x2031
	regs := NewRegs(elf.EM_X86_64, 0x2000, stackAt, 0)
	wantWalk(t, regs, testStack(words...), testSpace(f), EndOfStack,
		Frame{IP: 0x2000}, Frame{IP: 0x3000}, Frame{IP: 0x2010}, ret(0x2031))
	regs = NewRegs(elf.EM_X86_64, 0x300f, stackAt+8, 0) // in the syscall
	wantWalk(t, regs, testStack(words...), testSpace(f), EndOfStack, Frame{IP: 0x300f}, Frame{IP: 0x2010}, ret(0x2031))
}

func TestWalkARM64(t *testing.T) {
	f := fdes(elf.EM_AARCH64,
		[]any{0x2000, 0x2010}, // a leaf
		[]any{0x2010, 0x2020, cfaDefCFAOffset, 32, cfaOffset | 29, 4, cfaOffset | 30, 3},
		[]any{0x2020, 0x2030, cfaGNUWindowSave, cfaDefCFA, 29, 16, cfaOffset | 29, 2, cfaOffset | 30, 1},
		[]any{0x2030, 0x2040, cfaUndefined, 30},
	)
	s := testSpace(f)
	const signed = 0x00ab_0000_0000_2031
	regs := NewRegs(elf.EM_AARCH64, 0x2000, stackAt, 1)
	regs.Set(arm64LR, 0x2011)
	wantWalk(t, regs, testStack(stackAt+32, 0x2021, 0, 0, 0, signed), s, EndOfStack,
		Frame{IP: 0x2000}, ret(0x2011), ret(0x2021), ret(0x2031))

	// A leaf's link register is not known in its caller's frame: no endless walk.
	regs = NewRegs(elf.EM_AARCH64, 0x2000, stackAt, 1)
	regs.Set(arm64LR, 0x2004)
	wantWalk(t, regs, testStack(), s, NoRule, Frame{IP: 0x2000}, ret(0x2004))

	// Without CFI: by the frame records, because the link register may be the address after the last call.
	regs = NewRegs(elf.EM_AARCH64, 0x5000, stackAt, stackAt)
	regs.Set(arm64LR, 0x5100)
	wantWalk(t, regs, testStack(0, signed&^0xffff|0x5200), testSpace(nil), EndOfStack,
		Frame{IP: 0x5000}, ret(0x5200))
}

func TestPerfRegs(t *testing.T) {
	// ax, sp, ip, r8 of arch/x86/include/uapi/asm/perf_regs.h.
	r, ok := PerfRegs(elf.EM_X86_64, 1<<0|1<<7|1<<8|1<<16, []uint64{10, 17, 18, 26})
	rax, okAX := r.Get(0)
	r8, okR8 := r.Get(8)
	_, okBP := r.Get(x86RBP)
	if !ok || r.SP() != 17 || r.IP() != 18 || !okAX || rax != 10 || !okR8 || r8 != 26 || okBP {
		t.Errorf("%+v %v", r, ok)
	}
	// bx, cx, dx, si, di, bp have their own order.
	r, _ = PerfRegs(elf.EM_X86_64, 0x1fe, []uint64{3, 2, 1, 4, 5, 6, 7, 16})
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 16} {
		if v, ok := r.Get(n); !ok || v != uint64(n) {
			t.Errorf("register %d: %d, %v", n, v, ok)
		}
	}
	if _, ok := PerfRegs(elf.EM_X86_64, 1<<8, []uint64{1}); ok {
		t.Error("no sp, and yet registers to walk with")
	}
	if _, ok := PerfRegs(elf.EM_X86_64, 1<<7|1<<8, []uint64{1}); ok {
		t.Error("fewer values than the mask has bits, and yet registers to walk with")
	}
	r, ok = PerfRegs(elf.EM_AARCH64, 1<<29|1<<30|1<<31|1<<32, []uint64{29, 30, 31, 32})
	if lr, _ := r.Get(arm64LR); !ok || r.FP() != 29 || lr != 30 || r.SP() != 31 || r.IP() != 32 {
		t.Errorf("%+v %v", r, ok)
	}
	if _, ok := PerfRegs(elf.EM_ARM, ^uint64(0), make([]uint64, 64)); ok {
		t.Error("registers of 32-bit Arm")
	}
}

func TestExpressions(t *testing.T) {
	regs := NewRegs(elf.EM_X86_64, 1, stackAt, 6)
	mem := testStack(0x1122334455667788, 42)
	for _, c := range []struct {
		e    []byte
		want uint64
	}{
		{asm(dwarf.OpLit0 + 5), 5},
		{asm(dwarf.OpConst1u, 200), 200},
		{asm(dwarf.OpConst1s, 200), ^uint64(55)},
		{asm(dwarf.OpConst2s, uint16(0xffff)), ^uint64(0)},
		{asm(dwarf.OpConst4u, uint32(7)), 7},
		{asm(dwarf.OpConst8u, uint64(1<<40)), 1 << 40},
		{asm(dwarf.OpConstu, 0x80, 1), 128},
		{asm(dwarf.OpConsts, 0x7f), ^uint64(0)},
		{asm(dwarf.OpBreg0+6, 0x7f), 5},
		{asm(dwarf.OpBregx, 7, 8), stackAt + 8},
		{asm(dwarf.OpBreg0+7, 8, dwarf.OpDeref), 42},
		{asm(dwarf.OpBreg0+7, 0, dwarf.OpDerefSize, 2), 0x7788},
		{asm(dwarf.OpLit0+7, dwarf.OpDup, dwarf.OpMul), 49},
		{asm(dwarf.OpLit0+7, dwarf.OpLit0+2, dwarf.OpSwap, dwarf.OpMinus), ^uint64(4)},
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+2, dwarf.OpLit0+3, dwarf.OpRot, dwarf.OpMinus, dwarf.OpMinus), 4}, // 3 1 2: 3-(1-2)
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+2, dwarf.OpOver), 1},
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+2, dwarf.OpLit0+3, dwarf.OpPick, 2), 1},
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+2, dwarf.OpDrop), 1},
		{asm(dwarf.OpLit0+9, dwarf.OpNeg, dwarf.OpLit0+2, dwarf.OpDiv), ^uint64(3)},
		{asm(dwarf.OpLit0+9, dwarf.OpLit0+5, dwarf.OpMod), 4},
		{asm(dwarf.OpLit0+9, dwarf.OpNeg, dwarf.OpAbs), 9},
		{asm(dwarf.OpLit0, dwarf.OpNot), ^uint64(0)},
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+5, dwarf.OpShl), 32},
		{asm(dwarf.OpLit0+31, dwarf.OpLit0+2, dwarf.OpShr), 7},
		{asm(dwarf.OpConsts, 0x78, dwarf.OpLit0+2, dwarf.OpShra), ^uint64(1)},
		{asm(dwarf.OpLit0+6, dwarf.OpLit0+3, dwarf.OpXor), 5},
		{asm(dwarf.OpLit0+6, dwarf.OpLit0+1, dwarf.OpOr), 7},
		{asm(dwarf.OpLit0+6, dwarf.OpLit0+3, dwarf.OpAnd, dwarf.OpPlusUconst, 9), 11},
		{asm(dwarf.OpLit0+6, dwarf.OpLit0+3, dwarf.OpGe), 1},
		{asm(dwarf.OpLit0+6, dwarf.OpLit0+3, dwarf.OpLt), 0},
		{asm(dwarf.OpLit0+1, dwarf.OpLit0+1, dwarf.OpBra, uint16(2), dwarf.OpLit0+2, dwarf.OpNop, dwarf.OpLit0+3), 3},
		{asm(dwarf.OpLit0+1, dwarf.OpSkip, uint16(1), dwarf.OpDrop), 1},
	} {
		t.Run(fmt.Sprintf("%x", c.e), func(t *testing.T) {
			v := evaluator{regs: &regs, mem: mem}
			if got, ok := v.run(c.e); !ok || got != c.want {
				t.Errorf("%x: %#x, %v; want %#x", c.e, got, ok, c.want)
			}
		})
	}
	for name, e := range map[string][]byte{
		"empty":            nil,
		"unknown":          asm(0xff),
		"nothing to add":   asm(dwarf.OpLit0, dwarf.OpPlus),
		"nothing to drop":  asm(dwarf.OpDrop),
		"division by zero": asm(dwarf.OpLit0+1, dwarf.OpLit0, dwarf.OpDiv),
		"modulo zero":      asm(dwarf.OpLit0+1, dwarf.OpLit0, dwarf.OpMod),
		"endless":          asm(dwarf.OpLit0, dwarf.OpSkip, uint16(0xfffd)),
		"overflow":         asm(dwarf.OpLit0, dwarf.OpDup, dwarf.OpSkip, uint16(0xfffc)),
		"jump out":         asm(dwarf.OpLit0, dwarf.OpSkip, uint16(99)),
		"cut short":        asm(dwarf.OpConst8u, 1),
		"unknown register": asm(dwarf.OpBreg0+1, 0),
		"unreadable":       asm(dwarf.OpLit0, dwarf.OpDeref),
		"size 9":           asm(dwarf.OpBreg0+7, 0, dwarf.OpDerefSize, 9),
	} {
		t.Run(name, func(t *testing.T) {
			v := evaluator{regs: &regs, mem: mem}
			if got, ok := v.run(e); ok {
				t.Errorf("%#x", got)
			}
		})
	}
}

func TestReason(t *testing.T) {
	for r := range NumReasons + 1 {
		if s := r.String(); s == "" || (s == "unknown") != (r == NumReasons) {
			t.Error(fmt.Sprint(r))
		}
	}
}

package unwind

import (
	"bytes"
	"debug/elf"
	"slices"
	"testing"
)

// codeSpace is a space with code at 0x2000 in a file without CFI, and calls before 0x…00, from 0x2f00 on of x86-64.
type codeSpace struct {
	code   []byte
	file   bool
	framed bool
	arm64  bool // the calls are bl
}

func (s *codeSpace) Mapping(ip uint64) *Mapping {
	m := &Mapping{Start: 0x2000, End: 0x4000}
	if ip < m.Start || ip >= m.End {
		return nil
	}
	if s.file {
		rules := []Rule{{}, {CFA: CFARSP, RA: RAUndefined}}
		if s.framed {
			rules[0] = ruleFramed
		}
		rows := []Row{{0, 0}, {0x3000, 1}, {0x3800, 0}}
		m.Object = NewObject(&Table{Pages: []Page{{0, 3}}, Rows: rows, Rules: rules}, nil)
	}
	return m
}

func (s *codeSpace) Code(ip uint64, b []byte) bool {
	clear(b)
	for i := range b {
		switch at := ip + uint64(i); {
		case at-0x2000 < uint64(len(s.code)):
			b[i] = s.code[at-0x2000]
		case s.arm64 && at&0xff == 0xff:
			b[i] = 0x94
		case s.arm64:
		case at&0xff == 0xfb: // calls end at 0x…00
			b[i] = 0xe8
		case at&0xff > 0xfb && at < 0x3000: // of a function before them
			b[i] = []byte{0, 0xf1, 0xff, 0xff}[at&3]
		}
	}
	return true
}

func TestCode(t *testing.T) {
	const ra, fp = 0x3100, stackAt + 48 // the caller's return address, in code with CFI; the frame pointer
	end := ret(ra)
	for _, c := range []struct {
		name   string
		at     uint64 // of ip in the code
		code   []byte
		stack  []uint64
		framed bool
		fp     uint64
		want   []Frame
	}{
		{"ret", 0, asm(0xc3), []uint64{ra}, false, 1, []Frame{end}},
		{"rep ret", 0, asm(0xf3, 0xc3), []uint64{ra}, false, 1, []Frame{end}},
		{"ret n", 0, asm(0xc2, 16, 0), []uint64{ra}, false, 1, []Frame{end}},
		{"pop rbp, ret", 0, asm(0x5d, 0xc3), []uint64{9, ra}, false, 1, []Frame{end}},
		{"leave, ret", 0, asm(0xc9, 0xc3), []uint64{1, 2, 3, 4, 5, 6, 9, ra}, false, fp, []Frame{end}},
		{"mov rbp rsp, pop, ret", 0, asm(0x48, 0x8b, 0xe5, 0x5d, 0xc3),
			[]uint64{1, 2, 3, 4, 5, 6, 9, ra}, false, fp, []Frame{end}},
		{"lea, pops, ret", 0, asm(0x48, 0x8d, 0x65, 0xf0, 0x41, 0x5c, 0x5b, 0x5d, 0xc3),
			[]uint64{1, 2, 3, 4, 5, 6, 9, ra}, false, fp, []Frame{end}},
		{"add, ret", 0, asm(0x48, 0x83, 0xc4, 16, 0xc3), []uint64{1, 2, ra}, false, 1, []Frame{end}},
		{"add of 4 bytes, ret", 0, asm(0x48, 0x81, 0xc4, uint32(24), 0xc3), []uint64{1, 2, 3, ra}, false, 1, []Frame{end}},
		{"vzeroupper, ret", 0, asm(0xc5, 0xf8, 0x77, 0xc3), []uint64{ra}, false, 1, []Frame{end}},
		{"trampoline", 0, asm(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3),
			[]uint64{ra}, false, 1, []Frame{end}},
		{"push", 0, asm(0x55, 0x48, 0x89, 0xe5), []uint64{ra}, false, fp, []Frame{end}},
		{"endbr64, push", 0, asm(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x8b, 0xec), []uint64{ra}, false, fp, []Frame{end}},
		{"after push", 1, asm(0x55, 0x48, 0x89, 0xe5), []uint64{fp, ra}, false, fp, []Frame{end}},
		{"frame", 4, asm(0x55, 0x48, 0x89, 0xe5, 0x90), []uint64{0x2f00, 2, 3, 4, 5, 6, 9, ra}, true, fp, []Frame{end}},
		{"no frame", 0, asm(0x90), []uint64{0x3200, 2, 3, 4, 5, 6, 9, ra}, false, fp, []Frame{ret(0x3200)}},
		{"no frame pointer", 0, asm(0x90), []uint64{1, 2, ra}, true, 1, []Frame{end}},
		{"nothing", 0, asm(0x90), []uint64{1, 2, 3, ra}, false, 1, nil},
		{"ret to nowhere", 0, asm(0xc3), []uint64{0x9000, 2, 3}, false, 1, nil},
		{"rsp leads down", 0, asm(0x48, 0x83, 0xc4, 0x80, 0xc3), []uint64{1, 2, 3, ra}, false, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &codeSpace{code: c.code, file: true, framed: c.framed}
			regs := NewRegs(elf.EM_X86_64, 0x2000+c.at, stackAt, c.fp)
			why := EndOfStack
			if c.want == nil {
				why = NoRule
			}
			wantWalk(t, regs, testStack(c.stack...), s, why, append([]Frame{{IP: 0x2000 + c.at}}, c.want...)...)
		})
	}
}

// callSpace is code of x86-64 without CFI, with calls before these addresses, of these targets; 0: of an unknown one.
type callSpace map[uint64]uint64

func (s callSpace) Mapping(ip uint64) *Mapping {
	m := &Mapping{Start: 0x2000, End: 0x9000}
	if ip < m.Start || ip >= m.End {
		return nil
	}
	return m
}

func (s callSpace) Code(ip uint64, b []byte) bool {
	clear(b)
	target, ok := s[ip+uint64(len(b))]
	switch {
	case ok && target == 0:
		copy(b[len(b)-2:], asm(0xff, 0xd0)) // call *%rax
	case ok:
		copy(b[len(b)-5:], asm(0xe8, uint32(target-ip-uint64(len(b)))))
	}
	return true
}

// TestLeaf: the caller of an innermost function without a frame is at rsp, in a program with frame pointers.
func TestLeaf(t *testing.T) {
	const (
		leaf, middle       = 0x3000, 0x4000
		inLeaf             = leaf + 0x20
		callsLeaf, another = middle + 0x30, middle + 0x80
		callsMiddle        = 0x5050
		somewhere          = 0x6060 // after an indirect call
		fp                 = stackAt + 16
	)
	calls := callSpace{callsLeaf: leaf, another: leaf, callsMiddle: middle, somewhere: 0}
	for _, c := range []struct {
		name        string
		top, beside uint64 // the words at rsp, and next to the frame pointer's
		want        []uint64
	}{
		{"no frame", callsLeaf, callsMiddle, []uint64{callsLeaf, callsMiddle}},
		{"no frame, an indirect call", callsLeaf, somewhere, []uint64{callsLeaf, somewhere}},
		{"a frame, with an old return address", another, callsLeaf, []uint64{callsLeaf}},
		{"a frame, with a return address to another function", callsMiddle, callsLeaf, []uint64{callsLeaf}},
		{"a frame", 1, callsLeaf, []uint64{callsLeaf}},
		{"called indirectly", somewhere, callsMiddle, []uint64{callsMiddle}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []Frame{{IP: inLeaf}}
			for _, ip := range c.want {
				want = append(want, ret(ip))
			}
			regs := NewRegs(elf.EM_X86_64, inLeaf, stackAt, fp)
			wantWalk(t, regs, testStack(c.top, 2, 0, c.beside), calls, ZeroReturn, want...)
		})
	}
}

// TestLastCall: of two return addresses at the ends of rows, one has a call before it.
func TestLastCall(t *testing.T) {
	const called, notCalled = 0x2200, 0x2280
	rules := []Rule{{}, sp(8), sp(16), {CFA: CFARSP, RA: RAUndefined}}
	rows := []Row{{0, 1}, {called, 2}, {notCalled, 1}, {0x3000, 3}}
	s := &tableSpace{codeSpace{file: true}, NewObject(&Table{Pages: []Page{{0, 4}}, Rows: rows, Rules: rules}, nil)}
	last := ret(called)
	last.Last = true
	regs := NewRegs(elf.EM_X86_64, 0x2100, stackAt, 0)
	wantWalk(t, regs, testStack(called, notCalled, 0, 0x2300, 0x3100), s, EndOfStack,
		Frame{IP: 0x2100}, last, ret(notCalled), ret(0x2300), ret(0x3100))
}

// tableSpace is the code of a codeSpace with another table.
type tableSpace struct {
	codeSpace
	object *Object
}

func (s *tableSpace) Mapping(ip uint64) *Mapping {
	m := s.codeSpace.Mapping(ip)
	if m != nil {
		m.Object = s.object
	}
	return m
}

// TestFramed checks where code without FDEs has a frame, as V8's builtins.
func TestFramed(t *testing.T) {
	code := slices.Concat(
		bytes.Repeat([]byte{0x90}, 32),               // 0x2000: a function without a frame
		[]byte{0x55, 0x48, 0x89, 0xe5, 0xcc, 0xcc},   // 0x2020: a frame
		bytes.Repeat([]byte{0x90}, 10), []byte{0xc3}, // bytes of 0xcc in its code
		bytes.Repeat([]byte{0xcc}, 15),               // padding up to 0x2040
		[]byte{0x90, 0xc3}, []byte{0x55, 0x48, 0x8b}, // a function without one
		bytes.Repeat([]byte{0xcc}, 11),                // up to 0x2050
		[]byte{0x90, 0x55, 0x48, 0x8b, 0xec, 0x90, 9}, // a frame up to the end
	)
	want := []known{{0x2024, 0x2031, ruleFramed, false}, {0x2055, 0x2057, ruleFramed, false}}
	if got := appendFramed(nil, 0x2000, code); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzCode checks that a walk through any code ends, with frames in code that is mapped.
func FuzzCode(f *testing.F) {
	f.Add([]byte{0xc9, 0xc3}, []byte{0, 0, 0xff, 0x7f}, uint64(stackAt))
	f.Add([]byte{0x48, 0x83, 0xc4, 8, 0xc3}, []byte{1}, uint64(stackAt+8))
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc2, 1}, []byte{1}, uint64(7))
	f.Fuzz(func(t *testing.T, code, stack []byte, fp uint64) {
		for _, s := range []*codeSpace{{code: code}, {code: code, file: true}, {code: code, file: true, framed: true}} {
			regs, u := NewRegs(elf.EM_X86_64, 0x2000, stackAt, fp), Unwinder{}
			frames, why := u.Walk(nil, &regs, &Stack{Addr: stackAt, Bytes: stack}, s)
			for _, fr := range frames[1:] {
				if s.Mapping(fr.IP-1) == nil {
					t.Errorf("a frame at %#x, %v", fr.IP, why)
				}
			}
		}
		appendFramed(nil, 0x2000, code)
	})
}

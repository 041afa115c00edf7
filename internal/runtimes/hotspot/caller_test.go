package hotspot

import (
	"encoding/binary"
	"slices"
	"testing"
)

// sp is the stack pointer of the tests' frames.
const sp = stackAt + 0x1000

// TestCaller takes one step out of each kind of code, at each kind of instruction.
func TestCaller(t *testing.T) {
	const (
		words  = 6 // of a compiled method's frame
		ra     = interpAt + 0x80
		rbp    = sp + 0x800
		method = 0x10 // segments
		stub   = 0x20
		noSize = 0x30
		other  = 0x38
	)
	for _, c := range []struct {
		name     string
		segment  int
		at       int    // ip in the code
		code     []byte // at the code's start
		returned bool
		fp       uint64
		stack    []uint64 // from sp on
		rax, r13 uint64
		want     Frame
	}{
		{name: "method", segment: method, at: 50, stack: []uint64{4: rbp, 5: ra}, want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "method that called", segment: method, at: 4, returned: true, stack: []uint64{4: rbp, 5: ra},
			want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "method with a word pushed", segment: method, at: 50, stack: []uint64{0: 1, 5: rbp, 6: ra},
			want: Frame{IP: ra, SP: sp + 56, FP: rbp}},
		{name: "at push rbp", segment: method, at: 7, code: []byte{0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55},
			fp: rbp, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "after push rbp", segment: method, at: 8, code: []byte{7: 0x55, 0x48, 0x83, 0xec, 0x20},
			stack: []uint64{rbp, ra}, want: Frame{IP: ra, SP: sp + 16, FP: rbp}},
		{name: "before the frame is complete", segment: method, at: 12, code: []byte{7: 0x55, 0x48, 0x83, 0xec, 0x20},
			stack: []uint64{4: rbp, 5: ra}, want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "at the entry", segment: method, at: 0, fp: rbp, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "before rbp is saved", segment: method, at: 4, code: []byte{0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0x6c, 0x24, 0x20},
			fp: rbp, stack: []uint64{5: ra}, want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "at pop rbp", segment: method, at: 64, code: []byte{60: 0x48, 0x83, 0xc4, 0x20, 0x5d},
			stack: []uint64{rbp, ra}, want: Frame{IP: ra, SP: sp + 16, FP: rbp}},
		{name: "at the poll", segment: method, at: 65, code: []byte{60: 0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0xa7},
			fp: rbp, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "after the poll", segment: method, at: 72,
			code: []byte{60: 0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0xa7, 0, 1, 0, 0, 0x0f, 0x87},
			fp:   rbp, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "at ret", segment: method, at: 60, code: []byte{60: 0xc3}, fp: rbp, stack: []uint64{ra},
			want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "stub's frame pointer", segment: stub, at: 30, fp: sp + 32, stack: []uint64{4: rbp, 5: ra},
			want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "stub that called", segment: stub, at: 30, returned: true, fp: sp + 32, stack: []uint64{4: rbp, 5: ra},
			want: Frame{IP: ra, SP: sp + 48, FP: rbp}},
		{name: "stub without size", segment: noSize, at: 30, returned: true, fp: rbp, stack: []uint64{0, ra},
			want: Frame{IP: ra, SP: sp + 16, FP: rbp}},
		{name: "adapter", segment: other, at: 30, fp: rbp, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "adapter with rax", segment: other, at: 30, fp: rbp, stack: []uint64{1, 2}, rax: ra, r13: sp + 64,
			want: Frame{IP: ra, SP: sp + 64, FP: rbp}},
		{name: "stub routine", segment: other, at: 30, fp: sp + 16, stack: []uint64{1, 2, rbp, ra},
			want: Frame{IP: ra, SP: sp + 32, FP: rbp}},
		{name: "interpreter", at: 30, fp: sp + 16, stack: []uint64{0, sp + 0x40, rbp, ra},
			want: Frame{IP: ra, SP: sp + 0x40, FP: rbp}},
		{name: "interpreter that called", at: 30, returned: true, fp: sp + 16, stack: []uint64{0, sp + 0x40, rbp, ra},
			want: Frame{IP: ra, SP: sp + 0x40, FP: rbp}},
		{name: "interpreter's entry", at: 30, fp: rbp, r13: sp + 8, stack: []uint64{ra}, want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "interpreter pushing variables", at: 30, fp: rbp, r13: sp + 16, rax: ra, stack: []uint64{0, 0},
			want: Frame{IP: ra, SP: sp + 16, FP: rbp}},
		{name: "interpreter after leave", at: 0x101, code: []byte{0x100: 0xc9, 0x41, 0x5d}, fp: rbp, stack: []uint64{ra},
			want: Frame{IP: ra, SP: sp + 8, FP: rbp}},
		{name: "no return address", segment: method, at: 50, stack: []uint64{4: rbp, 5: 12}},
		{name: "no blob", segment: 0x80, at: 50},
	} {
		for _, r := range releases {
			t.Run(r.name+" "+c.name, func(t *testing.T) {
				m := newImage(&r)
				ip := map[int]uint64{
					0:      interpAt,
					method: m.blob(&r, method, 16, words, 13),
					stub:   m.blob(&r, stub, 16, words, -1),
					noSize: m.blob(&r, noSize, 8, -1, -1),
					other:  m.blob(&r, other, 8, 0, -1),
					0x80:   heapAt + 0x80<<shift,
				}[c.segment]
				m.put(ip, c.code...)
				for i, v := range c.stack {
					m.put64(sp+8*uint64(i), v)
				}
				f := Frame{IP: ip + uint64(c.at), SP: sp, FP: c.fp, Returned: c.returned,
					RAX: c.rax, R13: c.r13, All: !c.returned}
				heaps, err := Read(m, m.symbol)
				if err != nil {
					t.Fatal(err)
				}
				code := Code{Heaps: heaps, Mem: m, Stack: m.stack}
				got, ok := code.Caller(f)
				c.want.Returned = true
				if ok != (c.want.IP != 0) || ok && got != c.want {
					t.Errorf("Caller(%+v): %+v, %v", f, got, ok)
				}
			})
		}
	}
}

// TestLargeBlob finds the start of a blob of many segments.
func TestLargeBlob(t *testing.T) {
	r := &releases[1]
	m := newImage(r)
	start := m.blob(r, 0x10, 1000, 4, 10)
	m.put64(sp+16, 1)
	m.put64(sp+24, interpAt)
	heaps, err := Read(m, m.symbol)
	if err != nil {
		t.Fatal(err)
	}
	code := Code{Heaps: heaps, Mem: m, Stack: m.stack}
	if f, ok := code.Caller(Frame{IP: start + 999<<shift - 200, SP: sp, Returned: true}); !ok || f.IP != interpAt {
		t.Errorf("Caller: %+v, %v", f, ok)
	}
}

// FuzzRead changes words of a process's memory: nothing may panic or take long.
func FuzzRead(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, 0x1010), 1<<63))
	f.Add(uint8(2), slices.Repeat([]byte{0, 16, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 20))
	f.Fuzz(func(t *testing.T, version uint8, changes []byte) {
		r := &releases[int(version)%len(releases)]
		m := newImage(r)
		code := m.blob(r, 0x10, 300, 6, 13)
		for ; len(changes) >= 12; changes = changes[12:] {
			off := uint64(binary.LittleEndian.Uint32(changes)) % (imageSize - 8)
			copy(m.bytes[off:], changes[4:12])
		}
		heaps, err := Read(m, m.symbol)
		if err != nil {
			return
		}
		c := Code{Heaps: heaps, Mem: m, Stack: m.stack}
		for _, ip := range []uint64{code, code + 50, code + 250<<shift, interpAt + 7, heapAt + heapSize - 1} {
			for _, returned := range []bool{false, true} {
				c.Caller(Frame{IP: ip, SP: sp, FP: sp + 64, Returned: returned, R13: sp + 8, RAX: code, All: !returned})
			}
		}
	})
}

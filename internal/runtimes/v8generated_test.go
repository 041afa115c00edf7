package runtimes

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// v8TestCode is generated code to add.
type v8TestCode struct {
	kind         uint32
	size         int
	table, deopt uint64 // objects
}

// code adds generated code, and returns the address of the instructions.
func (m *v8Memory) code(v *v8Process, c v8TestCode) (start uint64) {
	kind := func(of uint64, typ uint16) uint64 { // a map
		b := binary.LittleEndian.AppendUint64(nil, of)
		return m.raw(binary.LittleEndian.AppendUint64(b, uint64(typ)<<32)) + 1
	}
	l := &v.vm.layout
	maps := kind(0, v.vm.objects.mapType)
	m.put(maps-1, maps) // of itself
	object := m.object(v.vm.objects.codeType, make([]uint64, 8)...)
	b := binary.LittleEndian.AppendUint64(nil, kind(maps, l.stream))
	b = binary.LittleEndian.AppendUint64(b, object)
	b = append(b, make([]byte, int(l.first)-len(b))...)
	start = m.raw(append(b, make([]byte, c.size)...)) + l.first
	if l.code == 0 {
		object = start - l.first + 1
	} else {
		m.put(object-1+l.start, start)
	}
	m.put(object-1+l.table, c.table)
	m.put(object-1+l.deopt, c.deopt)
	m.put(object-1+l.size&^7, uint64(c.size)<<(8*(l.size%8)))
	m.put(object-1+l.flags&^7, uint64(c.kind)<<(8*(l.flags%8)))
	return start
}

// put stores a word.
func (m *v8Memory) put(at, w uint64) { binary.LittleEndian.PutUint64(m.b[at-v8Base:], w) }

// TestV8Baseline finds the bytecode that code of a function is from.
func TestV8Baseline(t *testing.T) {
	v, m := v8Test13(), &v8Memory{}
	// The bytecodes are 0 to 5. Bytecode 4 is without operand, bytecode 5 with an operand of 1, 2 or 4 bytes.
	v.vm.bytecodes = v8Bytecodes{1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 5}
	bytecodes := []byte{4, 5, 9, 0, 5, 9, 9, 4} // at 0, 1, 3 and 7
	words := make([]uint64, 7)
	words[0] = toSmi(len(bytecodes))
	bytecode := m.object(v.vm.objects.bytecodeType, append(words, binary.LittleEndian.Uint64(bytecodes))...)
	table := m.array([]byte{10, 4, 0x80 | 2, 2, 6, 8})
	start := m.code(v, v8TestCode{kind: v.vm.layout.baseline, size: 300, table: table, deopt: bytecode})
	shared := m.object(v.vm.objects.sharedType, make([]uint64, 8)...)
	for _, c := range []struct{ pc, want uint64 }{
		{0, 0}, {9, 0}, // the entry
		{10, 0}, {13, 0}, {14, 1}, {271, 1}, {272, 3}, {277, 3}, {278, 7}, {285, 7},
		{286, 0}, {299, 0}, // after the last one
		{300, 0}, {1 << 40, 0}, // other code
	} {
		f := nativeFrame{ip: start + c.pc, generated: true, has: true, passed: Interpreted{Code: shared}}
		b, err := v.Bind(m, f)
		if err != nil || !b.Replaces || len(b.Functions) != 1 || b.Functions[0].Off != 2*uint32(c.want) {
			t.Errorf("at %d: %+v, %v, want offset %d", c.pc, b, err, c.want)
		}
	}
}

// v8TestInlined is the code of a function with an inlined function, into which a third function is inlined.
func v8TestInlined(m *v8Memory, v *v8Process) (start uint64) {
	add := func(name string, positions ...int) uint64 { // of the bytecode: steps of offset and position
		for i := 1; i < len(positions); i += 2 {
			positions[i] *= 2 // they are none in C++
		}
		return m.add(v, v8Function{name: m.seq(name, oneByte), source: m.seq("\n", oneByte), file: m.seq("/f", oneByte),
			positions: signedBytes(positions...), size: 200}).Code
	}
	// Positions are stored plus 1.
	outer, middle := add("outer", 3, 101, 20, 30), add("middle", 5, 201)    // 100 at 2, 130 at 22; 200 at 4
	inner := add("inner", 1, 301, 9, 10)                                    // 300 at 0, 310 at 9
	literals := m.object(1001, toSmi(4), 0x1234, inner, middle+2, toSmi(9)) // one is a weak pointer
	place := func(source, inlined int) int { return inlined<<31 | (source+1)<<1 }
	word := func(n int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	inlined := m.array(slices.Concat(word(place(130, 0)), word(2), word(place(200, 1)), word(1)))
	var table []int
	off, pos := -1, 0
	for _, p := range [][2]int{
		{0, place(100, 0)}, {10, place(200, 1)}, {20, place(310, 2)}, {30, 5<<1 | 1}, {40, place(130, 0)},
		{50, place(115, 0)},
	} {
		table = append(table, p[0]-off, p[1]-pos)
		off, pos = p[0], p[1]
	}
	data := make([]uint64, 12)
	l := &v.vm.layout
	data[l.literals], data[l.outer], data[l.inlined], data[l.inlined+1] = literals, outer, inlined, toSmi(60)
	if v.vm.version[0] == 13 {
		data[l.outer] = m.object(1003, outer)
	}
	deopt := m.object(1002, append([]uint64{toSmi(len(data))}, data...)...)
	return m.code(v, v8TestCode{kind: l.baseline + 2, size: 80, deopt: deopt, table: m.array(signedBytes(table...))})
}

// v8Gone is the memory of an exited process.
type v8Gone struct{}

func (v8Gone) ReadAt([]byte, int64) (int, error) { return 0, io.ErrClosedPipe }

// TestV8Optimized finds the functions that optimized code runs, with those that are inlined into them.
func TestV8Optimized(t *testing.T) {
	for _, version := range []func() *v8Process{v8Test10, v8Test11, v8Test13} {
		v, m := version(), &v8Memory{}
		start := v8TestInlined(m, v)
		names := func(mem io.ReaderAt, pc uint64) (list []string) {
			t.Helper()
			b, err := v.Bind(mem, nativeFrame{ip: start + pc, generated: true})
			if err != nil || b.Replaces != (len(b.Functions) > 0) || b.Replaces && len(b.Others) != 3 {
				t.Errorf("%s, at %d: %+v, %v", v.vm, pc, b, err)
			}
			for _, f := range b.Functions {
				fn, err := v.Function(m, f)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, fmt.Sprint(fn.Name, " ", f.Off/2))
			}
			return list
		}
		for _, mem := range []io.ReaderAt{m, v8Gone{}} {
			for _, c := range []struct {
				from, to uint64
				want     string
			}{
				{0, 10, "outer 2"}, {11, 20, "middle 4, outer 22"}, {21, 30, "inner 9, middle 4, outer 22"},
				{31, 40, "inner 9, middle 4, outer 22"}, // C++ code
				{41, 50, "outer 22"},
				{51, 59, "outer 2"}, // the bytecode before
				{60, 79, ""},        // an exit
			} {
				for _, pc := range []uint64{c.from, c.to} {
					if got := strings.Join(names(mem, pc), ", "); got != c.want {
						t.Errorf("%s, at %d: %q, want %q", v.vm, pc, got, c.want)
					}
				}
			}
		}
		// BPF passes the frame's function, or another one.
		b, _ := v.Bind(m, nativeFrame{ip: start + 20, generated: true})
		passed := b.Functions[1]
		passed.Off = 0
		for _, own := range []bool{true, false} {
			want := b.Functions
			if !own {
				passed.Check++
				want = []Interpreted{passed}
			}
			f := nativeFrame{ip: start + 20, generated: true, has: true, passed: passed}
			if b, err := v.Bind(m, f); err != nil || !slices.Equal(b.Functions, want) {
				t.Errorf("%s, own function %t: %+v, %v", v.vm, own, b, err)
			}
		}
		if stale, _ := v.Stale(m); stale {
			t.Errorf("%s: stale", v.vm)
		}
		other := v8TestInlined(m, v)
		copy(m.b[start-v.vm.layout.first-v8Base:], m.b[other-v.vm.layout.first-v8Base:][:32]) // of another Code object
		if stale, _ := v.Stale(m); !stale {
			t.Errorf("%s: not stale", v.vm)
		}
	}
}

// FuzzV8Optimized reads generated code from any memory.
func FuzzV8Optimized(f *testing.F) {
	versions := []func() *v8Process{v8Test10, v8Test11, v8Test13}
	for i, version := range versions {
		m := &v8Memory{}
		start := v8TestInlined(m, version())
		f.Add(m.b, start+20, uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, ip uint64, version uint8) {
		v := versions[int(version)%len(versions)]()
		v.vm.bytecodes = v8Bytecodes(b[:min(len(b), 200)/3*3])
		m := &v8Memory{b}
		for range 2 {
			bound, err := v.Bind(m, nativeFrame{ip: ip, generated: true})
			if err != nil || len(bound.Functions) > maxV8Inlined {
				t.Errorf("%d functions, %v", len(bound.Functions), err)
			}
			v.Stale(m)
		}
		if off := v.vm.bytecodes.offset(&v8Baseline{b, b}, ip); off > uint32(len(b)) {
			t.Errorf("offset %d", off)
		}
	})
}

// This file reads .gopclntab, the table of functions and lines that also stripped Go programs contain, of Go 1.18 and
// later.

package dso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sort"

	"gperf/internal/dwarf"
)

// ErrNone is the error of a file without a table, or with a table of another version of Go. errDamaged is the error
// of a corrupt table.
var (
	ErrNone    = errors.New("no table of Go's functions")
	errDamaged = errors.New("corrupt table of Go's functions")
)

// GoFunctions is the table of a Go program.
type GoFunctions struct {
	Text uint64 // vaddr to which the entries are relative
	Data []byte // go:func.*, with the trees of inlined calls; nil if unknown

	old     bool // Go 1.18 and 1.19
	big     bool
	quantum uint64 // the unit of code addresses, in bytes
	names   []byte
	cuFiles []byte // offsets in files, by unit and file number
	files   []byte
	values  []byte // tables of values by vaddr
	funcs   []byte // the list of functions, then the functions
	count   int
}

const (
	magicOld = 0xfffffff0 // Go 1.18
	magic    = 0xfffffff1 // Go 1.20

	funcSize    = 44 // size of a function's fixed fields, in bytes
	inlineIndex = 2  // PCDATA_InlTreeIndex
	inlineTree  = 3  // FUNCDATA_InlTree

	// Words of runtime.moduledata.
	moduleText     = 22
	moduleFuncsOld = 38
	moduleFuncs    = 40
)

// Flags of a function: runtime.funcFlag.
const (
	TopFrame = 1 << iota // the outermost function of a stack
	SPWrite              // writes sp in ways that Depth does not describe, such as to switch stacks
)

// OpenGoFunctions reads the header of an ELF file's table.
func OpenGoFunctions(im *Image) (*GoFunctions, error) {
	if !im.HasGoTable() {
		return nil, fmt.Errorf("%s: %w", im.Path, ErrNone)
	}
	s := im.GoTable()
	b, err := im.Map(s)
	if err != nil {
		return nil, err
	}
	t, ptr, err := ReadGoFunctions(b, im.ByteOrder() == binary.BigEndian)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", im.Path, s.Name, err)
	}
	m := newModule(im, s.Addr, ptr)
	if text := m.word(moduleText); text != 0 {
		t.Text = text
	}
	if t.Text == 0 {
		return nil, fmt.Errorf("%s: no runtime.moduledata: %w", im.Path, ErrNone)
	}
	if t.old {
		t.Data = m.bytes(m.word(moduleFuncsOld))
	} else {
		t.Data = m.bytes(m.word(moduleFuncs))
	}
	return t, nil
}

// ReadGoFunctions reads the header of a table, which contains the size of a pointer in bytes. Text is the header's
// text address, and may be 0.
func ReadGoFunctions(b []byte, big bool) (t *GoFunctions, ptr int, err error) {
	t = &GoFunctions{big: big}
	c := t.cursor(b, 0)
	switch c.U32() {
	case magic:
	case magicOld:
		t.old = true
	default:
		return nil, 0, fmt.Errorf("unsupported version of .gopclntab: %w", ErrNone)
	}
	c.Skip(2)
	t.quantum = uint64(c.U8())
	ptr = int(c.U8())
	// number of functions and files, start of text, offsets of names, units, files, values, functions
	var head [8]uint64
	for i := range head {
		head[i] = c.Uint(ptr)
	}
	for i, to := range []*[]byte{&t.names, &t.cuFiles, &t.files, &t.values, &t.funcs} {
		d := t.cursor(b, head[3+i])
		*to = d.B[d.Pos:]
	}
	const end = 4 // bytes of the end of the last function, after the list
	if c.Bad || len(t.funcs) < end || head[0] > uint64(len(t.funcs)-end)/8 {
		return nil, 0, errDamaged
	}
	t.count, t.Text = int(head[0]), head[2]
	return t, ptr, nil
}

func (t *GoFunctions) cursor(b []byte, off uint64) dwarf.Cursor {
	c := dwarf.Cursor{B: b, Big: t.big}
	c.Seek(off)
	return c
}

// Len returns the number of functions.
func (t *GoFunctions) Len() int { return t.count }

// Quantum returns the unit of code addresses, in bytes.
func (t *GoFunctions) Quantum() uint64 { return t.quantum }

// Entry returns the vaddr of a function, by number from 0 on. The end of the last function follows.
func (t *GoFunctions) Entry(i int) uint64 {
	b := t.funcs[8*i:]
	if t.big {
		return t.Text + uint64(binary.BigEndian.Uint32(b))
	}
	return t.Text + uint64(binary.LittleEndian.Uint32(b))
}

// GoFunc is a function. The code is from Entry to End, with the bytes until the next function.
type GoFunc struct {
	Entry, End uint64 // vaddrs
	Flags      uint8
	StartLine  int // 0 if this version of Go does not store it

	t                          *GoFunctions
	name                       uint32 // offset in names
	depth, files, line, inline uint32 // offsets of tables in values
	unit                       uint32
	tree                       []byte // of inlined calls
}

// Func returns a function by number, and false if it is corrupt.
func (t *GoFunctions) Func(i int) (f GoFunc, ok bool) {
	if i < 0 || i >= t.count {
		return f, false
	}
	list := t.cursor(t.funcs, uint64(8*i+4))
	c := t.cursor(t.funcs, uint64(list.U32()))
	f = GoFunc{t: t, Entry: t.Text + uint64(c.U32()), End: t.Entry(i + 1)}
	f.name = c.U32()
	c.Skip(8) // size of arguments, deferreturn
	f.depth, f.files, f.line = c.U32(), c.U32(), c.U32()
	pcdata := uint64(c.U32())
	if f.unit = c.U32(); !t.old {
		f.StartLine = int(c.U32())
	}
	c.Skip(1)
	f.Flags = c.U8()
	c.Skip(1)
	funcdata := uint64(c.U8())
	lists := uint64(c.Pos)
	if d := t.cursor(t.funcs, lists+4*inlineIndex); pcdata > inlineIndex {
		f.inline = d.U32()
	}
	if d := t.cursor(t.funcs, lists+4*(pcdata+inlineTree)); funcdata > inlineTree && t.Data != nil {
		if off := d.U32(); off != ^uint32(0) && uint64(off) < uint64(len(t.Data)) {
			f.tree = t.Data[off:]
		}
	}
	return f, !c.Bad
}

// Name returns the function's name: "main.(*T).run".
func (f *GoFunc) Name() string { return f.t.name(f.name) }

// Find returns the function at a vaddr.
func (t *GoFunctions) Find(vaddr uint64) (GoFunc, bool) {
	return t.Func(sort.Search(t.count+1, func(i int) bool { return t.Entry(i) > vaddr }) - 1)
}

func (t *GoFunctions) name(off uint32) string { return cstring(t.names, off) }

// gopclntabMaxString limits names of corrupt tables, in bytes.
const gopclntabMaxString = 1 << 16

// cstring returns the string at an offset.
func cstring(b []byte, off uint32) string {
	if uint64(off) >= uint64(len(b)) {
		return ""
	}
	b = b[off:]
	s, _, _ := bytes.Cut(b[:min(len(b), gopclntabMaxString)], []byte{0})
	return string(s)
}

// goPart is a part of a function with one value of a table.
type goPart struct {
	start, end uint64 // vaddrs
	value      int32
}

// parts yields the values of a table, by address, up to the first part that is corrupt.
func (f *GoFunc) parts(table uint32) iter.Seq[goPart] {
	return func(yield func(goPart) bool) {
		if table == 0 || uint64(table) >= uint64(len(f.t.values)) {
			return
		}
		rest, end, value := f.t.values[table:], f.Entry, int32(-1)
		for first := true; ; first = false {
			var d, size uint64
			if d, size, rest = twoULEB(rest); rest == nil || uint32(d) == 0 && !first {
				return
			}
			value += int32(uint32(d)>>1) ^ -int32(d&1)
			start := end
			if end += size * f.t.quantum; end < start || !yield(goPart{start, end, value}) {
				return
			}
		}
	}
}

// twoULEB decodes two numbers, which nearly always take a byte each, and returns the rest: nil if b is too short.
func twoULEB(b []byte) (x, y uint64, rest []byte) {
	if len(b) >= 2 && b[0]|b[1] < 0x80 {
		return uint64(b[0]), uint64(b[1]), b[2:]
	}
	return twoLongULEB(b)
}

func twoLongULEB(b []byte) (x, y uint64, rest []byte) {
	c := dwarf.Cursor{B: b}
	if x, y = c.ULEB(), c.ULEB(); c.Bad {
		return 0, 0, nil
	}
	return x, y, b[c.Pos:]
}

// value returns the value of a table at a vaddr, or -1.
func (f *GoFunc) value(table uint32, vaddr uint64) int32 {
	for p := range f.parts(table) {
		if vaddr < p.end {
			return p.value
		}
	}
	return -1
}

// Depths yields the parts of a function, by address, with the bytes of stack that it uses there, without the return
// address of x86-64.
func (f *GoFunc) Depths() iter.Seq2[[2]uint64, int32] {
	return func(yield func([2]uint64, int32) bool) {
		for p := range f.parts(f.depth) {
			if !yield([2]uint64{p.start, p.end}, p.value) {
				return
			}
		}
	}
}

// Line returns the line at a vaddr and its file, "" and 0 if the table does not have the file. ok is false for padding
// after the function's code.
func (f *GoFunc) Line(vaddr uint64) (file string, line int, ok bool) {
	n := f.value(f.line, vaddr)
	if file = f.file(vaddr); file == "" {
		return "", 0, n >= 0
	}
	return file, int(max(n, 0)), n >= 0
}

func (f *GoFunc) file(vaddr uint64) string {
	n := f.value(f.files, vaddr)
	if n < 0 {
		return ""
	}
	c := f.t.cursor(f.t.cuFiles, 4*(uint64(f.unit)+uint64(n)))
	off := c.U32()
	if c.Bad || off == ^uint32(0) {
		return ""
	}
	return cstring(f.t.files, off)
}

// GoInlined is an inlined function.
type GoInlined struct {
	Name      string
	StartLine int    // 0 if this version of Go does not store it
	Parent    uint64 // vaddr of the call
}

// GoInlined returns the innermost inlined function at a vaddr, and false if there is none.
func (f *GoFunc) Inlined(vaddr uint64) (in GoInlined, ok bool) {
	i := f.value(f.inline, vaddr)
	if i < 0 || f.tree == nil {
		return in, false
	}
	size, skip := uint64(16), uint64(4)
	if f.t.old {
		size, skip = 20, 12
	}
	c := f.t.cursor(f.tree, size*uint64(i)+skip)
	in.Name = f.t.name(c.U32())
	in.Parent = f.Entry + uint64(c.U32())
	if !f.t.old {
		in.StartLine = int(c.U32())
	}
	return in, !c.Bad
}

package srcline

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"sort"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// goTable is the table of functions and lines that Go programs, also stripped ones, contain for stack traces:
// .gopclntab of Go 1.20 and later. Go's runtime/symtab.go and cmd/link/internal/ld/pcln.go define its format.
type goTable struct {
	big      bool
	quantum  uint64 // the unit of code addresses, in bytes
	text     uint64 // vaddr to which the entries are relative
	names    []byte
	cuFiles  []byte // offsets in files, by unit and file number
	files    []byte
	values   []byte // tables of values by vaddr
	funcs    []byte // the list of functions, then the functions
	count    int
	funcData []byte // go:func.*, with the trees of inlined calls; nil if unknown
}

const (
	goMagic       = 0xfffffff1
	goFunc        = 44 // size of a function's fixed fields, in bytes
	goInlineIndex = 2  // PCDATA_InlTreeIndex
	goInlineTree  = 3  // FUNCDATA_InlTree
	goInlinedCall = 16 // size of an entry of the tree, in bytes
	goModuleText  = 22 // words of runtime.moduledata that gperf reads
	goModuleFuncs = 40
)

// openGo reads the header of the table, and the text and funcData from runtime.moduledata.
func openGo(im *dso.Image) (*goTable, error) {
	if !im.HasGoTable() {
		return nil, fmt.Errorf("%s: %w", im.Path, ErrNoLines)
	}
	s := im.GoTable()
	b, err := im.Map(s)
	if err != nil {
		return nil, err
	}
	g, ptr, err := readGo(b, im.ByteOrder() == binary.BigEndian)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", im.Path, s.Name, err)
	}
	m := newGoModule(im, s.Addr, ptr)
	if text := m.word(goModuleText); text != 0 {
		g.text = text
	}
	if g.text == 0 {
		return nil, fmt.Errorf("%s: no runtime.moduledata: %w", im.Path, ErrNoLines)
	}
	g.funcData = m.bytes(m.word(goModuleFuncs))
	return g, nil
}

// readGo reads the header of a table, which contains the size of a pointer in bytes.
func readGo(b []byte, big bool) (g *goTable, ptr int, err error) {
	g = &goTable{big: big}
	c := g.cursor(b, 0)
	if c.U32() != goMagic {
		return nil, 0, fmt.Errorf("unsupported version of .gopclntab: %w", ErrNoLines)
	}
	c.Skip(2)
	g.quantum = uint64(c.U8())
	ptr = int(c.U8())
	// number of functions and files, start of text, offsets of names, units, files, values, functions
	var head [8]uint64
	for i := range head {
		head[i] = c.Uint(ptr)
	}
	for i, to := range []*[]byte{&g.names, &g.cuFiles, &g.files, &g.values, &g.funcs} {
		d := g.cursor(b, head[3+i])
		*to = d.B[d.Pos:]
	}
	if c.Bad || head[0] > uint64(len(g.funcs))/8 {
		return nil, 0, errDamaged
	}
	g.count, g.text = int(head[0]), head[2]
	return g, ptr, nil
}

func (g *goTable) cursor(b []byte, off uint64) dwarf.Cursor {
	c := dwarf.Cursor{B: b, Big: g.big}
	c.Seek(off)
	return c
}

// goFunction is one function of the table.
type goFunction struct {
	*goTable
	entry     uint64
	name      uint32
	files     uint32 // offsets of tables in values
	lines     uint32
	inlined   uint32
	unit      uint32
	startLine uint32
	tree      []byte // of inlined calls
}

// GoFunction is the code of a function of a Go program.
type GoFunction struct {
	Name        string
	Vaddr, Size uint64 // size in bytes, with what follows until the next function
}

// GoFunctions returns the functions in the table that a Go program has for stack traces, by address. The error is
// ErrNoLines if the file has none.
func GoFunctions(im *dso.Image) (list []GoFunction, err error) {
	g, err := openGo(im)
	if err != nil {
		return nil, err
	}
	for i := range g.count {
		c := g.cursor(g.funcs, uint64(8*i+4))
		c = g.cursor(g.funcs, uint64(c.U32())+4)
		if name := string(cstringAt(g.names, uint64(c.U32()))); name != "" && !c.Bad && g.entry(i+1) > g.entry(i) {
			list = append(list, GoFunction{name, g.entry(i), g.entry(i+1) - g.entry(i)})
		}
	}
	return list, nil
}

// entry returns the vaddr of a function, by its number. The last one's end follows.
func (g *goTable) entry(i int) uint64 {
	c := g.cursor(g.funcs, uint64(8*i))
	return g.text + uint64(c.U32())
}

// function returns the function at a vaddr.
func (g *goTable) function(vaddr uint64) (f goFunction, ok bool) {
	i := sort.Search(g.count+1, func(i int) bool { return g.entry(i) > vaddr }) - 1
	if i < 0 || i == g.count {
		return f, false
	}
	list := g.cursor(g.funcs, uint64(8*i+4))
	c := g.cursor(g.funcs, uint64(list.U32()))
	f = goFunction{goTable: g, entry: g.text + uint64(c.U32()), name: c.U32()}
	c.Skip(12) // size of arguments, deferreturn, offset of the table of stack depths
	f.files, f.lines = c.U32(), c.U32()
	pcdata := uint64(c.U32())
	f.unit, f.startLine = c.U32(), c.U32()
	c.Skip(3)
	funcdata := uint64(c.U8())
	lists := uint64(c.Pos)
	if c = g.cursor(g.funcs, lists+4*goInlineIndex); pcdata > goInlineIndex {
		f.inlined = c.U32()
	}
	if d := g.cursor(g.funcs, lists+4*(pcdata+goInlineTree)); funcdata > goInlineTree && g.funcData != nil {
		if off := d.U32(); off != ^uint32(0) && uint64(off) < uint64(len(g.funcData)) {
			f.tree = g.funcData[off:]
		}
	}
	return f, !c.Bad
}

// value returns the value of a table at a vaddr, or -1.
func (f *goFunction) value(table uint32, vaddr uint64) int32 {
	if table == 0 {
		return -1
	}
	c := f.cursor(f.values, uint64(table))
	v, at := int32(-1), f.entry
	for first := true; !c.Bad; first = false {
		d := uint32(c.ULEB())
		if d == 0 && !first {
			break
		}
		v += int32(d>>1) ^ -int32(d&1)
		at += c.ULEB() * f.quantum
		if vaddr < at && !c.Bad {
			return v
		}
	}
	return -1
}

// line returns the file and line at a vaddr.
func (f *goFunction) line(vaddr uint64) (file string, line int) {
	n := f.value(f.files, vaddr)
	if n < 0 {
		return "", 0
	}
	c := f.cursor(f.cuFiles, 4*(uint64(f.unit)+uint64(n)))
	off := c.U32()
	if c.Bad || off == ^uint32(0) {
		return "", 0
	}
	return string(cstringAt(f.goTable.files, uint64(off))), int(max(f.value(f.lines, vaddr), 0))
}

// lookup returns the functions at a vaddr, like Index.Lookup.
func (g *goTable) lookup(vaddr uint64) (calls []InlineFrame) {
	f, ok := g.function(vaddr)
	if !ok || f.value(f.lines, vaddr) < 0 { // after the code of a function
		return nil
	}
	for len(calls) < maxChain {
		file, line := f.line(vaddr)
		call := InlineFrame{Function: string(cstringAt(g.names, uint64(f.name))), File: file, Line: line,
			StartLine: int(f.startLine)}
		i := f.value(f.inlined, vaddr)
		if i < 0 || f.tree == nil {
			return append(calls, call)
		}
		c := g.cursor(f.tree, goInlinedCall*uint64(i)+4)
		name, parent, startLine := c.U32(), c.U32(), c.U32()
		if c.Bad {
			return append(calls, call)
		}
		call.Function, call.StartLine, call.Inlined = string(cstringAt(g.names, uint64(name))), int(startLine), true
		calls = append(calls, call)
		vaddr = f.entry + uint64(parent)
	}
	return nil // the tree is corrupt: a loop
}

// goModule reads runtime.moduledata, whose first word is the vaddr of the table.
type goModule struct {
	im       *dso.Image
	ptr      int
	relative map[uint64]uint64 // words that the loader relocates, by vaddr, in position-independent programs
	at       uint64            // its vaddr; 0: not found
}

func newGoModule(im *dso.Image, table uint64, ptr int) *goModule {
	m := &goModule{im: im, ptr: ptr, relative: make(map[uint64]uint64)}
	m.readRelative()
	for vaddr, v := range m.relative {
		if v == table && m.isModule(vaddr) {
			m.at = vaddr
			return m
		}
	}
	for _, s := range im.Sections() {
		if s.Flags&elf.SHF_WRITE == 0 || s.Flags&elf.SHF_ALLOC == 0 || ptr != 4 && ptr != 8 {
			continue
		}
		b, _ := im.Map(s) // an unreadable section does not contain it
		c := dwarf.Cursor{B: b, Big: im.ByteOrder() == binary.BigEndian}
		for c.Left() >= ptr {
			at := s.Addr + uint64(c.Pos)
			if c.Uint(ptr) == table && m.isModule(at) {
				m.at = at
				return m
			}
		}
	}
	return m
}

// isModule reports whether a moduledata is at a vaddr: its text must be code.
func (m *goModule) isModule(vaddr uint64) bool {
	n := *m
	n.at = vaddr
	text, end := n.word(goModuleText), n.word(goModuleText+1)
	return text < end && codeOf(m.im).has(text)
}

// relativeTypes are the relocations that add the load address.
var relativeTypes = map[elf.Machine]uint64{elf.EM_X86_64: uint64(elf.R_X86_64_RELATIVE),
	elf.EM_AARCH64: uint64(elf.R_AARCH64_RELATIVE)}

func (m *goModule) readRelative() {
	typ, ok := relativeTypes[m.im.Machine]
	for _, s := range m.im.Sections() {
		if !ok || s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, _ := m.im.Map(s)
		for c := (dwarf.Cursor{B: b, Big: m.im.ByteOrder() == binary.BigEndian}); c.Left() >= 24; {
			if at, info, addend := c.U64(), c.U64(), c.U64(); info == typ {
				m.relative[at] = addend
			}
		}
	}
}

// word returns word i of moduledata, or 0 if it is unknown.
func (m *goModule) word(i int) uint64 {
	if m.at == 0 {
		return 0
	}
	at := m.at + uint64(i*m.ptr)
	if v, ok := m.relative[at]; ok {
		return v
	}
	c := dwarf.Cursor{B: m.bytes(at), Big: m.im.ByteOrder() == binary.BigEndian}
	return c.Uint(m.ptr)
}

// bytes returns the bytes from a vaddr to the end of its section.
func (m *goModule) bytes(vaddr uint64) []byte {
	for _, s := range m.im.Sections() {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && vaddr >= s.Addr && vaddr-s.Addr < s.Size {
			if b, err := m.im.Map(s); err == nil && vaddr-s.Addr < uint64(len(b)) {
				return b[vaddr-s.Addr:]
			}
		}
	}
	return nil
}

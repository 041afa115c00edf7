package srcline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"sort"

	"gperf/internal/dwarf"
)

// table is the rows of one unit, in memory and on disk. Numbers in the header and the lists are little-endian, those in
// nodes and rows LEB128. Strings are offsets in the index's strings.
//
//	u32        number of blocks; of files; of functions; bytes of nodes
//	blocks     u64 address of the first row, u32 its offset after the nodes
//	files      u32 path, u32 length of its prefix up to the source tree's top
//	functions  u32 name, u32 startLine
//	nodes      function, back, and unless back is 0: file, line, column of the call
//	rows       address, node, file, line, column
//
// A node's back is the distance in bytes to the start of its parent, or 0 if it is not inlined. Its file and function
// are indexes in the lists. All fields of a row except the column are differences from the previous row; in a block's
// first row, from the block's address and from 0. Node 0 means none, so the nodes begin with an unused byte. File 0 and
// function 0 also mean none.
type table []byte

const (
	tableHeader  = 16
	fileSize     = 8
	functionSize = 8
	blockSize    = 12
	blockRows    = 32
)

// errTable means that a unit has too many nodes or strings for a table.
var errTable = errors.New("too large")

// encoder makes tables. It reuses its memory.
type encoder struct {
	files     numbers  // of the line table
	functions numbers  // of the tree
	at        []uint64 // offsets of the nodes
	nodes     []byte
	rows      rowWriter

	path          []byte
	paths         []filePath
	functionNames []uint32 // strings
}

// filePath is a path, as a string's offset, and the length of its prefix up to the top of the source tree.
type filePath struct{ path, top uint32 }

// numbers assigns numbers from 1 to the used elements of a list.
type numbers struct {
	of   []uint32 // by index in the list; 0: unused
	used []uint32 // indexes in the list, by number; the first is unused
}

func (n *numbers) reset(list int) {
	n.of, n.used = slices.Grow(n.of[:0], list)[:list], append(n.used[:0], 0)
	clear(n.of)
}

func (n *numbers) number(i uint32) uint64 {
	if n.of[i] == 0 {
		n.of[i] = uint32(len(n.used))
		n.used = append(n.used, i)
	}
	return uint64(n.of[i])
}

// encode encodes a unit's functions and its lines.
func (e *encoder) encode(t *tree, l *lineTable) {
	e.files.reset(len(l.files))
	e.functions.reset(len(t.functions))
	e.encodeNodes(t, l)
	e.encodeRows(t.pieces(), l)
}

// addStrings adds the table's strings to the index's.
func (e *encoder) addStrings(t *tree, l *lineTable, to *stringTable) {
	e.paths, e.functionNames = append(e.paths[:0], filePath{}), append(e.functionNames[:0], 0)
	for _, i := range e.files.used[1:] {
		e.path = l.path(e.path[:0], uint64(i))
		e.paths = append(e.paths, filePath{to.add(e.path), uint32(topOf(e.path, l.compDir))})
	}
	for _, i := range e.functions.used[1:] {
		e.functionNames = append(e.functionNames, to.add(t.functions[i].name))
	}
}

// table returns the encoded table.
func (e *encoder) table(t *tree) (table, error) {
	size := tableHeader + len(e.rows.blocks) + fileSize*len(e.paths) + functionSize*len(e.functionNames) +
		len(e.nodes) + len(e.rows.rows)
	if uint64(size) > 1<<31 {
		return nil, errTable
	}
	le := binary.LittleEndian
	b := make([]byte, 0, size)
	for _, n := range [...]int{len(e.rows.blocks) / blockSize, len(e.paths), len(e.functionNames), len(e.nodes)} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = append(b, e.rows.blocks...)
	for _, f := range e.paths {
		b = le.AppendUint32(le.AppendUint32(b, f.path), f.top)
	}
	for i, name := range e.functionNames {
		b = le.AppendUint32(le.AppendUint32(b, name), t.functions[e.functions.used[i]].startLine)
	}
	return append(append(b, e.nodes...), e.rows.rows...), nil
}

// file returns the number of a file of the line table in the table's list.
func (e *encoder) file(l *lineTable, file uint32) uint64 {
	if uint64(file) >= uint64(len(l.files)) || len(l.files[file].name) == 0 {
		return 0
	}
	return e.files.number(file)
}

func (e *encoder) encodeNodes(t *tree, l *lineTable) {
	b := append(e.nodes[:0], 0)
	e.at = e.at[:0]
	for i := range t.nodes {
		n := &t.nodes[i]
		at := uint64(len(b))
		e.at = append(e.at, at)
		if n.function == 0 {
			b = append(b, 0)
		} else {
			b = appendUleb(b, e.functions.number(uint32(n.function)))
		}
		if !n.inlined {
			b = append(b, 0)
			continue
		}
		b = appendUleb(b, at-e.at[n.parent])
		b = appendUleb(b, e.file(l, n.file))
		b = appendUleb(b, uint64(n.line))
		b = appendUleb(b, uint64(n.column))
	}
	e.nodes = b
}

// appendUleb is binary.AppendUvarint, but faster for numbers of one byte.
func appendUleb(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// row is the node and line of the addresses from addr to the next row's.
type row struct {
	addr, node, file, line, column uint64
}

// encodeRows merges the pieces of functions with the rows of lines.
func (e *encoder) encodeRows(pieces []piece, l *lineTable) {
	w := &e.rows
	*w = rowWriter{rows: w.rows[:0], blocks: w.blocks[:0]}
	m := merger{pieces: pieces, node: -1, seqs: l.seqs}
	for {
		addr, ok := m.next()
		if !ok {
			return
		}
		r := row{addr: addr}
		if m.node >= 0 {
			r.node = e.at[m.node]
		}
		if m.line != nil {
			r.file, r.line, r.column = e.file(l, m.line.file), uint64(m.line.line), uint64(m.line.column)
		}
		w.put(r)
	}
}

// merger iterates over the addresses at which the function or the line changes.
type merger struct {
	pieces []piece
	seqs   []sequence
	i      int // index of the row in the first sequence
	node   int32
	line   *lineRow
}

func (m *merger) next() (addr uint64, ok bool) {
	lineAt, haveLine := m.lineAt()
	haveNode := len(m.pieces) > 0
	if !haveLine && !haveNode {
		return 0, false
	}
	addr = lineAt
	if !haveLine || haveNode && m.pieces[0].addr < addr {
		addr = m.pieces[0].addr
	}
	for haveNode && m.pieces[0].addr == addr {
		m.node = m.pieces[0].owner
		m.pieces = m.pieces[1:]
		haveNode = len(m.pieces) > 0
	}
	for haveLine && lineAt == addr {
		m.stepLine()
		lineAt, haveLine = m.lineAt()
	}
	return addr, true
}

// lineAt returns the next address at which the line changes.
func (m *merger) lineAt() (uint64, bool) {
	switch {
	case len(m.seqs) == 0:
		return 0, false
	case m.i < len(m.seqs[0].rows) && m.seqs[0].rows[m.i].addr < m.seqs[0].end:
		return m.seqs[0].rows[m.i].addr, true
	}
	return m.seqs[0].end, true
}

func (m *merger) stepLine() {
	s := &m.seqs[0]
	if m.i < len(s.rows) && s.rows[m.i].addr < s.end {
		m.line = &s.rows[m.i]
		m.i++
		return
	}
	m.line, m.i = nil, 0
	m.seqs = m.seqs[1:]
}

// rowWriter encodes rows.
type rowWriter struct {
	rows, blocks []byte
	n            int // rows in the block
	last         row
	some         bool
}

func (w *rowWriter) put(r row) {
	if w.some && r.node == w.last.node && r.file == w.last.file && r.line == w.last.line && r.column == w.last.column {
		return
	}
	if w.n == 0 {
		w.blocks = binary.LittleEndian.AppendUint64(w.blocks, r.addr)
		w.blocks = binary.LittleEndian.AppendUint32(w.blocks, uint32(len(w.rows)))
		w.last = row{addr: r.addr}
	}
	w.rows = appendUleb(w.rows, r.addr-w.last.addr)
	w.rows = appendUleb(w.rows, zigzag(int64(r.node-w.last.node)))
	w.rows = appendUleb(w.rows, zigzag(int64(r.file-w.last.file)))
	w.rows = appendUleb(w.rows, zigzag(int64(r.line-w.last.line)))
	w.rows = appendUleb(w.rows, r.column)
	w.last, w.some = r, true
	w.n = (w.n + 1) % blockRows
}

// lookup returns the frames at an address, or nil if they are unknown. It checks the table, which may be corrupt.
func (t table) lookup(addr uint64, strings []byte) []InlineFrame {
	if len(t) < tableHeader {
		return nil
	}
	le := binary.LittleEndian
	nBlocks, nFiles, nFunctions, nNodes := uint64(le.Uint32(t)), uint64(le.Uint32(t[4:])), uint64(le.Uint32(t[8:])),
		uint64(le.Uint32(t[12:]))
	rest := t[tableHeader:]
	if nBlocks*blockSize+nFiles*fileSize+nFunctions*functionSize+nNodes > uint64(len(rest)) {
		return nil
	}
	blocks, rest := rest[:nBlocks*blockSize], rest[nBlocks*blockSize:]
	files, rest := rest[:nFiles*fileSize], rest[nFiles*fileSize:]
	functions, rest := rest[:nFunctions*functionSize], rest[nFunctions*functionSize:]
	nodes, rows := rest[:nNodes], rest[nNodes:]
	i := sort.Search(int(nBlocks), func(i int) bool { return le.Uint64(blocks[i*blockSize:]) > addr }) - 1
	if i < 0 {
		return nil
	}
	r, ok := findRow(rows, le.Uint64(blocks[i*blockSize:]), le.Uint32(blocks[i*blockSize+8:]), addr)
	if !ok || r.node == 0 && r.file == 0 && r.line == 0 {
		return nil
	}
	d := decoder{nodes: nodes, files: files, functions: functions, strings: strings}
	return d.frames(r)
}

// findRow returns the last row of a block at or before an address.
func findRow(rows []byte, base uint64, off uint32, addr uint64) (found row, ok bool) {
	if uint64(off) > uint64(len(rows)) {
		return found, false
	}
	c := dwarf.Cursor{B: rows, Pos: int(off)}
	r := row{addr: base}
	for n := 0; n < blockRows && c.Left() > 0; n++ {
		r.addr += c.ULEB()
		r.node += uint64(unzigzag(c.ULEB()))
		r.file += uint64(unzigzag(c.ULEB()))
		r.line += uint64(unzigzag(c.ULEB()))
		r.column = c.ULEB()
		if c.Bad || r.addr > addr {
			break
		}
		found, ok = r, true
	}
	return found, ok
}

type decoder struct {
	nodes, files, functions, strings []byte
}

// maxChain limits the functions at one address.
const maxChain = 1 << 10

func (d *decoder) frames(r row) []InlineFrame {
	var frames []InlineFrame
	file, line, column := r.file, r.line, r.column
	for at := r.node; at != 0 && len(frames) < maxChain; {
		c := dwarf.Cursor{B: d.nodes}
		c.Seek(at)
		function, back := c.ULEB(), c.ULEB()
		if c.Bad || back > at {
			return nil
		}
		frame := d.frame(file, line, column)
		frame.Function, frame.StartLine = d.function(function)
		frame.Inlined = back != 0
		frames = append(frames, frame)
		if back == 0 {
			return frames
		}
		file, line, column = c.ULEB(), c.ULEB(), c.ULEB()
		at -= back
	}
	if len(frames) > 0 {
		return nil // too long: the table is corrupt
	}
	return []InlineFrame{d.frame(file, line, column)}
}

// frame returns a frame with a file and line.
func (d *decoder) frame(file, line, column uint64) InlineFrame {
	c := InlineFrame{Line: int(line), Column: int(column)}
	if file != 0 && file < uint64(len(d.files)/fileSize) {
		f := d.files[fileSize*file:]
		c.File = d.string(uint64(binary.LittleEndian.Uint32(f)))
		c.Top = int(min(uint64(binary.LittleEndian.Uint32(f[4:])), uint64(len(c.File))))
	}
	return c
}

func (d *decoder) function(i uint64) (name string, startLine int) {
	if i == 0 || i >= uint64(len(d.functions)/functionSize) {
		return "", 0
	}
	f := d.functions[functionSize*i:]
	return d.string(uint64(binary.LittleEndian.Uint32(f))), int(binary.LittleEndian.Uint32(f[4:]))
}

func (d *decoder) string(off uint64) string {
	c := dwarf.Cursor{B: d.strings}
	c.Seek(off)
	return string(c.Bytes(c.ULEB()))
}

// stringTable is the strings of all tables of an index, without duplicates: a length as LEB128 and the bytes. The first
// is empty. It only grows, so that slices of b stay valid.
type stringTable struct {
	b     []byte
	slots []stringSlot // a hash table, whose size is a power of 2
	count int
}

// stringSlot is the offset of a string, 0 for none, and a part of its hash.
type stringSlot struct{ at, hash uint32 }

// maxStrings limits the names and paths of an index, in bytes.
const maxStrings = 1 << 29

func (s *stringTable) full() bool { return len(s.b) > maxStrings }

func (s *stringTable) add(str []byte) uint32 {
	if len(s.b) == 0 {
		s.b = append(s.b, 0)
	}
	if len(str) == 0 || s.full() {
		return 0
	}
	if len(s.slots) == 0 {
		s.list()
	}
	hash := hashOf(str)
	slot := s.find(hash, str)
	if slot.at != 0 {
		return slot.at
	}
	at := uint32(len(s.b))
	s.b = slices.Grow(s.b, len(str)+binary.MaxVarintLen32)
	s.b = append(binary.AppendUvarint(s.b, uint64(len(str))), str...)
	s.put(slot, stringSlot{at, hash})
	return at
}

// put fills an empty slot.
func (s *stringTable) put(slot *stringSlot, with stringSlot) {
	*slot = with
	if s.count++; 4*s.count > 3*len(s.slots) {
		s.grow()
	}
}

var stringSeed = maphash.MakeSeed()

func hashOf(str []byte) uint32 { return uint32(maphash.Bytes(stringSeed, str)) }

// find returns the string's slot, or the empty slot for it.
func (s *stringTable) find(hash uint32, str []byte) *stringSlot {
	for i := int(hash); ; i++ {
		slot := &s.slots[i&(len(s.slots)-1)]
		if slot.at == 0 || slot.hash == hash && bytes.Equal(s.at(slot.at), str) {
			return slot
		}
	}
}

func (s *stringTable) at(at uint32) []byte {
	c := dwarf.Cursor{B: s.b, Pos: int(at)}
	return c.Bytes(c.ULEB())
}

func (s *stringTable) grow() {
	old := s.slots
	s.slots = make([]stringSlot, max(2*len(old), 1<<10))
	for _, slot := range old {
		if slot.at == 0 {
			continue
		}
		i := int(slot.hash)
		for s.slots[i&(len(s.slots)-1)].at != 0 {
			i++
		}
		s.slots[i&(len(s.slots)-1)] = slot
	}
}

// list adds the strings in b to the hash table.
func (s *stringTable) list() {
	s.grow()
	for c := (dwarf.Cursor{B: s.b}); c.Left() > 0; {
		at := uint32(c.Pos)
		str := c.Bytes(c.ULEB())
		if hash := hashOf(str); at != 0 {
			s.put(s.find(hash, str), stringSlot{at, hash})
		}
	}
}

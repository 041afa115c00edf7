package srcline

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// A table is what is known of one unit, as it is kept in memory and on disk.
// Numbers of the header and the lists are little-endian, those of nodes and rows
// LEB128; strings are offsets in the index's strings.
//
//	u32     number of blocks; number of files; bytes of nodes
//	blocks  u64 address of the first row, u32 its place behind the nodes
//	files   u32 path
//	nodes   name, startLine, back, and unless back is 0: file, line, column of the call
//	rows    address, node, file, line, column
//
// A node's back is how many bytes before it its parent begins, 0 if it is not
// inlined; its file is that of the list. Of a row all but the column are told as
// the difference to the row before, in the first row of a block to the block's address,
// and to 0. Node 0 is none: the nodes begin with a byte of no use. So is file 0.
type table []byte

const (
	tableHeader = 12
	blockSize   = 12
	blockRows   = 32
)

// errTable: the table cannot hold what was read.
var errTable = errors.New("too large")

// encoder makes tables.
type encoder struct {
	strings *stringTable
	path    []byte
	files   []uint32          // in the table
	index   map[uint64]uint64 // of the line table's files in files
	at      []uint64          // where nodes begin
}

// encode makes the table of a unit from its functions and its lines, which may be nil.
func (e *encoder) encode(t *tree, l *lineTable) (table, error) {
	e.files, e.index, e.at = append(e.files[:0], 0), map[uint64]uint64{}, e.at[:0]
	nodes := e.nodes(t, l)
	rows, blocks := e.rows(t.pieces(), l)
	if e.strings.full() || len(nodes)+len(rows) > 1<<31 {
		return nil, errTable
	}
	le := binary.LittleEndian
	b := make([]byte, 0, tableHeader+len(blocks)+4*len(e.files)+len(nodes)+len(rows))
	b = le.AppendUint32(b, uint32(len(blocks)/blockSize))
	b = le.AppendUint32(b, uint32(len(e.files)))
	b = le.AppendUint32(b, uint32(len(nodes)))
	b = append(b, blocks...)
	for _, f := range e.files {
		b = le.AppendUint32(b, f)
	}
	return append(append(b, nodes...), rows...), nil
}

// file returns the number of a file of the line table in the table's list.
func (e *encoder) file(l *lineTable, file uint64) uint64 {
	if l == nil {
		return 0
	}
	n, ok := e.index[file]
	if !ok {
		e.path = l.path(e.path[:0], file)
		if len(e.path) > 0 {
			n = uint64(len(e.files))
			e.files = append(e.files, e.strings.add(e.path))
		}
		e.index[file] = n
	}
	return n
}

func (e *encoder) nodes(t *tree, l *lineTable) []byte {
	b := []byte{0}
	for i := range t.nodes {
		n := &t.nodes[i]
		at := uint64(len(b))
		e.at = append(e.at, at)
		b = binary.AppendUvarint(b, uint64(e.strings.add(n.name)))
		b = binary.AppendUvarint(b, uint64(n.startLine))
		if !n.inlined {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, at-e.at[n.parent])
		b = binary.AppendUvarint(b, e.file(l, uint64(n.file)))
		b = binary.AppendUvarint(b, uint64(n.line))
		b = binary.AppendUvarint(b, uint64(n.column))
	}
	return b
}

// row is what a table knows from an address on, up to that of the next row.
type row struct {
	addr, node, file, line, column uint64
}

// rows merges the pieces of functions with the rows of lines.
func (e *encoder) rows(pieces []piece, l *lineTable) (rows, blocks []byte) {
	w := rowWriter{}
	m := merger{pieces: pieces, node: -1}
	if l != nil {
		m.seqs = l.seqs
	}
	for {
		addr, ok := m.next()
		if !ok {
			return w.rows, w.blocks
		}
		r := row{addr: addr}
		if m.node >= 0 {
			r.node = e.at[m.node]
		}
		if m.line != nil {
			r.file, r.line, r.column = e.file(l, uint64(m.line.file)), uint64(m.line.line), uint64(m.line.column)
		}
		w.put(r)
	}
}

// merger goes through the addresses where the function or the line changes.
type merger struct {
	pieces []piece
	seqs   []sequence
	i      int // of the row in the first sequence
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

// lineAt returns where the line changes next.
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
	w.rows = binary.AppendUvarint(w.rows, r.addr-w.last.addr)
	w.rows = binary.AppendVarint(w.rows, int64(r.node-w.last.node))
	w.rows = binary.AppendVarint(w.rows, int64(r.file-w.last.file))
	w.rows = binary.AppendVarint(w.rows, int64(r.line-w.last.line))
	w.rows = binary.AppendUvarint(w.rows, r.column)
	w.last, w.some = r, true
	w.n = (w.n + 1) % blockRows
}

// lookup returns the calls at an address, nil if there is nothing known. It does
// not trust the table.
func (t table) lookup(addr uint64, strings []byte) []Call {
	if len(t) < tableHeader {
		return nil
	}
	le := binary.LittleEndian
	nBlocks, nFiles, nNodes := uint64(le.Uint32(t)), uint64(le.Uint32(t[4:])), uint64(le.Uint32(t[8:]))
	rest := t[tableHeader:]
	if nBlocks*blockSize+nFiles*4+nNodes > uint64(len(rest)) {
		return nil
	}
	blocks, rest := rest[:nBlocks*blockSize], rest[nBlocks*blockSize:]
	files, rest := rest[:nFiles*4], rest[nFiles*4:]
	nodes, rows := rest[:nNodes], rest[nNodes:]
	i := sort.Search(int(nBlocks), func(i int) bool { return le.Uint64(blocks[i*blockSize:]) > addr }) - 1
	if i < 0 {
		return nil
	}
	r, ok := findRow(rows, le.Uint64(blocks[i*blockSize:]), le.Uint32(blocks[i*blockSize+8:]), addr)
	if !ok || r.node == 0 && r.file == 0 && r.line == 0 {
		return nil
	}
	d := decoder{nodes: nodes, files: files, strings: strings}
	return d.calls(r)
}

// findRow returns the last row of a block at or before an address.
func findRow(rows []byte, base uint64, off uint32, addr uint64) (found row, ok bool) {
	if uint64(off) > uint64(len(rows)) {
		return found, false
	}
	c := cursor{b: rows, pos: int(off)}
	r := row{addr: base}
	for n := 0; n < blockRows && c.left() > 0; n++ {
		r.addr += c.uleb()
		r.node += uint64(unzigzag(c.uleb()))
		r.file += uint64(unzigzag(c.uleb()))
		r.line += uint64(unzigzag(c.uleb()))
		r.column = c.uleb()
		if c.bad || r.addr > addr {
			break
		}
		found, ok = r, true
	}
	return found, ok
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

type decoder struct {
	nodes, files, strings []byte
}

// maxChain bounds the functions at one address.
const maxChain = 1 << 10

func (d *decoder) calls(r row) []Call {
	var calls []Call
	file, line, column := r.file, r.line, r.column
	for at := r.node; at != 0 && len(calls) < maxChain; {
		c := cursor{b: d.nodes}
		c.seek(at)
		name, startLine, back := c.uleb(), c.uleb(), c.uleb()
		if c.bad || back > at {
			return nil
		}
		calls = append(calls, Call{
			Function: d.string(name), File: d.file(file), Line: int(line), Column: int(column),
			StartLine: int(startLine), Inlined: back != 0,
		})
		if back == 0 {
			return calls
		}
		file, line, column = c.uleb(), c.uleb(), c.uleb()
		at -= back
	}
	if len(calls) > 0 {
		return nil // the innermost has no end
	}
	return []Call{{File: d.file(file), Line: int(line), Column: int(column)}}
}

func (d *decoder) file(i uint64) string {
	if i == 0 || i >= uint64(len(d.files)/4) {
		return ""
	}
	return d.string(uint64(binary.LittleEndian.Uint32(d.files[4*i:])))
}

func (d *decoder) string(off uint64) string {
	c := cursor{b: d.strings}
	c.seek(off)
	return string(c.bytes(c.uleb()))
}

// stringTable is the strings of all tables of an index, each once: a length as LEB128 and
// the bytes. The first is empty. It only grows, so that a slice of b stays valid.
type stringTable struct {
	b  []byte
	at map[string]uint32
}

// maxStrings bounds what an index keeps of names and paths.
const maxStrings = 1 << 29

func (s *stringTable) full() bool { return len(s.b) > maxStrings }

func (s *stringTable) add(str []byte) uint32 {
	if len(s.b) == 0 {
		s.b = append(s.b, 0)
	}
	if len(str) == 0 || s.full() {
		return 0
	}
	if s.at == nil {
		s.list()
	}
	if at, ok := s.at[string(str)]; ok {
		return at
	}
	at := uint32(len(s.b))
	s.b = slices.Grow(s.b, len(str)+binary.MaxVarintLen32)
	s.b = append(binary.AppendUvarint(s.b, uint64(len(str))), str...)
	s.at[string(str)] = at
	return at
}

// list finds the strings that are there already.
func (s *stringTable) list() {
	s.at = make(map[string]uint32)
	for c := (cursor{b: s.b}); c.left() > 0; {
		at := uint32(c.pos)
		s.at[string(c.bytes(c.uleb()))] = at
	}
}

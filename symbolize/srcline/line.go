package srcline

import (
	"bytes"
	"cmp"
	"slices"

	"gperf/internal/dwarf"
)

// lineTable is the line table of a unit, decoded from .debug_line.
type lineTable struct {
	version uint16
	compDir []byte
	dirs    [][]byte
	files   []lineFile
	rows    []lineRow
	seqs    []sequence // by address, without overlaps
}

type lineFile struct {
	name []byte
	dir  uint64
}

type lineRow struct {
	addr         uint64
	file         uint32
	line, column uint32
}

// sequence is rows with ascending addresses. The last row ends at end.
type sequence struct {
	rows []lineRow
	end  uint64
}

// Limits for reading line tables. Units may share a table: in a corrupt file, very many units share a long one.
const (
	maxShared = 8       // units that share all tables
	maxLines  = 8 << 20 // bytes that may be read besides
)

// read reads the unit's line table, which is empty if there is none. It returns false if the table is corrupt.
func (p *lineProgram) read(u *unit) (ok bool) {
	old := p.lineTable
	p.unit, p.lineTable = u, lineTable{
		compDir: u.compDir, dirs: old.dirs[:0], files: old.files[:0], rows: old.rows[:0], seqs: old.seqs[:0],
	}
	if !u.hasLines {
		return true
	}
	p.c = u.sections.cursor(u.sections.line)
	c := &p.c
	c.Seek(u.stmtList)
	n, offset := c.Length()
	if c.Bad || n > uint64(c.Left()) {
		return false
	}
	c.B = c.B[:uint64(c.Pos)+n]
	if u.sections.linesRead.Add(n) > maxShared*uint64(len(u.sections.line))+maxLines {
		return false
	}
	if !p.header(offset) {
		p.files = p.files[:0]
		return false
	}
	ok = p.run()
	p.sortSequences()
	return ok
}

// lineProgram decodes a line table (DWARF 5, section 6.2).
type lineProgram struct {
	lineTable
	unit *unit
	c    dwarf.Cursor
	code spans // of the file

	minInst, maxOps    uint64
	lineBase           int8
	lineRange, opBase  uint8
	opLengths          []byte
	addr, opIndex      uint64
	file, line, column uint64
	first              int  // index in rows of the sequence's first row
	mixed              bool // the sequence's rows are not sorted
}

func (p *lineProgram) header(offset int) bool {
	c := &p.c
	p.version = c.U16()
	if p.version < 2 || p.version > 5 {
		return false
	}
	if p.version >= 5 {
		c.Skip(2) // sizes of an address and of a segment selector
	}
	n := c.Uint(offset)
	if c.Bad || n > uint64(c.Left()) {
		return false
	}
	program := uint64(c.Pos) + n
	p.minInst, p.maxOps = uint64(c.U8()), 1
	if p.version >= 4 {
		p.maxOps = max(1, uint64(c.U8()))
	}
	c.Skip(1) // default_is_stmt
	p.lineBase, p.lineRange, p.opBase = int8(c.U8()), c.U8(), c.U8()
	p.opLengths = c.Bytes(uint64(max(p.opBase, 1) - 1))
	if p.version >= 5 {
		p.newFiles(offset)
	} else {
		p.oldFiles()
	}
	if c.Bad {
		return false
	}
	c.Seek(program)
	return !c.Bad
}

// oldFiles reads the directories and files of versions 2 to 4, which are numbered from 1.
func (p *lineProgram) oldFiles() {
	c := &p.c
	p.dirs = append(p.dirs, p.compDir)
	for {
		dir := c.CString()
		if len(dir) == 0 {
			break
		}
		p.dirs = append(p.dirs, dir)
	}
	p.files = append(p.files, lineFile{})
	for {
		name := c.CString()
		if len(name) == 0 {
			break
		}
		p.oldFile(name)
	}
}

func (p *lineProgram) oldFile(name []byte) {
	p.files = append(p.files, lineFile{name, p.c.ULEB()})
	p.c.ULEB() // time
	p.c.ULEB() // length
}

// newFiles reads the directories and files of version 5, which are numbered from 0.
func (p *lineProgram) newFiles(offset int) {
	p.files = p.entries(offset, p.files)
	for _, f := range p.files {
		p.dirs = append(p.dirs, f.name)
	}
	p.files = p.entries(offset, p.files[:0])
}

// entries reads the formats of a list of paths, and then appends the list.
func (p *lineProgram) entries(offset int, list []lineFile) []lineFile {
	c := &p.c
	type format struct{ content, form uint64 }
	formats := make([]format, c.U8())
	for i := range formats {
		formats[i] = format{c.ULEB(), c.ULEB()}
	}
	n := c.ULEB()
	if len(formats) == 0 || n > uint64(c.Left()/len(formats)) { // each part of an entry has at least one byte
		if n != 0 {
			c.Fail()
		}
		return list
	}
	u := *p.unit
	u.layout.offset = offset
	for ; n > 0 && !c.Bad; n-- {
		var f lineFile
		for _, format := range formats {
			start := c.Pos
			v := u.value(c, format.form, 0)
			switch format.content {
			case lnctPath:
				if f.name = u.string(v); v.form == formString && !c.Bad {
					f.name = c.B[start : c.Pos-1]
				}
			case lnctDirectoryIndex:
				f.dir = v.u
			}
		}
		list = append(list, f)
	}
	return list
}

func (p *lineProgram) reset() {
	p.addr, p.opIndex = 0, 0
	p.file, p.line, p.column = 1, 1, 0
	p.first, p.mixed = len(p.rows), false
}

func (p *lineProgram) advance(n uint64) {
	if p.maxOps == 1 {
		p.addr += n * p.minInst
		return
	}
	n += p.opIndex
	p.addr += p.minInst * (n / p.maxOps)
	p.opIndex = n % p.maxOps
}

// row adds a row. It replaces earlier rows at the same address.
func (p *lineProgram) row() {
	r := lineRow{p.addr, uint32(p.file), uint32(p.line), uint32(p.column)}
	if n := len(p.rows); n > p.first {
		last := &p.rows[n-1]
		if last.addr == r.addr {
			*last = r
			return
		}
		p.mixed = p.mixed || last.addr > r.addr
	}
	p.rows = append(p.rows, r)
}

// run executes the program and reports whether it is complete.
func (p *lineProgram) run() bool {
	c := &p.c
	p.reset()
	for c.Left() > 0 {
		op := c.U8()
		if op >= p.opBase {
			p.special(op - p.opBase)
			continue
		}
		switch op {
		case 0:
			p.extended()
		case lnsCopy:
			p.row()
		case lnsAdvancePC:
			p.advance(c.ULEB())
		case lnsAdvanceLine:
			p.line += uint64(c.SLEB())
		case lnsSetFile:
			p.file = c.ULEB()
		case lnsSetColumn:
			p.column = c.ULEB()
		case lnsConstAddPC:
			if p.lineRange != 0 {
				p.advance(uint64((255 - p.opBase) / p.lineRange))
			}
		case lnsFixedAdvancePC:
			p.addr += uint64(c.U16())
			p.opIndex = 0
		case lnsNegateStmt, lnsSetBasicBlock, lnsSetPrologueEnd, lnsSetEpilogueBegin:
		default: // DW_LNS_set_isa, and unknown opcodes
			for range p.opLengths[op-1] {
				c.ULEB()
			}
		}
	}
	p.rows = p.rows[:p.first] // drop a sequence without an end
	return !c.Bad
}

func (p *lineProgram) special(op uint8) {
	if p.lineRange == 0 {
		p.c.Fail()
		return
	}
	p.advance(uint64(op / p.lineRange))
	p.line += uint64(int64(p.lineBase) + int64(op%p.lineRange))
	p.row()
}

func (p *lineProgram) extended() {
	c := &p.c
	n := c.ULEB()
	if n == 0 || n > uint64(c.Left()) {
		if n > 0 {
			c.Fail()
		}
		return
	}
	next := c.Pos + int(n)
	switch c.U8() {
	case lneEndSequence:
		p.endSequence()
	case lneSetAddress:
		if n-1 == 4 || n-1 == 8 {
			p.addr = c.Uint(int(n - 1))
		}
		p.opIndex = 0
	case lneDefineFile:
		if p.version < 5 {
			p.oldFile(c.CString())
		}
	}
	if !c.Bad {
		c.Pos = next
	}
}

// endSequence adds the sequence, unless it is outside of the file's code: linkers leave the sequences of dropped code.
func (p *lineProgram) endSequence() {
	rows := p.rows[p.first:]
	if p.mixed { // keep the last row of each address
		slices.SortStableFunc(rows, func(a, b lineRow) int { return cmp.Compare(a.addr, b.addr) })
	}
	if len(rows) > 0 && rows[0].addr < p.addr && p.code.has(rows[0].addr) {
		p.seqs = append(p.seqs, sequence{rows, p.addr})
	} else {
		p.rows = p.rows[:p.first]
	}
	p.reset()
}

// sortSequences sorts the sequences, and truncates each one at the start of the next.
func (p *lineProgram) sortSequences() {
	slices.SortStableFunc(p.seqs, func(a, b sequence) int { return cmp.Compare(a.rows[0].addr, b.rows[0].addr) })
	for i := range len(p.seqs) - 1 {
		p.seqs[i].end = min(p.seqs[i].end, p.seqs[i+1].rows[0].addr)
	}
}

// path appends the path of a file as in the table: relative to the compilation directory, with links and dots. It
// appends nothing for an unknown file.
func (t *lineTable) path(to []byte, file uint64) []byte {
	if file >= uint64(len(t.files)) || len(t.files[file].name) == 0 {
		return to
	}
	f := t.files[file]
	if f.name[0] == '/' {
		return appendPath(to, f.name)
	}
	var dir []byte
	if f.dir < uint64(len(t.dirs)) {
		dir = t.dirs[f.dir]
	}
	// Directory 0 is the compilation directory.
	if f.dir != 0 && !bytes.HasPrefix(dir, []byte("/")) {
		to = appendPath(to, t.compDir)
	}
	return appendPath(appendPath(to, dir), f.name)
}

// appendPath appends the next part of a path, and truncates the result to maxPath. Go writes "." for the directory of
// names that are not files ("<autogenerated>").
func appendPath(to, piece []byte) []byte {
	if len(piece) == 0 || string(piece) == "." {
		return to
	}
	if n := len(to); n > 0 && to[n-1] != '/' {
		to = append(to, '/')
	}
	return append(to, piece[:min(len(piece), max(0, maxPath-len(to)))]...)
}

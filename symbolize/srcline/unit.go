package srcline

import (
	"bytes"
	"sort"
	"sync/atomic"

	"gperf/internal/dwarf"
)

// sections are the sections of DWARF of one file. Sections of a .dwo file have their names without ".dwo".
type sections struct {
	info, abbrev, str, lineStr, line, ranges, rnglists, addr, strOffsets []byte

	big   bool
	split bool      // the file is a .dwo file
	supp  *sections // of the supplementary file, or nil
	units []*unit   // of info, by offset

	tables    abbrevCache
	linesRead atomic.Uint64 // bytes of line
}

func (s *sections) cursor(b []byte) dwarf.Cursor { return dwarf.Cursor{B: b, Big: s.big} }

// unit is one unit of .debug_info, and the root DIE's attributes.
type unit struct {
	sections *sections
	layout
	off, die, end uint64 // offsets in info: of the header, the root DIE, the next unit
	kind          uint8  // DW_UT_*; before DWARF 5 DW_UT_compile
	abbrevOff     uint64

	tag            uint64
	lang           uint64
	name, compDir  []byte
	stmtList       uint64
	hasLines       bool
	low            uint64 // base of range lists
	attrs          values // slotLow, slotHigh, slotRanges of the root
	strOffsetsBase uint64
	addrBase       uint64
	rnglistsBase   uint64
	rangesBase     uint64 // DW_AT_GNU_ranges_base, for the split unit's DIEs
	dwoName        []byte
	dwoID          uint64
}

// value is an attribute's value: a number, or the offset in .debug_info of a DW_FORM_string.
type value struct {
	u    uint64
	form uint16
}

// values are the values of a DIE's attributes. has is the set of valid slots.
type values struct {
	has uint32
	v   [numSlots]value
}

func (v *values) get(s slot) (value, bool) { return v.v[s], v.has&(1<<s) != 0 }

// number returns a constant, or 0 if there is none.
func (v *values) number(s slot) uint64 {
	if v.has&(1<<s) == 0 {
		return 0
	}
	return v.v[s].u
}

// read reads the attributes of a DIE, which follow its abbreviation code.
func (l layout) read(c *dwarf.Cursor, a *abbrev, to *values) {
	to.has = 0
	for i := range a.ops {
		o := &a.ops[i]
		c.Skip(uint64(o.skip))
		var v value
		if o.size != 0 {
			v = value{c.Uint(int(o.size)), o.form}
		} else if o.form != 0 {
			v = l.value(c, uint64(o.form), o.implicit)
		}
		if o.slot != slotNone && to.has&(1<<o.slot) == 0 {
			to.v[o.slot] = v
			to.has |= 1 << o.slot
		}
	}
}

// value reads a value. For a block it returns the offset.
func (l layout) value(c *dwarf.Cursor, form uint64, implicit int64) value {
	for n := 0; form == formIndirect; n++ {
		if form = c.ULEB(); form == formImplicitConst {
			implicit = c.SLEB()
		}
		if n > 8 {
			c.Fail()
		}
	}
	v := value{form: uint16(min(form, 0xffff))}
	switch form {
	case formString:
		v.u = uint64(c.Pos)
		c.CString()
	case formSdata:
		v.u = uint64(c.SLEB())
	case formImplicitConst:
		v.u = uint64(implicit)
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.u = c.ULEB()
	case formLLVMAddrxOffset:
		c.ULEB()
		c.Skip(4)
	case formBlock, formExprloc:
		c.Skip(c.ULEB())
	case formBlock1:
		c.Skip(uint64(c.U8()))
	case formBlock2:
		c.Skip(uint64(c.U16()))
	case formBlock4:
		c.Skip(uint64(c.U32()))
	case formData16:
		c.Skip(16)
	case formFlagPresent:
		v.u = 1
	default:
		n, ok := l.fixed(form)
		if !ok {
			c.Fail()
			return v
		}
		v.u = c.Uint(int(n))
	}
	return v
}

// readUnits lists the units of .debug_info. It skips and counts corrupt units, or the rest if the start of the next
// unit is unknown.
func (s *sections) readUnits() (damaged int) {
	for off := uint64(0); off < uint64(len(s.info)); {
		u, ok := s.readUnit(off)
		if u == nil {
			return damaged + 1
		}
		off = u.end
		s.units = append(s.units, u)
		if !ok {
			damaged++
		}
	}
	return damaged
}

// readUnit reads the header at off and the root DIE. It returns nil if the start of the next unit is unknown. ok is
// false if the unit is unusable.
func (s *sections) readUnit(off uint64) (u *unit, ok bool) {
	c := s.cursor(s.info)
	c.Seek(off)
	u = &unit{sections: s, off: off, kind: unitCompile}
	n, offset := c.Length()
	if c.Bad || n > uint64(c.Left()) {
		return nil, false
	}
	u.end = uint64(c.Pos) + n
	c.B = c.B[:u.end]
	u.version, u.offset = c.U16(), offset
	if u.version < 2 || u.version > 5 {
		return u, false
	}
	u.header(&c)
	u.die = uint64(c.Pos)
	if c.Bad || u.layout.addr != 4 && u.layout.addr != 8 {
		return u, false
	}
	return u, u.kind == unitType || u.kind == unitSplitType || u.readRoot(&c)
}

func (u *unit) header(c *dwarf.Cursor) {
	if u.version < 5 {
		u.abbrevOff = c.Uint(u.offset)
		u.layout.addr = int(c.U8())
		return
	}
	u.kind = c.U8()
	u.layout.addr = int(c.U8())
	u.abbrevOff = c.Uint(u.offset)
	switch u.kind {
	case unitSkeleton, unitSplitCompile:
		u.dwoID = c.U64()
	case unitType, unitSplitType:
		c.Skip(8 + uint64(u.offset))
	}
}

// readRoot reads the root DIE's attributes. It returns false if they are corrupt.
func (u *unit) readRoot(c *dwarf.Cursor) bool {
	code := c.ULEB()
	if code == 0 {
		return !c.Bad // empty
	}
	a := u.rootAbbrev(code)
	if a == nil || a.kind != kindUnit {
		return false
	}
	v := &u.attrs
	u.layout.read(c, a, v)
	u.tag = a.tag
	u.lang = v.number(slotLanguage)
	u.stmtList = v.number(slotStmtList)
	_, u.hasLines = v.get(slotStmtList)
	u.strOffsetsBase = v.number(slotStrOffsetsBase)
	u.addrBase = v.number(slotAddrBase)
	u.rnglistsBase = v.number(slotRnglistsBase)
	if u.sections.split && u.version >= 5 { // after the headers
		length := uint64(2*u.offset - 4) // 4 bytes, in 64-bit DWARF 12
		u.strOffsetsBase, u.rnglistsBase = length+4, length+8
	}
	if id, ok := v.get(slotDwoID); ok {
		u.dwoID = id.u
	}
	u.name, u.compDir, u.dwoName = u.stringOf(v, slotName), u.stringOf(v, slotCompDir), u.stringOf(v, slotDwoName)
	if low, ok := v.get(slotLow); ok {
		u.low, _ = u.address(low)
	}
	return !c.Bad
}

// unitAt returns the unit that contains an offset of .debug_info, or nil.
func (s *sections) unitAt(off uint64) *unit {
	i := sort.Search(len(s.units), func(i int) bool { return s.units[i].end > off })
	if i == len(s.units) || off < s.units[i].die || s.units[i].die == 0 {
		return nil
	}
	return s.units[i]
}

// maxString limits a name, and maxPath a path, in bytes.
const (
	maxString = 1 << 16
	maxPath   = 1 << 12
)

// cstringAt returns the string at off of a section, or nil.
func cstringAt(b []byte, off uint64) []byte {
	if off >= uint64(len(b)) {
		return nil
	}
	b = b[off:]
	n := bytes.IndexByte(b[:min(len(b), maxString)], 0)
	if n < 0 {
		return nil
	}
	return b[:n]
}

func (u *unit) stringOf(v *values, s slot) []byte {
	if val, ok := v.get(s); ok {
		return u.string(val)
	}
	return nil
}

// string returns a value's string, or nil.
func (u *unit) string(v value) []byte {
	switch v.form {
	case formString:
		return cstringAt(u.sections.info, v.u)
	case formStrp:
		return cstringAt(u.sections.str, v.u)
	case formLineStrp:
		return cstringAt(u.sections.lineStr, v.u)
	case formStrpSup, formGNUStrpAlt:
		if u.sections.supp != nil {
			return cstringAt(u.sections.supp.str, v.u)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		if off, ok := u.indexed(u.sections.strOffsets, u.strOffsetsBase, v.u, u.offset); ok {
			return cstringAt(u.sections.str, off)
		}
	}
	return nil
}

// indexed returns the number of size bytes at an index of a table.
func (u *unit) indexed(table []byte, base, index uint64, size int) (uint64, bool) {
	t := dwarf.Table{B: table, Big: u.sections.big, Base: base, Size: size}
	return t.At(index)
}

// addrs returns the unit's table of addresses.
func (u *unit) addrs() dwarf.Table {
	return dwarf.Table{B: u.sections.addr, Big: u.sections.big, Base: u.addrBase, Size: u.layout.addr}
}

// address returns a value's address.
func (u *unit) address(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.u, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		addrs := u.addrs()
		return addrs.At(v.u)
	}
	return 0, false
}

// ref returns the unit of the DIE that a value refers to, and the DIE's offset in .debug_info. It returns nil if there
// is none.
func (u *unit) ref(v value) (*unit, uint64) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if v.u < u.end-u.off && u.off+v.u >= u.die {
			return u, u.off + v.u
		}
	case formRefAddr:
		return u.sections.unitAt(v.u), v.u
	case formGNURefAlt, formRefSup4, formRefSup8:
		if u.sections.supp != nil {
			return u.sections.supp.unitAt(v.u), v.u
		}
	}
	return nil, 0
}

package dwarf

// Entry kinds of .debug_rnglists (DW_RLE_*, DWARF 5, section 7.25). Entry kinds of .debug_loclists (DW_LLE_*,
// section 7.7.3) are encoded in the same way, but with one more kind in the middle.
const (
	RangeEnd          = 0x00
	RangeBaseAddressx = 0x01
	RangeStartxEndx   = 0x02
	RangeStartxLength = 0x03
	RangeOffsetPair   = 0x04
	RangeBaseAddress  = 0x05
	RangeStartEnd     = 0x06
	RangeStartLength  = 0x07

	LocationEnd          = 0x00
	LocationBaseAddressx = 0x01
	LocationStartxEndx   = 0x02
	LocationStartxLength = 0x03
	LocationOffsetPair   = 0x04
	LocationDefault      = 0x05
	LocationBaseAddress  = 0x06
	LocationStartEnd     = 0x07
	LocationStartLength  = 0x08
	LocationViewPair     = 0x09 // GNU: distinguishes several instructions at one address
)

// List decodes a list of address ranges, each with an expression if it is a list of locations. The cursor is at the
// first entry: in .debug_rnglists or .debug_loclists, or before DWARF 5, in .debug_ranges or .debug_loc (DWARF 4,
// sections 2.17.3 and 2.6.2).
type List struct {
	Cursor
	Version   int // of the unit
	Locations bool
	AddrSize  int    // of the unit, in bytes
	Base      uint64 // that offsets count from: first, the unit's DW_AT_low_pc
	Addrs     Table  // addresses by index
}

// Range is an entry of a list.
type Range struct {
	Low, High uint64 // High is the first address after the range
	Expr      []byte // location of these addresses, a part of the section
	Default   bool   // the location of all addresses that no other entry contains
}

// Next returns the next entry; ok is false at the list's end, or if it is damaged: then Bad is
// set.
func (l *List) Next() (r Range, ok bool) {
	if l.Version < 5 {
		return l.nextPair()
	}
	for {
		kind := l.kind()
		switch kind {
		case RangeEnd: // also at the section's end
			return Range{}, false
		case RangeBaseAddressx:
			l.Base = l.addrx()
			continue
		case RangeBaseAddress:
			l.Base = l.Uint(l.AddrSize)
			continue
		case kindSkipped:
			continue
		case kindDefault:
			r.Default = true
		case RangeStartxEndx:
			r.Low, r.High = l.addrx(), l.addrx()
		case RangeStartxLength:
			r.Low = l.addrx()
			r.High = r.Low + l.ULEB()
		case RangeOffsetPair:
			r.Low, r.High = l.Base+l.ULEB(), l.Base+l.ULEB()
		case RangeStartEnd:
			r.Low, r.High = l.Uint(l.AddrSize), l.Uint(l.AddrSize)
		case RangeStartLength:
			r.Low = l.Uint(l.AddrSize)
			r.High = r.Low + l.ULEB()
		default:
			l.Fail()
		}
		if l.Locations {
			r.Expr = l.Bytes(l.ULEB())
		}
		return r, !l.Bad
	}
}

// Kinds that occur only in lists of locations, outside of the range of a byte.
const (
	kindDefault = 0x100 + iota
	kindSkipped
)

// kind reads an entry's kind, as a kind of a range.
func (l *List) kind() int {
	kind := int(l.U8())
	if !l.Locations {
		return kind
	}
	switch kind {
	case LocationDefault:
		return kindDefault
	case LocationViewPair:
		l.ULEB()
		l.ULEB()
		return kindSkipped
	case LocationBaseAddress, LocationStartEnd, LocationStartLength:
		return kind - 1
	}
	return kind
}

// nextPair is Next before DWARF 5: a pair of addresses.
func (l *List) nextPair() (r Range, ok bool) {
	for {
		r.Low, r.High = l.Uint(l.AddrSize), l.Uint(l.AddrSize)
		switch {
		case l.Bad || r.Low == 0 && r.High == 0:
			return Range{}, false
		case r.Low == ^uint64(0)>>(64-8*l.AddrSize): // the highest address
			l.Base = r.High
			continue
		}
		r.Low, r.High = r.Low+l.Base, r.High+l.Base
		if l.Locations {
			r.Expr = l.Bytes(uint64(l.U16()))
		}
		return r, !l.Bad
	}
}

func (l *List) addrx() uint64 {
	addr, ok := l.Addrs.At(l.ULEB())
	if !ok {
		l.Fail()
	}
	return addr
}

// Table is a table of numbers in a section: the addresses of a unit in .debug_addr, or the offsets of a unit's
// lists in .debug_rnglists and .debug_loclists.
type Table struct {
	B    []byte // the section
	Big  bool   // numbers are big-endian
	Base uint64 // offset of the first number, DW_AT_*_base
	Size int    // of a number, in bytes
}

// At returns the number at an index; ok is false outside of the section.
func (t *Table) At(index uint64) (v uint64, ok bool) {
	if t.Base > uint64(len(t.B)) || index > uint64(len(t.B)) {
		return 0, false
	}
	c := Cursor{B: t.B, Big: t.Big}
	c.Seek(t.Base + index*uint64(t.Size))
	v = c.Uint(t.Size)
	return v, !c.Bad
}

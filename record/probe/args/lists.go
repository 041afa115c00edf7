package args

import (
	"debug/dwarf"
	"errors"

	leb "gperf/internal/dwarf"
)

// sections are the sections that debug/dwarf does not read.
type sections struct {
	loc, loclists, addr []byte
	big                 bool   // numbers are big-endian
	units               []unit // by offset
}

// unit is the header of a unit.
type unit struct {
	start, end dwarf.Offset
	version    int
	offsetSize int // 4, or 8 for 64-bit DWARF
}

// unitsOf reads the headers of .debug_info, up to the first damaged one.
func unitsOf(info []byte, big bool) (l []unit) {
	c := leb.Cursor{B: info, Big: big}
	for c.Left() > 0 {
		u := unit{start: dwarf.Offset(c.Pos)}
		var n uint64
		n, u.offsetSize = c.Length()
		body := leb.Cursor{B: c.Bytes(n), Big: big}
		if c.Bad {
			return l
		}
		u.version = int(body.U16())
		u.end = dwarf.Offset(c.Pos)
		l = append(l, u)
	}
	return l
}

// unitAt returns the unit of an entry.
func (s *sections) unitAt(off dwarf.Offset) (unit, bool) {
	for _, u := range s.units {
		if u.start <= off && off < u.end {
			return u, true
		}
	}
	return unit{}, false
}

// within are the parts of a compile unit that lists refer to.
type within struct {
	unit
	addrSize           int
	low                uint64 // DW_AT_low_pc
	addrBase, listBase uint64 // DW_AT_addr_base, DW_AT_loclists_base
}

// addrs returns the unit's table of addresses.
func (s *sections) addrs(w within) leb.Table {
	return leb.Table{B: s.addr, Big: s.big, Base: w.addrBase, Size: w.addrSize}
}

var errNotHere = errors.New("the debug information has no location for it at this instruction")

// list finds the location at pc in the list at offset off.
func (s *sections) list(w within, off uint64, pc uint64) ([]byte, error) {
	section := s.loc
	if w.version >= 5 {
		section = s.loclists
	}
	list := leb.List{
		Cursor: leb.Cursor{B: section, Big: s.big}, Version: w.version, Locations: true,
		AddrSize: w.addrSize, Base: w.low, Addrs: s.addrs(w),
	}
	list.Seek(off)
	var rest []byte // location at all other addresses
	for {
		r, ok := list.Next()
		switch {
		case !ok && list.Bad:
			return nil, errDamaged
		case !ok && rest == nil:
			return nil, errNotHere
		case !ok:
			return rest, nil
		case r.Default:
			rest = r.Expr
		case r.Low <= pc && pc < r.High:
			return r.Expr, nil
		}
	}
}

// listx is list with an index of DW_FORM_loclistx.
func (s *sections) listx(w within, index uint64, pc uint64) ([]byte, error) {
	offsets := leb.Table{B: s.loclists, Big: s.big, Base: w.listBase, Size: w.offsetSize}
	off, ok := offsets.At(index)
	if !ok {
		return nil, errDamaged
	}
	return s.list(w, w.listBase+off, pc)
}

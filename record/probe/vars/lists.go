package vars

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

// Entries of .debug_loclists (DWARF 5, 7.7.3).
const (
	lleEnd          = 0
	lleBaseAddrx    = 1
	lleStartxEndx   = 2
	lleStartxLength = 3
	lleOffsetPair   = 4
	lleDefault      = 5
	lleBaseAddr     = 6
	lleStartEnd     = 7
	lleStartLength  = 8
	lleViewPair     = 9 // GNU extension: distinguishes several instructions at one address
)

// within are the parts of a compile unit that lists refer to.
type within struct {
	unit
	addrSize           int
	low                uint64 // DW_AT_low_pc
	addrBase, listBase uint64 // DW_AT_addr_base, DW_AT_loclists_base
}

// addrx returns an address of .debug_addr.
func (s *sections) addrx(w within, index uint64) (uint64, error) {
	if size := uint64(w.addrSize); index < uint64(len(s.addr))/size {
		if at := w.addrBase + index*size; at < uint64(len(s.addr)) {
			c := leb.Cursor{B: s.addr[at:], Big: s.big}
			if v := c.Uint(w.addrSize); !c.Bad {
				return v, nil
			}
		}
	}
	return 0, errDamaged
}

var errNotHere = errors.New("the debug information has no location for it at this instruction")

// list finds the location at pc in the list at offset off.
func (s *sections) list(w within, off uint64, pc uint64) ([]byte, error) {
	if w.version >= 5 {
		return s.list5(w, off, pc)
	}
	return s.list4(w, off, pc)
}

// listx is list with an index of DW_FORM_loclistx.
func (s *sections) listx(w within, index uint64, pc uint64) ([]byte, error) {
	size := uint64(w.offsetSize)
	if index > uint64(len(s.loclists))/size || w.listBase+index*size > uint64(len(s.loclists)) {
		return nil, errDamaged
	}
	c := leb.Cursor{B: s.loclists[w.listBase+index*size:], Big: s.big}
	return s.list5(w, w.listBase+c.Uint(w.offsetSize), pc)
}

func (s *sections) list4(w within, off, pc uint64) ([]byte, error) {
	if off > uint64(len(s.loc)) {
		return nil, errDamaged
	}
	c := leb.Cursor{B: s.loc[off:], Big: s.big}
	for base := w.low; !c.Bad; {
		start, end := c.Uint(w.addrSize), c.Uint(w.addrSize)
		switch {
		case start == 0 && end == 0 && !c.Bad:
			return nil, errNotHere
		case start == ^uint64(0)>>(64-8*w.addrSize):
			base = end
			continue
		}
		expr := c.Bytes(uint64(c.U16()))
		if base+start <= pc && pc < base+end && !c.Bad {
			return expr, nil
		}
	}
	return nil, errDamaged
}

func (s *sections) list5(w within, off, pc uint64) ([]byte, error) {
	if off > uint64(len(s.loclists)) {
		return nil, errDamaged
	}
	c := leb.Cursor{B: s.loclists[off:], Big: s.big}
	var rest []byte // of DW_LLE_default_location
	x := func() uint64 {
		v, err := s.addrx(w, c.ULEB())
		if err != nil {
			c.Fail()
		}
		return v
	}
	for base := w.low; !c.Bad; {
		var start, end uint64
		switch c.U8() {
		case lleEnd:
			if rest == nil && !c.Bad {
				return nil, errNotHere
			}
			return rest, nil
		case lleBaseAddrx:
			base = x()
			continue
		case lleBaseAddr:
			base = c.Uint(w.addrSize)
			continue
		case lleViewPair:
			c.ULEB()
			c.ULEB()
			continue
		case lleDefault:
			rest = c.Bytes(c.ULEB())
			continue
		case lleStartxEndx:
			start, end = x(), x()
		case lleStartxLength:
			start = x()
			end = start + c.ULEB()
		case lleOffsetPair:
			start, end = base+c.ULEB(), base+c.ULEB()
		case lleStartEnd:
			start, end = c.Uint(w.addrSize), c.Uint(w.addrSize)
		case lleStartLength:
			start = c.Uint(w.addrSize)
			end = start + c.ULEB()
		default:
			return nil, errDamaged
		}
		expr := c.Bytes(c.ULEB())
		if start <= pc && pc < end && !c.Bad {
			return expr, nil
		}
	}
	return nil, errDamaged
}

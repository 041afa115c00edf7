package vars

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
)

// sections are those that debug/dwarf reads nothing of.
type sections struct {
	loc, loclists, addr []byte
	order               binary.ByteOrder
	units               []unit // by offset
}

// unit is what a unit's header says.
type unit struct {
	start, end dwarf.Offset
	version    int
	offsetSize int // 4, or 8 of 64-bit DWARF
}

// unitsOf reads the headers of .debug_info, up to the first damaged.
func unitsOf(info []byte, order binary.ByteOrder) (l []unit) {
	c := cursor{b: info, order: order}
	for len(c.b) > 0 {
		u := unit{start: dwarf.Offset(len(info) - len(c.b)), offsetSize: 4}
		n := c.uint(4)
		if n == 0xffffffff {
			u.offsetSize = 8
			n = c.uint(8)
		}
		body := cursor{b: c.bytes(n), order: order}
		if c.bad {
			return l
		}
		u.version = int(body.uint(2))
		u.end = dwarf.Offset(len(info) - len(c.b))
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
	lleViewPair     = 9 // of GNU: says which of several instructions at one address
)

// within are the parts of a compile unit that lists refer to.
type within struct {
	unit
	addrSize           int
	low                uint64 // DW_AT_low_pc
	addrBase, listBase uint64 // DW_AT_addr_base, DW_AT_loclists_base
}

// addrx is an address of .debug_addr.
func (s *sections) addrx(w within, index uint64) (uint64, error) {
	if size := uint64(w.addrSize); index < uint64(len(s.addr))/size {
		if at := w.addrBase + index*size; at < uint64(len(s.addr)) {
			c := cursor{b: s.addr[at:], order: s.order}
			if v := c.uint(w.addrSize); !c.bad {
				return v, nil
			}
		}
	}
	return 0, errDamaged
}

var errNotHere = errors.New("the debug information gives it no place at this instruction")

// list finds the location at pc in the list at offset off.
func (s *sections) list(w within, off uint64, pc uint64) ([]byte, error) {
	if w.version >= 5 {
		return s.list5(w, off, pc)
	}
	return s.list4(w, off, pc)
}

// listx is list by the index that DW_FORM_loclistx gives.
func (s *sections) listx(w within, index uint64, pc uint64) ([]byte, error) {
	size := uint64(w.offsetSize)
	if index > uint64(len(s.loclists))/size || w.listBase+index*size > uint64(len(s.loclists)) {
		return nil, errDamaged
	}
	c := cursor{b: s.loclists[w.listBase+index*size:], order: s.order}
	return s.list5(w, w.listBase+c.uint(w.offsetSize), pc)
}

func (s *sections) list4(w within, off, pc uint64) ([]byte, error) {
	if off > uint64(len(s.loc)) {
		return nil, errDamaged
	}
	c := cursor{b: s.loc[off:], order: s.order}
	for base := w.low; !c.bad; {
		start, end := c.uint(w.addrSize), c.uint(w.addrSize)
		switch {
		case start == 0 && end == 0 && !c.bad:
			return nil, errNotHere
		case start == ^uint64(0)>>(64-8*w.addrSize):
			base = end
			continue
		}
		expr := c.bytes(c.uint(2))
		if base+start <= pc && pc < base+end && !c.bad {
			return expr, nil
		}
	}
	return nil, errDamaged
}

func (s *sections) list5(w within, off, pc uint64) ([]byte, error) {
	if off > uint64(len(s.loclists)) {
		return nil, errDamaged
	}
	c := cursor{b: s.loclists[off:], order: s.order}
	var rest []byte // of DW_LLE_default_location
	x := func() uint64 {
		v, err := s.addrx(w, c.uleb())
		c.bad = c.bad || err != nil
		return v
	}
	for base := w.low; !c.bad; {
		var start, end uint64
		switch c.uint(1) {
		case lleEnd:
			if rest == nil && !c.bad {
				return nil, errNotHere
			}
			return rest, nil
		case lleBaseAddrx:
			base = x()
			continue
		case lleBaseAddr:
			base = c.uint(w.addrSize)
			continue
		case lleViewPair:
			c.uleb()
			c.uleb()
			continue
		case lleDefault:
			rest = c.bytes(c.uleb())
			continue
		case lleStartxEndx:
			start, end = x(), x()
		case lleStartxLength:
			start = x()
			end = start + c.uleb()
		case lleOffsetPair:
			start, end = base+c.uleb(), base+c.uleb()
		case lleStartEnd:
			start, end = c.uint(w.addrSize), c.uint(w.addrSize)
		case lleStartLength:
			start = c.uint(w.addrSize)
			end = start + c.uleb()
		default:
			return nil, errDamaged
		}
		expr := c.bytes(c.uleb())
		if start <= pc && pc < end && !c.bad {
			return expr, nil
		}
	}
	return nil, errDamaged
}

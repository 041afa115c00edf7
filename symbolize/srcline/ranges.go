package srcline

import "gperf/internal/dwarf"

// spans appends the addresses that a DIE's values give it.
func (u *unit) spans(v *values, to []span) []span {
	if list, ok := v.get(slotRanges); ok {
		return u.rangeList(list, to)
	}
	lowV, ok := v.get(slotLow)
	if !ok {
		return to
	}
	highV, ok := v.get(slotHigh)
	if !ok {
		return to
	}
	low, ok := u.address(lowV)
	if !ok {
		return to
	}
	high, isAddr := u.address(highV)
	if !isAddr {
		high = low + highV.u
	}
	if high <= low {
		return to
	}
	return append(to, span{low, high})
}

// rangeList appends the addresses of a list: of .debug_ranges, or since DWARF 5, of
// .debug_rnglists.
func (u *unit) rangeList(v value, to []span) []span {
	section, off := u.sections.ranges, v.u+u.rangesBase
	if u.version >= 5 {
		section, off = u.sections.rnglists, v.u
	}
	if v.form == formRnglistx {
		n, ok := u.indexed(u.sections.rnglists, u.rnglistsBase, v.u, u.offset)
		if !ok {
			return to
		}
		off = u.rnglistsBase + n
	}
	list := dwarf.List{
		Cursor: u.sections.cursor(section), Version: int(u.version), AddrSize: u.layout.addr, Base: u.low,
		Addrs: u.addrs(),
	}
	list.Seek(off)
	for {
		r, ok := list.Next()
		if !ok {
			return to
		}
		if r.Low < r.High {
			to = append(to, span{r.Low, r.High})
		}
	}
}

package srcline

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

func (u *unit) rangeList(v value, to []span) []span {
	if u.version < 5 {
		return u.oldRanges(v.u+u.rangesBase, to)
	}
	off := v.u
	if v.form == formRnglistx {
		n, ok := u.indexed(u.rnglists, u.rnglistsBase, v.u, u.offset)
		if !ok {
			return to
		}
		off = u.rnglistsBase + n
	}
	return u.newRanges(off, to)
}

// maxAddr is the highest address, which marks what the linker threw away, and
// in .debug_ranges a new base.
func (l layout) maxAddr() uint64 { return ^uint64(0) >> (64 - 8*l.addr) }

// oldRanges reads a list of .debug_ranges (DWARF 2 to 4, section 2.17.3).
func (u *unit) oldRanges(off uint64, to []span) []span {
	c := u.cursor(u.sections.ranges)
	c.Seek(off)
	base := u.low
	for {
		lo, hi := c.Uint(u.layout.addr), c.Uint(u.layout.addr)
		switch {
		case c.Bad || lo == 0 && hi == 0:
			return to
		case lo == u.maxAddr():
			base = hi
		case lo < hi:
			to = append(to, span{base + lo, base + hi})
		}
	}
}

// newRanges reads a list of .debug_rnglists (DWARF 5, section 7.25).
func (u *unit) newRanges(off uint64, to []span) []span {
	c := u.cursor(u.rnglists)
	c.Seek(off)
	base := u.low
	size := u.layout.addr
	index := func() uint64 {
		a, ok := u.indexed(u.sections.addr, u.addrBase, c.ULEB(), size)
		if !ok {
			c.Fail()
		}
		return a
	}
	for {
		var lo, hi uint64
		switch c.U8() {
		case rleEndOfList: // or the section's
			return to
		case rleBaseAddressx:
			base = index()
		case rleStartxEndx:
			lo, hi = index(), index()
		case rleStartxLength:
			lo = index()
			hi = lo + c.ULEB()
		case rleOffsetPair:
			lo, hi = base+c.ULEB(), base+c.ULEB()
		case rleBaseAddress:
			base = c.Uint(size)
		case rleStartEnd:
			lo, hi = c.Uint(size), c.Uint(size)
		case rleStartLength:
			lo = c.Uint(size)
			hi = lo + c.ULEB()
		default:
			return to
		}
		if c.Bad {
			return to
		}
		if lo < hi {
			to = append(to, span{lo, hi})
		}
	}
}

package runtimes

// lineFormat is the format of a code object's table of lines.
type lineFormat uint8

const (
	numberTable   lineFormat = iota + 1 // co_lnotab, up to 3.9: Objects/lnotab_notes.txt
	lineTable                           // co_linetable of 3.10: Objects/lnotab_notes.txt
	locationTable                       // co_linetable from 3.11 on: Objects/locations.md
)

// decode returns the lines of code of a size in bytes whose function begins at a line. It ignores invalid data.
func (f lineFormat) decode(table []byte, first int32, size uint32) []Line {
	l := lines{line: int64(first), size: size}
	switch f {
	case numberTable:
		l.numbers(table)
	case lineTable:
		l.ranges(table)
	case locationTable:
		l.locations(table)
	}
	return l.list
}

// numbers decodes pairs of steps: of the offset, unsigned, and of the line, signed.
func (l *lines) numbers(table []byte) {
	l.add(false)
	for ; len(table) >= 2; table = table[2:] {
		if table[0] != 0 {
			l.off += uint32(table[0])
		}
		l.line += int64(int8(table[1]))
		l.add(false)
	}
}

// noLine is the step of the line of code without a line, in 3.10.
const noLine = -128

// ranges decodes pairs: the size of a range, and the difference of the range's line from the previous range's line.
func (l *lines) ranges(table []byte) {
	for ; len(table) >= 2; table = table[2:] {
		step := int8(table[1])
		if step != noLine {
			l.line += int64(step)
		}
		if table[0] != 0 {
			l.add(step == noLine)
			l.off += uint32(table[0])
		}
	}
}

// Kinds of entries of a location table.
const (
	shortLast   = 9  // and below: the line of the entry before
	oneLineLast = 12 // from shortLast on: 0 to 2 lines further
	noColumns   = 13
	longForm    = 14
)

// locations decodes entries: each is a byte with a kind and a size in instructions, and the kind's numbers.
func (l *lines) locations(table []byte) {
	for i := 0; i < len(table); {
		head := table[i]
		i++
		if head&0x80 == 0 {
			continue // a number of a corrupt entry, or of an entry with numbers unknown to gperf
		}
		kind, units := head>>3&15, uint32(head&7)+1
		none := false
		switch {
		case kind <= shortLast:
		case kind <= oneLineLast:
			l.line += int64(kind - shortLast - 1)
		case kind == noColumns, kind == longForm:
			var step int64
			step, i = signed(table, i)
			l.line += step
		default:
			none = true
		}
		for i < len(table) && table[i]&0x80 == 0 {
			i++ // columns, and the last line
		}
		l.add(none)
		l.off += 2 * units
	}
}

// signed decodes a signed number at a position, and returns the position after it: six bits in each byte, the
// lowest first; bit 6 means that another byte follows. The number's lowest bit is the sign.
func signed(b []byte, i int) (int64, int) {
	var v uint64
	for shift := 0; i < len(b) && b[i]&0x80 == 0; shift += 6 {
		c := b[i]
		i++
		if shift < 63 {
			v |= uint64(c&63) << shift
		}
		if c&64 == 0 {
			break
		}
	}
	if v&1 != 0 {
		return -int64(v >> 1), i
	}
	return int64(v >> 1), i
}

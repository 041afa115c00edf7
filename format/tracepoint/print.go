package tracepoint

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// printer prints the raw data of one event.
type printer struct{ evaluator }

// AppendPrint appends the text that `perf script` prints after the event's name. It allocates only to grow dst. A field
// outside raw is 0. AppendPrint truncates the text to MaxPrint bytes, and ends it with "..." then.
func (f *Format) AppendPrint(dst, raw []byte, env *Env) []byte {
	p := printer{evaluator{raw: raw, env: env, big: isBig(env.Order)}}
	end := len(dst) + MaxPrint(len(raw))
	if f.PrintErr != nil || f.Refused != "" {
		return cutAt(p.fields(append(dst, "[FAILED TO PARSE]"...), f, end), end)
	}
	for i := range f.prog {
		var more bool
		if dst, more = p.segment(dst, &f.prog[i]); !more || len(dst) > end {
			break
		}
	}
	return cutAt(dst, end)
}

// MaxPrint returns the maximum length of the text of an event with n bytes of raw data, in bytes. The kernel's own
// buffer has 8 KiB (TRACE_SEQ_BUFFER_SIZE); a byte of a CPU mask takes up to 28 bytes of text. Without a limit, a print
// fmt of some hundred bytes could request any amount of text, for each of a million samples.
func MaxPrint(n int) int { return 8<<10 + 32*n }

// cutAt truncates dst to end bytes.
func cutAt(dst []byte, end int) []byte {
	const mark = "..."
	if len(dst) <= end {
		return dst
	}
	return append(dst[:end-len(mark)], mark...)
}

// AppendField appends one field as libtraceevent's tep_print_field prints it, for perf report's sort keys: with the
// print fmt's conversion of the field, or like AppendValue if it has none.
func (f *Format) AppendField(dst []byte, fd *Field, raw []byte, env *Env) []byte {
	if f.PrintErr != nil || f.Refused != "" || fd.Array {
		return fd.AppendValue(dst, raw, env)
	}
	p := printer{evaluator{raw: raw, env: env, big: isBig(env.Order)}}
	for i := range f.prog {
		s := &f.prog[i]
		arg := s.arg.uncast()
		if arg == nil || arg.kind != nodeField || arg.field != fd {
			continue
		}
		if i > 0 && f.prog[i-1].kind == segText && strings.HasSuffix(f.prog[i-1].text, "0x") {
			dst = append(dst, "0x"...)
		}
		dst, _ = p.segment(dst, s)
		return dst
	}
	return fd.AppendValue(dst, raw, env)
}

// fields appends " name=value" for all but the common fields, until dst is longer than end.
func (p *printer) fields(dst []byte, f *Format, end int) []byte {
	for i := f.common; i < len(f.Fields) && len(dst) <= end; i++ {
		fd := &f.Fields[i]
		dst = append(dst, ' ')
		dst = append(dst, fd.Name...)
		dst = append(dst, '=')
		dst = fd.AppendValue(dst, p.raw, p.env)
	}
	return dst
}

// AppendValue appends a field's value as libtraceevent prints it without a print fmt: in decimal; pointers and longs in
// hexadecimal; arrays as text or a list of bytes.
func (fd *Field) AppendValue(dst, raw []byte, env *Env) []byte {
	big := isBig(env.Order)
	if fd.Array {
		off, n := fd.span(raw, big)
		b := cut(raw, off, n)
		if fd.length != nil {
			return appendString(&plainString, dst, b)
		}
		if fd.String && printable(b) {
			return appendString(&plainString, dst, cut(raw, off, len(raw)))
		}
		dst = append(dst, "ARRAY["...)
		for i, c := range b {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendHexByte(dst, c)
		}
		return append(dst, ']')
	}
	v, _ := readUint(raw, fd.Offset, fd.Size, big)
	s := spec{conv: 'u', bits: 64, prec: -1}
	switch {
	case fd.Float:
		return appendFloat(dst, v, fd.Size)
	case fd.Pointer, fd.Long && (!fd.Signed || fd.Size == 4):
		return strconv.AppendUint(append(dst, "0x"...), v, 16)
	case fd.Signed:
		s.conv = 'd'
		switch fd.Size {
		case 1, 4:
			s.bits = uint8(8 * fd.Size)
		case 2:
			s.bits, s.width = 16, 2
		}
	}
	return s.appendNumber(dst, v)
}

// appendFloat appends a floating-point number of size bytes, in the fewest digits that identify it. In the print fmt of
// a probe it is an integer.
func appendFloat(dst []byte, bits uint64, size int) []byte {
	if size == 4 {
		return strconv.AppendFloat(dst, float64(math.Float32frombits(uint32(bits))), 'g', -1, 32)
	}
	return strconv.AppendFloat(dst, math.Float64frombits(bits), 'g', -1, 64)
}

var plainString = spec{conv: 's', prec: -1, plain: true}

// printable reports whether b is text up to its first NUL.
func printable(b []byte) bool {
	for _, c := range b {
		if c == 0 {
			return true
		}
		if !isPrint(c) && !isSpace(c) {
			return false
		}
	}
	return true
}

func appendHexByte(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(dst, digits[c>>4], digits[c&15])
}

// segment appends a segment's text. A NUL, which %c can produce, ends the complete text: perf prints it as a C string.
func (p *printer) segment(dst []byte, s *segment) (text []byte, more bool) {
	if s.kind == segText {
		return append(dst, s.text...), true
	}
	start := len(dst)
	dst = p.conversion(dst, s)
	if s.spec.conv == 'c' {
		if nul := bytes.IndexByte(dst[start:], 0); nul >= 0 {
			return dst[:start+nul], false
		}
	}
	return dst, true
}

func (p *printer) conversion(dst []byte, s *segment) []byte {
	conv, plen := &s.spec, -1
	if s.star != nil {
		star := int32(p.num(s.star))
		filled := s.spec.fill(star)
		conv, plen = &filled, int(star)
	}
	switch s.kind {
	case segNumber:
		if s.float > 0 {
			return appendFloat(dst, p.num(s.arg), s.float)
		}
		return conv.appendNumber(dst, p.num(s.arg))
	case segString:
		return p.str(dst, conv, s.arg)
	}
	return p.pointer(dst, s.text, plen, s.arg)
}

// str appends an expression for a %s.
func (p *printer) str(dst []byte, s *spec, n *node) []byte {
	switch n.kind {
	case nodeAtom:
		return appendString(s, dst, n.text)
	case nodeLongSize:
		return s.appendNumber(dst, uint64(p.env.longSize()))
	case nodeField:
		return p.fieldString(dst, s, n.field)
	case nodeFlags:
		return p.flags(dst, s, n)
	case nodeSymbol:
		return p.symbol(dst, s, n)
	case nodeHex, nodeHexStr:
		return p.hex(dst, n)
	case nodeArray:
		return p.array(dst, n)
	case nodeString, nodeBitmask, nodeCPUMask:
		if n.field == nil {
			return dst
		}
		off, length := n.field.span(p.raw, p.big)
		switch {
		case n.kind == nodeBitmask:
			return p.bitmask(dst, s, cut(p.raw, off, length))
		case n.kind == nodeCPUMask:
			return p.cpumask(dst, s, cut(p.raw, off, length))
		case length == 0:
			return dst
		}
		return appendString(s, dst, cut(p.raw, off, len(p.raw)))
	case nodeOp:
		if n.op != '?' {
			return dst
		}
		branches := n.args[1]
		if p.num(n.args[0]) != 0 {
			return p.str(dst, s, branches.args[0])
		}
		return p.str(dst, s, branches.args[1])
	}
	return dst
}

// fieldString appends a field for a %s: its bytes, or if it has the size of a pointer, the kernel's constant string at
// that address, or the address if there is none.
func (p *printer) fieldString(dst []byte, s *spec, fd *Field) []byte {
	switch {
	case fd == nil:
		return dst
	case !fd.Array && fd.Size == p.env.longSize():
		addr, _ := readUint(p.raw, fd.Offset, fd.Size, p.big)
		if text, ok := p.env.Printk[addr]; ok {
			return append(dst, text...)
		}
		return strconv.AppendUint(dst, addr, 16)
	case fd.Size == 0:
		return appendString(s, dst, cut(p.raw, fd.Offset, len(p.raw)))
	}
	return appendString(s, dst, cut(p.raw, fd.Offset, fd.Size))
}

// flags appends the names of the bits that are set, then the bits without names in hexadecimal.
func (p *printer) flags(dst []byte, s *spec, n *node) []byte {
	v := int64(p.num(n.args[0]))
	appended := false
	for i := range n.syms {
		sym := &n.syms[i]
		if v == 0 && sym.val < 0 {
			dst = appendString(s, dst, sym.name)
			break
		}
		if sym.val > 0 && v&sym.val == sym.val {
			if appended {
				dst = append(dst, n.delim...)
			}
			dst = appendString(s, dst, sym.name)
			appended = true
			v &^= sym.val
		}
	}
	if v != 0 {
		if appended {
			dst = append(dst, n.delim...)
		}
		dst = strconv.AppendUint(append(dst, "0x"...), uint64(v), 16)
	}
	return dst
}

func (p *printer) symbol(dst []byte, s *spec, n *node) []byte {
	v := p.num(n.args[0])
	for i := range n.syms {
		if n.syms[i].val == int64(v) {
			return appendString(s, dst, n.syms[i].name)
		}
	}
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

func (p *printer) hex(dst []byte, n *node) []byte {
	b := p.bytesOf(n.args[0])
	length := int(int32(p.num(n.args[1])))
	for i, c := range b[:max(0, min(length, len(b)))] {
		if i > 0 && n.kind == nodeHex {
			dst = append(dst, ' ')
		}
		dst = appendHexByte(dst, c)
	}
	return dst
}

func (p *printer) array(dst []byte, n *node) []byte {
	b := p.bytesOf(n.args[0])
	count := int(int32(p.num(n.args[1])))
	size := int(int32(p.num(n.args[2])))
	dst = append(dst, '{')
	for i := 0; i < count; i++ {
		step := size
		v, ok := readUint(b, 0, max(size, 0), p.big)
		bad := size != 1 && size != 2 && size != 4 && size != 8
		if bad {
			step = 1
			v, ok = readUint(b, 0, 1, p.big)
		}
		if !ok {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if bad {
			dst = append(dst, "BAD SIZE:"...)
			dst = strconv.AppendInt(dst, int64(size), 10)
			dst = append(dst, ' ')
		}
		dst = strconv.AppendUint(append(dst, "0x"...), v, 16)
		size = step
		b = b[step:]
	}
	return append(dst, '}')
}

// bitmask appends a mask in hexadecimal, the highest bits first, in groups of 32 bits.
func (p *printer) bitmask(dst []byte, s *spec, mask []byte) []byte {
	start := len(dst)
	for i := len(mask) - 1; i >= 0; i-- {
		dst = appendHexByte(dst, p.maskByte(mask, i))
		if i%4 == 0 && i > 0 {
			dst = append(dst, ',')
		}
	}
	return pad(dst, start, s)
}

// cpumask appends the set bits as a list of ranges.
func (p *printer) cpumask(dst []byte, s *spec, mask []byte) []byte {
	start := len(dst)
	bits := 8 * len(mask)
	set := func(i int) bool { return i < bits && p.maskByte(mask, i/8)>>(i%8)&1 != 0 }
	for i := 0; i < bits; i++ {
		if !set(i) {
			continue
		}
		first := i
		for set(i + 1) {
			i++
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(first), 10)
		if i > first {
			dst = strconv.AppendInt(append(dst, '-'), int64(i), 10)
		}
	}
	return pad(dst, start, s)
}

// pad applies the width and precision of s to the text since start.
func pad(dst []byte, start int, s *spec) []byte {
	if s.plain {
		return dst
	}
	return appendString(s, dst[:start], string(dst[start:]))
}

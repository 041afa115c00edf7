package tracepoint

import (
	"strconv"
	"strings"
)

// segment is a piece of the format string: literal text, or a conversion with its
// arguments.
type segment struct {
	kind segmentKind
	text string // literal text; for a pointer, the characters after the p
	spec spec
	arg  *node
	star *node // the argument of *
	// float is the size of a floating-point arg that an integer conversion prints, in bytes;
	// otherwise 0.
	float int
}

type segmentKind uint8

const (
	segText segmentKind = iota
	segNumber
	segPointer
	segString
)

// spec is a printf conversion.
type spec struct {
	conv                   byte
	minus, plus, zero, alt bool
	bits                   uint8 // size of the argument, in bits
	width                  int   // 0: none
	prec                   int   // -1: none
	starWidth, starPrec    bool
	plain                  bool // the conversion has no flags, width, precision or size
}

// maxPad limits widths and precisions, which may come from raw data.
const maxPad = 4096

// compile parses the print fmt.
func (f *Format) compile() {
	p := &parser{lexer: lexer{src: f.PrintFmt}, f: f}
	p.next()
	if p.kind != tokString {
		p.fail("no format string at %q", p.rest())
	}
	format := p.text
	var args []*node
	switch p.next(); {
	case p.kind == tokEnd && f.System == "ftrace": // old kernels omitted the arguments
		for i := f.common; i < len(f.Fields); i++ {
			args = append(args, &node{kind: nodeField, field: &f.Fields[i]})
		}
	case p.kind == tokEnd:
	case p.expect(tokDelim, ","):
		args = p.arguments()
	}
	p.segments(format, args)
	for i := range f.prog {
		if s := &f.prog[i]; s.kind == segString && s.spec.starPrec && s.arg != nil && s.arg.kind == nodeField &&
			s.star.kind == nodeField && s.arg.field != nil {
			s.arg.field.length = s.star.field
		}
	}
	f.PrintErr, f.Refused = p.err, p.refused
}

// segments splits the format string into segments and assigns the arguments to the
// conversions.
func (p *parser) segments(format string, args []*node) {
	c := cutter{p: p, args: args}
	for format != "" && p.err == nil {
		if format[0] == '%' && !strings.HasPrefix(format, "%%") {
			format = c.conversion(format)
		} else {
			format = c.literal(format)
		}
	}
	p.f.prog = c.prog
}

// returnField is the field of return probes with the return address.
const returnField = "__probe_ret_ip"

// CodeFields returns the fields that contain addresses of code: those that the print fmt
// prints as kernel functions (%pS and similar), and the return address of a return probe.
func (f *Format) CodeFields() (l []*Field) {
	for i := range f.prog {
		seg := &f.prog[i]
		if seg.kind != segPointer || seg.text == "" || strings.IndexByte("FfSs", seg.text[0]) < 0 {
			continue
		}
		if n := seg.arg.uncast(); n != nil && n.kind == nodeField && n.field != nil {
			l = append(l, n.field)
		}
	}
	if ret := f.Field(returnField); ret != nil {
		l = append(l, ret)
	}
	return l
}

type cutter struct {
	p    *parser
	args []*node
	prog []segment
}

// literal consumes the text before the next conversion and resolves its escapes.
func (c *cutter) literal(s string) string {
	var b strings.Builder
	i := 0
	for ; i < len(s); i++ {
		ch := s[i]
		switch {
		case ch == '\\' && i+1 < len(s):
			i++
			ch = unescape(s[i])
		case ch == '\\':
			continue
		case ch == '%' && strings.HasPrefix(s[i:], "%%"):
			i++
		case ch == '%':
			c.text(b.String())
			return s[i:]
		}
		b.WriteByte(ch)
	}
	c.text(b.String())
	return ""
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	}
	return c
}

func (c *cutter) text(s string) { c.prog = append(c.prog, segment{text: s}) }

// trim removes the end of the last segment's text.
func (c *cutter) trim(end string) {
	if last := len(c.prog) - 1; last >= 0 && c.prog[last].kind == segText {
		c.prog[last].text = strings.TrimSuffix(c.prog[last].text, end)
	}
}

// floatSize returns the size of the floating-point field, or of the element of such a
// field, that an expression reads, in bytes. It returns 0 for other expressions.
func (n *node) floatSize() int {
	if n == nil {
		return 0
	}
	n = n.uncast()
	if n.kind == nodeOp && n.op == '[' {
		n = n.args[0].uncast()
	}
	if n.kind != nodeField || n.field == nil || !n.field.Float {
		return 0
	}
	return n.field.ElemSize
}

// take returns the next argument.
func (c *cutter) take() *node {
	if len(c.args) == 0 {
		c.p.fail("more conversions than arguments")
		return nil
	}
	n := c.args[0]
	c.args = c.args[1:]
	return n
}

// conversion parses one conversion and returns the rest of the format string.
func (c *cutter) conversion(s string) string {
	seg := segment{spec: spec{prec: -1}}
	size := 0 // l adds 1, h subtracts 1
	for i := 1; i < len(s); i++ {
		ch := s[i]
		switch ch {
		case '*':
			if seg.star != nil {
				c.p.fail("two * in %q", s[:i])
			}
			seg.star = c.take()
			seg.spec.flag(ch)
		case '#', '-', '+', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			seg.spec.flag(ch)
		case 'h':
			size--
		case 'l':
			size++
		case 'L':
			size = 2
		case 'z', 'Z':
			size = 1
		case 'p':
			n := pointerLen(s[i+1:])
			seg.kind, seg.text = segPointer, s[i+1:i+1+n]
			seg.arg = c.take()
			c.prog = append(c.prog, seg)
			return s[i+1+n:]
		case 'c', 'd', 'u', 'i', 'x', 'X', 'o':
			if size < -2 || size > 2 {
				c.p.fail("bad size in %q", s[:i+1])
			}
			seg.kind, seg.arg = segNumber, c.take()
			seg.spec.done(ch, size)
			if seg.float = seg.arg.floatSize(); seg.float > 0 {
				c.trim("0x")
			}
			c.prog = append(c.prog, seg)
			return s[i+1:]
		case 's':
			seg.kind, seg.arg = segString, c.take()
			seg.spec.done(ch, size)
			c.prog = append(c.prog, seg)
			return s[i+1:]
		default: // libtraceevent's mark of an unknown conversion
			c.text(">" + string(ch) + "<")
			return s[i+1:]
		}
	}
	return ""
}

// flag adds a character between % and the conversion.
func (s *spec) flag(c byte) {
	switch {
	case c == '#':
		s.alt = true
	case c == '-':
		s.minus = true
	case c == '+':
		s.plus = true
	case c == '.':
		s.prec = 0
	case c == '*' && s.prec >= 0:
		s.starPrec = true
	case c == '*':
		s.starWidth = true
	case s.prec >= 0:
		s.prec = min(s.prec*10+int(c-'0'), maxPad)
	case c == '0' && s.width == 0:
		s.zero = true
	default:
		s.width = min(s.width*10+int(c-'0'), maxPad)
	}
}

// done completes the conversion.
func (s *spec) done(conv byte, size int) {
	s.conv = conv
	s.bits = [...]uint8{8, 16, 32, 64, 64}[max(0, min(size+2, 4))]
	s.plain = !s.minus && !s.plus && !s.zero && !s.alt && s.width == 0 && s.prec < 0 && !s.starWidth && !s.starPrec
}

// pointerLen returns the number of characters after %p that libtraceevent parses as an
// extension. It prints other extensions of the kernel (%px, %pK, %pd, %pB) as %p and plain
// text.
func pointerLen(s string) int {
	at := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	switch at(0) {
	case 'F', 'f', 'S', 's':
		return 1
	case 'M', 'm':
		return 1 + oneOf(at(1), "RF")
	case 'U':
		return 1 + oneOf(at(1), "LlBb")
	case 'h':
		return 1 + oneOf(at(1), "CDN")
	case 'I', 'i':
	default:
		return 0
	}
	switch at(1) {
	case '4':
		return 2 + oneOf(at(2), "hnlb")
	case '6':
		return 2 + oneOf(at(2), "c")
	case 'S':
		n := 2
		for oneOf(at(n), "pfs") == 1 {
			n++
		}
		n += oneOf(at(n), "hnlb")
		return n + oneOf(at(n), "c")
	}
	return 1
}

// oneOf returns 1 if set contains c, and 0 otherwise.
func oneOf(c byte, set string) int {
	if c != 0 && strings.IndexByte(set, c) >= 0 {
		return 1
	}
	return 0
}

// fill returns the spec with the value of its *. A negative value counts as absent.
func (s spec) fill(star int32) spec {
	if s.starWidth && star > 0 {
		s.width = min(int(star), maxPad)
	}
	if s.starPrec {
		s.prec = max(-1, min(int(star), maxPad))
	}
	return s
}

// appendNumber formats like printf's %d, %u, %x, %X and %o.
func (s *spec) appendNumber(dst []byte, v uint64) []byte {
	shift := 64 - s.bits
	signed := s.conv == 'd' || s.conv == 'i'
	if signed {
		v = uint64(int64(v<<shift) >> shift)
	} else {
		v = v << shift >> shift
	}
	if s.plain {
		switch s.conv {
		case 'd', 'i':
			return strconv.AppendInt(dst, int64(v), 10)
		case 'u':
			return strconv.AppendUint(dst, v, 10)
		case 'x':
			return strconv.AppendUint(dst, v, 16)
		}
	}
	if s.conv == 'c' {
		return s.appendChar(dst, byte(v))
	}
	sign := ""
	switch {
	case signed && int64(v) < 0:
		sign, v = "-", -v
	case signed && s.plus:
		sign = "+"
	}
	var buf [24]byte
	digits := buf[:0]
	switch {
	case v == 0 && s.prec == 0:
	case s.conv == 'x' || s.conv == 'X':
		digits = strconv.AppendUint(digits, v, 16)
	case s.conv == 'o':
		digits = strconv.AppendUint(digits, v, 8)
	default:
		digits = strconv.AppendUint(digits, v, 10)
	}
	if s.conv == 'X' {
		upper(digits)
	}
	zeros := s.prec - len(digits)
	if s.alt {
		switch {
		case s.conv == 'x' && v != 0:
			sign = "0x"
		case s.conv == 'X' && v != 0:
			sign = "0X"
		case s.conv == 'o' && zeros <= 0 && (len(digits) == 0 || digits[0] != '0'):
			zeros = 1
		}
	}
	if s.zero && !s.minus && s.prec < 0 {
		zeros = max(zeros, s.width-len(sign)-len(digits))
	}
	pad := s.width - len(sign) - max(zeros, 0) - len(digits)
	if !s.minus {
		dst = appendRepeated(dst, ' ', pad)
	}
	dst = append(dst, sign...)
	dst = appendRepeated(dst, '0', zeros)
	dst = append(dst, digits...)
	if s.minus {
		dst = appendRepeated(dst, ' ', pad)
	}
	return dst
}

// appendChar formats like printf's %c, including a NUL.
func (s *spec) appendChar(dst []byte, c byte) []byte {
	if !s.minus {
		dst = appendRepeated(dst, ' ', s.width-1)
	}
	dst = append(dst, c)
	if s.minus {
		dst = appendRepeated(dst, ' ', s.width-1)
	}
	return dst
}

// appendString formats like printf's %s. Text ends at its first NUL.
func appendString[T string | []byte](s *spec, dst []byte, text T) []byte {
	n := len(text)
	if s.prec >= 0 {
		n = min(n, s.prec)
	}
	for i := range n {
		if text[i] == 0 {
			n = i
			break
		}
	}
	if !s.minus {
		dst = appendRepeated(dst, ' ', s.width-n)
	}
	dst = append(dst, text[:n]...)
	if s.minus {
		dst = appendRepeated(dst, ' ', s.width-n)
	}
	return dst
}

// upper converts hexadecimal digits to upper case.
func upper(digits []byte) {
	for i, c := range digits {
		if c >= 'a' {
			digits[i] = c - 0x20
		}
	}
}

func appendRepeated(dst []byte, c byte, n int) []byte {
	for range n {
		dst = append(dst, c)
	}
	return dst
}

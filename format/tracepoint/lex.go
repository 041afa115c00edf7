package tracepoint

import "strings"

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokError            // after an error: no more tokens
	tokItem             // a name or number
	tokString           // text between double quotes, with escapes
	tokChar             // text between single quotes
	tokDelim            // ( ) ,
	tokOp               // everything else
)

// next moves to the next token.
func (p *parser) next() {
	if p.err != nil {
		p.kind = tokError
		return
	}
	p.skipSpace()
	if p.pos == len(p.src) {
		p.kind, p.text = tokEnd, ""
		return
	}
	start := p.pos
	switch c := p.src[start]; {
	case isWord(c):
		for p.pos < len(p.src) && isWord(p.src[p.pos]) {
			p.pos++
		}
		p.kind = tokItem
	case c == '"':
		p.kind, p.text = tokString, p.strings()
		return
	case c == '\'':
		p.kind, p.text = tokChar, p.quoted('\'')
		return
	case c == '(' || c == ')' || c == ',':
		p.kind = tokDelim
		p.pos++
	default:
		p.kind = tokOp
		p.pos += operatorLen(p.src[start:])
	}
	p.text = p.src[start:p.pos]
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *parser) skipSpace() {
	for p.pos < len(p.src) && isSpace(p.src[p.pos]) {
		p.pos++
	}
}

// strings reads adjacent string literals as one.
func (p *parser) strings() string {
	first := p.quoted('"')
	if p.skipSpace(); p.peek() != '"' {
		return first
	}
	var b strings.Builder
	for b.WriteString(first); p.peek() == '"'; p.skipSpace() {
		b.WriteString(p.quoted('"'))
	}
	return b.String()
}

// quoted reads a literal. libtraceevent ends one at a control character (the
// maple_tree events have a tab in theirs) and trips over the rest.
func (p *parser) quoted(quote byte) string {
	p.pos++
	start := p.pos
	for ; p.pos < len(p.src); p.pos++ {
		c := p.src[p.pos]
		escaped := p.src[p.pos-1] == '\\' && p.pos > start
		if c == quote && !escaped {
			p.pos++
			return p.src[start : p.pos-1]
		}
		if !isPrint(c) && c != '\n' && !escaped {
			p.refuse("control character in a string")
		}
	}
	p.fail("no closing %c", quote)
	return ""
}

// operatorLen is the length of the operator that s begins with.
func operatorLen(s string) int {
	at := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	if s[0] == '-' && at(1) == '>' {
		return 2
	}
	n := 1
	switch s[0] {
	case '<', '>':
		if at(1) == s[0] {
			n = 2
		}
	case '-', '+', '|', '&':
		if at(1) == s[0] {
			return 2
		}
	case '!', '=':
	default:
		return 1
	}
	if at(n) == '=' {
		n++
	}
	return n
}

func isWord(c byte) bool {
	return c == '_' || c-'0' < 10 || (c|0x20)-'a' < 26
}

func isSpace(c byte) bool { return c == ' ' || c-'\t' < 5 }
func isPrint(c byte) bool { return c-' ' < 0x5f }

// leadingUint reads the number that s begins with as C's strtoull does with
// base 0: 0x and 0 prefixes, a sign, any rest ignored, too large ones all ones.
func leadingUint(s string) uint64 {
	v, neg := leadingDigits(s)
	if neg {
		return -v
	}
	return v
}

// leadingInt is the same for strtoll.
func leadingInt(s string) int64 {
	v, neg := leadingDigits(s)
	switch {
	case neg && v > 1<<63:
		return -1 << 63
	case neg:
		return -int64(v)
	case v > 1<<63-1:
		return 1<<63 - 1
	}
	return int64(v)
}

func leadingDigits(s string) (v uint64, neg bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	base := uint64(10)
	switch {
	case len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digit(s[2]) < 16:
		base, s = 16, s[2:]
	case s != "" && s[0] == '0':
		base = 8
	}
	for i := 0; i < len(s); i++ {
		d := digit(s[i])
		if d >= base {
			break
		}
		if v > (1<<64-1-d)/base {
			return 1<<64 - 1, false
		}
		v = v*base + d
	}
	return v, neg
}

func digit(c byte) uint64 {
	switch {
	case c-'0' < 10:
		return uint64(c - '0')
	case (c|0x20)-'a' < 26:
		return uint64((c|0x20)-'a') + 10
	}
	return 255
}

package tracepoint

import (
	"fmt"
	"strings"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokError            // the end after an error
	tokItem             // a name or number
	tokString           // text between double quotes, with escapes
	tokChar             // text between single quotes
	tokDelim            // ( ) ,
	tokOp               // everything else
)

// lexer splits the C of a print fmt into tokens. After an error there are no more tokens.
type lexer struct {
	src  string
	pos  int       // after the current token
	kind tokenKind // of the current token
	text string    // of the current token

	err     error
	refused string // the first construct that libtraceevent cannot read
}

// next moves to the next token.
func (l *lexer) next() {
	if l.err != nil {
		l.kind = tokError
		return
	}
	l.skipSpace()
	if l.pos == len(l.src) {
		l.kind, l.text = tokEnd, ""
		return
	}
	start := l.pos
	switch c := l.src[start]; {
	case isWord(c):
		for l.pos < len(l.src) && isWord(l.src[l.pos]) {
			l.pos++
		}
		l.kind = tokItem
	case c == '"':
		l.kind, l.text = tokString, l.strings()
		return
	case c == '\'':
		l.kind, l.text = tokChar, l.quoted('\'')
		return
	case c == '(' || c == ')' || c == ',':
		l.kind = tokDelim
		l.pos++
	default:
		l.kind = tokOp
		l.pos += operatorLen(l.src[start:])
	}
	l.text = l.src[start:l.pos]
}

func (l *lexer) peek() byte {
	if l.pos < len(l.src) {
		return l.src[l.pos]
	}
	return 0
}

func (l *lexer) skipSpace() {
	for l.pos < len(l.src) && isSpace(l.src[l.pos]) {
		l.pos++
	}
}

// strings reads adjacent string literals as one.
func (l *lexer) strings() string {
	first := l.quoted('"')
	if l.skipSpace(); l.peek() != '"' {
		return first
	}
	var b strings.Builder
	for b.WriteString(first); l.peek() == '"'; l.skipSpace() {
		b.WriteString(l.quoted('"'))
	}
	return b.String()
}

// quoted reads a literal. libtraceevent ends it at a control character and fails to read the rest: the maple_tree
// events have a tab in one.
func (l *lexer) quoted(quote byte) string {
	l.pos++
	start := l.pos
	for ; l.pos < len(l.src); l.pos++ {
		c := l.src[l.pos]
		escaped := l.src[l.pos-1] == '\\' && l.pos > start
		if c == quote && !escaped {
			l.pos++
			return l.src[start : l.pos-1]
		}
		if !isPrint(c) && c != '\n' && !escaped {
			l.refuse("control character in a string")
		}
	}
	l.fail("no closing %c", quote)
	return ""
}

// fail keeps the first error and ends the tokens.
func (l *lexer) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
	l.kind = tokError
}

// refuse keeps the first construct that gperf reads and libtraceevent does not.
func (l *lexer) refuse(what string) {
	if l.refused == "" {
		l.refused = what
	}
}

func (l *lexer) is(kind tokenKind, text string) bool { return l.kind == kind && l.text == text }

// expect fails if the current token is another.
func (l *lexer) expect(kind tokenKind, text string) bool {
	if !l.is(kind, text) {
		l.fail("expected %q at %q", text, l.rest())
		return false
	}
	return true
}

// rest returns the start of the remaining text, for messages.
func (l *lexer) rest() string {
	s := l.src[l.pos:]
	return l.text[:min(len(l.text), 24)] + s[:min(len(s), 24)]
}

// words joins the tokens from position start by single spaces, as long as more returns true for the current token.
func (l *lexer) words(start int, more func() bool) string {
	end := start
	for more() {
		end = l.pos
		l.next()
	}
	return strings.Join(strings.Fields(l.src[start:end]), " ")
}

// skipParens skips to the token after the parenthesis that closes the one before the current token.
func (l *lexer) skipParens() {
	for open := 1; ; l.next() {
		switch {
		case l.kind == tokError:
			return
		case l.kind == tokEnd:
			l.fail("no closing )")
			return
		case l.is(tokDelim, "("):
			open++
		case l.is(tokDelim, ")"):
			open--
		}
		if open == 0 {
			l.next()
			return
		}
	}
}

// closing skips a closing parenthesis.
func (l *lexer) closing() {
	if l.expect(tokDelim, ")") {
		l.next()
	}
}

// operatorLen returns the length of the operator at the start of s, in bytes.
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

// leadingUint reads the number at the start of s like C's strtoull with base 0: with 0x and 0 prefixes and a sign. It
// ignores the rest, and returns the largest number on overflow.
func leadingUint(s string) uint64 {
	v, neg := leadingDigits(s)
	if neg {
		return -v
	}
	return v
}

// leadingInt reads the number at the start of s like C's strtoll with base 0.
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

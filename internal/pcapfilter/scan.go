package pcapfilter

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokenEnd      tokenKind = iota
	tokenOperator           // text is the operator; && and || are the words "and" and "or"
	tokenWord               // a keyword or a name
	tokenName               // a word after a backslash: never a keyword
	tokenNumber
	tokenIPv4 // 2 to 4 numbers with dots
	tokenIPv6
	tokenMAC
)

type token struct {
	kind   tokenKind
	pos    int // in the expression, in bytes
	text   string
	number uint32 // value of a number; an IPv4 address, whose missing bytes are 0
	bits   int    // number of bits that an IPv4 address gives
	addr   []byte // bytes of an IPv6 or MAC address
}

var (
	operators = []string{"&&", "||", "!=", "<=", ">=", "==", "<<", ">>", "!", "(", ")", "[", "]", "<", ">", "=", ":",
		"+", "-", "&", "|", "/", "*", "%", "^"}
	wordAt  = regexp.MustCompile(`^[A-Za-z0-9](?:[-_.A-Za-z0-9]*[.A-Za-z0-9])?`)
	nameAt  = regexp.MustCompile(`^\\[^ !()\n\t]+`)
	colonAt = regexp.MustCompile(`^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*`)
	number  = regexp.MustCompile(`^(?:[0-9]+|0[xX][0-9A-Fa-f]+)$`)
	ipv4    = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+){1,3}$`)
	macPair = regexp.MustCompile(`^[0-9A-Fa-f]{1,2}(?:` +
		`(?::[0-9A-Fa-f]{1,2}){5}|(?:-[0-9A-Fa-f]{1,2}){5}|(?:\.[0-9A-Fa-f]{1,2}){5})$`)
	macWord = regexp.MustCompile(`^[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}$|^[0-9A-Fa-f]{12}$`)
)

// scan splits an expression into tokens; the last one is the end.
func scan(expr string) ([]token, error) {
	var tokens []token
	for pos := 0; ; {
		for pos < len(expr) && strings.IndexByte(" \t\r\n", expr[pos]) >= 0 {
			pos++
		}
		if pos == len(expr) {
			return append(tokens, token{kind: tokenEnd, pos: pos}), nil
		}
		t, err := scanToken(expr, pos)
		if err != nil {
			return nil, err
		}
		pos += len(t.text)
		switch t.text {
		case "&&", "||":
			t = token{kind: tokenWord, pos: t.pos, text: map[string]string{"&&": "and", "||": "or"}[t.text]}
		}
		tokens = append(tokens, t)
	}
}

func scanToken(expr string, pos int) (token, error) {
	rest := expr[pos:]
	if t, ok := colonAddress(colonAt.FindString(rest)); ok {
		t.pos = pos
		return t, nil
	}
	if word := wordAt.FindString(rest); word != "" {
		t, msg := classify(word)
		t.pos, t.text = pos, word
		if msg != "" {
			return t, &Error{Expr: expr, Pos: pos, Msg: msg}
		}
		return t, nil
	}
	if name := nameAt.FindString(rest); name != "" {
		return token{kind: tokenName, pos: pos, text: name}, nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			return token{kind: tokenOperator, pos: pos, text: op}, nil
		}
	}
	for _, r := range rest {
		return token{}, &Error{Expr: expr, Pos: pos, Msg: fmt.Sprintf("unknown character %q", r)}
	}
	return token{}, nil
}

// colonAddress parses a MAC or IPv6 address. Other text with colons is possible:
// "ip[0:1]".
func colonAddress(s string) (token, bool) {
	if macPair.MatchString(s) {
		return token{kind: tokenMAC, text: s, addr: macBytes(s)}, true
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		b := a.As16()
		return token{kind: tokenIPv6, text: s, addr: b[:]}, true
	}
	return token{}, false
}

// classify returns the token of a word, or the reason that it is wrong.
func classify(word string) (t token, msg string) {
	switch {
	case macPair.MatchString(word) || macWord.MatchString(word):
		return token{kind: tokenMAC, addr: macBytes(word)}, ""
	case number.MatchString(word):
		n, err := strconv.ParseUint(word, 0, 32) // 0x: hexadecimal, 0: octal
		if err != nil {
			return t, fmt.Sprintf("number %s is not in the range 0 to 0xffffffff", word)
		}
		return token{kind: tokenNumber, number: uint32(n)}, ""
	case ipv4.MatchString(word):
		parts := strings.Split(word, ".")
		var b [4]byte
		for i, part := range parts {
			n, err := strconv.ParseUint(part, 10, 8)
			if err != nil {
				return t, fmt.Sprintf("%s is not an IPv4 address", word)
			}
			b[i] = byte(n)
		}
		return token{kind: tokenIPv4, number: binary.BigEndian.Uint32(b[:]), bits: 8 * len(parts)}, ""
	}
	return token{kind: tokenWord}, ""
}

// macBytes returns the 6 bytes of a MAC address that the patterns accept.
func macBytes(s string) []byte {
	parts := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(":-.", r) })
	if len(parts) != 6 {
		s = strings.Join(parts, "")
		parts = parts[:0]
		for i := 0; i < len(s); i += 2 {
			parts = append(parts, s[i:i+2])
		}
	}
	var b []byte
	for _, part := range parts {
		n, _ := strconv.ParseUint(part, 16, 8)
		b = append(b, byte(n))
	}
	return b
}

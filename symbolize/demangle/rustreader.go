package demangle

import (
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// rustReader reads the tokens of a v0 name. After a failure every method reads nothing.
type rustReader struct {
	s      string
	pos    int
	failed bool
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (r *rustReader) fail() { r.failed = true }

// peek returns the next byte, 0 at the end and after a failure.
func (r *rustReader) peek() byte {
	if r.failed || r.pos >= len(r.s) {
		return 0
	}
	return r.s[r.pos]
}

func (r *rustReader) next() byte {
	c := r.peek()
	if c == 0 {
		r.fail()
	}
	r.pos++
	return c
}

func (r *rustReader) eat(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.pos++
	return true
}

// base62 reads a number in base 62 up to "_". "_" is 0, "0_" is 1.
func (r *rustReader) base62() uint64 {
	if r.eat('_') {
		return 0
	}
	var x uint64
	for !r.eat('_') {
		var digit uint64
		switch c := r.next(); {
		case isDigit(c):
			digit = uint64(c - '0')
		case isLower(c):
			digit = uint64(c-'a') + 10
		case isUpper(c):
			digit = uint64(c-'A') + 36
		default:
			r.fail()
		}
		hi, lo := bits.Mul64(x, 62)
		if r.failed || hi != 0 || lo > math.MaxUint64-digit-1 {
			r.fail()
			return 0
		}
		x = lo + digit
	}
	return x + 1
}

// tagged62 reads an optional number after a tag. It returns 0 if the tag is absent.
func (r *rustReader) tagged62(tag byte) uint64 {
	if !r.eat(tag) {
		return 0
	}
	return r.base62() + 1
}

// ident reads an identifier, which may be empty.
func (r *rustReader) ident() string {
	puny := r.eat('u')
	if !isDigit(r.peek()) {
		r.fail()
		return ""
	}
	n := 0
	if !r.eat('0') {
		for isDigit(r.peek()) && n < len(r.s) {
			n = n*10 + int(r.next()-'0')
		}
	}
	r.eat('_')
	if r.failed || n > len(r.s)-r.pos {
		r.fail()
		return ""
	}
	s := r.s[r.pos : r.pos+n]
	r.pos += n
	if !puny {
		return s
	}
	ascii, encoded := "", s
	if i := strings.LastIndexByte(s, '_'); i >= 0 {
		ascii, encoded = s[:i], s[i+1:]
	}
	if encoded == "" {
		r.fail()
		return ""
	}
	if decoded, ok := decodePunycode(ascii, encoded); ok {
		return decoded
	}
	if ascii != "" {
		ascii += "-"
	}
	return "punycode{" + ascii + encoded + "}"
}

// nibbles reads hexadecimal digits up to "_".
func (r *rustReader) nibbles() string {
	rest := r.s[min(r.pos, len(r.s)):]
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789abcdef"))]
	r.pos += len(digits)
	if !r.eat('_') {
		r.fail()
	}
	return digits
}

// maxPunycode limits an encoded identifier, in characters.
const maxPunycode = 128

// decodePunycode decodes an identifier of RFC 3492 from its ASCII characters and the encoded positions of the others.
func decodePunycode(ascii, encoded string) (string, bool) {
	const base, tMin, tMax, skew = 36, 1, 26, 38
	runes := []rune(ascii)
	damp, bias, n, at := uint64(700), uint64(72), uint64(0x80), uint64(0)
	for encoded != "" {
		var delta uint64
		for k, w := uint64(base), uint64(1); ; k += base {
			if encoded == "" {
				return "", false
			}
			var digit uint64
			switch c := encoded[0]; {
			case isLower(c):
				digit = uint64(c - 'a')
			case isDigit(c):
				digit = uint64(c-'0') + 26
			default:
				return "", false
			}
			encoded = encoded[1:]
			delta += digit * w
			t := uint64(tMin)
			if k > bias {
				t = min(max(k-bias, tMin), tMax)
			}
			if digit < t {
				break
			}
			if w *= base - t; delta > math.MaxUint32 || w > math.MaxUint32 {
				return "", false
			}
		}
		count := uint64(len(runes)) + 1
		at += delta
		n += at / count
		at %= count
		if count > maxPunycode || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			return "", false
		}
		runes = append(runes, 0)
		copy(runes[at+1:], runes[at:])
		runes[at] = rune(n)
		at++

		delta /= damp
		damp = 2
		delta += delta / count
		k := uint64(0)
		for ; delta > (base-tMin)*tMax/2; k += base {
			delta /= base - tMin
		}
		bias = k + (base-tMin+1)*delta/(delta+skew)
	}
	return string(runes), true
}

package args

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// SpecError means that a probe is specified wrongly.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("probe %q: %s", e.Spec, e.Msg) }

// WrongUse reports that the command line caused the error.
func (e *SpecError) WrongUse() bool { return true }

// walk calls f with each character of s that is neither quoted nor in brackets, until f
// returns false.
func walk(s string, f func(i int, c rune) bool) {
	depth, quoted := 0, false
	for i, c := range s {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("(<[", c):
			depth++
		case strings.ContainsRune(")>]", c):
			depth = max(0, depth-1)
		case depth == 0 && !f(i, c):
			return
		}
	}
}

// Words splits s at spaces, except at spaces in quotes or brackets.
func Words(s string) (l []string) {
	start := 0
	take := func(end int) {
		if end > start {
			l = append(l, s[start:end])
		}
	}
	walk(s, func(i int, c rune) bool {
		if unicode.IsSpace(c) {
			take(i)
			start = i + 1
		}
		return true
	})
	take(len(s))
	return l
}

// LastIndex returns the position of the last sep in s outside of quotes and brackets, -1 if
// there is none.
func LastIndex(s string, sep rune) int {
	last := -1
	walk(s, func(i int, c rune) bool {
		if c == sep {
			last = i
		}
		return true
	})
	return last
}

// Index returns the position of the first sep in s outside of quotes and brackets, -1 if there
// is none.
func Index(s string, sep rune) int {
	first := -1
	walk(s, func(i int, c rune) bool {
		if c == sep {
			first = i
		}
		return first < 0
	})
	return first
}

// IsWord reports whether names of events and arguments can contain c.
func IsWord(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Word returns the beginning of s, up to a character that names cannot contain.
func Word(s string) string {
	if end := strings.IndexFunc(s, func(c rune) bool { return !IsWord(c) }); end >= 0 {
		s = s[:end]
	}
	return s
}

var nameWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsName reports whether s is a name in C and in the kernel's definitions of probes.
func IsName(s string) bool { return nameWord.MatchString(s) }

// copied matches the symbols that GCC and LLVM make for copies and parts of functions. Nothing calls the cold part of a
// function.
var copied = regexp.MustCompile(`^(.+?)(?:\.(?:isra|constprop|part|specialized|llvm)\.\d+)+$`)

// CopyOf returns the symbol of the function that the compiler copied or split; ok is false for other symbols.
func CopyOf(symbol string) (original string, ok bool) {
	if !strings.Contains(symbol, ".") {
		return "", false // most symbols
	}
	m := copied.FindStringSubmatch(symbol)
	if m == nil {
		return "", false
	}
	return m[1], true
}

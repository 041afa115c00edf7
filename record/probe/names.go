package probe

import "strings"

// maxEvent is the longest name that is made: the kernel's limit is 63
// (MAX_EVENT_NAME_LEN), and those of one name get numbers.
const maxEvent = 56

const returnSuffix = "__return"

// eventName is perf's name for a probe of a function.
func eventName(function string, k Kind) string { return withSuffix(word(function), k) }

// withSuffix makes an event's name of a function's.
func withSuffix(name string, k Kind) string {
	suffix := ""
	if k.Return() {
		suffix = returnSuffix
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), maxEvent-len(suffix))] + suffix
}

// sourceEventName is the name for a probe of a function that is called as no C
// function is: "github.com/x/pkg.(*T).Method", "ns::Class::method(int)". As in
// perf 7, what a name of an event cannot have becomes one "_"; where the package
// lies is left away.
func sourceEventName(function string) string {
	name := withoutParameters(function)
	path := name // types, in brackets, have paths of their own
	if i := strings.IndexAny(path, "[<("); i >= 0 {
		path = path[:i]
	}
	return clean(name[strings.LastIndexByte(path, '/')+1:])
}

func isWord(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word is what s begins with, up to what cannot be in an event's name.
func word(s string) string {
	if end := strings.IndexFunc(s, func(c rune) bool { return !isWord(c) }); end >= 0 {
		s = s[:end]
	}
	return s
}

// clean puts one _ wherever s has what cannot be in an event's name.
func clean(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return !isWord(c) }), "_")
}

// withoutParameters cuts what a demangled name of C++ has besides the
// function's: its parameters, what stands behind them, and, as templates have it,
// the type of what it returns.
func withoutParameters(s string) string {
	for _, suffix := range [...]string{" const", " volatile", " &", " &&"} {
		s = strings.TrimSuffix(s, suffix)
	}
	open := opening(s)
	if open <= 0 || s[open-1] == '.' || strings.HasSuffix(s[:open], "::") {
		return s // pkg.(*T), ns::(anonymous namespace)
	}
	s = s[:open]
	if i := cut(s, ' '); i >= 0 && !strings.Contains(s, "operator") {
		s = s[i+1:]
	}
	return s
}

// opening returns where the bracket is opened that s ends with, -1 if it ends
// with none.
func opening(s string) int {
	if !strings.HasSuffix(s, ")") {
		return -1
	}
	depth := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

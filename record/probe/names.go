package probe

import "strings"

// maxEvent is the maximum length of generated names: the kernel's limit is 63
// (MAX_EVENT_NAME_LEN), and equal names get numbers.
const maxEvent = 56

const returnSuffix = "__return"

// eventName returns perf's name for a probe of a function.
func eventName(function string, k Kind) string { return withSuffix(word(function), k) }

// withSuffix derives an event's name from a function's.
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

// sourceEventName returns the event name of a function whose name is not a C name:
// "github.com/x/pkg.(*T).Method", "ns::Class::method(int)". As in perf 7, characters that
// event names cannot contain become one "_"; the package's path is dropped.
func sourceEventName(function string) string {
	name := withoutParameters(function)
	path := name // types, in brackets, have their own paths
	if i := strings.IndexAny(path, "[<("); i >= 0 {
		path = path[:i]
	}
	return clean(name[strings.LastIndexByte(path, '/')+1:])
}

func isWord(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word returns the beginning of s, up to a character that event names cannot contain.
func word(s string) string {
	if end := strings.IndexFunc(s, func(c rune) bool { return !isWord(c) }); end >= 0 {
		s = s[:end]
	}
	return s
}

// clean replaces characters that event names cannot contain by one _.
func clean(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return !isWord(c) }), "_")
}

// withoutParameters removes everything except the function's name from a demangled C++ name:
// its parameters, the text after them, and, in templates, the return type.
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

// opening returns the position of the bracket that matches the closing one at the end of s,
// -1 if there is none.
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

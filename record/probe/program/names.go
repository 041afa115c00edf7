package program

import (
	"strings"

	"gperf/record/probe/args"
)

// WithoutParameters removes everything except the function's name from a demangled C++ name: the parameters, the
// text after them, and, in templates, the return type.
func WithoutParameters(s string) string {
	for _, suffix := range [...]string{" const", " volatile", " &", " &&"} {
		s = strings.TrimSuffix(s, suffix)
	}
	open := opening(s)
	if open <= 0 || s[open-1] == '.' || strings.HasSuffix(s[:open], "::") {
		return s // pkg.(*T), ns::(anonymous namespace)
	}
	s = s[:open]
	if i := args.LastIndex(s, ' '); i >= 0 && !strings.Contains(s, "operator") {
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

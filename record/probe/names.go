package probe

import "strings"

// eventName is perf's name for a probe of a function.
func eventName(function string, k Kind) string {
	if k.Return() {
		return word(function) + "__return"
	}
	return word(function)
}

// word is what s begins with, up to what cannot be in an event's name.
func word(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	if end >= 0 {
		s = s[:end]
	}
	return s
}

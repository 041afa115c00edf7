package runtimes

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var errString = errors.New("not a string")

// decode returns the text of characters of 1, 2 or 4 bytes.
func decode(b []byte, width int) string {
	text := make([]byte, 0, len(b))
	for ; len(b) >= width; b = b[width:] {
		r := rune(b[0])
		switch width {
		case 2:
			r = rune(le.Uint16(b))
		case 4:
			r = rune(le.Uint32(b))
		}
		if utf16.IsSurrogate(r) || r < 0 {
			r = utf8.RuneError
		}
		text = utf8.AppendRune(text, r)
	}
	return string(text)
}

// shown returns a name without control characters, which could be commands for a terminal, and of limited length.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
	if len(name) <= maxName {
		return name
	}
	end := maxName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

package pcapfilter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gperf/internal/suggest"
)

// Error is a mistake in an expression.
type Error struct {
	Expr string
	Pos  int // offset of the offending word in Expr, in bytes
	Msg  string
	Near []string // similar words, best first
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s (at %d)", e.Msg, 1+e.column())
	return s + suggest.DidYouMean(e.Near)
}

// WrongUse reports that the command line caused the error.
func (e *Error) WrongUse() bool { return true }

// Caret returns the expression, and a second line with a caret below the offending word.
// Control characters become spaces.
func (e *Error) Caret() string {
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, e.Expr)
	return line + "\n" + strings.Repeat(" ", e.column()) + "^"
}

// column returns the position in characters.
func (e *Error) column() int { return utf8.RuneCountInString(e.Expr[:min(e.Pos, len(e.Expr))]) }

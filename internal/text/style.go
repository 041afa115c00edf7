// Package text lays text out on a terminal: it has perf's colours of percentages, crops names, lists and columns to
// the width of a window, and appends numbers and blanks to columns.
package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Style is how text is written. The zero value is plain text with lines of any length.
type Style struct {
	Color bool
	Width int // of the window in columns, to which names are cropped; 0: they are whole
}

// Colors are control sequences of ECMA-48, those that perf uses.
const (
	Red     = "\x1b[31m"
	Green   = "\x1b[32m"
	Blue    = "\x1b[34m"
	Magenta = "\x1b[35m"
	Reset   = "\x1b[m"
)

// Colors lists all control sequences that a Look writes.
var Colors = []string{Red, Green, Blue, Magenta, Reset}

// ofPercent returns perf's colour of a percentage, "" for none.
func ofPercent(percent float64) string {
	switch percent = max(percent, -percent); {
	case percent >= 5:
		return Red
	case percent > 0.5:
		return Green
	}
	return ""
}

// Percent colours b from start on as the text of a percentage.
func (l Style) Percent(b []byte, start int, percent float64) []byte {
	return l.Paint(b, start, ofPercent(percent))
}

// Paint colours b from start on.
func (l Style) Paint(b []byte, start int, color string) []byte {
	if !l.Color || color == "" {
		return b
	}
	return append(slices.Insert(b, start, []byte(color)...), Reset...)
}

// Columns returns the number of columns of a text, without colours. Each character takes one column.
func (l Style) Columns(b []byte) int {
	n := utf8.RuneCount(b)
	if l.Color {
		for _, color := range Colors {
			n -= len(color) * bytes.Count(b, []byte(color))
		}
	}
	return n
}

// Crop crops b from start on, in the middle, if the line that b ends with is wider than the window.
func (l Style) Crop(b []byte, start int) []byte {
	if l.Width == 0 || len(b)-start < minName {
		return b
	}
	line := bytes.LastIndexByte(b[:start], '\n') + 1
	if len(b)-line <= l.Width {
		return b
	}
	return append(b[:start], Function(string(b[start:]), max(l.Width-l.Columns(b[line:start]), minName))...)
}

// minName is the minimum number of columns of a cropped name.
const minName = 16

// Middle crops a text to width columns. It keeps the beginning and the end, which distinguish functions of C++.
func Middle(s string, width int) string {
	if len(s) <= width {
		return s
	}
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width < 3 {
		return string(r[:max(width, 0)])
	}
	tail := (width - 1) / 2
	return string(r[:width-1-tail]) + "…" + string(r[len(r)-tail:])
}

// Function crops the name of a function to width columns. It replaces the innermost arguments of templates and
// functions first, so that the names around them stay: Walker<…>::go(std::map<…>&, int).
func Function(s string, width int) string {
	if len(s) <= width {
		return s
	}
	for depth := deepest(s); depth > 0; depth-- {
		if short := flatten(s, depth-1); utf8.RuneCountInString(short) <= width || depth == 1 {
			return Middle(short, width)
		}
	}
	return Middle(s, width)
}

// brackets calls visit for each byte of a name, with the number of brackets around it. Characters of operators do
// not count as brackets.
func brackets(s string, visit func(i, depth int)) {
	depth, operator := 0, 0 // operator is where the name of an operator ends
	for i := range len(s) {
		if strings.HasSuffix(s[:i], "operator") {
			operator = i + operatorLen(s[i:])
		}
		switch c := s[i]; {
		case i < operator, c == '>' && i > 0 && s[i-1] == '-':
			visit(i, depth)
		case c == '<' || c == '(':
			visit(i, depth)
			depth++
		case (c == '>' || c == ')') && depth > 0:
			depth--
			visit(i, depth)
		default:
			visit(i, depth)
		}
	}
}

// operatorLen returns the length of the operator that follows the word operator.
func operatorLen(s string) int {
	if strings.HasPrefix(s, "()") {
		return 2
	}
	return len(s) - len(strings.TrimLeft(s, "<>=-"))
}

// deepest returns the largest number of brackets around a part of a name.
func deepest(s string) (n int) {
	brackets(s, func(_, depth int) { n = max(n, depth) })
	return n
}

// flatten replaces the text inside more than depth brackets.
func flatten(s string, depth int) string {
	b, replaced := make([]byte, 0, len(s)), false
	brackets(s, func(i, at int) {
		switch {
		case at <= depth:
			b, replaced = append(b, s[i]), false
		case !replaced:
			b, replaced = append(b, "…"...), true
		}
	})
	return string(b)
}

// Fit reduces the widths of columns until the sum is at most room, the widest first. Each column stays at least as
// wide as its minimum; a minimum of -1 keeps the column as it is.
func Fit(widths, minimums []int, room int) {
	excess := -room
	for _, w := range widths {
		excess += w
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, w := range widths {
			if minimums[i] >= 0 && w > minimums[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// JoinFirst joins the first n elements of a list and counts the rest.
func JoinFirst(l []string, n int) string {
	if len(l) <= n {
		return strings.Join(l, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(l[:n], ", "), len(l)-n)
}

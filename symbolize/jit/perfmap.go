package jit

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Functions yields the functions of a perf map's text: lines of "address size name", both numbers in hexadecimal
// (Documentation/jit-interface.txt of perf). It accepts the same lines as perf (dso__load_perf_map in
// tools/perf/util/symbol.c): it skips names of one or two letters, and reads an invalid number as 0.
func Functions(text string) iter.Seq[Function] {
	return func(yield func(Function) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			if fn, ok := parsePerfMapLine(line); ok && !yield(fn) {
				return
			}
		}
	}
}

func parsePerfMapLine(line string) (fn Function, ok bool) {
	start, rest, ok := cutHex(line)
	if !ok {
		return fn, false
	}
	size, name, ok := cutHex(rest)
	if !ok {
		return fn, false
	}
	end := start + size
	if end < start {
		end = math.MaxUint64
	}
	return Function{start, end, name}, true
}

// cutHex cuts a hexadecimal number, which may be empty, and the character after it
// off s. ok is false unless more than two characters are left.
func cutHex(s string) (n uint64, rest string, ok bool) {
	digits := strings.TrimPrefix(s, "0x")
	rest = strings.TrimLeft(digits, "0123456789abcdefABCDEF")
	n, err := strconv.ParseUint(digits[:len(digits)-len(rest)], 16, 64)
	if errors.Is(err, strconv.ErrRange) {
		n = math.MaxUint64
	}
	if len(rest) <= 3 {
		return 0, "", false
	}
	return n, rest[1:], true
}

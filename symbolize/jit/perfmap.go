package jit

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// PerfMapPattern is the name of the file in which a process may list its generated functions; %d is its PID. It is
// also the name of the DSO that this code belongs to.
const PerfMapPattern = "/tmp/perf-%d.map"

// PerfMap returns the name of the perf map of process pid.
func PerfMap(pid int32) string { return fmt.Sprintf(PerfMapPattern, pid) }

// PerfMapPID is the inverse of PerfMap.
func PerfMapPID(name string) (pid int32, ok bool) {
	number, ok := strings.CutPrefix(name, "/tmp/perf-")
	if !ok {
		return 0, false
	}
	number, ok = strings.CutSuffix(number, ".map")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil
}

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

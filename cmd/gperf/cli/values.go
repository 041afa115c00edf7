// This file parses values of flags. The errors are UsageErrors.

package cli

import (
	"strconv"
	"strings"
)

// PercentLimit parses the value of --percent-limit; "" is 0.
func PercentLimit(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || limit < 0 {
		return 0, WrongUse("--percent-limit %s: invalid percentage", text)
	}
	return limit, nil
}

// TimeQuantum parses a time, which it returns in ns; the default unit is ns.
func TimeQuantum(s string) (uint64, error) {
	digits := strings.TrimRight(s, "nums")
	unit := map[string]uint64{"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n*unit == 0 {
		return 0, WrongUse("--time-quantum %s: use a number above 0 with ns, us, ms or s", s)
	}
	return n * unit, nil
}

// ColumnWidths parses a list of widths.
func ColumnWidths(list string) (widths []int, err error) {
	for _, word := range Words(list) {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return nil, WrongUse("--column-widths %s: %q is not a width", list, word)
		}
		widths = append(widths, int(n))
	}
	return widths, nil
}

// Numbers parses a list of IDs.
func Numbers(flag, list string) ([]int32, error) {
	var ids []int32
	for _, word := range Words(list) {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, WrongUse("%s %s: %q is not an ID", flag, list, word)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// Words splits a comma-separated list; it returns nil for an empty one.
func Words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

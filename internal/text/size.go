package text

import (
	"fmt"
	"strconv"
)

// Sizes are the units of sizes, in bytes.
var Sizes = map[byte]int64{'B': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}

// ParseSize parses a number of bytes in B, K, M or G.
func ParseSize(s string) (int64, error) {
	n, unit := Quantity(s)
	if n == 0 || Sizes[unit] == 0 {
		return 0, fmt.Errorf("%q is not a size in B, K, M, G", s)
	}
	return n * Sizes[unit], nil
}

// Quantity splits a number from its unit. It returns 0 if there is no number.
func Quantity(s string) (n int64, unit byte) {
	if s == "" {
		return 0, 0
	}
	u, err := strconv.ParseUint(s[:len(s)-1], 10, 31)
	if err != nil {
		return 0, 0
	}
	return int64(u), s[len(s)-1]
}

//go:build !linux

package procfs

import (
	"math"
	"os"
)

func readFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

// spaceLeft returns how many bytes of address space this process may still take: here it is unknown.
func spaceLeft(string) uint64 { return math.MaxUint64 }

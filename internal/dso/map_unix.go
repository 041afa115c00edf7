//go:build unix

package dso

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps a file for reading, or returns nil.
func mmap(f *os.File, size uint64) []byte {
	if size > math.MaxInt {
		return nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func munmap(b []byte) { unix.Munmap(b) } // cannot fail for a slice that Mmap returned

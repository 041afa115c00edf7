package procmem

import (
	"os"
	"testing"
	"unsafe"
)

func TestReadEach(t *testing.T) {
	a, b, c := []byte{1, 2}, []byte{3}, make([]byte, 3)
	at := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
	parts := [][]byte{make([]byte, 2), make([]byte, 1), make([]byte, 1)}
	self := Reader(os.Getpid())
	if n := self.ReadEach(parts, []uint64{at(a), at(b), at(c)}); n != 3 || parts[0][1] != 2 || parts[1][0] != 3 {
		t.Errorf("%d parts: %v", n, parts)
	}
	if n := self.ReadEach(parts, []uint64{at(a), 8, at(c)}); n != 1 {
		t.Errorf("%d parts before one that is not mapped", n)
	}
}

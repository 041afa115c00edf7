package inputs

import "io"

// Memory is the memory of a made-up process: parts by address.
type Memory map[uint64][]byte

// ReadAt implements io.ReaderAt. It reads from one part.
func (m Memory) ReadAt(b []byte, addr int64) (int, error) {
	for at, part := range m {
		if off := uint64(addr) - at; off < uint64(len(part)) && uint64(len(b)) <= uint64(len(part))-off {
			return copy(b, part[off:]), nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

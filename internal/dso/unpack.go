package dso

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits for a compressed section: debug information compresses by a factor of 3 to 20. A section of zeros compresses
// by 1,000, and each of a file's sections may be one.
const (
	maxSmall      = 32 << 20 // bytes, for which any factor up to maxSmallRatio will do
	maxSmallRatio = 256
	maxRatio      = 32 // of larger ones
)

// ErrUnpacked means that a compressed section claims a larger size than the packed bytes can contain.
var ErrUnpacked = errors.New("implausible size")

// zlibHeader is the length of the header of a .zdebug section: "ZLIB", and the size in big-endian order.
const zlibHeader = 12

// Unpack returns the decompressed contents of a section whose bytes in the file are b.
func Unpack(s *elf.Section, b []byte) ([]byte, error) {
	size, packed := unpackedSize(s)
	if packed == 0 {
		return b, nil
	}
	if err := checkUnpacked(size, packed); err != nil {
		return nil, err
	}
	r := io.Reader(s.Open())
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		var err error
		if r, err = zlib.NewReader(bytes.NewReader(b[min(len(b), zlibHeader):])); err != nil {
			return nil, err
		}
	}
	var buffer bytes.Buffer
	buffer.Grow(int(min(size, maxSmall+4*packed)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(r, int64(size))); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// unpackedSize returns the size that a compressed section claims, and its size in the file: 0 if it is not
// compressed.
func unpackedSize(s *elf.Section) (size, packed uint64) {
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return s.Size, s.FileSize
	}
	var head [zlibHeader]byte
	if !strings.HasPrefix(s.Name, ".zdebug_") {
		return 0, 0
	}
	if n, _ := s.ReadAt(head[:], 0); n < zlibHeader || string(head[:4]) != "ZLIB" {
		return 0, 0
	}
	return binary.BigEndian.Uint64(head[4:]), s.FileSize
}

func checkUnpacked(size, packed uint64) error {
	if size/maxSmallRatio > packed || size > maxSmall && size/maxRatio > packed {
		return fmt.Errorf("%d compressed bytes as %d bytes: %w", packed, size, ErrUnpacked)
	}
	return nil
}

package dso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
)

// miniDebugSection contains an xz-compressed ELF file whose .symtab names the functions that .dynsym lacks. Fedora and
// others keep it in stripped programs (gdb's manual, "Debugging information in a special section").
const miniDebugSection = ".gnu_debugdata"

// maxMini limits the section, compressed and decompressed, in bytes; real ones take a few MB.
const maxMini = 64 << 20

// MiniDebug returns the file in .gnu_debugdata, or nil if the section is missing or corrupt.
func (im *Image) MiniDebug() *Image {
	s := im.Section(miniDebugSection)
	if s == nil || s.FileSize > maxMini {
		return nil
	}
	b, err := im.Data(s)
	if err != nil {
		return nil
	}
	if b, err = unpackXZ(b); err != nil {
		return nil
	}
	mini, err := NewImage(bytes.NewReader(b), int64(len(b)), im.Path)
	if err != nil {
		return nil
	}
	return mini
}

var errXZ = errors.New("unsupported xz stream")

// unpackXZ decompresses an xz stream. Package xz allocates as much memory as the stream requests, so unpackXZ checks
// that first.
func unpackXZ(b []byte) ([]byte, error) {
	size, err := xzSize(b)
	if err != nil {
		return nil, err
	}
	r, err := xz.ReaderConfig{SingleStream: true}.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", miniDebugSection, err)
	}
	return out, nil
}

// xzSize returns the decompressed size of an xz stream in bytes. It reads the chunk headers of the stream's blocks,
// and rejects chunks that request more than maxMini (the .xz file format, 3.1; LZMA2's chunks).
func xzSize(b []byte) (size uint64, err error) {
	const streamHeader = 12
	for off := streamHeader; ; {
		if off >= len(b) {
			return 0, errXZ
		}
		if b[off] == 0 { // the index, which follows the last block
			return size, nil
		}
		header := 4 * (int(b[off]) + 1)
		if off+header > len(b) || !smallDict(b[off+1:off+header]) {
			return 0, errXZ
		}
		packed, unpacked, ok := chunks(b[off+header:])
		if size += unpacked; !ok || size > maxMini {
			return 0, errXZ
		}
		check := [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[b[7]&15]
		off += header + (packed+3)&^3 + check
	}
}

// smallDict reports whether a block's only filter is LZMA2 with a dictionary of
// acceptable size.
func smallDict(h []byte) bool {
	flags := h[0]
	h = h[1:]
	for _, sized := range [...]byte{0x40, 0x80} { // sizes that may precede the filter
		if flags&sized != 0 {
			_, n := binary.Uvarint(h)
			if n <= 0 {
				return false
			}
			h = h[n:]
		}
	}
	const lzma2 = 0x21
	// The last byte is twice the logarithm of the size, less 24: 28 means 64 MB.
	return flags&3 == 0 && len(h) >= 3 && h[0] == lzma2 && h[1] == 1 && h[2] <= 28
}

// chunks returns the size of the LZMA2 chunks at the start of b, and the decompressed size, in bytes.
func chunks(b []byte) (packed int, unpacked uint64, ok bool) {
	for packed < len(b) {
		c := b[packed:]
		switch {
		case c[0] == 0:
			return packed + 1, unpacked, true
		case c[0] < 0x80 && len(c) >= 3: // not compressed
			n := int(binary.BigEndian.Uint16(c[1:])) + 1
			packed += 3 + n
			unpacked += uint64(n)
		case c[0] >= 0x80 && len(c) >= 5:
			packed += 5 + int(binary.BigEndian.Uint16(c[3:])) + 1
			if c[0] >= 0xc0 { // properties
				packed++
			}
			unpacked += uint64(c[0]&0x1f)<<16 + uint64(binary.BigEndian.Uint16(c[1:])) + 1
		default:
			return 0, 0, false
		}
	}
	return 0, 0, false
}

package unwind

import (
	"debug/elf"
	"errors"
	"fmt"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// Errors of a DSO without CFI; test for them with errors.Is.
var (
	ErrNoCFI   = errors.New("no call frame information")
	errMachine = errors.New("unsupported machine")
)

// maxSection limits a section, in bytes. It is ten times the largest known .eh_frame.
const maxSection = 1 << 30

// section is .eh_frame or .debug_frame, little-endian like x86-64 and arm64.
type section struct {
	b    []byte
	addr uint64 // its vaddr, to which encoded pointers are relative
	eh   bool
	text uint64 // base of DW_EH_PE_textrel pointers
}

// sections returns the sections of im with call frame information, .eh_frame first.
func sections(im *dso.Image) ([]section, error) {
	var (
		secs []section
		text uint64
		errs []error
	)
	if s := im.Section(".text"); s != nil {
		text = s.Addr
	}
	if s := im.Section(".eh_frame"); s != nil && s.Type != elf.SHT_NOBITS {
		b, err := im.Data(s)
		errs = append(errs, err)
		secs = append(secs, section{b: b, addr: s.Addr, eh: true, text: text})
	} else if s == nil {
		if sec, ok := ehFrameBySegment(im); ok {
			secs = append(secs, sec)
		}
	}
	for _, name := range []string{".debug_frame", ".zdebug_frame"} {
		if s := im.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			b, err := inflate(im, s)
			errs = append(errs, err)
			secs = append(secs, section{b: b, addr: s.Addr, text: text})
		}
	}
	kept := secs[:0]
	for _, s := range secs {
		if len(s.b) > maxSection {
			errs = append(errs, fmt.Errorf("frame section of %#x bytes: too large", len(s.b)))
		} else if len(s.b) > 0 {
			kept = append(kept, s)
		}
	}
	if err := errors.Join(errs...); err != nil && len(kept) == 0 {
		return nil, err
	}
	return kept, nil
}

// inflate returns a section's bytes, decompressed if necessary.
func inflate(im *dso.Image, s *elf.Section) ([]byte, error) {
	b, err := im.Data(s)
	if err != nil {
		return nil, err
	}
	if b, err = dso.Unpack(s, b); err != nil {
		return nil, fmt.Errorf("decompress %s: %w", s.Name, err)
	}
	return b, nil
}

// ehFrameBySegment finds .eh_frame in a file without section headers: PT_GNU_EH_FRAME contains .eh_frame_hdr, which
// points to it. .eh_frame ends with its segment, or with an entry of length 0.
func ehFrameBySegment(im *dso.Image) (section, bool) {
	vaddr, ok := ehFrameHdr(im)
	if !ok {
		return section{}, false
	}
	hdr, err := vaddrBytes(im, vaddr, 16)
	if err != nil || hdr[0] != 1 {
		return section{}, false
	}
	c := dwarf.Cursor{B: hdr, Pos: 4}
	p, ok := pointer{enc: hdr[1], size: 8, addr: vaddr, data: vaddr}.read(&c)
	if !ok || c.Bad {
		return section{}, false
	}
	for _, l := range im.Loads {
		if p >= l.Vaddr && p-l.Vaddr < l.Filesz {
			b, err := vaddrBytes(im, p, min(l.Filesz-(p-l.Vaddr), maxSection))
			return section{b: b, addr: p, eh: true}, err == nil
		}
	}
	return section{}, false
}

// vaddrBytes returns the n bytes at vaddr.
func vaddrBytes(im *dso.Image, vaddr, n uint64) ([]byte, error) {
	off, ok := im.OffOfVaddr(vaddr)
	if !ok {
		return nil, fmt.Errorf("vaddr %#x: not in the file", vaddr)
	}
	return im.Bytes(off, n)
}

// ehFrameHdr returns the vaddr of .eh_frame_hdr from the program headers.
func ehFrameHdr(im *dso.Image) (vaddr uint64, ok bool) {
	const phSize = 56 // of an Elf64_Phdr
	h, err := im.Bytes(0, 64)
	if err != nil || !im.Is64 {
		return 0, false
	}
	c := dwarf.Cursor{B: h, Pos: 32}
	phoff := c.U64()
	c.Pos = 54
	size, n := uint64(c.U16()), uint64(c.U16())
	if size < phSize {
		return 0, false
	}
	for i := range n {
		b, err := im.Bytes(phoff+i*size, phSize)
		if err != nil {
			return 0, false
		}
		c := dwarf.Cursor{B: b}
		if elf.ProgType(c.U32()) == elf.PT_GNU_EH_FRAME {
			c.Pos = 16
			return c.U64(), true
		}
	}
	return 0, false
}

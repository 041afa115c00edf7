package srcline

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"gperf/internal/dso"
)

// readSections reads the needed sections of DWARF whose names end in suffix.
func readSections(im *dso.Image, suffix string, read func(*elf.Section) ([]byte, error)) (*sections, error) {
	s := &sections{big: im.ByteOrder() == binary.BigEndian}
	for _, want := range []struct {
		name string
		to   *[]byte
	}{
		{"info", &s.info}, {"abbrev", &s.abbrev}, {"str", &s.str}, {"line_str", &s.lineStr}, {"line", &s.line},
		{"ranges", &s.ranges}, {"rnglists", &s.rnglists}, {"addr", &s.addr}, {"str_offsets", &s.strOffsets},
	} {
		b, err := debugSection(im, want.name+suffix, read)
		if err != nil {
			return s, fmt.Errorf("read %s: .debug_%s: %w", im.Path, want.name+suffix, err)
		}
		*want.to = b
	}
	return s, nil
}

// debugSection returns the decompressed contents of .debug_NAME, or nil if there is none.
func debugSection(im *dso.Image, name string, read func(*elf.Section) ([]byte, error)) ([]byte, error) {
	s := cmp.Or(im.Section(".debug_"+name), im.Section(".zdebug_"+name))
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	b, err := read(s)
	if err != nil {
		return nil, err
	}
	if b, err = dso.Unpack(s, b); err != nil {
		return nil, err
	}
	return relocated(im, s, b)
}

// spans are ranges of addresses, sorted.
type spans []span

// codeOf returns the ranges of the file's code. DWARF at other addresses describes code that the linker dropped.
func codeOf(im *dso.Image) (code spans) {
	addrs := SectionAddrs(im)
	for i, s := range im.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0 {
			code = append(code, span{addrs[i], addrs[i] + s.Size})
		}
	}
	slices.SortFunc(code, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	return code
}

func (l spans) has(addr uint64) bool {
	i := sort.Search(len(l), func(i int) bool { return l[i].hi > addr })
	return i < len(l) && l[i].lo <= addr
}

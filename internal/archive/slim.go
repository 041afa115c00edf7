package archive

import (
	"cmp"
	"debug/elf"
	"io"
	"math"
	"slices"
	"strings"

	"gperf/internal/dso"
)

// uses are the purposes of a file.
type uses uint8

const (
	forCode    uses = 1 << iota // instructions, and unwind information
	forSymbols                  // symbol tables
	forLayout                   // .dynsym, and the PLT that goes with it
	forDWARF                    // lines and inlined calls
	forAll                      // all bytes
)

// Range is bytes of a file, from offset Start to End-1.
type Range struct{ Start, End uint64 }

// contents returns the file with the needed bytes, and with zeros for the rest. Size, segments, section offsets and
// addresses do not change. Sections whose bytes are left out become NOBITS, as in files of debug information. Of
// the code it keeps the ranges in hit.
func contents(im *dso.Image, u uses, hit []Range) io.Reader {
	size := int64(min(im.Size, math.MaxInt64))
	table, ok := readSectionTable(im)
	if u&forAll != 0 || !ok {
		return io.NewSectionReader(im, 0, size)
	}
	keep := []Range{{0, table.headers}, {table.off, table.off + uint64(len(table.b))}}
	needed := neededSections(im, u)
	for i, s := range im.Sections {
		switch {
		case s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL:
		case needed[i] || i == table.names:
			keep = append(keep, Range{s.Offset, s.Offset + s.FileSize})
		case u&forCode == 0 || s.Flags&elf.SHF_EXECINSTR == 0:
			table.setNobits(i)
		}
	}
	if u&forCode != 0 {
		keep = append(append(keep, hit...), goSwitches(im)...)
	}
	return &sparse{r: im, size: size, keep: merge(keep, im.Size), table: table}
}

// goSwitches returns the code of the functions of Go's runtime that switch stacks: package unwind reads how.
func goSwitches(im *dso.Image) (l []Range) {
	t, err := dso.OpenGoFunctions(im)
	if err != nil {
		return nil
	}
	for i := range t.Len() {
		f, ok := t.Func(i)
		if !ok || f.Flags&dso.SPWrite == 0 {
			continue
		}
		if off, ok := im.OffOfVaddr(f.Entry); ok {
			l = append(l, Range{off, off + f.End - f.Entry})
		}
	}
	return l
}

// alwaysNeeded are sections that identify the file and the debug files.
var alwaysNeeded = []string{".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup", ".gnu_debugdata"}

// needless are sections of debug information that describe values, names of types
// and macros, not code.
var needless = []string{"loc", "loclists", "macro", "macinfo", "pubnames", "pubtypes", "gnu_pubnames", "gnu_pubtypes",
	"gdb_scripts"}

// neededSections reports for each section whether the bytes are needed.
func neededSections(im *dso.Image, u uses) []bool {
	list := im.Sections
	needed := make([]bool, len(list))
	for i, s := range list {
		needed[i] = isNeeded(im, s, u)
	}
	for i, s := range list {
		// The names of symbols, and the symbols of relocations.
		if needed[i] && (s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM) && uint64(s.Link) < uint64(len(list)) {
			needed[s.Link] = true
		}
	}
	return needed
}

func isNeeded(im *dso.Image, s *elf.Section, u uses) bool {
	debug, isDebug := debugSection(s.Name)
	switch {
	case s.Type == elf.SHT_NOTE, slices.Contains(alwaysNeeded, s.Name):
		return true
	case isDebug && debug == "frame":
		return u&(forCode|forDWARF) != 0
	case isDebug:
		return u&forDWARF != 0 && !slices.Contains(needless, debug)
	case dso.IsGoTable(s.Name), s.Name == ".go.buildinfo", s.Name == ".go.module":
		return u&(forCode|forSymbols) != 0
	case strings.HasPrefix(s.Name, ".plt"), s.Name == ".eh_frame", s.Name == ".eh_frame_hdr", s.Name == ".dynamic":
		return u&(forCode|forLayout) != 0
	case s.Type == elf.SHT_DYNSYM:
		return u&(forLayout|forSymbols) != 0
	case s.Type == elf.SHT_SYMTAB, s.Type == elf.SHT_SYMTAB_SHNDX:
		return u&forSymbols != 0 || im.Type == elf.ET_REL && u&forDWARF != 0
	case s.Type == elf.SHT_RELA, s.Type == elf.SHT_REL:
		of, isDebug := relocated(im, s)
		if isDebug { // only object files, for example modules, contain unapplied ones
			return im.Type == elf.ET_REL && u&forDWARF != 0 && !slices.Contains(needless, of)
		}
		return u&forLayout != 0 && s.Flags&elf.SHF_ALLOC != 0
	}
	// Only the kernel that loaded a module knows which code of the module was hit: keep all code.
	return u&forCode != 0 && im.Type == elf.ET_REL && s.Flags&elf.SHF_EXECINSTR != 0
}

// debugSection returns the name of a section of debug information without
// ".debug_".
func debugSection(name string) (string, bool) {
	if debug, ok := strings.CutPrefix(name, ".debug_"); ok {
		return strings.TrimSuffix(debug, ".dwo"), true
	}
	return strings.CutPrefix(name, ".zdebug_")
}

// relocated is the section of debug information that relocations are for.
func relocated(im *dso.Image, s *elf.Section) (string, bool) {
	if uint64(s.Info) >= uint64(len(im.Sections)) {
		return "", false
	}
	return debugSection(im.Sections[s.Info].Name)
}

// sectionTable is a file's section headers as they lie in it.
type sectionTable struct {
	b       []byte
	off     uint64
	headers uint64 // how far the file's header and program headers go
	entry   int
	names   int // the section with all sections' names, often .shstrtab; 0 for none
	order   interface{ PutUint32([]byte, uint32) }
}

// readSectionTable reads the section table; ok is false if there is none.
func readSectionTable(im *dso.Image) (t sectionTable, ok bool) {
	h, err := im.Bytes(0, 64)
	if err != nil || len(im.Sections) == 0 {
		return t, false
	}
	o := im.ByteOrder()
	phoff, shoff, rest := o.Uint64(h[32:]), o.Uint64(h[40:]), h[52:]
	if !im.Is64 {
		phoff, shoff, rest = uint64(o.Uint32(h[28:])), uint64(o.Uint32(h[32:])), h[40:]
	}
	header, phentsize, phnum, shentsize := uint64(o.Uint16(rest)), uint64(o.Uint16(rest[2:])),
		uint64(o.Uint16(rest[4:])), o.Uint16(rest[6:])
	names := int(o.Uint16(rest[10:]))
	if names == int(elf.SHN_XINDEX) {
		names = int(im.Sections[0].Link)
	}
	t = sectionTable{off: shoff, headers: max(header, 64, phoff+phentsize*phnum), entry: int(shentsize), names: names,
		order: o}
	t.b, err = im.Bytes(shoff, uint64(shentsize)*uint64(len(im.Sections)))
	return t, err == nil && shentsize >= 40
}

// setNobits makes section i NOBITS: it sets sh_type, the field after sh_name.
func (t *sectionTable) setNobits(i int) {
	t.order.PutUint32(t.b[i*t.entry+4:], uint32(elf.SHT_NOBITS))
}

// merge sorts the ranges, joins those that touch, and clips them to the file's
// size.
func merge(l []Range, size uint64) []Range {
	slices.SortFunc(l, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	out := l[:0]
	for _, r := range l {
		r.End = min(r.End, size)
		switch {
		case r.End <= r.Start:
		case len(out) > 0 && r.Start <= out[len(out)-1].End:
			out[len(out)-1].End = max(out[len(out)-1].End, r.End)
		default:
			out = append(out, r)
		}
	}
	return out
}

// sparse reads a file of which only some ranges are kept; the rest is zero.
type sparse struct {
	r         io.ReaderAt
	off, size int64
	keep      []Range
	table     sectionTable
}

func (s *sparse) Read(p []byte) (int, error) {
	if s.off >= s.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.size-s.off)]
	clear(p)
	from, to := uint64(s.off), uint64(s.off)+uint64(len(p))
	for len(s.keep) > 0 && s.keep[0].End <= from {
		s.keep = s.keep[1:]
	}
	for _, k := range s.keep {
		if k.Start >= to {
			break
		}
		a, b := max(k.Start, from), min(k.End, to)
		if _, err := s.r.ReadAt(p[a-from:b-from], int64(a)); err != nil && err != io.EOF {
			return 0, err
		}
	}
	overlay(p, from, s.table.b, s.table.off)
	s.off += int64(len(p))
	return len(p), nil
}

// overlay copies the part of b, at offset off, that lies within p, at offset at.
func overlay(p []byte, at uint64, b []byte, off uint64) {
	switch {
	case off >= at && off-at < uint64(len(p)):
		copy(p[off-at:], b)
	case off < at && at-off < uint64(len(b)):
		copy(p, b[at-off:])
	}
}

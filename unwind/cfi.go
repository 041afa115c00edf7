package unwind

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// CFI is the call frame information of a DSO: its CIEs and FDEs, by address. It may be used from several goroutines.
type CFI struct {
	Machine elf.Machine
	Damaged uint32 // number of corrupt CIEs and FDEs, which are skipped
	Outside uint32 // number of FDEs that cover no executable code

	abi    *abi
	goFP   bool // from Go's compiler: the code keeps frame pointers
	secs   []section
	cies   []cie
	fdes   []fde     // by address, without overlaps
	code   []codeSeg // executable segments by address
	known  []known   // code with known frames, by address
	goCode goCode
	// goFrames are the addresses in arm64 code of Go at which x29 points to the frame, for tables: see goFramesOf.
	goFrames []uint64
}

// codeSeg is a range of vaddrs in an executable segment.
type codeSeg struct{ start, end uint64 }

// cie is a CIE, which several FDEs share (DWARF 5, 6.4.1).
type cie struct {
	sec       uint32
	version   uint8
	addrSize  uint8
	segSize   uint8 // size of the segment selector before each address, in bytes
	enc       uint8 // DW_EH_PE encoding of addresses
	signal    bool
	augmented bool // "z": a length precedes augmentation data
	bad       bool // its instructions are corrupt
	codeAlign uint64
	dataAlign int64
	ra        uint64  // number of the return address's column
	cfa       RegRule // at the start of an FDE
	cfaExpr   RegRule
	init      []RegRule // of the registers, at the start of an FDE; the rest are unspecified
}

// fde is a range of code and its instructions.
type fde struct {
	start, end uint64 // vaddrs
	loc        uint64 // initial location of the instructions: start, unless order changed that
	pos, len   uint32 // of the instructions, in the section, in bytes
	cie        uint32
}

// NewCFI reads the CIEs and FDEs of im. The error is ErrNoCFI if it has none, errMachine if it is not for x86-64,
// i386 or arm64. NewCFI skips corrupt entries and counts them in CFI.Damaged.
func NewCFI(im *dso.Image) (*CFI, error) {
	f, err := readCFI(im)
	if err == nil && len(f.fdes) == 0 {
		return nil, f.noCFI(im)
	}
	return f, err
}

// noCFI returns the error of a file without usable entries.
func (f *CFI) noCFI(im *dso.Image) error {
	if f.Damaged > 0 {
		return fmt.Errorf("unwind %s: all %d entries are corrupt: %w", im.Path, f.Damaged, ErrNoCFI)
	}
	return fmt.Errorf("unwind %s: %w", im.Path, ErrNoCFI)
}

// readCFI is NewCFI for files that may have no entries.
func readCFI(im *dso.Image) (*CFI, error) {
	a := abiOf(im.Machine)
	if a == nil || im.Is64 != (a.word == 8) {
		return nil, fmt.Errorf("unwind %s (%v): %w", im.Path, im.Machine, errMachine)
	}
	secs, err := sections(im)
	if err != nil {
		return nil, fmt.Errorf("unwind %s: %w", im.Path, err)
	}
	f := &CFI{Machine: im.Machine, abi: a, goFP: im.GoTable() != nil, secs: secs,
		code: codeOf(im)}
	if !im.Is64 { // no code has known frames
		f.parse()
		return f, nil
	}
	f.known = conventions(im)
	if f.goFP {
		f.readGo(im)
	}
	slices.SortStableFunc(f.known, compareKnown)
	f.known = slices.DeleteFunc(f.known, func(k known) bool {
		_, ok := f.within(k.start, k.end)
		return !ok
	})
	f.parse()
	return f, nil
}

// readGo adds the contents of a Go program's table of functions.
func (f *CFI) readGo(im *dso.Image) {
	t, err := dso.OpenGoFunctions(im)
	if err != nil {
		t = nil // the table of another version of Go: frame pointers are enough for most code
	}
	f.goCode = findGoCode(im, t)
	f.known = append(f.known, f.goCode.known...)
	if t == nil {
		return
	}
	if !slices.ContainsFunc(f.secs, func(s section) bool { return s.eh }) {
		f.secs = nil // without C's code, .debug_frame says less than the table
	}
	f.secs = append(f.secs, goFrames(t, im.Machine)) // the last of equal ones counts: see order
}

// hasSigreturn reports whether arm64's signal handlers return to this code: the rule for that is needed even if there
// is no FDE, as in the vdso.
func (f *CFI) hasSigreturn() bool {
	return f.abi == &arm64ABI && slices.ContainsFunc(f.known, func(k known) bool { return k.rule == ruleSignal })
}

// parse reads the entries of all sections.
func (f *CFI) parse() {
	for i := range f.secs {
		f.scan(uint32(i))
	}
	f.order()
}

// codeOf returns the executable segments by address, without overlaps.
func codeOf(im *dso.Image) []codeSeg {
	var segs []codeSeg
	for _, l := range im.Loads {
		if end := l.Vaddr + l.Memsz; l.Flags&elf.PF_X != 0 && end > l.Vaddr {
			segs = append(segs, codeSeg{l.Vaddr, end})
		}
	}
	slices.SortFunc(segs, func(a, b codeSeg) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(segs); i++ {
		segs[i].start = max(segs[i].start, segs[i-1].end)
		segs[i].end = max(segs[i].start, segs[i].end)
	}
	return segs
}

// within truncates [start, end) at the end of the executable segment that contains start.
func (f *CFI) within(start, end uint64) (cut uint64, ok bool) {
	for _, s := range f.code {
		if start >= s.start && start < s.end {
			return min(end, s.end), true
		}
	}
	return 0, false
}

// maxCIEs limits the memory for a corrupt section. Linkers merge equal CIEs; without merging there is one for each
// source file.
const maxCIEs = 1 << 16

// scan reads the entries of a section.
func (f *CFI) scan(n uint32) {
	sec := &f.secs[n]
	cies := map[uint64]uint32{} // offset → index
	var later []entry           // FDEs that precede their CIE
	if f.fdes == nil {
		f.fdes = make([]fde, 0, min(len(sec.b)/32, 1<<20))
	}
	for at := 0; len(sec.b)-at >= 4; {
		e, ok := sec.entry(at)
		if e.next <= at { // the start of the next entry is unknown
			f.Damaged++
			break
		}
		if !ok && e.next > at+4 {
			f.Damaged++
		}
		if ok && e.cie {
			if ci, err := f.readCIE(n, e); err == nil && len(f.cies) < maxCIEs {
				cies[uint64(at)] = uint32(len(f.cies))
				f.cies = append(f.cies, ci)
			} else {
				f.Damaged++
			}
		} else if ok {
			if ci, ok := cies[e.cieOff]; ok {
				f.addFDE(sec, e, ci)
			} else {
				later = append(later, e)
			}
		}
		at = e.next
	}
	for _, e := range later {
		if ci, ok := cies[e.cieOff]; ok {
			f.addFDE(sec, e, ci)
		} else {
			f.Damaged++ // there is no CIE
		}
	}
}

// entry is the header of a CIE or FDE.
type entry struct {
	next   int // offset of the next entry
	body   int // offset after the CIE's ID or the FDE's CIE pointer
	cie    bool
	cieOff uint64 // of an FDE: offset of its CIE
	is64   bool
}

// entry reads the length and the ID at a position. If ok is false, the caller continues at next, or stops if next is
// not above at.
func (s *section) entry(at int) (e entry, ok bool) {
	c := dwarf.Cursor{B: s.b, Pos: at}
	length, idSize := c.Length()
	e.is64 = idSize == 8
	if c.Bad || length > uint64(c.Left()) {
		return entry{}, false
	}
	e.next = c.Pos + int(length)
	if length < uint64(idSize) { // padding, or the null length that ends .eh_frame
		return e, false
	}
	idAt := uint64(c.Pos)
	id := c.Uint(idSize)
	e.body = c.Pos
	switch {
	case s.eh:
		e.cie, e.cieOff = id == 0, idAt-id
	case e.is64:
		e.cie, e.cieOff = id == ^uint64(0), id
	default:
		e.cie, e.cieOff = id == 0xffffffff, id
	}
	return e, true
}

// readCIE decodes the CIE with header e.
func (f *CFI) readCIE(sec uint32, e entry) (cie, error) {
	s := &f.secs[sec]
	c := dwarf.Cursor{B: s.b[:e.next], Pos: e.body}
	ci := cie{sec: sec, version: c.U8(), addrSize: uint8(f.abi.word)}
	if ci.version != 1 && ci.version != 3 && ci.version != 4 {
		return ci, fmt.Errorf("version %d", ci.version)
	}
	aug := string(c.CString())
	if ci.version >= 4 {
		ci.addrSize, ci.segSize = c.U8(), c.U8()
	}
	if ci.addrSize != 4 && ci.addrSize != 8 || ci.segSize > 8 {
		return ci, fmt.Errorf("address of %d bytes, segment of %d", ci.addrSize, ci.segSize)
	}
	if strings.HasPrefix(aug, "eh") { // of gcc before 3.0: a pointer to exception data
		c.Skip(8)
		aug = aug[2:]
	}
	ci.codeAlign, ci.dataAlign = c.ULEB(), c.SLEB()
	if ci.version == 1 {
		ci.ra = uint64(c.U8())
	} else {
		ci.ra = c.ULEB()
	}
	if strings.HasPrefix(aug, "z") {
		ci.augmented = true
		n := c.ULEB()
		if n > uint64(c.Left()) {
			return ci, errors.New("augmentation data exceeds its length")
		}
		a := dwarf.Cursor{B: c.B[:c.Pos+int(n)], Pos: c.Pos}
		if err := ci.augment(aug[1:], &a, s); err != nil {
			return ci, err
		}
		c.Skip(n)
	}
	if c.Bad || ci.ra >= uint64(f.abi.columns) {
		return ci, errors.New("truncated")
	}
	m := machine{f: f, sec: s, cie: &ci}
	m.begin(e.next, c.Pos, 0, 0)
	for m.next() {
	}
	ci.bad, ci.cfa, ci.cfaExpr = m.bad, m.cfa, m.cfaExpr
	n := f.abi.columns
	for n > 0 && m.regs[n-1] == (RegRule{}) {
		n--
	}
	ci.init = slices.Clone(m.regs[:n])
	return ci, nil
}

// augment reads the augmentation data. Each character of the augmentation string describes the next item: R the
// encoding of addresses, P a personality routine, L the encoding of pointers to language data. S means a signal frame,
// B (arm64) return addresses signed with key B, G (arm64) tagged frames. augment ignores the rest after an unknown
// character.
func (ci *cie) augment(aug string, c *dwarf.Cursor, s *section) error {
	for _, ch := range []byte(aug) {
		switch ch {
		case 'R':
			ci.enc = c.U8()
		case 'P':
			p := pointer{enc: c.U8(), size: int(ci.addrSize), addr: s.addr}
			if p.enc&^peIndirect&peApply == peAligned {
				p.read(c)
			} else if _, ok := p.format(c); !ok {
				return fmt.Errorf("personality routine with encoding %#x", p.enc)
			}
		case 'L':
			c.U8()
		case 'S':
			ci.signal = true
		case 'B', 'G':
		default:
			return nil
		}
	}
	if c.Bad {
		return errors.New("augmentation data is truncated")
	}
	return nil
}

// addFDE decodes an FDE up to its instructions, and adds it if it covers code.
func (f *CFI) addFDE(s *section, e entry, ciN uint32) {
	ci := &f.cies[ciN]
	c := dwarf.Cursor{B: s.b[:e.next], Pos: e.body}
	c.Skip(uint64(ci.segSize))
	p := pointer{enc: ci.enc, size: int(ci.addrSize), addr: s.addr, text: s.text}
	start, ok := p.read(&c)
	n, _ := p.format(&c)
	if ci.augmented {
		c.Skip(c.ULEB())
	}
	if c.Bad || !ok {
		f.Damaged++
		return
	}
	end := start + n
	if ci.signal {
		end++ // the code ends with a syscall: during it, ip is after the code
	}
	if end < start {
		end = ^uint64(0)
	}
	cut, ok := f.within(start, end)
	if !ok || cut == start {
		f.Outside++
		return
	}
	f.fdes = append(f.fdes, fde{start: start, end: cut, loc: start, pos: uint32(c.Pos),
		len: uint32(e.next - c.Pos), cie: ciN})
}

// order sorts the FDEs by address and removes overlaps. An address belongs to the FDE with the highest start at or
// before it, as in a binary search of .eh_frame_hdr. FDEs of .debug_frame cover only code without FDEs in .eh_frame.
func (f *CFI) order() {
	debug := func(e *fde) bool { return !f.secs[f.cies[e.cie].sec].eh }
	f.fdes = sortFDEs(f.fdes)
	kept := f.fdes[:0]
	for _, e := range f.fdes {
		for len(kept) > 0 {
			last := &kept[len(kept)-1]
			if e.start >= last.end {
				break
			}
			if debug(&e) && !debug(last) {
				e.start = last.end // the part that .eh_frame does not cover
				break
			}
			if last.end = e.start; last.start < last.end {
				break
			}
			kept = kept[:len(kept)-1]
		}
		if e.start < e.end {
			kept = append(kept, e)
		}
	}
	f.fdes = kept
}

// sortFDEs sorts by start and keeps the order of equal ones. A radix sort takes the same time for all inputs; linkers
// write several long sorted runs.
func sortFDEs(list []fde) []fde {
	byStart := func(a, b fde) int { return cmp.Compare(a.start, b.start) }
	if slices.IsSortedFunc(list, byStart) {
		return list
	}
	lo, hi := slices.MinFunc(list, byStart).start, slices.MaxFunc(list, byStart).start
	if hi-lo > math.MaxUint32 {
		slices.SortStableFunc(list, byStart)
		return list
	}
	type key struct{ at, i uint32 }
	keys, other := make([]key, len(list)), make([]key, len(list))
	for i, e := range list {
		keys[i] = key{uint32(e.start - lo), uint32(i)}
	}
	const bits = 11
	for shift := 0; shift < 32; shift += bits {
		var next [1 << bits]uint32 // index for the next key with these bits
		for _, k := range keys {
			next[k.at>>shift%(1<<bits)]++
		}
		sum := uint32(0)
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for _, k := range keys {
			n := &next[k.at>>shift%(1<<bits)]
			other[*n] = k
			*n++
		}
		keys, other = other, keys
	}
	sorted := make([]fde, len(list))
	for i, k := range keys {
		sorted[i] = list[k.i]
	}
	return sorted
}

// Functions yields the vaddrs at which the code of each FDE starts and ends (exclusive), by address. Compilers write
// an FDE for each function, and one for each part of a function that is elsewhere.
func (f *CFI) Functions() iter.Seq2[uint64, uint64] {
	return func(yield func(start, end uint64) bool) {
		for i := range f.fdes {
			if !yield(f.fdes[i].start, f.fdes[i].end) {
				return
			}
		}
	}
}

// find returns the FDE that covers vaddr, or nil.
func (f *CFI) find(vaddr uint64) *fde {
	i, ok := slices.BinarySearchFunc(f.fdes, vaddr, func(e fde, v uint64) int { return cmp.Compare(e.start, v) })
	if !ok {
		i--
	}
	if i < 0 || vaddr >= f.fdes[i].end {
		return nil
	}
	return &f.fdes[i]
}

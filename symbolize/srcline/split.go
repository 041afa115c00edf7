package srcline

import (
	"fmt"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// packages are the open .dwp files, by path.
type packages struct {
	mu     sync.Mutex
	opened map[string]*splitFile
}

// splitFile is a .dwo or .dwp file.
type splitFile struct {
	im       *dso.Image
	sections *sections
	index    []byte // .debug_cu_index of a package; nil for a .dwo file
}

func (p *packages) close() {
	for _, f := range p.opened {
		f.im.Close()
	}
}

// split returns the split unit of a skeleton unit.
func (d *debugInfo) split(skeleton *unit) (*unit, error) {
	missing := fmt.Errorf("split unit %s of %s: %w", skeleton.dwoName, skeleton.name, dso.ErrNoFile)
	if d.files.DWO == nil {
		return nil, missing
	}
	for im := range d.files.DWO(string(skeleton.compDir), string(skeleton.dwoName)) {
		f, err := d.packages.open(im)
		if err != nil {
			missing = err
			continue
		}
		s, ok := f.unitSections(skeleton.dwoID)
		if !ok {
			continue
		}
		s.addr, s.ranges = skeleton.sections.addr, skeleton.sections.ranges
		s.readUnits()
		for _, u := range s.units {
			if u.tag != tagCompileUnit || u.dwoID != skeleton.dwoID {
				continue
			}
			u.addrBase, u.low = skeleton.addrBase, skeleton.low
			u.rangesBase = skeleton.attrs.number(slotRangesBase)
			return u, nil
		}
	}
	return nil, missing
}

// open reads a file that may contain split units. It keeps a package open, and reads and closes the file of a single
// unit.
func (p *packages) open(im *dso.Image) (*splitFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.opened[im.Path]; f != nil {
		im.Close()
		return f, nil
	}
	f := &splitFile{im: im}
	index := im.Section(".debug_cu_index")
	read := im.Data
	if index != nil {
		read = im.Map
	}
	s, err := readSections(im, ".dwo", read)
	if err == nil && index != nil {
		f.index, err = read(index)
	}
	if index == nil || err != nil {
		im.Close()
	} else {
		if p.opened == nil {
			p.opened = make(map[string]*splitFile)
		}
		p.opened[im.Path] = f
	}
	s.split = true
	f.sections = s
	return f, err
}

// Sections in the index of a package (DWARF 5, section 7.3.5.3). In the GNU version these have the same numbers.
const (
	sectInfo       = 1
	sectAbbrev     = 3
	sectStrOffsets = 6
	sectRnglists   = 8
)

// unitSections returns the parts of the file's sections that belong to the unit with an ID.
func (f *splitFile) unitSections(id uint64) (*sections, bool) {
	s := &sections{
		info: f.sections.info, abbrev: f.sections.abbrev, str: f.sections.str, strOffsets: f.sections.strOffsets,
		rnglists: f.sections.rnglists, lineStr: f.sections.lineStr, big: f.sections.big, split: true,
	}
	if f.index == nil {
		return s, true
	}
	parts, ok := findSplit(s.cursor(f.index), id)
	if !ok {
		return nil, false
	}
	for sect, b := range map[uint32]*[]byte{sectInfo: &s.info, sectAbbrev: &s.abbrev, sectStrOffsets: &s.strOffsets,
		sectRnglists: &s.rnglists} {
		part, ok := parts[sect]
		if !ok {
			continue
		}
		if uint64(part.off)+uint64(part.size) > uint64(len(*b)) {
			return nil, false
		}
		*b = (*b)[part.off : part.off+part.size]
	}
	return s, true
}

// part is the part of a package's section that belongs to a unit, in bytes.
type part struct{ off, size uint32 }

// findSplit looks an ID up in the index of a package: a hash table of IDs, a parallel table of row numbers, and for
// each row the unit's part of each section.
func findSplit(c dwarf.Cursor, id uint64) (map[uint32]part, bool) {
	if v := c.U32(); v != 2 && v != 5 && v>>16 != 5 {
		return nil, false
	}
	columns, units, slots := c.U32(), c.U32(), c.U32()
	if c.Bad || slots == 0 || slots&(slots-1) != 0 || uint64(slots)*12 > uint64(c.Left()) || columns > 16 {
		return nil, false
	}
	at := func(pos uint64) dwarf.Cursor {
		d := c
		d.Seek(uint64(c.Pos) + pos)
		return d
	}
	mask := uint64(slots - 1)
	step := id>>32&mask | 1
	row := uint64(0)
	for slot, n := id&mask, uint64(0); n <= mask; slot, n = (slot+step)&mask, n+1 {
		sig, index := at(slot*8), at(uint64(slots)*8+slot*4)
		if row = uint64(index.U32()); row == 0 || sig.U64() == id {
			break
		}
		row = 0
	}
	if row == 0 || row > uint64(units) {
		return nil, false
	}
	parts := make(map[uint32]part)
	table := uint64(slots) * 12
	for i := range uint64(columns) {
		width := uint64(columns) * 4
		sect, off, size := at(table+i*4), at(table+row*width+i*4), at(table+(uint64(units)+row)*width+i*4)
		parts[sect.U32()] = part{off.U32(), size.U32()}
		if sect.Bad || off.Bad || size.Bad {
			return nil, false
		}
	}
	return parts, true
}

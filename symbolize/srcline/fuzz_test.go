package srcline

import (
	"bytes"
	"testing"

	"gperf/internal/dso"
)

// lookAround looks up addresses at, before and after all ranges of units.
func lookAround(x *Index) {
	for i, p := range x.pieces {
		if i == 64 {
			break
		}
		for _, addr := range []uint64{p.addr, p.addr - 1, p.addr + 1, p.addr + 100} {
			x.Lookup(addr)
		}
	}
	x.Lookup(0)
	x.Lookup(^uint64(0))
}

// indexOf returns the index of a file, without a disk cache.
func indexOf(im *dso.Image) (*Index, error) {
	return Open(nil, dso.BuildID{}, func() (Files, error) { return Files{Debug: im}, nil })
}

// FuzzDWARF: whatever the sections, lookups end, and take memory and time in
// proportion to them.
func FuzzDWARF(f *testing.F) {
	line := oldLines(4, asm(false, 0, 9, lneSetAddress, uint64(0x2000), lnsCopy, 13+14*3, 0, 1, lneEndSequence))
	f.Add(unit32(false, asm(false, uint16(4), uint32(0), 8, 1, uint32(0), uint64(0x2000), 0x10, 0)),
		asm(false, 1, tagCompileUnit, 0,
			atStmtList, formSecOffset, atLowPC, formAddr, atHighPC, formData1, 0, 0, 0), line,
		[]byte("str\x00"), []byte{}, []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, info, abbrev, line, str, ranges, rnglists, addr []byte, big bool) {
		s := &sections{info: info, abbrev: abbrev, line: line, str: str, lineStr: str, strOffsets: addr, ranges: ranges,
			rnglists: rnglists, addr: addr, big: big}
		s.supp = &sections{info: info, abbrev: abbrev, str: str, big: big}
		s.supp.readUnits()
		s.readUnits()
		d := &debugInfo{code: everywhere}
		x := &Index{dwarf: func() (*debugInfo, error) { return d, nil }}
		for _, u := range s.units {
			if u.tag == tagCompileUnit {
				d.units = append(d.units, u)
				x.units = append(x.units, new(indexUnit))
			}
		}
		x.pieces = d.pieces()
		lookAround(x)
		if n := len(x.strings.b); n > 1<<20+64*(len(info)+len(line)+len(str))*(1+len(str)) {
			t.Errorf("%d bytes of strings", n)
		}
	})
}

// FuzzFile: so it is with a file, packed or to be relocated.
func FuzzFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "fuzz")
		if err != nil {
			return
		}
		x, err := indexOf(im)
		if err != nil {
			return
		}
		lookAround(x)
		x.Close()
	})
}

// FuzzStored checks that cached data is rejected, or lookups stay within its bounds.
func FuzzStored(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &Index{dwarf: func() (*debugInfo, error) { return nil, ErrNoLines }}
		if x.decode(b) {
			lookAround(x)
		}
	})
}

// FuzzGo: so is the table that a Go program keeps for itself, and its tree of inlined
// calls.
func FuzzGo(f *testing.F) {
	for _, big := range []bool{false, true} {
		for _, ptr := range []int{4, 8} {
			table, tree := goProgram(big, ptr, 0x1000, ptr == 4)
			f.Add(table, tree, big)
		}
	}
	f.Fuzz(func(t *testing.T, b, tree []byte, big bool) {
		g, _, err := dso.ReadGoFunctions(b, big)
		if err != nil {
			return
		}
		g.Data = tree
		for _, vaddr := range []uint64{0, g.Text, g.Text + 7, g.Text + 8, g.Text + 16, ^uint64(0)} {
			for _, c := range goLookup(g, vaddr) {
				if c.Line < 0 || len(c.Function) > maxString || len(c.File) > maxString {
					t.Errorf("%#x: line %d, names of %d and %d bytes", vaddr, c.Line, len(c.Function), len(c.File))
				}
			}
		}
	})
}

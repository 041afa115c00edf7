package srcline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"gperf/internal/dso"
	"gperf/internal/testutil/inputs"
)

// Limits for reading a small file of any contents.
const (
	hostileTime   = 5 * time.Second
	hostileMemory = 512 << 20
)

// bounded fails if a function costs more than a small file may.
func bounded(t *testing.T, read func()) {
	t.Helper()
	inputs.AtMost(t, "reading", hostileTime, hostileMemory, read)
}

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// declare returns an entry of an abbreviation table.
func declare(code, tag int, children byte, specs ...int) []byte {
	b := append(uleb(uint64(code)), append(uleb(uint64(tag)), children)...)
	for _, n := range append(specs, 0, 0) {
		b = append(b, uleb(uint64(n))...)
	}
	return b
}

// TestHostileDWARF reads debug information made to be dear, in files of about a megabyte.
func TestHostileDWARF(t *testing.T) {
	const huge = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f" // LEB128 of 2^63-1
	head := asm(false, uint16(4), uint32(0), 8)
	root := declare(1, tagCompileUnit, 1, atStmtList, formSecOffset, atLowPC, formAddr, atHighPC, formData4)
	inlined := declare(2, tagInlinedSubroutine, 1, atLowPC, formAddr, atHighPC, formData4)
	function := declare(3, tagSubprogram, 1, atLowPC, formAddr, atHighPC, formData4)
	origin := declare(4, tagSubprogram, 0, atLowPC, formAddr, atHighPC, formData4, atAbstractOrigin, formRef4)
	rootDIE := asm(false, 1, uint32(0), uint64(0x2000), uint32(1<<20))
	deep := asm(false, head, rootDIE, 3, uint64(0x2000), uint32(1<<20),
		bytes.Repeat(asm(false, 2, uint64(0x2000), uint32(1<<20)), 100_000))
	lines := func(program ...any) []byte {
		return oldLines(4, asm(false, append([]any{0, 9, lneSetAddress, uint64(0x2000), lnsCopy}, program...)...))
	}
	noUnit := asm(false, head, 1, uint32(0), uint64(0x2000), uint32(0x10), 0)
	// Units of few bytes that all have the one long line table.
	var many []byte
	for i := range uint64(5_000) {
		many = append(many, unit32(false, asm(false, head, 1, uint32(0), 0x2000+i*16, uint32(16), 0))...)
	}
	loop := asm(false, head, rootDIE)
	at := uint32(len(loop) + 4)
	loop = asm(false, loop, 4, uint64(0x2000), uint32(100), at+17, 4, uint64(0x2000), uint32(100), at, 0)
	// A list of files of 255 parts without any bytes.
	nothing := asm(false, uint16(5), 8, 0, uint32(1<<19), 1, 1, 1, 0xfb, 14, 13, make([]byte, 12), 255,
		bytes.Repeat(asm(false, lnctPath, formFlagPresent), 255), uleb(1<<18), make([]byte, 1<<19))
	for _, c := range []struct {
		name               string
		info, abbrev, line []byte
	}{
		{"inlined calls in each other", unit32(false, deep), asm(false, root, inlined, function, 0), lines()},
		{"rows at one address", unit32(false, noUnit), asm(false, root, 0),
			lines(bytes.Repeat([]byte{lnsCopy}, 1<<20))},
		{"rows", unit32(false, noUnit), asm(false, root, 0),
			lines(bytes.Repeat([]byte{13 + 14*3 + 5}, 1<<20), 0, 1, lneEndSequence)},
		{"advances by huge numbers", unit32(false, noUnit), asm(false, root, 0),
			lines(bytes.Repeat(asm(false, lnsAdvancePC, []byte(huge), lnsCopy), 1<<16), 0, 1, lneEndSequence)},
		{"units that share a line table", many, asm(false, root, 0),
			lines(bytes.Repeat([]byte{13 + 14*3 + 5}, 1<<20), 0, 1, lneEndSequence)},
		{"functions that refer to each other", unit32(false, loop), asm(false, root, origin, 0), lines()},
		{"a code of 2^63", unit32(false, asm(false, head, rootDIE, []byte(huge))), asm(false, root, []byte(huge), tagSubprogram, 0, 0, 0, 0), lines()},
		{"abbreviations without an end", unit32(false, noUnit), bytes.Repeat(declare(1, tagSubprogram, 1, atName, formString), 1<<17), lines()},
		{"an attribute of a form of a form", unit32(false, asm(false, head, 1, bytes.Repeat([]byte{formIndirect}, 1<<20))),
			declare(1, tagCompileUnit, 1, atName, formIndirect), lines()},
		{"names of files of nothing", unit32(false, noUnit), asm(false, root, 0), unit32(false, nothing)},
		{"a unit longer than the section", asm(false, uint32(0xffffffff), ^uint64(0)>>1, head), asm(false, root, 0), lines()},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounded(t, func() {
				s := &sections{info: c.info, abbrev: c.abbrev, line: c.line}
				s.readUnits()
				d := &debugInfo{code: everywhere}
				x := &Index{dwarf: func() (*debugInfo, error) { return d, nil }}
				for _, u := range s.units {
					d.units = append(d.units, u)
					x.units = append(x.units, new(indexUnit))
				}
				x.pieces = d.pieces()
				for _, p := range x.pieces {
					x.Lookup(p.addr)
				}
				lookAround(x)
			})
		})
	}
}

// TestHostileBombs reads sections that are much larger without compression: the file is refused, and named.
func TestHostileBombs(t *testing.T) {
	for name, b := range inputs.BombFiles("debug_info") {
		t.Run(name, func(t *testing.T) {
			bounded(t, func() {
				im, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "bomb")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := indexOf(im); !errors.Is(err, dso.ErrUnpacked) || !strings.Contains(err.Error(), "bomb") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

package unwind

import (
	"debug/elf"
	"io"
	"testing"
)

// fuzzSeeds are sections with most kinds of entries and instructions.
func fuzzSeeds(eh bool) [][]byte {
	id, first := uint32(0xffffffff), uint32(0)
	if eh {
		id = 0
	}
	to := func(cie []byte) uint32 {
		if eh {
			return uint32(len(cie) + 4)
		}
		return first
	}
	c1 := entry32(id, 1, "", plain)
	c2 := entry32(id, 1, "zPLRSB", 1, 0x78, 16, 7, 0x9b, uint32(1), 0x1b, peAbsptr, plain[3:])
	c3 := entry32(id, 4, "", 8, 0, plain)
	loc := asm(uint64(0x2000), uint64(0x400))
	return [][]byte{
		asm(c1, entry32(to(c1), loc, cfaAdvanceLoc|1, cfaDefCFAOffset, 16, cfaOffset|6, 2, cfaAdvanceLoc|3, cfaDefCFARegister, 6,
			cfaRememberState, cfaAdvanceLoc1, 99, cfaDefCFA, 7, 8, cfaRestore|6, cfaAdvanceLoc2, uint16(1), cfaRestoreState), uint32(0)),
		asm(c2, entry32(to(c2), loc, 4, uint32(0), cfaDefCFAExpression, 4, 0x77, 0xa0, 0x01, 0x06,
			cfaExpression, 6, 3, 0x77, 0xf8, 0x00, cfaExpression, 16, 3, 0x77, 0xa8, 0x01)),
		asm(c3, entry32(to(c3), loc, cfaSetLoc, uint64(0x2100), cfaValExpression, 6, 2, 0x76, 0, cfaAdvanceLoc4, uint32(9), cfaUndefined, 16,
			cfaGNUArgsSize, 8, cfaGNUNegOffsetExtended, 3, 2, cfaGNUWindowSave)),
		entry32(uint32(id), 3, "", plain),
		asm(entry64(^uint64(0), 4, "", 8, 0, plain), entry64(uint64(0), loc)),
	}
}

// FuzzEhFrame and FuzzDebugFrame: whatever the bytes, tables are valid, rows are
// bounded by the bytes, and a walk by them ends.
func FuzzEhFrame(f *testing.F) { fuzzSection(f, true) }

func FuzzDebugFrame(f *testing.F) { fuzzSection(f, false) }

func fuzzSection(f *testing.F, eh bool) {
	for _, s := range fuzzSeeds(eh) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
			cfi := parseSection(m, b, eh)
			fuzzRows(t, cfi, len(b))
			fuzzWalk(t, cfi)
		}
	})
}

func fuzzRows(t *testing.T, f *CFI, size int) {
	rows, last := 0, uint64(0)
	for r := range f.Rows() {
		if rows++; rows > size {
			t.Fatalf("more than %d rows", size)
		}
		if r.Start < last || r.End <= r.Start || r.End > testCode[0].end {
			t.Fatalf("row %#x..%#x after %#x", r.Start, r.End, last)
		}
		last = r.End
	}
	if err := f.WriteText(io.Discard); err != nil {
		t.Fatal(err)
	}
	if f.Machine != elf.EM_X86_64 {
		return
	}
	table := f.Table()
	if !table.valid() {
		t.Fatal("the table is not valid")
	}
	if len(table.Rows) > size+int(table.Stats.FDEs)+len(table.Pages)*2+2 {
		t.Fatalf("%d rows from %d bytes", len(table.Rows), size)
	}
}

// space1 maps all of testCode.
type space1 struct{ m Mapping }

func (s *space1) Mapping(ip uint64) *Mapping {
	if ip < s.m.Start || ip >= s.m.End {
		return nil
	}
	return &s.m
}

func fuzzWalk(t *testing.T, f *CFI) {
	table := f.Table()
	space := &space1{Mapping{Start: 0x1000, End: 0x41000, Object: NewObject(table, func() (*CFI, error) {
		return f, nil
	})}}
	stack := &Stack{Addr: 0x7000_0000, Bytes: make([]byte, 512)}
	for i := range stack.Bytes {
		stack.Bytes[i] = []byte{0x08, 0x20, 0, 0, 0, 0, 0, 0}[i%8] // return addresses all over
	}
	var u Unwinder
	for _, ip := range []uint64{0x2000, 0x2001, 0x2008, 0x2100, 0x23ff} {
		regs := NewRegs(f.Machine, ip, stack.Addr+16, stack.Addr+32)
		frames, why := u.Walk(nil, &regs, stack, space)
		if len(frames) == 0 || len(frames) > MaxDepth || why >= NumReasons {
			t.Fatalf("%d frames, %v", len(frames), why)
		}
	}
}

// FuzzCache: a file is refused or is a table in which every lookup stays. Its ranges are only read inside of files.
func FuzzCache(f *testing.F) {
	im := image(f, libc(f))
	good := append(encodeTable(smallTable(), make([]byte, 32)), 2, 100, 1, 50)
	f.Add(good)
	f.Add(good[:tableHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		in := make([]byte, max(64, len(b)))[:len(b)] // of a size that is aligned
		copy(in, b)
		table, _, ranges, err := decodeTable(in)
		if (err == nil) != (table != nil) {
			t.Fatal("error xor table")
		}
		if err != nil {
			return
		}
		replay(im, ranges[:min(len(ranges), 8)])
		for i := range min(len(table.Pages), 8) {
			for off := uint64(0); off < 1<<pageBits; off += 997 {
				table.Lookup((table.Base+uint64(i))<<pageBits | off)
			}
		}
		table.Lookup(0)
		table.Lookup(^uint64(0))
		table.WriteText(io.Discard)
	})
}

package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// testCode is where the code of sections made by tests lies.
var testCode = []codeSeg{{0x1000, 0x41000}}

// parseSection reads a section that lies at vaddr 0x100000.
func parseSection(m elf.Machine, b []byte, eh bool) *CFI {
	f := &CFI{Machine: m, abi: abiOf(m), code: testCode,
		secs: []section{{b: b, addr: 0x100000, eh: eh, text: 0x1000}}}
	f.parse()
	return f
}

// asm assembles a section: numbers are bytes, strings are themselves with a NUL,
// the other types are little-endian.
func asm(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(append(b, p...), 0)
		case []byte:
			b = append(b, p...)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, p)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, p)
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, p)
		default:
			panic(fmt.Sprintf("%T", p))
		}
	}
	return b
}

// entry32 and entry64 prepend the length to an entry.
func entry32(parts ...any) []byte {
	b := asm(parts...)
	return asm(uint32(len(b)), b)
}

func entry64(parts ...any) []byte {
	b := asm(parts...)
	return asm(uint32(0xffffffff), uint64(len(b)), b)
}

func text(f *CFI) string {
	var b strings.Builder
	f.WriteText(&b)
	return b.String()
}

func wantText(t *testing.T, f *CFI, want string) {
	t.Helper()
	got := text(f)
	want = strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", "")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestStandardExample is the example of DWARF 5, appendix D.6, its machine's
// registers R0 to R8 being those that x86-64 gives the numbers.
func TestStandardExample(t *testing.T) {
	const fsize = 64
	cie := entry32(uint32(0xffffffff), 4, "", 4, 0, 4, 0x7c, 8, // align 4, -4; R8 is the return address
		cfaDefCFA, 7, 0,
		cfaSameValue, 0, cfaUndefined, 1, cfaUndefined, 2, cfaUndefined, 3,
		cfaSameValue, 4, cfaSameValue, 5, cfaSameValue, 6, cfaSameValue, 7,
		cfaRegister, 8, 1, cfaNop, cfaNop)
	fde := entry32(uint32(0), uint32(0x2000), uint32(84),
		cfaAdvanceLoc|1, cfaDefCFAOffset, fsize,
		cfaAdvanceLoc|1, cfaOffset|8, 1,
		cfaAdvanceLoc|1, cfaOffset|6, 2,
		cfaAdvanceLoc|1, cfaDefCFARegister, 6,
		cfaAdvanceLoc|1, cfaOffset|4, 3,
		cfaAdvanceLoc|12, cfaRestore|4,
		cfaAdvanceLoc|1, cfaRestore|6, cfaDefCFARegister, 7,
		cfaAdvanceLoc|1, cfaRestore|8,
		cfaAdvanceLoc|1, cfaDefCFAOffset, 0, cfaNop)
	same := "rax=s rdx=u rcx=u rbx=u rsi=s rdi=s rbp=s rsp=s"
	saved := strings.Replace(same, "rbp=s", "rbp=c-8", 1)
	all := strings.Replace(saved, "rsi=s", "rsi=c-12", 1)
	wantText(t, parseSection(elf.EM_X86_64, asm(cie, fde), false), `
		FDE pc=0000000000002000..0000000000002054
		0000000000002000 rsp+0 `+same+` ra=rdx
		0000000000002004 rsp+64 `+same+` ra=rdx
		0000000000002008 rsp+64 `+same+` ra=c-4
		000000000000200c rsp+64 `+saved+` ra=c-4
		0000000000002010 rbp+64 `+saved+` ra=c-4
		0000000000002014 rbp+64 `+all+` ra=c-4
		0000000000002044 rbp+64 `+saved+` ra=c-4
		0000000000002048 rsp+64 `+same+` ra=c-4
		000000000000204c rsp+64 `+same+` ra=rdx
		0000000000002050 rsp+0 `+same+` ra=rdx
		`)
}

// plain begins a CIE of x86-64: CFA rsp+8, return address at c-8.
var plain = asm(1, 0x78, 16, cfaDefCFA, 7, 8, cfaOffset|16, 1)

func TestEncodings(t *testing.T) {
	const want = "FDE pc=0000000000002000..0000000000002010\n0000000000002000 rsp+8 ra=c-8\n"
	withR := func(enc int) []byte {
		return entry32(uint32(0), 1, "zR", 1, 0x78, 16, 1, enc, plain[3:])
	}
	const base, fdeAt = 0x100000, 22 // bytes of the CIE with its length
	for name, enc := range map[string]struct {
		enc int
		loc []any
	}{
		"absptr": {peAbsptr, []any{uint64(0x2000), uint64(16)}},
		"signed": {peSigned, []any{uint64(0x2000), uint64(16)}},
		"uleb":   {peUleb, []any{0x80, 0x40, 16}},
		"sleb":   {peSleb, []any{0x80, 0xc0, 0, 16}},
		"udata2": {peUdata2, []any{uint16(0x2000), uint16(16)}},
		"sdata2": {peSdata2, []any{uint16(0x2000), uint16(16)}},
		"udata4": {peUdata4, []any{uint32(0x2000), uint32(16)}},
		"sdata4": {peSdata4, []any{uint32(0x2000), uint32(16)}},
		"udata8": {peUdata8, []any{uint64(0x2000), uint64(16)}},
		"sdata8": {peSdata8, []any{uint64(0x2000), uint64(16)}},
		"pcrel":  {pePcrel | peSdata4, []any{uint32(0x2000 - (base + fdeAt + 8) + 1<<32), uint32(16)}},
		"text":   {peTextrel | peUdata4, []any{uint32(0x1000), uint32(16)}},
		"align":  {peAligned, []any{0, 0, uint64(0x2000), uint64(16)}},
	} {
		t.Run(name, func(t *testing.T) {
			cie := withR(enc.enc)
			if len(cie) != fdeAt {
				t.Fatalf("CIE of %d bytes", len(cie))
			}
			fde := entry32(append(append([]any{uint32(len(cie) + 4)}, enc.loc...), 0, cfaNop)...)
			f := parseSection(elf.EM_X86_64, asm(cie, fde), true)
			if got := text(f); got != want || f.Damaged != 0 {
				t.Errorf("%d damaged, got\n%swant\n%s", f.Damaged, got, want)
			}
		})
	}
	t.Run("indirect", func(t *testing.T) {
		cie := withR(peIndirect | pePcrel | peSdata4)
		f := parseSection(elf.EM_X86_64, asm(cie, entry32(uint32(len(cie)+4), uint32(0x2000), uint32(16), 0, 0)), true)
		if len(f.fdes) != 0 || f.Damaged != 1 {
			t.Errorf("%d FDEs, %d damaged", len(f.fdes), f.Damaged)
		}
	})
}

func TestEntries(t *testing.T) {
	loc := asm(uint64(0x2000), uint64(16))
	for _, c := range []struct {
		name    string
		b       []byte
		eh      bool
		want    string
		damaged uint32
	}{
		{"debug_frame, version 1", asm(entry32(uint32(0xffffffff), 1, "", plain), entry32(uint32(0), loc)), false, "rsp+8 ra=c-8", 0},
		{"version 3", asm(entry32(uint32(0xffffffff), 3, "", plain), entry32(uint32(0), loc)), false, "rsp+8 ra=c-8", 0},
		{"version 4", asm(entry32(uint32(0xffffffff), 4, "", 8, 0, plain), entry32(uint32(0), loc)), false, "rsp+8 ra=c-8", 0},
		{"segments", asm(entry32(uint32(0xffffffff), 4, "", 8, 2, plain), entry32(uint32(0), uint16(7), loc)), false, "rsp+8 ra=c-8", 0},
		{"64-bit", asm(entry64(^uint64(0), 4, "", 8, 0, plain), entry64(uint64(0), loc)), false, "rsp+8 ra=c-8", 0},
		{"64-bit eh_frame", asm(entry64(uint64(0), 1, "", plain), entry64(uint64(20+len(plain)-6+8+3), loc)), true, "", 0},
		{"FDE before its CIE", asm(entry32(uint32(24), loc), entry32(uint32(0xffffffff), 3, "", plain)), false, "rsp+8 ra=c-8", 0},
		{"no CIE", entry32(uint32(24), loc), false, "", 1},
		{"version 9", asm(entry32(uint32(0xffffffff), 9, "", plain), entry32(uint32(0), loc)), false, "", 2},
		{"null length", asm(uint32(0), entry32(uint32(0xffffffff), 3, "", plain), uint32(0), entry32(uint32(4), loc)), false, "rsp+8 ra=c-8", 0},
		{"cut short", asm(entry32(uint32(0xffffffff), 3, "", plain), entry32(uint32(0), loc), uint32(99), uint32(0)), false, "rsp+8 ra=c-8", 1},
		{"augmentation zPLRSB", asm(entry32(uint32(0), 1, "zPLRSB", 1, 0x78, 16, 7, 0x9b, uint32(1), 0x1b, peAbsptr, plain[3:]),
			entry32(uint32(4+4+1+7+3+8+5+4), loc, 4, uint32(0))), true, "rsp+8 ra=c-8", 0},
		{"outside of code", asm(entry32(uint32(0xffffffff), 3, "", plain), entry32(uint32(0), uint64(0x99000), uint64(4))), false, "", 0},
		{"bad register", asm(entry32(uint32(0xffffffff), 3, "", 1, 0x78, 0xff, 0x7f), entry32(uint32(0), loc)), false, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "64-bit eh_frame" { // the pointer counts back from itself
				cie := entry64(uint64(0), 1, "", plain)
				c.b = asm(cie, entry64(uint64(len(cie)+12), loc))
				c.want = "rsp+8 ra=c-8"
			}
			f := parseSection(elf.EM_X86_64, c.b, c.eh)
			want := ""
			if c.want != "" {
				want = "FDE pc=0000000000002000..0000000000002010"
				if strings.Contains(c.name, "S") && c.eh && c.name != "64-bit eh_frame" {
					want = "FDE pc=0000000000002000..0000000000002011 signal frame" // ip after the last instruction
				}
				want += "\n0000000000002000 " + c.want + "\n"
			}
			if got := text(f); got != want || f.Damaged != c.damaged {
				t.Errorf("%d damaged, want %d; got\n%swant\n%s", f.Damaged, c.damaged, got, want)
			}
		})
	}
}

// row runs instructions, after plain's, and returns the last row.
func row(t *testing.T, m elf.Machine, ins ...any) string {
	t.Helper()
	f := parseSection(m, asm(entry32(uint32(0xffffffff), 3, "", plain),
		entry32(append([]any{uint32(0), uint64(0x2000), uint64(16)}, ins...)...)), false)
	lines := strings.Split(strings.TrimSpace(text(f)), "\n")
	_, r, _ := strings.Cut(lines[len(lines)-1], " ")
	return r
}

func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		name string
		ins  []any
		want string
	}{
		{"offset_extended", []any{cfaOffsetExtended, 3, 2}, "rsp+8 rbx=c-16 ra=c-8"},
		{"offset_extended_sf", []any{cfaOffsetExtendedSF, 3, 0x7e}, "rsp+8 rbx=c+16 ra=c-8"},
		{"GNU_negative_offset_extended", []any{cfaGNUNegOffsetExtended, 3, 2}, "rsp+8 rbx=c+16 ra=c-8"},
		{"val_offset", []any{cfaValOffset, 7, 0}, "rsp+8 rsp=v+0 ra=c-8"},
		{"val_offset_sf", []any{cfaValOffsetSF, 3, 1}, "rsp+8 rbx=v-8 ra=c-8"},
		{"def_cfa_sf", []any{cfaDefCFASF, 6, 0x7e}, "rbp+16 ra=c-8"},
		{"def_cfa_offset_sf", []any{cfaDefCFAOffsetSF, 0x7d}, "rsp+24 ra=c-8"},
		{"register", []any{cfaRegister, 16, 5}, "rsp+8 ra=rdi"},
		{"expression", []any{cfaExpression, 6, 2, 0x76, 0}, "rsp+8 rbp=exp ra=c-8"},
		{"val_expression", []any{cfaValExpression, 6, 2, 0x76, 0}, "rsp+8 rbp=vexp ra=c-8"},
		{"def_cfa_expression", []any{cfaDefCFAExpression, 3, 0x76, 0x78, 0x06}, "exp ra=c-8"},
		{"offset after an expression", []any{cfaDefCFAExpression, 1, 0x30, cfaDefCFAOffset, 24, cfaDefCFARegister, 6}, "rbp+24 ra=c-8"},
		{"restore", []any{cfaUndefined, 16, cfaRestore | 16}, "rsp+8 ra=c-8"},
		{"restore_extended", []any{cfaUndefined, 16, cfaRestoreExtended, 16}, "rsp+8 ra=c-8"},
		{"remember, restore", []any{cfaRememberState, cfaDefCFA, 6, 16, cfaUndefined, 16, cfaRestoreState}, "rsp+8 ra=c-8"},
		{"nested", []any{cfaRememberState, cfaDefCFAOffset, 16, cfaRememberState, cfaDefCFAOffset, 24, cfaRestoreState}, "rsp+16 ra=c-8"},
		{"restore without remember", []any{cfaRestoreState}, "none"},
		{"set_loc", []any{cfaSetLoc, uint64(0x2008), cfaDefCFAOffset, 16}, "rsp+16 ra=c-8"},
		{"set_loc back", []any{cfaSetLoc, uint64(0x1008), cfaDefCFAOffset, 16}, "none"},
		{"advance_loc1", []any{cfaAdvanceLoc1, 8, cfaDefCFAOffset, 16}, "rsp+16 ra=c-8"},
		{"advance_loc2", []any{cfaAdvanceLoc2, uint16(8), cfaDefCFAOffset, 16}, "rsp+16 ra=c-8"},
		{"advance_loc4", []any{cfaAdvanceLoc4, uint32(8), cfaDefCFAOffset, 16}, "rsp+16 ra=c-8"},
		{"MIPS_advance_loc8", []any{cfaMIPSAdvanceLoc8, uint64(8), cfaDefCFAOffset, 16}, "rsp+16 ra=c-8"},
		{"beyond the end", []any{cfaAdvanceLoc1, 99, cfaDefCFAOffset, 16}, "rsp+8 ra=c-8"},
		{"GNU_args_size", []any{cfaGNUArgsSize, 0x80, 1}, "rsp+8 ra=c-8"},
		{"GNU_window_save", []any{cfaGNUWindowSave}, "rsp+8 ra=c-8"},
		{"unknown", []any{cfaAdvanceLoc | 4, 0x3f}, "none"},
		{"cut short", []any{cfaAdvanceLoc | 4, cfaDefCFA, 7}, "none"},
		{"untracked register", []any{cfaOffsetExtended, 0xff, 0x7f, 1}, "rsp+8 ra=c-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := row(t, elf.EM_X86_64, c.ins...); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if got := row(t, elf.EM_AARCH64, cfaGNUWindowSave); got != "x7+8 ra=c-8 r34=signed" {
		t.Errorf("negate_ra_state: %s", got)
	}
	if got := row(t, elf.EM_AARCH64, cfaGNUWindowSave, cfaGNUWindowSave); got != "x7+8 ra=c-8" {
		t.Errorf("negate_ra_state twice: %s", got)
	}
}

// TestRules shows which rule each pattern becomes.
func TestRules(t *testing.T) {
	plt := asm(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22)
	for _, c := range []struct {
		ins  []any
		want string
	}{
		{nil, "cfa=rsp+8 ra=c-8 fp=s"},
		{[]any{cfaDefCFAOffset, 16, cfaOffset | 6, 2}, "cfa=rsp+16 ra=c-8 fp=c-16"},
		{[]any{cfaDefCFA, 6, 16, cfaOffset | 6, 2}, "cfa=rbp+16 ra=c-8 fp=c-16"},
		{[]any{cfaDefCFA, 10, 0}, "cfa=r10+0 ra=c-8 fp=s"},
		{[]any{cfaDefCFAExpression, 3, 0x76, 0x78, 0x06, cfaExpression, 6, 2, 0x76, 0}, "cfa=*(rbp-8)+0 ra=c-8 fp=*(rbp+0)"},
		{[]any{cfaDefCFAExpression, 5, 0x77, 0x28, 0x06, 0x23, 8}, "cfa=*(rsp+40)+8 ra=c-8 fp=s"},
		{[]any{cfaDefCFAExpression, 2, 0x77, 0x28}, "cfa=rsp+40 ra=c-8 fp=s"},
		{[]any{cfaDefCFAExpression, len(plt), plt}, "cfa=plt(11)+8 ra=c-8 fp=s"},
		{[]any{cfaExpression, 6, 2, 0x77, 8}, "cfa=rsp+8 ra=c-8 fp=*(rsp+8)"},
		{[]any{cfaRegister, 16, 5, cfaDefCFAOffset, 0}, "cfa=rsp+0 ra=rdi fp=s"},
		{[]any{cfaRegister, 6, 9}, "cfa=rsp+8 ra=c-8 fp=r9"},
		{[]any{cfaUndefined, 6}, "cfa=rsp+8 ra=c-8 fp=u"},
		{[]any{cfaUndefined, 16}, "end"},
		{[]any{cfaValOffset, 7, 0}, "cfa=rsp+8 ra=c-8 fp=s"},
		{[]any{cfaRegister, 7, 8}, "unsupported"},
		{[]any{cfaDefCFAExpression, 3, 0x79, 0, 0x06}, "unsupported"},  // *(r9)
		{[]any{cfaDefCFAExpression, 3, 0x77, 0, 0x1f}, "unsupported"},  // -rsp
		{[]any{cfaOffsetExtended, 6, 0x80, 0x80, 0x01}, "unsupported"}, // c-131072
		{[]any{cfaValExpression, 6, 2, 0x76, 0}, "unsupported"},
	} {
		t.Run(fmt.Sprintf("%x", c.ins), func(t *testing.T) {
			f := parseSection(elf.EM_X86_64, asm(entry32(uint32(0xffffffff), 3, "", plain),
				entry32(append([]any{uint32(0), uint64(0x2000), uint64(16)}, c.ins...)...)), false)
			table := f.Table()
			if got := table.Lookup(0x2000).String(); got != c.want {
				t.Errorf("%x: %s, want %s", c.ins, got, c.want)
			}
		})
	}
}

// TestSignalRule: the frame of glibc's __restore_rt, whose rules are all expressions.
func TestSignalRule(t *testing.T) {
	f := parseSection(elf.EM_X86_64, asm(
		entry32(uint32(0), 1, "zRS", 1, 0x78, 16, 1, peAbsptr),
		entry32(uint32(4+4+1+4+3+2+4), uint64(0x2000), uint64(16), 0,
			cfaDefCFAExpression, 4, 0x77, 0xa0, 0x01, 0x06,
			cfaExpression, 6, 3, 0x77, 0xf8, 0x00,
			cfaExpression, 16, 3, 0x77, 0xa8, 0x01)), true)
	table := f.Table()
	if got := table.Lookup(0x2004); got != ruleSignal {
		t.Errorf("got %v", got)
	}
}

func TestOverlap(t *testing.T) {
	fde := func(start, size uint64, off int) []byte {
		return entry32(uint32(0), start, size, cfaDefCFAOffset, off)
	}
	f := parseSection(elf.EM_X86_64, asm(entry32(uint32(0xffffffff), 3, "", plain),
		fde(0x3000, 0x100, 48), fde(0x2000, 0x100, 16), fde(0x2080, 0x10, 24), fde(0x2f00, 0x200, 32)), false)
	wantText(t, f, `
		FDE pc=0000000000002000..0000000000002080
		0000000000002000 rsp+16 ra=c-8
		FDE pc=0000000000002080..0000000000002090
		0000000000002080 rsp+24 ra=c-8
		FDE pc=0000000000002f00..0000000000003000
		0000000000002f00 rsp+32 ra=c-8
		FDE pc=0000000000003000..0000000000003100
		0000000000003000 rsp+48 ra=c-8
		`)
}

// TestEhFrameFirst checks that .debug_frame adds rows only where .eh_frame has none.
func TestEhFrameFirst(t *testing.T) {
	eh := asm(entry32(uint32(0), 1, "", plain), entry32(uint32(4+4+1+1+8+4), uint64(0x2010), uint64(0x10)))
	debug := asm(entry32(uint32(0xffffffff), 3, "", plain),
		entry32(uint32(0), uint64(0x2000), uint64(0x40), cfaDefCFAOffset, 16),
		entry32(uint32(0), uint64(0x2018), uint64(0x18), cfaDefCFAOffset, 24))
	f := &CFI{Machine: elf.EM_X86_64, abi: &x86ABI, code: testCode, secs: []section{{b: eh, eh: true}, {b: debug}}}
	f.parse()
	wantText(t, f, `
		FDE pc=0000000000002000..0000000000002010
		0000000000002000 rsp+16 ra=c-8
		FDE pc=0000000000002010..0000000000002020
		0000000000002010 rsp+8 ra=c-8
		FDE pc=0000000000002020..0000000000002030
		0000000000002020 rsp+24 ra=c-8
		`)
}

// TestHostile checks that the size of a table is limited by the bytes of the section
// and by the code of the file.
func TestHostile(t *testing.T) {
	cie := entry32(uint32(0xffffffff), 3, "", plain)
	fde := func(size uint64, ins ...byte) []byte {
		return entry32(uint32(0), uint64(0x2000), size, ins)
	}
	repeat := func(n int, ins ...byte) []byte { return bytes.Repeat(ins, n) }
	const n = 100000
	for _, c := range []struct {
		name    string
		b       []byte
		rows    int // at most
		damaged uint32
	}{
		{"a storm of advances", fde(1<<62, repeat(n, cfaAdvanceLoc|1, cfaDefCFAOffset, 16, cfaAdvanceLoc|1, cfaDefCFAOffset, 24)...), 2 * 0x3f000, 0},
		{"a storm of nothing", fde(1<<62, repeat(n, cfaAdvanceLoc)...), 8, 0},
		{"everything remembered", fde(1<<62, repeat(n, cfaRememberState)...), 8, 1},
		{"a huge range", fde(^uint64(0)), 8, 0},
		{"a range that wraps", entry32(uint32(0), uint64(0x2000), ^uint64(0)-0x1000), 8, 0},
		{"huge numbers", fde(16, cfaDefCFA, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, cfaAdvanceLoc4, 0xff, 0xff, 0xff, 0xff), 4, 0},
		{"a huge expression", fde(16, cfaDefCFAExpression, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), 4, 1},
		{"a huge entry", asm(uint32(0xfffffff0), uint32(0)), 0, 1},
		{"a huge 64-bit entry", asm(uint32(0xffffffff), ^uint64(0)), 0, 1},
		{"many CIEs", bytes.Repeat(entry32(uint32(0xffffffff), 3, "", plain), maxCIEs+9), 0, 10},
		{"equal FDEs", bytes.Repeat(fde(16), n), 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parseSection(elf.EM_X86_64, append(bytes.Clone(cie), c.b...), false)
			table := f.Table()
			if !table.valid() || len(table.Rows) > c.rows || len(table.Pages) > 5 || len(f.cies) > maxCIEs {
				t.Errorf("%d rows, %d pages, %d CIEs", len(table.Rows), len(table.Pages), len(f.cies))
			}
			if table.Stats.Damaged != c.damaged {
				t.Errorf("%d damaged, want %d", table.Stats.Damaged, c.damaged)
			}
		})
	}
	t.Run("a huge segment", func(t *testing.T) {
		f := &CFI{Machine: elf.EM_X86_64, abi: &x86ABI, code: []codeSeg{{0, 1 << 60}},
			secs: []section{{b: append(bytes.Clone(cie), fde(1<<59)...)}}}
		f.parse()
		if table := f.Table(); len(table.Pages) > maxPages || table.Stats.Damaged != 1 {
			t.Errorf("%d pages, %+v", len(table.Pages), table.Stats)
		}
	})
}

package unwind

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// TestTableRandom compares a table of random ranges with the ranges.
func TestTableRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		type span struct {
			start, end uint64
			rule       Rule
		}
		var spans []span
		b := newTableBuilder(0)
		for pos := uint64(rnd.IntN(3 << pageBits)); len(spans) < 40; {
			if rnd.IntN(2) == 0 {
				pos += uint64(rnd.IntN(1 << rnd.IntN(18)))
			}
			if rnd.IntN(8) == 0 {
				pos = (pos | pageMask) + 1
			}
			s := span{pos, pos + 1 + uint64(rnd.IntN(1<<rnd.IntN(19))), sp(int32(rnd.IntN(3)))}
			spans = append(spans, s)
			if !b.add(s.start, s.end, b.rule(s.rule)) {
				t.Fatal("refused")
			}
			pos = s.end
		}
		table := b.finish()
		if !table.valid() {
			t.Fatal("not valid")
		}
		for i, s := range spans {
			for _, at := range []uint64{s.start, s.end - 1, s.start + (s.end-s.start)/2} {
				if got := table.Lookup(at); got != s.rule {
					t.Fatalf("%#x: %v, want %v", at, got, s.rule)
				}
			}
			if i+1 == len(spans) || spans[i+1].start > s.end {
				if got := table.Lookup(s.end); got != (Rule{}) {
					t.Fatalf("%#x, beyond a range: %v", s.end, got)
				}
			}
		}
		if got := table.Lookup(spans[0].start - 1); got != (Rule{}) {
			t.Fatalf("before the first range: %v", got)
		}
		for i := range table.Pages {
			rows := table.Rows[table.Pages[i].First:][:table.Pages[i].N]
			for j := 1; j < len(rows); j++ {
				if rows[j].Rule == rows[j-1].Rule {
					t.Fatal("equal neighbours")
				}
			}
		}
	}
}

func TestTableTooWide(t *testing.T) {
	b := newTableBuilder(0)
	if !b.add(0x1000, 0x2000, b.rule(sp(8))) || b.add(1<<40, 1<<40+1, b.rule(sp(8))) {
		t.Error("a span of 1 TiB was taken")
	}
	if table := b.finish(); len(table.Pages) != 1 || !table.valid() {
		t.Errorf("%d pages", len(table.Pages))
	}
}

func TestTooManyRules(t *testing.T) {
	b := newTableBuilder(0)
	for i := range uint64(70000) {
		if !b.add(i, i+1, b.rule(sp(int32(i)))) {
			t.Fatal("refused")
		}
	}
	table := b.finish()
	if got := table.Lookup(69999); got != ruleUnsupported || !table.valid() {
		t.Errorf("with too many rules: %v, %d rules", got, len(table.Rules))
	}
	if got := table.Lookup(60000); got != sp(60000) {
		t.Errorf("%v", got)
	}
}

func TestTableText(t *testing.T) {
	b := newTableBuilder(0)
	b.add(0x1000, 0x1010, b.rule(sp(8)))
	b.add(0x1010, 0x30000, b.rule(ruleFP))
	b.add(0x30000, 0x30001, b.rule(ruleSignal))
	var s strings.Builder
	if err := b.finish().WriteText(&s); err != nil {
		t.Fatal(err)
	}
	const want = `0000000000000000 none
0000000000001000 cfa=rsp+8 ra=c-8 fp=s convention
0000000000001010 cfa=rbp+16 ra=c-8 fp=c-16 convention
0000000000030000 signal
0000000000030001 none
`
	if s.String() != want {
		t.Errorf("got\n%s", s.String())
	}
}

// TestTableEnds: a row ends where an FDE ends, also if the next FDE has the same rule, is on the next page, or there is
// none.
func TestTableEnds(t *testing.T) {
	table := fdes(elf.EM_X86_64,
		[]any{0x2000, 0x2010},
		[]any{0x2010, 0x10000, cfaAdvanceLoc | 8, cfaDefCFAOffset, 16},
		[]any{0x10000, 0x10010, cfaDefCFAOffset, 16},
		[]any{0x10020, 0x10030}).Table()
	if !table.valid() {
		t.Error("not valid")
	}
	for vaddr, want := range map[uint64]bool{0x2000: false, 0x200e: false, 0x200f: true, 0x2010: false, 0x2017: true,
		0x2018: false, 0xffff: true, 0x10000: false, 0x1000f: true, 0x1001f: true, 0x1002f: true, 0x10030: false} {
		if _, last := table.find(vaddr); last != want {
			t.Errorf("%#x is the last byte of a row: %v, want %v", vaddr, last, want)
		}
	}
}

// libc returns the bytes of the C library.
func libc(t testing.TB) []byte {
	t.Helper()
	for _, p := range systemELFs {
		if b, err := os.ReadFile(p); err == nil {
			return b
		}
	}
	t.Skip("no C library where this test knows it to be")
	return nil
}

func image(t testing.TB, b []byte) *dso.Image {
	t.Helper()
	im, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "image")
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// TestNoSections: without section headers, .eh_frame is found as the loader
// finds it.
func TestNoSections(t *testing.T) {
	b := libc(t)
	want, err := Build(image(t, b))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Clone(b)
	clear(b[40:48]) // e_shoff
	clear(b[60:64]) // e_shnum, e_shstrndx
	im := image(t, b)
	if len(im.Sections) != 0 {
		t.Fatalf("%d sections left", len(im.Sections))
	}
	got, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	// Without sections, the conventions of .plt.got are unknown.
	if got.Stats.FDEs != want.Stats.FDEs || len(got.Rows) > len(want.Rows) || len(got.Rows) < len(want.Rows)-8 {
		t.Errorf("got %d rows, %+v; want %d, %+v", len(got.Rows), got.Stats, len(want.Rows), want.Stats)
	}
}

// TestEntryPoint: the dynamic loader's first instructions have no FDE in glibc,
// and no caller.
func TestEntryPoint(t *testing.T) {
	ld, err := dso.Open("/lib64/ld-linux-x86-64.so.2")
	if err != nil {
		t.Skip(err)
	}
	defer ld.Close()
	table, err := Build(ld)
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Lookup(ld.Entry()); r.RA != RAUndefined {
		t.Errorf("entry point of ld.so: %v", r)
	}
}

// TestKnown checks that rows known without CFI are added only where no FDE has any.
func TestKnown(t *testing.T) {
	b := newTableBuilder(0)
	b.known = []known{{0x1000, 0x1040, sp(8), false}, {0x2000, 0x2010, sp(16), false}}
	b.add(0x1010, 0x1018, b.rule(ruleSignal))
	b.add(0x1020, 0x1028, b.rule(ruleSignal))
	b.add(0x1080, 0x1090, b.rule(ruleSignal))
	var s strings.Builder
	b.finish().WriteText(&s)
	const want = `0000000000000000 none
0000000000001000 cfa=rsp+8 ra=c-8 fp=s convention
0000000000001010 signal
0000000000001018 cfa=rsp+8 ra=c-8 fp=s convention
0000000000001020 signal
0000000000001028 cfa=rsp+8 ra=c-8 fp=s convention
0000000000001040 none
0000000000001080 signal
0000000000001090 none
0000000000002000 cfa=rsp+16 ra=c-8 fp=s convention
0000000000002010 none
`
	if s.String() != want {
		t.Errorf("got\n%s", s.String())
	}
}

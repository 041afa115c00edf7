package archive

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"slices"
	"testing"

	"gperf/internal/dso"
)

// own opens the program that runs the tests.
func own(t *testing.T) *dso.Image {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	im, err := dso.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// slimmed returns the slimmed file.
func slimmed(t *testing.T, im *dso.Image, u uses, hit ...Range) (*dso.Image, []byte) {
	t.Helper()
	b, err := io.ReadAll(contents(im, u, hit))
	if err != nil {
		t.Fatal(err)
	}
	slim, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "slim")
	if err != nil {
		t.Fatal(err)
	}
	return slim, b
}

// TestSlim: whatever of a file is left out, addresses and build ID do not change, and all needed bytes are there.
func TestSlim(t *testing.T) {
	im := own(t)
	whole, err := im.Bytes(0, im.Size)
	if err != nil {
		t.Fatal(err)
	}
	text := im.Section(".text")
	hit := Range{text.Offset + 1000, text.Offset + 1777}
	for _, c := range []struct {
		use            uses
		there, missing []string
	}{
		{0, []string{".note.go.buildid"}, []string{".text", ".symtab", ".strtab", ".gopclntab", ".rodata", ".data"}},
		{forCode, []string{".note.go.buildid", ".gopclntab"}, []string{".symtab", ".rodata", ".data"}},
		{forSymbols, []string{".symtab", ".strtab", ".gopclntab"}, []string{".text", ".rodata", ".data"}},
		{forCode | forSymbols, []string{".symtab", ".strtab", ".gopclntab"}, []string{".rodata"}},
		{forAll, []string{".text", ".rodata", ".symtab", ".data"}, nil},
	} {
		slim, b := slimmed(t, im, c.use, hit)
		if slim.BuildID() != im.BuildID() || slim.Size != im.Size || !slices.Equal(slim.Loads, im.Loads) {
			t.Errorf("use %b: build ID %s, %d bytes, segments %v; want %s, %d, %v", c.use, slim.BuildID(), slim.Size,
				slim.Loads, im.BuildID(), im.Size, im.Loads)
		}
		for i, s := range slim.Sections {
			if was := im.Sections[i]; s.Name != was.Name || s.Addr != was.Addr || s.Offset != was.Offset ||
				s.Size != was.Size {
				t.Errorf("use %b: section %v, want %v", c.use, s.SectionHeader, was.SectionHeader)
			}
		}
		for _, name := range c.there {
			s := im.Section(name)
			if s == nil {
				continue // this linker makes none
			}
			if got, err := slim.Data(slim.Section(name)); err != nil ||
				!bytes.Equal(got, whole[s.Offset:s.Offset+s.FileSize]) {
				t.Errorf("use %b: %s is not what it was", c.use, name)
			}
		}
		for _, name := range c.missing {
			if s := slim.Section(name); s != nil &&
				(s.Type != elf.SHT_NOBITS || !allZeros(b[s.Offset:s.Offset+s.FileSize])) {
				t.Errorf("use %b: %s is still there", c.use, name)
			}
		}
		if code := c.use&(forCode|forAll) != 0; slim.HasCode() != code {
			t.Errorf("use %b: code %v", c.use, !code)
		}
		if c.use&forCode != 0 {
			want := make([]byte, text.FileSize)
			for _, r := range append(goSwitches(im), hit) {
				copy(want[r.Start-text.Offset:], whole[r.Start:r.End])
			}
			if !bytes.Equal(b[text.Offset:text.Offset+text.FileSize], want) {
				t.Errorf("use %b: .text has something else than what was hit and what switches stacks", c.use)
			}
		}
	}
}

// TestNeededSections: the sections that are kept for code, symbols, layout and DWARF.
func TestNeededSections(t *testing.T) {
	im := own(t)
	const exec = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	for _, c := range []struct {
		name  string
		kind  elf.SectionType
		flags elf.SectionFlag
		want  uses // which of these keep the section; forAll: all, and no use at all
	}{
		{".note.gnu.build-id", elf.SHT_NOTE, elf.SHF_ALLOC, forAll},
		{".gnu_debuglink", elf.SHT_PROGBITS, 0, forAll},
		{".gnu_debugdata", elf.SHT_PROGBITS, 0, forAll},
		{".text", elf.SHT_PROGBITS, exec, 0}, // hit ranges are kept instead
		{".rodata", elf.SHT_PROGBITS, elf.SHF_ALLOC, 0},
		{".eh_frame", elf.SHT_PROGBITS, elf.SHF_ALLOC, forCode | forLayout},
		{".eh_frame_hdr", elf.SHT_PROGBITS, elf.SHF_ALLOC, forCode | forLayout},
		{".plt.sec", elf.SHT_PROGBITS, exec, forCode | forLayout},
		{".dynamic", elf.SHT_DYNAMIC, elf.SHF_ALLOC, forCode | forLayout},
		{".rela.plt", elf.SHT_RELA, elf.SHF_ALLOC, forLayout},
		{".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, forLayout | forSymbols},
		{".symtab", elf.SHT_SYMTAB, 0, forSymbols},
		{".gopclntab", elf.SHT_PROGBITS, elf.SHF_ALLOC, forCode | forSymbols},
		{".debug_frame", elf.SHT_PROGBITS, 0, forCode | forDWARF},
		{".zdebug_frame", elf.SHT_PROGBITS, 0, forCode | forDWARF},
		{".debug_info", elf.SHT_PROGBITS, 0, forDWARF},
		{".debug_line", elf.SHT_PROGBITS, 0, forDWARF},
		{".debug_info.dwo", elf.SHT_PROGBITS, 0, forDWARF},
		{".debug_loclists", elf.SHT_PROGBITS, 0, 0},
		{".debug_macro", elf.SHT_PROGBITS, 0, 0},
	} {
		section := elf.Section{SectionHeader: elf.SectionHeader{Name: c.name, Type: c.kind, Flags: c.flags}}
		for _, u := range []uses{0, forCode, forSymbols, forLayout, forDWARF} {
			if got := isNeeded(im, &section, u); got != (c.want == forAll || c.want&u != 0) {
				t.Errorf("%s for %b: kept %v", c.name, u, got)
			}
		}
	}
}

func allZeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestMerge(t *testing.T) {
	got := merge([]Range{{50, 60}, {0, 10}, {5, 20}, {20, 30}, {90, 200}, {40, 40}, {300, 400}, {7, 8}}, 100)
	if want := []Range{{0, 30}, {50, 60}, {90, 100}}; !slices.Equal(got, want) {
		t.Errorf("merged %v, want %v", got, want)
	}
}

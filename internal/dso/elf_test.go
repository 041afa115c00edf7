package dso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// elfFile makes a little-endian ELF64 file of segments and sections. Sections
// with contents are laid out after the headers; "" needs none.
type elfFile struct {
	progs    []elf.Prog64
	sections []elfSection
}

type elfSection struct {
	name  string
	typ   elf.SectionType
	flags elf.SectionFlag
	data  []byte
}

func (f elfFile) bytes() []byte {
	names := []byte{0}
	nameOff := func(s string) uint32 {
		off := len(names)
		names = append(append(names, s...), 0)
		return uint32(off)
	}
	sections := append(f.sections, elfSection{name: ".shstrtab", typ: elf.SHT_STRTAB})
	headers := make([]elf.Section64, 1, len(sections)+1)
	off := uint64(64 + 56*len(f.progs))
	var contents []byte
	for i, s := range sections {
		h := elf.Section64{Name: nameOff(s.name), Type: uint32(s.typ), Flags: uint64(s.flags)}
		data := s.data
		if i == len(sections)-1 {
			data = names
		}
		h.Off, h.Size = off+uint64(len(contents)), uint64(len(data))
		if s.typ != elf.SHT_NOBITS {
			contents = append(contents, data...)
		}
		headers = append(headers, h)
	}
	eh := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: off + uint64(len(contents)), Ehsize: 64, Phentsize: 56, Phnum: uint16(len(f.progs)),
		Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1),
	}
	copy(eh.Ident[:], elf.ELFMAG)
	eh.Ident[elf.EI_CLASS], eh.Ident[elf.EI_DATA], eh.Ident[elf.EI_VERSION] = 2, 1, 1
	var b bytes.Buffer
	for _, part := range []any{eh, f.progs, contents, headers} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// note makes an ELF note with 4-byte alignment.
func note(name string, typ uint32, desc []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, typ)
	pad := func(s []byte) []byte { return append(s, make([]byte, -len(s)&3)...) }
	return append(append(b, pad([]byte(name))...), pad(bytes.Clone(desc))...)
}

func gnuNote(id []byte) []byte { return note("GNU\x00", ntGNUBuildID, id) }

// withID returns a file with a build ID, code, and optionally a symbol table.
func withID(id string, symtab bool) []byte {
	f := elfFile{sections: []elfSection{
		{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: []byte{0xc3}},
		{name: ".dynsym", typ: elf.SHT_DYNSYM, flags: elf.SHF_ALLOC, data: make([]byte, 24)},
	}}
	if id != "" {
		f.sections = append(f.sections, elfSection{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC,
			data: gnuNote([]byte(id))})
	}
	if symtab {
		f.sections = append(f.sections, elfSection{name: ".symtab", typ: elf.SHT_SYMTAB, data: make([]byte, 24)})
	}
	return f.bytes()
}

// debugFile returns a file as strip --only-keep-debug makes it.
func debugFile(id string) []byte {
	return elfFile{sections: []elfSection{
		{name: ".text", typ: elf.SHT_NOBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR},
		{name: ".dynsym", typ: elf.SHT_NOBITS, flags: elf.SHF_ALLOC},
		{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC, data: gnuNote([]byte(id))},
		{name: ".symtab", typ: elf.SHT_SYMTAB, data: make([]byte, 24)},
	}}.bytes()
}

func writeFile(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func imageOf(t testing.TB, b []byte) *Image {
	t.Helper()
	im, err := NewImage(bytes.NewReader(b), int64(len(b)), "test")
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// sectionless removes the section headers, as sstrip does.
func sectionless(b []byte) []byte {
	b = bytes.Clone(b)
	clear(b[40:48]) // e_shoff
	clear(b[60:64]) // e_shnum, e_shstrndx
	return b
}

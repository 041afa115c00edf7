package names

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"

	"gperf/symbolize/demangle"
)

// machine is the one that this program is compiled for: readers choose a disassembler by it.
var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// section is a section of the file.
type section struct {
	name string
	elf.Section64
	data []byte
}

// Indexes of sections.
const (
	textSection   = 2
	stringSection = 4
)

const (
	headerSize  = 64
	programSize = 56
	sectionSize = 64
	symbolSize  = 24
)

// piece is a part of the file.
type piece struct {
	off  uint64
	data []byte
}

// pieces returns the file: there is a hole where the code would be. The first bytes come last.
func (f *file) pieces() []piece {
	symbols, names := f.symbols()
	text := f.next - textOff
	l := []section{
		{},
		{name: ".note.gnu.build-id", data: f.note(), Section64: elf.Section64{Type: uint32(elf.SHT_NOTE),
			Flags: uint64(elf.SHF_ALLOC), Off: headerSize + programSize, Addr: headerSize + programSize, Addralign: 4}},
		{name: ".text", Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Off: textOff, Addr: textOff,
			Size: text, Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: align}},
		{name: ".symtab", data: symbols, Section64: elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: stringSection,
			Info: 1, Addralign: 8, Entsize: symbolSize}},
		{name: ".strtab", data: names, Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}},
	}
	for name, data := range f.dwarf() {
		l = append(l, section{name: name, data: data,
			Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Addralign: 1}})
	}
	l = append(l, section{name: ".shstrtab", Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}})
	place(l, f.next)
	var rest bytes.Buffer
	for i := range l {
		if l[i].Off >= f.next {
			rest.Write(make([]byte, l[i].Off-f.next-uint64(rest.Len())))
			rest.Write(l[i].data)
		}
	}
	rest.Write(make([]byte, -rest.Len()&7))
	head := header(len(l), f.next+uint64(rest.Len()), text)
	for i := range l {
		binary.Write(&rest, le, &l[i].Section64)
	}
	return []piece{{f.next, rest.Bytes()}, {0, append(head, l[1].data...)}}
}

// place sets the names of the sections and the offsets of those without address, from an offset on.
func place(l []section, off uint64) {
	last := &l[len(l)-1]
	last.data = []byte{0}
	for i := range l[1:] {
		l[i+1].Name = uint32(len(last.data))
		last.data = append(append(last.data, l[i+1].name...), 0)
	}
	for i := range l[1:] {
		s := &l[i+1]
		if s.data == nil {
			continue
		}
		s.Size = uint64(len(s.data))
		if s.Off == 0 {
			off = (off + 7) &^ 7
			s.Off = off
			off += s.Size
		}
	}
}

// header returns the ELF header and the only program header.
func header(sections int, table, text uint64) []byte {
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: headerSize, Shoff: table, Ehsize: headerSize, Phentsize: programSize, Phnum: 1, Shentsize: sectionSize,
		Shnum: uint16(sections), Shstrndx: uint16(sections - 1)}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	binary.Write(&b, le, &h)
	binary.Write(&b, le, &elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
		Off: textOff, Vaddr: textOff, Paddr: textOff, Filesz: text, Memsz: text, Align: textOff})
	return b.Bytes()
}

// note returns the build ID's note.
func (f *file) note() []byte {
	const buildID = 3 // NT_GNU_BUILD_ID
	id := f.id.Bytes()
	b := le.AppendUint32(nil, 4)
	b = le.AppendUint32(b, uint32(len(id)))
	b = le.AppendUint32(b, buildID)
	b = append(b, "GNU\x00"...)
	return append(b, id...)
}

// symbolName returns the name of a function's symbol. Readers would decode some names, as if a compiler had encoded
// them: "a" as "signed char", in perf 7.3. These get parentheses.
func symbolName(name string) string {
	if demangle.Name(name) != name || demangle.IsType(name) {
		return name + "()"
	}
	return name
}

// symbols returns the symbol table and the symbols' names.
func (f *file) symbols() (table, names []byte) {
	table, names = make([]byte, symbolSize), []byte{0}
	at := map[string]uint32{}
	for _, fn := range f.list {
		text := symbolName(fn.of.Name)
		name, ok := at[text]
		if !ok {
			name = uint32(len(names))
			at[text] = name
			names = append(append(names, text...), 0)
		}
		table = le.AppendUint32(table, name)
		table = append(table, elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), 0)
		table = le.AppendUint16(table, textSection)
		table = le.AppendUint64(table, fn.off)
		table = le.AppendUint64(table, uint64(fn.of.Size))
	}
	return table, names
}

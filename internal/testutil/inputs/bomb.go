// This file makes ELF files with sections that are very large without compression.

package inputs

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
)

// BombFiles returns files of at most 9 MB by description. Each contains one section, named without prefix, such as
// debug_info, which claims a size of 1 GB or more.
func BombFiles(section string) map[string][]byte {
	const size = 1 << 30
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	// A frame of zstd (RFC 8878): a window of 128 kB, and blocks of a byte that is repeated as often.
	zstd := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3}
	for range size >> 24 { // a reader that asks for more already took much
		w.Write(make([]byte, 1<<20))
		const block = 1<<17<<3 | 1<<1
		zstd = append(zstd, block&0xff, block>>8&0xff, block>>16, 0)
	}
	w.Close()
	packed := func(kind elf.CompressionType, size uint64, b []byte) []byte {
		var h bytes.Buffer
		binary.Write(&h, binary.LittleEndian, elf.Chdr64{Type: uint32(kind), Size: size, Addralign: 1})
		return file("."+section, elf.SHF_COMPRESSED, append(h.Bytes(), b...))
	}
	old := append(binary.BigEndian.AppendUint64([]byte("ZLIB"), size), z.Bytes()...)
	return map[string][]byte{
		"zlib":           packed(elf.COMPRESS_ZLIB, size, z.Bytes()),
		"zstd":           packed(elf.COMPRESS_ZSTD, size, zstd),
		"zlib with room": packed(elf.COMPRESS_ZLIB, size, append(bytes.Clone(z.Bytes()), make([]byte, 8<<20)...)),
		"2^63 bytes":     packed(elf.COMPRESS_ZLIB, 1<<63, z.Bytes()),
		"zdebug":         file(".z"+section, 0, old),
	}
}

// file returns a file with one section.
func file(name string, flags elf.SectionFlag, data []byte) []byte {
	names := "\x00" + name + "\x00.shstrtab\x00"
	const header, sections = 64, 3
	end := uint64(header + len(data))
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: end + uint64(len(names)), Ehsize: header, Shentsize: 64, Shnum: sections, Shstrndx: sections - 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] =
		byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	b.Write(data)
	b.WriteString(names)
	binary.Write(&b, binary.LittleEndian, [sections]elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(flags), Off: header, Size: uint64(len(data)),
			Addralign: 1},
		{Name: uint32(2 + len(name)), Type: uint32(elf.SHT_STRTAB), Off: end, Size: uint64(len(names))}})
	return b.Bytes()
}

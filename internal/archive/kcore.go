package archive

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"gperf/internal/dso"
)

// Text is code as it lay in a kernel's memory.
type Text struct {
	Addr  uint64 // of the first byte
	Bytes []byte
}

// AddKernelText packs code of the kernel with build ID id, zero if it was not recorded, at the addresses in the
// recording. Errors of writing are *WriteError.
func (p *Packer) AddKernelText(id dso.BuildID, machine elf.Machine, l []Text) error {
	const most = 0xffff - 1 // PN_XNUM means that there are more segments
	if len(l) > most {
		return fmt.Errorf("the kernel's code: %d functions are more than the %d that a core file may have", len(l),
			most)
	}
	if err := p.Writer.Add(procName("kcore", id), time.Time{}, bytes.NewReader(kcore(machine, l))); err != nil {
		return &WriteError{err}
	}
	return nil
}

// kcore returns an ELF file of some code in the form of /proc/kcore, which contains all memory (fs/proc/kcore.c of
// Linux): a core file with a segment for each piece.
func kcore(machine elf.Machine, l []Text) []byte {
	const header, entry = 64, 56
	h := elf.Header64{Type: uint16(elf.ET_CORE), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: header, Ehsize: header, Phentsize: entry, Phnum: uint16(len(l))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64),
		byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b, text bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	for _, t := range l {
		n := uint64(len(t.Bytes))
		binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
			Off: header + entry*uint64(len(l)) + uint64(text.Len()), Vaddr: t.Addr, Filesz: n, Memsz: n})
		text.Write(t.Bytes)
	}
	return append(b.Bytes(), text.Bytes()...)
}

// runningCode returns the hit code of the running kernel, each range once. It skips ranges that the
// user may not read.
func (h *Hits) runningCode() (machine elf.Machine, l []Text) {
	slices.SortFunc(h.memory, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	for _, r := range slices.Compact(h.memory) {
		c, err := h.session.Symbols.RunningCode(r.Start, r.End)
		if err != nil {
			continue
		}
		machine = c.Machine
		l = append(l, Text{Addr: c.Addr, Bytes: c.Bytes})
	}
	return machine, l
}

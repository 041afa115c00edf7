package synth

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gperf/internal/procfs"
)

// OpenKcore opens the file of the kernel's memory. The error is a *KcoreError.
func OpenKcore() (*os.File, error) {
	f, err := os.Open("/proc/kcore")
	if err != nil {
		return nil, &KcoreError{err}
	}
	return f, nil
}

// CopyKernel copies the kernel's code and symbols to dir: kallsyms, modules, and the code from
// kcore as kcore.
func CopyKernel(dir string, kcore io.ReaderAt) error {
	for _, name := range []string{"kallsyms", "modules"} {
		if err := copyProc(name, dir); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(filepath.Join(dir, "kcore"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o400)
	if err != nil {
		return &KcoreError{err}
	}
	err = copyKernel(out, kcore)
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return &KcoreError{err}
	}
	return nil
}

// KcoreError means that the kernel's code could not be copied.
type KcoreError struct{ Err error }

func (e *KcoreError) Error() string { return fmt.Sprintf("copying /proc/kcore: %v", e.Err) }
func (e *KcoreError) Unwrap() error { return e.Err }

func copyProc(name, dir string) error {
	b, err := os.ReadFile(filepath.Join("/proc", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), b, 0o400)
	}
	if err != nil {
		return fmt.Errorf("copying /proc/%s: %w", name, err)
	}
	return nil
}

// segment is a range of the kernel's memory, and its position in /proc/kcore, in bytes.
type segment struct{ addr, size, off uint64 }

// copyKernel copies the code of the kernel and its modules from kcore to a core file with a
// segment for each.
func copyKernel(w io.Writer, kcore io.ReaderAt) error {
	f, err := elf.NewFile(kcore)
	if err != nil {
		return err
	}
	wanted, err := kernelCode()
	if err != nil {
		return err
	}
	var l []segment
	for _, want := range wanted {
		if s, ok := locate(f, want); ok {
			l = append(l, s)
		}
	}
	if len(l) == 0 {
		return errors.New("it has no kernel code (requires CAP_SYS_RAWIO, and addresses in /proc/kallsyms)")
	}
	if _, err := w.Write(coreHeader(f, l)); err != nil {
		return err
	}
	for _, s := range l {
		if _, err := io.Copy(w, io.NewSectionReader(kcore, int64(s.off), int64(s.size))); err != nil {
			return err
		}
	}
	return nil
}

// kernelCode returns the complete pages with code of the kernel, and of its modules.
func kernelCode() ([]segment, error) {
	k := readKallsyms()
	if err := errors.Join(k.unopened, k.err); err != nil {
		return nil, err
	}
	if k.text == 0 || k.end == hiddenEnd {
		return nil, errors.New("/proc/kallsyms does not show the kernel's addresses")
	}
	l := []segment{wholePages(k.text, k.end)}
	modules, err := procfs.Modules()
	if err != nil {
		return nil, err
	}
	if n := len(modules); n > 0 {
		l = append(l, wholePages(modules[0].Start, modules[n-1].Start+modules[n-1].Size))
	}
	return l, nil
}

func wholePages(from, to uint64) segment {
	page := uint64(os.Getpagesize())
	from &^= page - 1
	return segment{addr: from, size: (to - from + page - 1) &^ (page - 1)}
}

// locate returns the part of a range that a file of the kernel's memory contains.
func locate(f *elf.File, s segment) (segment, bool) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || s.addr < p.Vaddr || s.addr-p.Vaddr >= p.Filesz {
			continue
		}
		skip := s.addr - p.Vaddr
		return segment{s.addr, min(s.size, p.Filesz-skip), p.Off + skip}, true
	}
	return segment{}, false
}

// coreHeader returns the headers of a core file, padded to a multiple of the page size.
func coreHeader(f *elf.File, l []segment) []byte {
	const headerSize, progSize = 64, 56
	page := os.Getpagesize()
	size := (headerSize + progSize*len(l) + page - 1) &^ (page - 1)
	h := elf.Header64{Type: uint16(elf.ET_CORE), Machine: uint16(f.Machine), Version: uint32(elf.EV_CURRENT),
		Phoff:  headerSize,
		Ehsize: headerSize, Phentsize: progSize, Phnum: uint16(len(l))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, &h)
	off := uint64(size)
	for _, s := range l {
		binary.Write(&b, binary.LittleEndian, &elf.Prog64{Type: uint32(elf.PT_LOAD),
			Flags: uint32(elf.PF_R | elf.PF_W | elf.PF_X),
			Off:   off, Vaddr: s.addr, Filesz: s.size, Memsz: s.size, Align: uint64(page)})
		off += s.size
	}
	return append(b.Bytes(), make([]byte, size-b.Len())...)
}

package symbolize

import (
	"archive/zip"
	"debug/elf"
	"io/fs"
	"sync"

	"gperf/internal/dso"
)

// Shared has the tables of symbols that several Symbolizers with other files need, for example Symbolizers of archives.
// It may be used from several goroutines. A nil Shared shares nothing.
type Shared struct {
	mu       sync.Mutex
	tables   map[tableKey]*Table
	kallsyms map[kallsymsKey]*Kallsyms
}

// NewShared returns an empty Shared.
func NewShared() *Shared {
	return &Shared{tables: map[tableKey]*Table{}, kallsyms: map[kallsymsKey]*Kallsyms{}}
}

// tableKey identifies the symbols of a DSO. Archives have different parts of the same file; files of one build with
// symbol tables of the same sizes have the same symbols.
type tableKey struct {
	id               dso.BuildID
	demangle         bool
	apart            bool // syms and runtime are two files
	symtab, dynsym   uint64
	runtime, layouts uint64 // the runtime's .dynsym, and relocations of its PLT
}

// kallsymsKey identifies the contents of a file in an archive.
type kallsymsKey struct {
	size uint64
	crc  uint32
}

// table returns the table of the DSO with build ID id and these files. It calls make if it does not have the table.
func (s *Shared) table(id dso.BuildID, demangle bool, syms, runtime *dso.Image,
	make func() (*Table, error)) (*Table, error) {
	if s == nil || id.IsZero() {
		return make()
	}
	k := tableKey{id: id, demangle: demangle, apart: syms != runtime, symtab: sizeOf(syms, ".symtab"),
		dynsym: sizeOf(syms, ".dynsym"), runtime: sizeOf(runtime, ".dynsym"), layouts: sizeOf(runtime, ".rela.plt")}
	s.mu.Lock()
	t := s.tables[k]
	s.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := make()
	if err == nil {
		s.mu.Lock()
		s.tables[k] = t
		s.mu.Unlock()
	}
	return t, err
}

// sizeOf returns the size of a section in the file, in bytes, 0 if its contents are missing.
func sizeOf(im *dso.Image, section string) uint64 {
	if s := im.Section(section); s != nil && s.Type != elf.SHT_NOBITS {
		return s.FileSize
	}
	return 0
}

// kernel returns the symbols of a kallsyms file. It calls make unless it knows the symbols of a file with equal
// contents.
func (s *Shared) kernel(f fs.File, make func() (*Kallsyms, error)) (*Kallsyms, error) {
	st, err := f.Stat()
	if s == nil || err != nil {
		return make()
	}
	h, ok := st.Sys().(*zip.FileHeader)
	if !ok {
		return make()
	}
	k := kallsymsKey{h.UncompressedSize64, h.CRC32}
	s.mu.Lock()
	known := s.kallsyms[k]
	s.mu.Unlock()
	if known != nil {
		return known, f.Close()
	}
	known, err = make()
	if err == nil {
		s.mu.Lock()
		s.kallsyms[k] = known
		s.mu.Unlock()
	}
	return known, err
}

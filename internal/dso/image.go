package dso

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const pfX = elf.PF_X

// Image is an opened ELF file. Its headers are in memory, its contents are read
// when asked for. All methods may be called from several goroutines; Close only
// when none is in use.
type Image struct {
	Path    string // where it was found, for messages
	Type    elf.Type
	Machine elf.Machine
	Is64    bool
	Size    uint64 // of the file, in bytes

	f     *elf.File
	r     io.ReaderAt
	close func() error
	loads []elf.ProgHeader // PT_LOAD, in the file's order
	id    BuildID

	mapped mapping
}

// Open opens the ELF file at path. The error is ErrNoFile, ErrNotRegular or
// ErrNotELF where that is the cause.
func Open(path string) (*Image, error) {
	// Opening a FIFO would wait for its writer: look first.
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	case err != nil:
		return nil, fmt.Errorf("open: %w", err)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("open %s: %w", path, ErrNotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	im, err := NewImage(f, st.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	im.close = f.Close
	return im, nil
}

// NewImage reads the headers of the ELF file of the given size in r. Errors name
// it path. r must allow concurrent reads.
func NewImage(r io.ReaderAt, size int64, path string) (*Image, error) {
	f, err := readHeaders(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, ErrNotELF, err)
	}
	im := &Image{
		Path: path, Type: f.Type, Machine: f.Machine, Is64: f.Class == elf.ELFCLASS64, Size: uint64(size),
		f: f, r: r,
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			im.loads = append(im.loads, p.ProgHeader)
		}
	}
	im.id = im.readBuildID()
	return im, nil
}

// readHeaders calls debug/elf, which is not proof against every hostile file.
func readHeaders(r io.ReaderAt) (f *elf.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged headers: %v", p)
		}
	}()
	return elf.NewFile(r)
}

// Close releases the file. Data already returned stays valid, except that of Map.
func (im *Image) Close() error {
	if im == nil || im.close == nil {
		return nil
	}
	im.unmap()
	return im.close()
}

// BuildID returns the file's build ID, zero if it has none.
func (im *Image) BuildID() BuildID { return im.id }

// Loads returns the PT_LOAD segments in file order. The caller must not change them.
func (im *Image) Loads() []elf.ProgHeader { return im.loads }

// Sections returns the section headers by index, the first being the null
// section; not to be changed.
func (im *Image) Sections() []*elf.Section { return im.f.Sections }

// Section returns the first section of that name, nil if there is none.
func (im *Image) Section(name string) *elf.Section { return im.f.Section(name) }

// ByteOrder returns the file's byte order.
func (im *Image) ByteOrder() binary.ByteOrder { return im.f.ByteOrder }

// Data returns the bytes of a section as they lie in the file, none for NOBITS.
// A section that does not lie within the file is an error, before any memory is
// taken for it.
func (im *Image) Data(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize == 0 {
		return nil, nil
	}
	return im.Bytes(s.Offset, s.FileSize)
}

// Bytes returns n bytes of the file from offset off on.
func (im *Image) Bytes(off, n uint64) ([]byte, error) {
	if off > im.Size || n > im.Size-off {
		return nil, fmt.Errorf("read %s: bytes %#x+%#x lie outside of the file's %#x", im.Path, off, n, im.Size)
	}
	b := make([]byte, n)
	if _, err := im.r.ReadAt(b, int64(off)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", im.Path, err)
	}
	return b, nil
}

// ReadAt implements io.ReaderAt for the file's bytes.
func (im *Image) ReadAt(p []byte, off int64) (int, error) { return im.r.ReadAt(p, off) }

// maxString bounds a name. Without it a file of symbols that all share one
// endless name would take time without end.
const maxString = 1 << 16

// String returns the NUL-terminated string at off of a string table, or "". It cuts
// strings longer than 64 KiB.
func String(table string, off uint32) string {
	if uint64(off) >= uint64(len(table)) {
		return ""
	}
	s := table[off:]
	s = s[:min(len(s), maxString)]
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

// buildIDSections are where perf looks for the note, in its order
// (elf_read_build_id in tools/perf/util/symbol-elf.c).
var buildIDSections = []string{".note.gnu.build-id", ".notes", ".note"}

// maxNotes limits the notes read to find a build ID, in bytes.
const maxNotes = 1 << 20

// readBuildID reads the note from its section or, as the kernel does for MMAP2
// records, from the PT_NOTE segments.
func (im *Image) readBuildID() BuildID {
	order := im.f.ByteOrder
	for _, name := range buildIDSections {
		s := im.f.Section(name)
		if s == nil || s.FileSize > maxNotes {
			continue
		}
		if b, err := im.Data(s); err == nil {
			if id := BuildIDFromNotes(b, order, 4); !id.IsZero() {
				return id
			}
		}
	}
	for _, p := range im.f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		if b, err := im.Bytes(p.Off, p.Filesz); err == nil {
			if id := BuildIDFromNotes(b, order, p.Align); !id.IsZero() {
				return id
			}
		}
	}
	return BuildID{}
}

// HasSymtab reports whether the file has a .symtab.
func (im *Image) HasSymtab() bool { return im.hasSection(".symtab", elf.SHT_SYMTAB) }

// HasDynsym reports whether the file has a .dynsym with contents, which files of
// debug information lack.
func (im *Image) HasDynsym() bool { return im.hasSection(".dynsym", elf.SHT_DYNSYM) }

func (im *Image) hasSection(name string, t elf.SectionType) bool {
	s := im.f.Section(name)
	return s != nil && s.Type == t
}

// HasCode reports whether the file holds the instructions, which files of debug
// information do not.
func (im *Image) HasCode() bool {
	for _, s := range im.f.Sections {
		if s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) == elf.SHF_ALLOC|elf.SHF_EXECINSTR {
			return s.Type != elf.SHT_NOBITS
		}
	}
	return len(im.f.Sections) == 0 && len(im.loads) > 0
}

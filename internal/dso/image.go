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

	"gperf/internal/untrusted"
)

const pfX = elf.PF_X

// Image is an open ELF file. The headers are in memory; the contents are read on demand. Several goroutines may
// call methods at once, but Close must be called only when no other method is running.
type Image struct {
	Path    string // for messages; also where the file is, unless it is packed
	Type    elf.Type
	Machine elf.Machine
	Is64    bool
	Size    uint64      // bytes
	Info    fs.FileInfo // of the opened file; nil if the image is no separate file
	Loads
	Sections

	f     *elf.File
	r     io.ReaderAt
	file  *os.File // nil if the image is no separate file
	close func() error
	id    BuildID

	mapped mapping
}

// Open opens the ELF file at path. The error wraps ErrNoFile, errNotRegular or ErrNotELF if that is the cause.
func Open(path string) (*Image, error) {
	f, err := untrusted.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	}
	if err != nil {
		return nil, err
	}
	return readImage(f, path)
}

// NewImage reads the headers of the ELF file of size bytes in r. Errors name the file path. r must allow concurrent
// reads.
func NewImage(r io.ReaderAt, size int64, path string) (*Image, error) {
	var magic [len(elf.ELFMAG)]byte
	if n, _ := r.ReadAt(magic[:], 0); string(magic[:n]) != elf.ELFMAG {
		return nil, fmt.Errorf("read %s: %w", path, ErrNotELF)
	}
	f, err := readHeaders(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, ErrNotELF, err)
	}
	im := &Image{
		Path: path, Type: f.Type, Machine: f.Machine, Is64: f.Class == elf.ELFCLASS64, Size: uint64(size),
		Sections: f.Sections, f: f, r: r,
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && !wraps(p.Vaddr, max(p.Memsz, p.Filesz)) && !wraps(p.Off, p.Filesz) {
			im.Loads = append(im.Loads, p.ProgHeader)
		}
	}
	im.id = readBuildID(im)
	return im, nil
}

// wraps reports whether size bytes from start on reach beyond 64 bits.
func wraps(start, size uint64) bool { return size > 0 && start+size-1 < start }

// readHeaders calls debug/elf, which panics on some corrupt files.
func readHeaders(r io.ReaderAt) (f *elf.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("corrupt headers: %v", p)
		}
	}()
	return elf.NewFile(r)
}

// Close releases the file. Bytes returned before stay valid, except the bytes from Map.
func (im *Image) Close() error {
	if im == nil || im.close == nil {
		return nil
	}
	im.mapped.close()
	return im.close()
}

// BuildID returns the file's build ID, zero if there is none.
func (im *Image) BuildID() BuildID { return im.id }

// Entry returns the vaddr of the first instruction of a program or of the dynamic loader, 0 if there is none. The
// headers of other libraries may contain any address there, often the first function's.
func (im *Image) Entry() uint64 {
	if im.Type == elf.ET_EXEC || im.Type == elf.ET_DYN && !isLibrary(im) {
		return im.f.Entry
	}
	return 0
}

// isLibrary reports whether a shared object is a library: it names no loader, as programs do, and needs other files,
// as the loader does not, without saying that it is a program.
func isLibrary(im *Image) bool {
	library := false
	for _, p := range im.f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			return false
		case elf.PT_DYNAMIC:
			library = needs(im, p)
		}
	}
	return library
}

// maxDynamic limits the dynamic section, in bytes.
const maxDynamic = 1 << 16

// needs reports whether the dynamic section of a file that is no program names files to load.
func needs(im *Image, p *elf.Prog) (needs bool) {
	b, err := im.Bytes(p.Off, min(p.Filesz, maxDynamic))
	for ; err == nil && len(b) >= 16; b = b[16:] { // Elf64_Dyn
		switch value := im.f.ByteOrder.Uint64(b[8:]); elf.DynTag(im.f.ByteOrder.Uint64(b)) {
		case elf.DT_NEEDED:
			needs = true
		case elf.DT_FLAGS_1:
			if elf.DynFlag1(value)&elf.DF_1_PIE != 0 {
				return false
			}
		}
	}
	return needs
}

// ByteOrder returns the file's byte order.
func (im *Image) ByteOrder() binary.ByteOrder { return im.f.ByteOrder }

// Data returns the bytes of a section as stored in the file, without decompressing them, and none for NOBITS. It checks
// that the section is inside the file before it allocates memory.
func (im *Image) Data(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize == 0 {
		return nil, nil
	}
	return im.Bytes(s.Offset, s.FileSize)
}

// Text returns the contents of a section as Data does, without a second copy of a large table of strings.
func (im *Image) Text(s *elf.Section) (string, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize == 0 {
		return "", nil
	}
	if err := im.contains(s.Offset, s.FileSize); err != nil {
		return "", err
	}
	var text strings.Builder
	text.Grow(int(s.FileSize))
	if _, err := io.Copy(&text, io.NewSectionReader(im.r, int64(s.Offset), int64(s.FileSize))); err != nil {
		return "", fmt.Errorf("read %s: %w", im.Path, err)
	}
	return text.String(), nil
}

// contains returns an error unless the file has n bytes at offset off.
func (im *Image) contains(off, n uint64) error {
	if off > im.Size || n > im.Size-off {
		return fmt.Errorf("read %s: bytes %#x+%#x are outside the file of %#x bytes", im.Path, off, n, im.Size)
	}
	return nil
}

// Bytes returns the n bytes of the file at offset off.
func (im *Image) Bytes(off, n uint64) ([]byte, error) {
	if err := im.contains(off, n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := im.r.ReadAt(b, int64(off)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", im.Path, err)
	}
	return b, nil
}

// ReadAt implements io.ReaderAt for the file's bytes.
func (im *Image) ReadAt(p []byte, off int64) (int, error) { return im.r.ReadAt(p, off) }

// maxString limits a name, in bytes: the symbols of a corrupt file may all share one long name.
const maxString = 1 << 16

// String returns the NUL-terminated string at off of a string table, or "". It truncates strings to 64 KiB.
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

// buildIDSections are the sections that may contain the note, in perf's order (elf_read_build_id in
// tools/perf/util/symbol-elf.c).
var buildIDSections = []string{".note.gnu.build-id", ".notes", ".note"}

// maxNotes limits a section or segment of notes, in bytes.
const maxNotes = 1 << 20

// readBuildID reads the note from the note's section, or from the PT_NOTE segments, as the kernel does for MMAP2
// records.
func readBuildID(im *Image) BuildID {
	order := im.f.ByteOrder
	for _, name := range buildIDSections {
		s := im.Section(name)
		if s == nil || s.FileSize > maxNotes {
			continue
		}
		if b, err := im.Data(s); err == nil {
			if id := buildIDFromNotes(b, order, 4); !id.IsZero() {
				return id
			}
		}
	}
	for _, p := range im.f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		if b, err := im.Bytes(p.Off, p.Filesz); err == nil {
			if id := buildIDFromNotes(b, order, p.Align); !id.IsZero() {
				return id
			}
		}
	}
	return BuildID{}
}

// HasCode reports whether the file contains instructions. A file of debug information does not.
func (im *Image) HasCode() bool {
	for _, s := range im.Sections {
		if s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) == elf.SHF_ALLOC|elf.SHF_EXECINSTR {
			return s.Type != elf.SHT_NOBITS
		}
	}
	return len(im.Sections) == 0 && len(im.Loads) > 0
}

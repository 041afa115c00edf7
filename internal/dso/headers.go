package dso

import (
	"debug/elf"
	"fmt"
	"os"

	"gperf/internal/untrusted"
)

// ELF is a file for package debug/elf, which reads the sections of it as a whole.
type ELF struct {
	*elf.File
	file *os.File
}

// OpenELF opens the ELF file at path, as Open does. The error wraps ErrUnpacked if debug/elf would decompress more than
// the file can contain.
func OpenELF(path string) (*ELF, error) {
	file, err := untrusted.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := readHeaders(file)
	if err == nil {
		err = plausible(f)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &ELF{f, file}, nil
}

// Close closes the file.
func (e *ELF) Close() error { return e.file.Close() }

// plausible returns an error if a compressed section is not.
func plausible(f *elf.File) error {
	for _, s := range f.Sections {
		size, packed := unpackedSize(s)
		if err := checkUnpacked(size, packed); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

package dso

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"path/filepath"
	"strings"
)

// Errors of finding debug information; test for them with errors.Is.
var (
	ErrNoDWARF  = errors.New("no debug information")
	errChecksum = errors.New("checksum mismatch")
)

// NoDebugError says why a DSO's debug information is missing.
type NoDebugError struct {
	Path  string
	ID    BuildID // zero if unknown: servers cannot be asked
	Tried []error // the errors of the files tried, with file names
}

func (e *NoDebugError) Error() string {
	msg := "no debug information of " + e.Path
	for i, err := range e.Tried {
		msg += [...]string{": ", "; "}[min(i, 1)] + err.Error()
	}
	return msg
}

// Unwrap returns ErrNoDWARF and the errors of the files tried.
func (e *NoDebugError) Unwrap() []error { return append([]error{ErrNoDWARF}, e.Tried...) }

// HasDWARF reports whether the file contains debug information.
func (l Sections) HasDWARF() bool {
	for _, name := range [...]string{".debug_info", ".zdebug_info"} {
		if s := l.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return true
		}
	}
	return false
}

// Debug returns the ELF file with the DWARF of the DSO recorded at path with build ID id, which may be zero, and the
// supplementary file that dwz made for it, or nil. path may be a module's name in brackets. The error is a
// *NoDebugError. With an error and a debug file, the supplementary file is missing: lines are complete, but some names
// of inlined functions are not. The caller closes both files.
func (l *Locator) Debug(path string, id BuildID) (debug, supp *Image, err error) {
	id = l.OwnID(path, id)
	return l.debug(path, id, l.Candidates(path, id))
}

// debug returns the first of the files with DWARF, or else a server's file.
func (l *Locator) debug(path string, id BuildID, files iter.Seq2[*Image, error]) (debug, supp *Image, err error) {
	missing := &NoDebugError{Path: path, ID: id}
	for im, err := range files {
		if err == nil && im.HasDWARF() {
			return l.withSupplement(im)
		}
		if err == nil {
			err = fmt.Errorf("%s: %w", im.Path, ErrNoDWARF)
			im.Close()
		}
		missing.Tried = append(missing.Tried, err)
	}
	im, err := l.fetch(id, DebugFile)
	switch {
	case err != nil:
		missing.Tried = append(missing.Tried, err)
	case im != nil && im.HasDWARF():
		return l.withSupplement(im)
	case im != nil:
		im.Close()
		missing.Tried = append(missing.Tried, fmt.Errorf("%s: %w", im.Path, ErrNoDWARF))
	}
	return nil, nil, missing
}

// withSupplement returns debug and the supplementary file of debug.
func (l *Locator) withSupplement(debug *Image) (_, supp *Image, err error) {
	name, id := supplement(debug)
	if name == "" {
		return debug, nil, nil
	}
	missing := &NoDebugError{Path: name, ID: id}
	for _, at := range l.supplementPaths(debug, name, id) {
		supp, err := l.image(at)
		if err == nil && isSupplement(supp, id) {
			return debug, supp, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: %w: got %s, %s refers to %s", at, ErrMismatch, supp.id, debug.Path, id)
			supp.Close()
		}
		if !errors.Is(err, ErrNoFile) {
			missing.Tried = append(missing.Tried, err)
		}
	}
	if supp, err = l.fetch(id, DebugFile); err == nil && supp != nil {
		return debug, supp, nil
	}
	if err != nil {
		missing.Tried = append(missing.Tried, err)
	}
	return debug, nil, missing
}

// supplementPaths returns the possible paths of the supplementary file that debug calls name: relative to debug, in
// the debug directory, where distributions install it, and by build ID.
func (t *Tree) supplementPaths(debug *Image, name string, id BuildID) []string {
	recorded := t.Rooted(name)
	if !isAbs(name) {
		recorded = filepath.Join(filepath.Dir(realPath(debug.Path)), name)
	}
	return []string{
		recorded,
		filepath.Join(t.debugDir(), ".dwz", filepath.Base(name)),
		t.debugPath(id),
		t.Cache().Path(id, "elf"),
		t.Cache().Path(id, "debug"),
	}
}

// realPath resolves symbolic links: debug links are relative to the real directory.
func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// supplement returns the name and build ID of the supplementary file that im refers to, in .gnu_debugaltlink (dwz) or
// .debug_sup (DWARF 5, section 7.3.6).
func supplement(im *Image) (name string, id BuildID) {
	if b := smallSection(im, ".gnu_debugaltlink"); b != nil {
		name, rest, ok := bytes.Cut(b, []byte{0})
		if ok {
			return string(name), NewBuildID(rest)
		}
	}
	if isSupp, name, id := debugSup(im); !isSupp {
		return name, id
	}
	return "", BuildID{}
}

// isSupplement reports whether im is the supplementary file with the ID.
func isSupplement(im *Image, id BuildID) bool {
	_, _, own := debugSup(im)
	return im.id.Matches(id) || own.Matches(id)
}

// debugSup reads .debug_sup: whether im itself is a supplementary file, otherwise the supplementary file's name, and
// the supplementary file's checksum, which is a build ID.
func debugSup(im *Image) (isSupp bool, name string, id BuildID) {
	b := smallSection(im, ".debug_sup")
	if len(b) < 3 || im.ByteOrder().Uint16(b) != 5 {
		return false, "", BuildID{}
	}
	text, rest, ok := bytes.Cut(b[3:], []byte{0})
	if !ok || len(rest) == 0 || int(rest[0]) > len(rest)-1 || rest[0] >= 0x80 { // a ULEB128 length of one byte
		return false, "", BuildID{}
	}
	return b[2] != 0, string(text), NewBuildID(rest[1 : 1+rest[0]])
}

// maxLink limits sections with a name and a checksum, in bytes.
const maxLink = 1 << 16

// smallSection returns the bytes of a section of at most maxLink bytes, or nil.
func smallSection(im *Image, name string) []byte {
	s := im.Section(name)
	if s == nil || s.FileSize > maxLink {
		return nil
	}
	b, err := im.Data(s)
	if err != nil {
		return nil
	}
	return b
}

// debugLink returns the name of the file with im's debug information, and the CRC-32 of that file's contents:
// .gnu_debuglink contains the name, padded with zeros to 4 bytes, and the CRC.
func debugLink(im *Image) (name string, crc uint32, ok bool) {
	b := smallSection(im, ".gnu_debuglink")
	i := bytes.IndexByte(b, 0)
	if i <= 0 || (i+4)&^3+4 > len(b) {
		return "", 0, false
	}
	return string(b[:i]), im.ByteOrder().Uint32(b[(i+4)&^3:]), true
}

// checksum returns errChecksum unless want is the CRC-32 of the file's contents.
func (im *Image) checksum(want uint32) error {
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, io.NewSectionReader(im.r, 0, int64(min(im.Size, math.MaxInt64)))); err != nil {
		return fmt.Errorf("read %s: %w", im.Path, err)
	}
	if got := h.Sum32(); got != want {
		return fmt.Errorf("%s: %w: got %08x, want %08x", im.Path, errChecksum, got, want)
	}
	return nil
}

// DWO yields the files that may contain the split DWARF of a compilation unit of debug with that DW_AT_comp_dir and
// DW_AT_dwo_name: the packages (.dwp) of the DSO recorded at path and of debug, then the unit's own file (.dwo). The
// caller compares the unit's ID, and closes the files.
func (l *Locator) DWO(path string, debug *Image, compDir, name string) iter.Seq[*Image] {
	own := name
	if !isAbs(own) {
		own = filepath.Join(compDir, name)
	}
	paths := []string{
		l.Rooted(path) + ".dwp",
		debug.Path + ".dwp",
		strings.TrimSuffix(debug.Path, ".debug") + ".dwp",
		l.Rooted(own),
		filepath.Join(filepath.Dir(debug.Path), filepath.Base(name)),
	}
	return func(yield func(*Image) bool) {
		for _, p := range paths {
			if im, err := l.image(p); err == nil && !yield(im) {
				return
			}
		}
	}
}

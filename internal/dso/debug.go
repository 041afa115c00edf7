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
	ErrChecksum = errors.New("checksum mismatch")
)

// NoDebugError says why a DSO's debug information is missing.
type NoDebugError struct {
	Path   string
	ID     BuildID // zero if unknown: servers cannot be asked
	Looked []error // the errors of the files tried, with their names
}

func (e *NoDebugError) Error() string {
	msg := "no debug information of " + e.Path
	for i, err := range e.Looked {
		msg += [...]string{": ", "; "}[min(i, 1)] + err.Error()
	}
	return msg
}

// Unwrap returns the reasons.
func (e *NoDebugError) Unwrap() []error { return append([]error{ErrNoDWARF}, e.Looked...) }

// HasDWARF reports whether the file holds debug information.
func (im *Image) HasDWARF() bool {
	for _, name := range [...]string{".debug_info", ".zdebug_info"} {
		if s := im.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return true
		}
	}
	return false
}

// Debug returns the ELF file with the DWARF of the DSO recorded at path with
// build ID id, which may be zero, and the supplementary file that dwz made for it,
// or nil. path may be a module's name in brackets. The error is a *NoDebugError.
// If debug is set too, the supplementary file is missing: lines are complete then,
// but some names of inlined functions are missing. The caller closes both files.
func (f *Locator) Debug(path string, id BuildID) (debug, supp *Image, err error) {
	if id.IsZero() {
		id = f.OwnID(path)
	}
	return f.debug(path, id, f.Candidates(path, id))
}

// debug returns the first of the files with DWARF, or else a server's file.
func (f *Locator) debug(path string, id BuildID, files iter.Seq2[*Image, error]) (debug, supp *Image, err error) {
	no := &NoDebugError{Path: path, ID: id}
	for im, err := range files {
		if err == nil && im.HasDWARF() {
			return f.supplemented(im)
		}
		if err == nil {
			err = fmt.Errorf("%s: %w", im.Path, ErrNoDWARF)
			im.Close()
		}
		no.Looked = append(no.Looked, err)
	}
	im, err := f.fetch(id, DebugFile)
	switch {
	case err != nil:
		no.Looked = append(no.Looked, err)
	case im != nil && im.HasDWARF():
		return f.supplemented(im)
	case im != nil:
		im.Close()
		no.Looked = append(no.Looked, fmt.Errorf("%s: %w", im.Path, ErrNoDWARF))
	}
	return nil, nil, no
}

// Kinds of files on a server, as named by debuginfod's protocol.
const (
	DebugFile = "debuginfo"  // what strip took out
	CodeFile  = "executable" // the program or library itself
)

// fetch returns a server's file for a build ID, or nil if there are no servers to ask.
func (f *Locator) fetch(id BuildID, what string) (*Image, error) {
	if f.Fetch == nil || id.IsZero() {
		return nil, nil
	}
	name, err := f.Fetch(id, what)
	if err != nil {
		return nil, err
	}
	return onDisk.open(candidate{name: name}, id)
}

// supplemented returns debug with the supplementary file that it names.
func (f *Locator) supplemented(debug *Image) (_, supp *Image, err error) {
	name, id := debug.supplement()
	if name == "" {
		return debug, nil, nil
	}
	no := &NoDebugError{Path: name, ID: id}
	for _, at := range f.supplementPlaces(debug, name, id) {
		supp, err := f.image(at)
		if err == nil && supp.supplements(id) {
			return debug, supp, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: %w: it is %s, %s has %s", at, ErrMismatch, supp.id, debug.Path, id)
			supp.Close()
		}
		if !errors.Is(err, ErrNoFile) {
			no.Looked = append(no.Looked, err)
		}
	}
	if supp, err = f.fetch(id, DebugFile); err == nil && supp != nil {
		return debug, supp, nil
	}
	if err != nil {
		no.Looked = append(no.Looked, err)
	}
	return debug, nil, no
}

// supplementPlaces returns the possible paths of the supplementary file that debug
// calls name: relative to debug, below the debug directory, where distributions
// move it, and by its build ID.
func (f *Locator) supplementPlaces(debug *Image, name string, id BuildID) []string {
	l := []string{filepath.Join(f.debugDir(), ".dwz", filepath.Base(name)), debugDirBuildID(f, name, id), f.CachePath(id, "elf"), f.CachePath(id, "debug")}
	if filepath.IsAbs(name) {
		l = append([]string{f.Rooted(name)}, l...)
	} else {
		l = append([]string{filepath.Join(filepath.Dir(realPath(debug.Path)), name)}, l...)
	}
	return l
}

// realPath resolves the links of path: debug links are relative to the real
// directory.
func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// supplement returns the name and build ID of the supplementary file that the
// file refers to: in .gnu_debugaltlink of dwz or .debug_sup of DWARF 5 (section
// 7.3.6).
func (im *Image) supplement() (name string, id BuildID) {
	if b := im.small(".gnu_debugaltlink"); b != nil {
		name, rest, ok := bytes.Cut(b, []byte{0})
		if ok {
			return string(name), NewBuildID(rest)
		}
	}
	if is, name, id := im.debugSup(); !is {
		return name, id
	}
	return "", BuildID{}
}

// supplements reports whether the file is the supplementary one with the given ID.
func (im *Image) supplements(id BuildID) bool {
	_, _, sup := im.debugSup()
	return im.id.Matches(id) || sup.Matches(id)
}

// debugSup reads .debug_sup: whether it says that this is a supplementary file,
// or else the name of that, and its checksum, which is a build ID.
func (im *Image) debugSup() (is bool, name string, id BuildID) {
	b := im.small(".debug_sup")
	if len(b) < 3 || im.ByteOrder().Uint16(b) != 5 {
		return false, "", BuildID{}
	}
	text, rest, ok := bytes.Cut(b[3:], []byte{0})
	if !ok || len(rest) == 0 || int(rest[0]) > len(rest)-1 || rest[0] >= 0x80 { // a length as ULEB128: of one byte
		return false, "", BuildID{}
	}
	return b[2] != 0, string(text), NewBuildID(rest[1 : 1+rest[0]])
}

// maxLink bounds sections that hold a name and a checksum.
const maxLink = 1 << 16

// small returns the bytes of a small section, or nil.
func (im *Image) small(name string) []byte {
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

// debugLink returns the name of the file that strip put debug information into
// and the CRC-32 of its contents: .gnu_debuglink has the name, padded with zeros
// to 4 bytes, and the sum.
func (im *Image) debugLink() (name string, crc uint32, ok bool) {
	b := im.small(".gnu_debuglink")
	i := bytes.IndexByte(b, 0)
	if i <= 0 || (i+4)&^3+4 > len(b) {
		return "", 0, false
	}
	return string(b[:i]), im.ByteOrder().Uint32(b[(i+4)&^3:]), true
}

// debugLinks are the files that the .gnu_debuglink of the file at own may mean.
func (f *Locator) debugLinks(own string) (l []candidate) {
	im, err := f.image(own)
	if err != nil {
		return nil
	}
	defer im.Close()
	name, crc, ok := im.debugLink()
	if !ok {
		return nil
	}
	dir := filepath.Dir(own)
	inside := dir
	if f.Root != "" {
		inside = strings.TrimPrefix(dir, filepath.Clean(f.Root))
	}
	for _, at := range [...]string{filepath.Join(dir, name), filepath.Join(dir, ".debug", name), filepath.Join(f.debugDir(), inside, name)} {
		if at != own {
			l = append(l, candidate{at, &crc})
		}
	}
	return l
}

// checksum compares the CRC-32 of the file's contents.
func (im *Image) checksum(want uint32) error {
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, io.NewSectionReader(im.r, 0, int64(min(im.Size, math.MaxInt64)))); err != nil {
		return fmt.Errorf("read %s: %w", im.Path, err)
	}
	if got := h.Sum32(); got != want {
		return fmt.Errorf("%s: %w: it is %08x, %08x was linked", im.Path, ErrChecksum, got, want)
	}
	return nil
}

// DWO yields the files that may hold the split DWARF of a compilation unit of
// debug, which names it by its DW_AT_comp_dir and DW_AT_dwo_name: packages (.dwp)
// of the DSO recorded at path and of debug, then the unit's own (.dwo). The caller
// compares the unit's ID to find the right one, and closes the files.
func (f *Locator) DWO(path string, debug *Image, compDir, name string) iter.Seq[*Image] {
	own := name
	if !filepath.IsAbs(own) {
		own = filepath.Join(compDir, name)
	}
	places := []string{f.Rooted(path) + ".dwp", debug.Path + ".dwp", strings.TrimSuffix(debug.Path, ".debug") + ".dwp",
		f.Rooted(own), filepath.Join(filepath.Dir(debug.Path), filepath.Base(name))}
	return func(yield func(*Image) bool) {
		for _, at := range places {
			if im, err := f.image(at); err == nil && !yield(im) {
				return
			}
		}
	}
}

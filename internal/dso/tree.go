package dso

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"gperf/internal/untrusted"
)

// VDSO is the name under which perf records the shared object that the kernel maps into every process.
const VDSO = "[vdso]"

// Tree is a tree of files that may contain the DSOs of a recording: this machine's files (the zero value), a copy of
// the recorded machine's, or an archive's. It may be used from several goroutines.
type Tree struct {
	// Root is a directory with a copy of the recorded machine's files (perf's --symfs). With a Root, gperf reads
	// neither this machine's caches nor this machine's kernel. "" means this machine.
	Root string
	// Flat means that all files are directly in Root, under the files' base names.
	Flat bool
	// BuildIDDir is perf's build-ID cache; "" means ~/.debug, or .debug in Root.
	BuildIDDir string
	// DebugDir is the directory in which distributions install debug information; "" means /usr/lib/debug below Root.
	DebugDir string

	files fs.FS      // of an archive; nil: those on the disk
	vdso  vdsoReader // replaced by tests
}

// disk opens files named by flags and servers, even if the recording's files are in an archive.
var disk Tree

// Packed reports whether the tree is from InFiles.
func (t *Tree) Packed() bool { return t.files != nil }

// Cache returns perf's build-ID cache for the tree.
func (t *Tree) Cache() BuildIDCache {
	c := BuildIDCache{Dir: t.BuildIDDir, packed: t.Packed()}
	if c.Dir != "" {
		return c
	}
	if t.Root != "" {
		c.Dir = filepath.Join(t.Root, ".debug")
	} else if home, err := os.UserHomeDir(); err == nil {
		c.Dir = filepath.Join(home, ".debug")
	}
	return c
}

func (t *Tree) debugDir() string {
	if t.DebugDir != "" {
		return t.DebugDir
	}
	return filepath.Join(t.Root, "/usr/lib/debug")
}

// Rooted returns the path in the tree of the file recorded at path.
func (t *Tree) Rooted(path string) string {
	switch {
	case t.Root == "":
		return path
	case t.Flat:
		path = filepath.Base(path)
	}
	return filepath.Join(t.Root, path)
}

// debugPath returns the path below the debug directory of the debug information with build ID id, or "" without an ID.
func (t *Tree) debugPath(id BuildID) string {
	hex := id.String()
	if len(hex) < 3 {
		return ""
	}
	return filepath.Join(t.debugDir(), ".build-id", hex[:2], hex[2:]+".debug")
}

// recordedPath returns the path of the DSO itself, or "" for names that are not paths.
func (t *Tree) recordedPath(path string) string {
	switch {
	case KindOf(path).HasPath():
		return t.Rooted(path)
	case path == VDSO && (t.Root == "" || t.files != nil):
		return path
	}
	return ""
}

// place is a place where a DSO's file may be.
type place struct {
	origin Origin
	path   func(t *Tree, path string, id BuildID) string // "" if the place does not apply
}

// places are the places of a DSO's files, in the order in which perf tries them (binary_type_symtab in
// tools/perf/util/symbol.c).
var places = []place{
	{'B', func(t *Tree, path string, id BuildID) string {
		if path == VDSO {
			return t.Cache().Path(id, "vdso")
		}
		return t.Cache().Path(id, "elf")
	}},
	{'D', func(t *Tree, _ string, id BuildID) string { return t.Cache().Path(id, "debug") }},
	{'f', func(t *Tree, path string, _ BuildID) string { return filepath.Join(t.debugDir(), path) + ".debug" }},
	{'u', func(t *Tree, path string, _ BuildID) string { return filepath.Join(t.debugDir(), path) }},
	{'b', func(t *Tree, _ string, id BuildID) string { return t.debugPath(id) }},
	{'d', func(t *Tree, path string, _ BuildID) string { return t.recordedPath(path) }},
	{'B', func(t *Tree, path string, id BuildID) string { return t.Cache().named(path, id) }}, // see Kept
	{'o', func(t *Tree, path string, _ BuildID) string {
		dir, base := filepath.Split(t.Rooted(path))
		return filepath.Join(dir, ".debug", base)
	}},
}

// candidate is a file that may be a DSO.
type candidate struct {
	path string
	crc  *uint32 // CRC-32 of the contents; nil: unknown
}

// candidates yields the tree's ELF files that may be the DSO recorded at path with build ID id, in order of preference.
// It yields an error for each file that exists and is not the DSO, and if the recorded path itself does not exist.
func (t *Tree) candidates(path string, id BuildID) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		own := t.recordedPath(path)
		for _, c := range t.candidatePaths(path, id) {
			im, err := t.openMatching(c, id)
			if errors.Is(err, ErrNoFile) && c.path != own {
				continue
			}
			if !yield(im, err) {
				return
			}
		}
	}
}

// candidatePaths returns the paths that candidates tries. Most of them do not exist.
func (t *Tree) candidatePaths(path string, id BuildID) (l []candidate) {
	if own := t.recordedPath(path); own != VDSO && own != "" {
		l = t.debugLinks(own)
	}
	for _, where := range places {
		if p := where.path(t, path, id); p != "" {
			l = append(l, candidate{path: p})
		}
	}
	if KindOf(path) == KindModule && !id.IsZero() {
		for _, p := range t.modulePaths(path) {
			l = append(l, candidate{path: p})
		}
	}
	return l
}

// debugLinks returns the files that the .gnu_debuglink of the file at own may refer to.
func (t *Tree) debugLinks(own string) (l []candidate) {
	im, err := t.image(own)
	if err != nil {
		return nil
	}
	defer im.Close()
	name, crc, ok := debugLink(im)
	if !ok {
		return nil
	}
	dir := filepath.Dir(own)
	inTree := dir
	if t.Root != "" {
		inTree = strings.TrimPrefix(dir, filepath.Clean(t.Root))
	}
	for _, p := range [...]string{
		filepath.Join(dir, name),
		filepath.Join(dir, ".debug", name),
		filepath.Join(t.debugDir(), inTree, name),
	} {
		if p != own {
			l = append(l, candidate{p, &crc})
		}
	}
	return l
}

// ownID returns the build ID of the file at the recorded path, or of the running kernel's vdso. It returns zero if
// there is none.
func (t *Tree) ownID(path string) BuildID {
	own := t.recordedPath(path)
	if own == "" {
		return BuildID{}
	}
	im, err := t.openMatching(candidate{path: own}, BuildID{})
	if err != nil {
		return BuildID{}
	}
	defer im.Close()
	return im.BuildID()
}

// openMatching opens a candidate and compares the file's build ID with id, or the checksum if id is zero.
func (t *Tree) openMatching(c candidate, id BuildID) (*Image, error) {
	im, err := t.image(c.path)
	switch {
	case err != nil:
		return nil, err
	case id.IsZero() && c.crc != nil:
		err = im.checksum(*c.crc)
	case id.IsZero() || im.id.Matches(id):
	case im.id.IsZero():
		err = fmt.Errorf("%s: %w, want %s", c.path, ErrNoBuildID, id)
	default:
		err = fmt.Errorf("%s: %w: got %s, want %s", c.path, ErrMismatch, im.id, id)
	}
	if err != nil {
		im.Close()
		return nil, err
	}
	return im, nil
}

// OpenFile opens a file by a path that another method returned.
func (t *Tree) OpenFile(path string) (fs.File, error) {
	if t.files == nil {
		return untrusted.Open(path)
	}
	file, err := t.files.Open(pathInFS(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	}
	return file, nil
}

// pathInFS returns the name in an archive of a path.
func pathInFS(path string) string {
	return strings.TrimPrefix(filepath.ToSlash(filepath.Clean(path)), "/")
}

// glob returns the paths that match the pattern.
func (t *Tree) glob(pattern string) (l []string) {
	if t.files == nil {
		l, _ = filepath.Glob(pattern)
		return l
	}
	l, _ = fs.Glob(t.files, pathInFS(pattern))
	for i := range l {
		l[i] = "/" + l[i]
	}
	return l
}

// image opens the ELF file at path, or the running kernel's vdso.
func (t *Tree) image(path string) (*Image, error) {
	switch {
	case t.files == nil && path == VDSO:
		return t.vdso.image()
	case t.files == nil:
		return Open(path)
	}
	file, err := t.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return readImage(file, path)
}

// vdsoReader reads the bytes of a vdso; nil: of the running kernel's.
type vdsoReader func() ([]byte, error)

func (read vdsoReader) image() (*Image, error) {
	if read == nil {
		read = ownVDSO
	}
	b, err := read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", VDSO, ErrNoFile, err)
	}
	return NewImage(bytes.NewReader(b), int64(len(b)), VDSO)
}

// readImage returns the image of a file, which it closes after an error.
func readImage(file fs.File, path string) (im *Image, err error) {
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	r, ok := file.(io.ReaderAt)
	st, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("open: %w", err)
	case !ok || !st.Mode().IsRegular():
		return nil, fmt.Errorf("open %s: %w", path, errNotRegular)
	}
	own, _ := file.(*os.File)
	if own != nil {
		r = untrusted.Reader(own)
	}
	if im, err = NewImage(r, st.Size(), path); err != nil {
		return nil, err
	}
	if im.close = file.Close; own != nil {
		im.file, im.Info = own, st
	}
	return im, nil
}

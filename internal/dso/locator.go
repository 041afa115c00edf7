package dso

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// VDSO is the name under which the kernel's shared object is recorded.
const VDSO = "[vdso]"

// Locator finds the ELF files of a recorded DSO. The zero value looks where perf
// looks by default. It may be used from several goroutines.
type Locator struct {
	// Root is a directory that holds a copy of the recorded machine's files
	// (perf's --symfs): with it nothing is looked for elsewhere, neither in this
	// machine's caches nor in its kernel. "" means this machine.
	Root string
	// Flat says that the files lie in Root itself, by their names alone.
	Flat bool
	// Sysroot is a directory with copies of some of the recorded machine's files,
	// which come before this machine's own; "" means none.
	Sysroot string
	// VmlinuxPath is the kernel's file to be used instead of those in the usual
	// places; "" means those. Its build ID must agree as well.
	VmlinuxPath string
	// Force takes files that others own, of what processes say of their own code.
	Force bool
	// Fetch, which may be nil, returns the path of a file that servers have for a
	// build ID: what is DebugFile or CodeFile. It is the last resort.
	Fetch func(id BuildID, what string) (path string, err error)
	// BuildIDDir is perf's build-ID cache; "" means ~/.debug, or .debug in Root.
	BuildIDDir string
	// DebugDir is where distributions install debug information; "" means
	// /usr/lib/debug, below Root.
	DebugDir string

	files fs.FS                  // nil: those on the disk
	vdso  func() ([]byte, error) // own vdso, replaced by tests
	trees func() []string        // of other mount namespaces, replaced by tests
}

// place is where a DSO's file may be: file returns its name, or "".
type place struct {
	origin Origin
	file   func(f *Locator, path string, id BuildID) string
}

// places is where a DSO's files are looked for, in the order in which perf tries
// them (binary_type_symtab in tools/perf/util/symbol.c).
var places = []place{
	{'B', buildIDCacheELF},
	{'D', buildIDCacheDebug},
	{'f', debugDirPathDebug},
	{'u', debugDirPath},
	{'b', debugDirBuildID},
	{'d', recordedPath},
	{'o', besideDotDebug},
}

// CacheDir is the directory of perf's cache, "" if there is none.
func (f *Locator) CacheDir() string {
	if f.BuildIDDir != "" {
		return f.BuildIDDir
	}
	if f.Root != "" {
		return filepath.Join(f.Root, ".debug")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".debug")
}

func (f *Locator) debugDir() string {
	if f.DebugDir != "" {
		return f.DebugDir
	}
	return filepath.Join(f.Root, "/usr/lib/debug")
}

// Rooted returns where the file that is recorded at path lies.
func (f *Locator) Rooted(path string) string {
	switch {
	case f.Root == "":
		return path
	case f.Flat:
		path = filepath.Base(path)
	}
	return filepath.Join(f.Root, path)
}

// CachePath returns the path of a file of perf's build-ID cache: base is "elf",
// "debug", "vdso" or "kallsyms". It returns "" where there is no cache or no ID.
func (f *Locator) CachePath(id BuildID, base string) string {
	dir, hex := f.CacheDir(), id.String()
	if dir == "" || len(hex) < 3 {
		return ""
	}
	entry := filepath.Join(dir, ".build-id", hex[:2], hex[2:])
	// Before perf 4.11 the entry was a link to the file, not to its directory.
	if st, err := os.Stat(entry); f.files == nil && err == nil && st.Mode().IsRegular() && base != "debug" {
		return entry
	}
	return filepath.Join(entry, base)
}

// KallsymsPath returns where perf's cache keeps the kallsyms of a kernel.
func (f *Locator) KallsymsPath(id BuildID) string { return f.procPath("kallsyms", id) }

// procPath returns where the cache keeps a file of /proc of a kernel; "" where there
// is no cache or no ID.
func (f *Locator) procPath(base string, id BuildID) string {
	dir := f.CacheDir()
	if dir == "" || id.IsZero() {
		return ""
	}
	return filepath.Join(dir, "[kernel."+base+"]", id.String(), base)
}

func buildIDCacheELF(f *Locator, path string, id BuildID) string {
	if path == VDSO {
		return f.CachePath(id, "vdso")
	}
	return f.CachePath(id, "elf")
}

func buildIDCacheDebug(f *Locator, _ string, id BuildID) string { return f.CachePath(id, "debug") }

func debugDirPathDebug(f *Locator, path string, _ BuildID) string {
	return filepath.Join(f.debugDir(), path) + ".debug"
}

func debugDirPath(f *Locator, path string, _ BuildID) string {
	return filepath.Join(f.debugDir(), path)
}

func debugDirBuildID(f *Locator, _ string, id BuildID) string {
	hex := id.String()
	if len(hex) < 3 {
		return ""
	}
	return filepath.Join(f.debugDir(), ".build-id", hex[:2], hex[2:]+".debug")
}

// recordedPath is the DSO itself. What has no absolute path is no file, however
// it is called: "[heap]", "//anon", "anon_inode:…".
func recordedPath(f *Locator, path string, _ BuildID) string {
	switch {
	case filepath.IsAbs(path):
		return f.Rooted(path)
	case path == VDSO && (f.Root == "" || f.files != nil):
		return path
	}
	return ""
}

// candidate is a file that may be a DSO's.
type candidate struct {
	name string
	crc  *uint32 // sum of its contents, nil: not known
}

// OwnID is the build ID of the file at the recorded path, or of the running kernel's
// vdso; zero if it has none.
func (f *Locator) OwnID(path string) (id BuildID) {
	if f.Sysroot != "" {
		if id := f.below(f.Sysroot).OwnID(path); !id.IsZero() {
			return id
		}
	}
	if own := recordedPath(f, path, id); own != "" {
		if im, err := f.open(candidate{name: own}, id); err == nil {
			id = im.BuildID()
			im.Close()
		}
	}
	return id
}

func besideDotDebug(f *Locator, path string, _ BuildID) string {
	dir, base := filepath.Split(f.Rooted(path))
	return filepath.Join(dir, ".debug", base)
}

// Candidates yields, in order of preference, the ELF files that may be the DSO
// recorded at path with build ID id: those whose build ID agrees. Without an ID
// the one of the file at path is taken to be meant. A file that exists and is
// not used is yielded as an error with the reason; one that does not exist only
// if it is the recorded path itself. What is found nowhere may have been deleted
// and still be mapped, or lie in the tree of a process in a mount namespace of its
// own, if that still runs. The receiver of an Image closes it.
func (f *Locator) Candidates(path string, id BuildID) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		if id.IsZero() {
			id = f.OwnID(path)
		}
		if f.Sysroot != "" && !f.below(f.Sysroot).each(path, id, func(im *Image, err error) bool {
			return errors.Is(err, ErrNoFile) || yield(im, err)
		}) {
			return
		}
		found := false
		if !f.each(path, id, func(im *Image, err error) bool {
			found = found || err == nil && im.HasCode()
			return yield(im, err)
		}) {
			return
		}
		if found || id.IsZero() || f.Root != "" || !filepath.IsAbs(path) {
			return
		}
		if was, ok := strings.CutSuffix(path, deleted); ok {
			for _, name := range [...]string{was, mapped(path)} {
				if im, err := f.open(candidate{name: name}, id); err == nil {
					yield(im, nil)
					return
				}
			}
		}
		for _, tree := range f.otherTrees() {
			if !f.below(tree).each(path, id, func(im *Image, err error) bool {
				found = found || err == nil && im.HasCode()
				return err != nil || yield(im, nil)
			}) || found {
				return
			}
		}
	}
}

// below returns the Locator of a tree of files.
func (f *Locator) below(root string) *Locator { return &Locator{Root: root} }

// each yields the files in the places of perf; the result is yield's last.
func (f *Locator) each(path string, id BuildID, yield func(*Image, error) bool) bool {
	own := recordedPath(f, path, id)
	for _, c := range f.named(path, id, own) {
		im, err := f.open(c, id)
		if errors.Is(err, ErrNoFile) && c.name != own {
			continue
		}
		if !yield(im, err) {
			return false
		}
	}
	return true
}

// named returns the candidates that each tries; few of them exist.
func (f *Locator) named(path string, id BuildID, own string) (l []candidate) {
	if own != VDSO && own != "" {
		l = f.debugLinks(own)
	}
	for _, where := range places {
		if name := where.file(f, path, id); name != "" {
			l = append(l, candidate{name: name})
		}
	}
	if isModule(path) && !id.IsZero() {
		for _, name := range f.moduleFiles(path) {
			l = append(l, candidate{name: name})
		}
	}
	return l
}

func (f *Locator) otherTrees() []string {
	if f.trees != nil {
		return f.trees()
	}
	return otherTrees()
}

// otherTrees returns where the files lie that processes see which run now in
// mount namespaces of their own, as containers do: /proc/PID/root of one process
// of each.
var otherTrees = sync.OnceValue(func() (l []string) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil
	}
	seen := map[string]bool{own: true}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		ns, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err == nil && !seen[ns] {
			seen[ns] = true
			l = append(l, filepath.Join(dir, "root"))
		}
	}
	return l
})

// open opens a candidate and checks its build ID, or its checksum without an ID.
func (f *Locator) open(c candidate, id BuildID) (im *Image, err error) {
	if c.name == VDSO {
		im, err = f.openVDSO()
	} else {
		im, err = f.image(c.name)
	}
	switch {
	case err != nil:
		return nil, err
	case id.IsZero() && c.crc != nil:
		err = im.checksum(*c.crc)
	case id.IsZero() || im.id.Matches(id):
	case im.id.IsZero():
		err = fmt.Errorf("%s: %w, %s was recorded", c.name, ErrNoBuildID, id)
	default:
		err = fmt.Errorf("%s: %w: it is %s, %s was recorded", c.name, ErrMismatch, im.id, id)
	}
	if err != nil {
		im.Close()
		return nil, err
	}
	return im, nil
}

// Find returns the ELF file with the code of the DSO recorded at path with build
// ID id, which may be zero. The error says why the recorded path itself could
// not be used.
func (f *Locator) Find(path string, id BuildID) (*Image, error) {
	var why error
	for im, err := range f.Candidates(path, id) {
		switch {
		case err != nil:
			why = betterReason(why, err)
		case im.HasCode():
			return im, nil
		default:
			im.Close()
		}
	}
	return nil, notFound(path, why)
}

// FindSymbols returns the two files from which perf reads a DSO's symbols: syms,
// the first with a .symtab, and runtime, the first with a .dynsym, which has the
// section layout of the mapped file. Each replaces the other if that is missing;
// both may be the same Image. If no file has a .symtab, the runtime's
// .gnu_debugdata is used, or else a file from servers.
func (f *Locator) FindSymbols(path string, id BuildID) (syms, runtime *Image, err error) {
	var why error
	if id.IsZero() {
		id = f.OwnID(path)
	}
	for im, err := range f.Candidates(path, id) {
		if err != nil {
			why = betterReason(why, err)
			continue
		}
		used := false
		if syms == nil && im.HasSymtab() {
			syms, used = im, true
		}
		if runtime == nil && (im.HasDynsym() || im.Section(miniDebugSection) != nil) {
			runtime, used = im, true
		}
		if !used {
			im.Close()
			why = betterReason(why, fmt.Errorf("%s: %w", im.Path, ErrNoSymbols))
		}
		if syms != nil && runtime != nil {
			break
		}
	}
	if syms == nil && runtime != nil {
		syms = runtime.MiniDebug()
	}
	if syms == nil {
		if syms, err = f.fetch(id, DebugFile); err != nil {
			why = err
		}
	}
	switch {
	case syms == nil && runtime == nil:
		return nil, nil, notFound(path, why)
	case syms == nil:
		syms = runtime
	case runtime == nil:
		runtime = syms
	}
	return syms, runtime, nil
}

// ErrNoSymbols: the right file has no symbol table.
var ErrNoSymbols = errors.New("no symbol table")

// betterReason returns the more useful error: a file with another build ID is
// worth more to the user than a missing one.
func betterReason(have, next error) error {
	if have == nil || errors.Is(have, ErrNoFile) {
		return next
	}
	return have
}

func notFound(path string, why error) error {
	if why == nil {
		why = ErrNoFile
	}
	return fmt.Errorf("find %s: %w", path, why)
}

// openVDSO opens the vdso of the running kernel.
func (f *Locator) openVDSO() (*Image, error) {
	if f.files != nil {
		return f.image(VDSO)
	}
	read := f.vdso
	if read == nil {
		read = ownVDSO
	}
	b, err := read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", VDSO, ErrNoFile, err)
	}
	return NewImage(bytes.NewReader(b), int64(len(b)), VDSO)
}

var ownVDSO = sync.OnceValues(readVDSO)

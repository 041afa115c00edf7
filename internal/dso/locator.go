package dso

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Locator finds the ELF files of a recorded DSO. The zero value looks where perf looks by default. It may be used from
// several goroutines.
type Locator struct {
	Tree

	// Sysroot is a directory with copies of some of the recorded machine's files, which are preferred to this
	// machine's; "" means none.
	Sysroot string
	// VmlinuxPath is the kernel's file, used instead of the files in the usual places; "" means the usual places.
	// The build ID of this file must match, too.
	VmlinuxPath string
	// Force accepts perf maps and jitdump files that belong to other users, and, for files recorded without build
	// ID that cannot be found by inode, the files now at the recorded paths.
	Force bool
	// Fetch, if set, downloads the file for a build ID from servers and returns the path of the download. what is
	// DebugFile or CodeFile. It is the last resort.
	Fetch func(id BuildID, what string) (path string, err error)
	// FetchCode makes Candidates fetch the file with a DSO's code, too, if there is none.
	FetchCode bool

	// Generated is the directory with the perf maps and jitdumps that were kept for the recording; "" means none.
	Generated string

	// Carried, if set, are files that the recording itself contains.
	Carried *Carried

	trees otherRoots // replaced by tests
}

// InFiles returns a Locator that looks only in files, for example in an archive. Paths in files start without
// slash, and perf's cache is .debug. The opened files must implement io.ReaderAt.
func InFiles(files fs.FS) *Locator { return &Locator{Tree: Tree{Root: "/", files: files}} }

// OwnID returns the build ID of the DSO recorded at path with build ID id. Without a recorded ID, it is the build
// ID of the file with the recorded inode, or of the file at path if no inode was recorded, or of the running
// kernel's vdso. If the file is missing or contains no build ID, OwnID returns id.
func (l *Locator) OwnID(path string, id BuildID) BuildID {
	if !id.IsZero() {
		return id
	}
	if l.Sysroot != "" {
		if own := (&Tree{Root: l.Sysroot}).ownID(path); !own.IsZero() {
			return own
		}
	}
	own := BuildID{}
	if l.comparesInode(id) {
		if im, _, err := l.openInode(path, id.inode); err == nil {
			own = im.BuildID()
			im.Close()
		}
	} else {
		own = l.ownID(path)
	}
	if own.IsZero() {
		return id
	}
	return own
}

// Candidates yields the ELF files that may be the DSO recorded at path with build ID id, in order of preference.
// The build ID of these files is OwnID; without one, they belong to the file with the recorded inode. For a file
// that exists and does not match, Candidates yields an error; for a missing file only if it is the recorded path
// itself. If no file contains the DSO's code, Candidates looks among the files of running processes, which may map
// a deleted file or be in another mount namespace. The caller closes the Images.
func (l *Locator) Candidates(path string, id BuildID) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		id = l.OwnID(path, id)
		if im := l.Carried.open(id); im != nil && !yield(im, nil) {
			return
		}
		if l.Sysroot != "" {
			for im, err := range (&Tree{Root: l.Sysroot}).candidates(path, id) {
				if !errors.Is(err, ErrNoFile) && !yield(im, err) {
					return
				}
			}
		}
		if l.comparesInode(id) {
			l.withInode(path, id.inode)(yield)
			return
		}
		found := false
		for im, err := range l.candidates(path, id) {
			found = found || err == nil && im.HasCode()
			if !yield(im, err) {
				return
			}
		}
		if !found && l.FetchCode {
			im, err := l.fetch(id, CodeFile)
			if found = im != nil || err != nil; found && !yield(im, err) {
				return
			}
		}
		if found || id.IsZero() || l.Root != "" || !isAbs(path) {
			return
		}
		for im := range l.trees.inProcesses(path, id) {
			if !yield(im, nil) {
				return
			}
		}
	}
}

// inProcesses yields the matching files that running processes see: a deleted file that one maps, or files in the
// tree of the first mount namespace with the DSO's code.
func (f otherRoots) inProcesses(path string, id BuildID) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		if im := openDeleted(path, id); im != nil {
			yield(im)
			return
		}
		for _, root := range f.roots() {
			found := false
			for im, err := range (&Tree{Root: root}).candidates(path, id) {
				if err != nil {
					continue
				}
				found = found || im.HasCode()
				if !yield(im) {
					return
				}
			}
			if found {
				return
			}
		}
	}
}

// openDeleted opens the file that replaced a deleted one, or the deleted file itself through a process that maps
// it. It returns nil if the build ID of neither file matches.
func openDeleted(path string, id BuildID) *Image {
	original, ok := strings.CutSuffix(path, deleted)
	if !ok {
		return nil
	}
	for _, p := range [...]string{original, mapped(path)} {
		if im, err := disk.openMatching(candidate{path: p}, id); err == nil {
			return im
		}
	}
	return nil
}

// otherRoots returns the root directories of other mount namespaces; nil: of the running processes.
type otherRoots func() []string

func (f otherRoots) roots() []string {
	if f != nil {
		return f()
	}
	return otherTrees()
}

// otherTrees returns the root directories of running processes that differ from this process's, as in containers:
// /proc/PID/root of one process of each mount namespace and directory.
var otherTrees = sync.OnceValue(func() (l []string) {
	own, err := treeOf("/proc/self")
	if err != nil {
		return nil
	}
	visited := map[string]bool{own: true}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if tree, err := treeOf(dir); err == nil && !visited[tree] {
			visited[tree] = true
			l = append(l, filepath.Join(dir, "root"))
		}
	}
	return l
})

// treeOf returns the identity of the tree of files that a process sees: the mount namespace, and the root directory
// in it. dir is the process's directory in /proc.
func treeOf(dir string) (string, error) {
	namespace, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	if err != nil {
		return "", err
	}
	root, err := os.Readlink(filepath.Join(dir, "root"))
	return namespace + root, err
}

// Find returns the ELF file with the code of the DSO recorded at path with build ID id, which may be zero. The error
// says why the recorded path itself cannot be used.
func (l *Locator) Find(path string, id BuildID) (*Image, error) {
	var why error
	for im, err := range l.Candidates(path, id) {
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

// FindSymbols returns the two files from which perf reads a DSO's symbols: syms, the first with a .symtab, and
// runtime, the first with a .dynsym, whose section layout is the layout of the mapped file. A Go program may be
// runtime without .dynsym, because it contains a function table. If one is missing, both results are the other one.
// If no file contains a .symtab, syms is the runtime's .gnu_debugdata, or else a file from servers. The caller
// closes both.
func (l *Locator) FindSymbols(path string, id BuildID) (syms, runtime *Image, err error) {
	var why error
	id = l.OwnID(path, id)
	for im, err := range l.Candidates(path, id) {
		if err != nil {
			why = betterReason(why, err)
			continue
		}
		used := false
		if syms == nil && im.HasSymtab() {
			syms, used = im, true
		}
		if runtime == nil && (im.HasDynsym() || im.Section(miniDebugSection) != nil || im.HasGoTable()) {
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
		if syms, err = l.fetch(id, DebugFile); err != nil {
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

// ErrNoSymbols means that the file matches but contains no symbol table.
var ErrNoSymbols = errors.New("no symbol table")

// betterReason returns the more useful error: a file with another build ID helps the user more than a missing one.
func betterReason(have, next error) error {
	if have == nil || errors.Is(have, ErrNoFile) {
		return next
	}
	return have
}

func notFound(path string, why error) error {
	return fmt.Errorf("find %s: %w", path, cmp.Or(why, ErrNoFile))
}

// Kinds of files on a server, as named by debuginfod's protocol.
const (
	DebugFile = "debuginfo"  // the sections that strip removes
	CodeFile  = "executable" // the program or library itself
)

// fetch returns a server's file for a build ID, or nil if there are no servers or there is no ID.
func (l *Locator) fetch(id BuildID, what string) (*Image, error) {
	if l.Fetch == nil || id.IsZero() {
		return nil, nil
	}
	path, err := l.Fetch(id, what)
	if err != nil {
		return nil, err
	}
	return disk.openMatching(candidate{path: path}, id)
}

// Origin is perf's letter for the place of a DSO's symbols (dso__symtab_origin of tools/perf/util/dso.c).
type Origin byte

// The origins that are not places of files.
const (
	OriginNone      Origin = '!'
	OriginJIT       Origin = 'j'
	OriginKallsyms  Origin = 'k'
	OriginVmlinux   Origin = 'v'
	OriginMiniDebug Origin = 'n'
	OriginDebugLink Origin = 'l'
	OriginRecording Origin = 'r' // not one of perf's
)

// Origin returns the place of the file with the symbols of the DSO recorded at path with build ID id.
func (l *Locator) Origin(file, path string, id BuildID) Origin {
	id = l.OwnID(path, id)
	for _, where := range places {
		if where.path(&l.Tree, path, id) == file {
			return where.origin
		}
	}
	return OriginDebugLink
}

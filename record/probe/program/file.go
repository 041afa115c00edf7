package program

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/untrusted"
)

// FileError means that a file of code does not exist or cannot be probed.
type FileError struct {
	File string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("probe in %s: %v", e.File, e.Err) }
func (e *FileError) Unwrap() error { return e.Err }

// WrongUse reports that the command line caused the error.
func (e *FileError) WrongUse() bool { return true }

// Errno returns the cause of an error that includes a file name.
func Errno(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// root is the root directory for looking up names: "" is gperf's own, "/proc/PID/root" that
// of a process, which may be in a container.
type root string

// path returns the path of a file of the tree with symbolic links resolved, because absolute
// links of another tree would lead into gperf's own.
func (r root) path(name string) (string, error) {
	if r == "" {
		return filepath.Abs(name)
	}
	at, todo := "/", strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		next := filepath.Join(at, todo[0]) // for "..": the root's parent is the root itself
		todo = todo[1:]
		target, err := os.Readlink(string(r) + next)
		switch {
		case errors.Is(err, syscall.EINVAL): // not a link
			at = next
		case err != nil:
			return "", err
		case links >= maxLinks:
			return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		default:
			links++
			if filepath.IsAbs(target) {
				at = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
		}
	}
	return string(r) + at, nil
}

const maxLinks = 40 // the kernel's MAXSYMLINKS

// rootOf returns the root of a process: "" if it is gperf's.
func rootOf(pid int) root {
	dir := fmt.Sprintf("/proc/%d/", pid)
	theirs, err1 := os.Stat(dir + "root/.")
	ours, err2 := os.Stat("/")
	if err1 != nil || err2 != nil {
		return ""
	}
	theirNS, err1 := os.Readlink(dir + "ns/mnt")
	ourNS, err2 := os.Readlink("/proc/self/ns/mnt")
	if os.SameFile(theirs, ours) && err1 == nil && err2 == nil && theirNS == ourNS {
		return ""
	}
	return root(dir + "root")
}

var procRoot = regexp.MustCompile(`^(/proc/[0-9]+/root)(/.*)$`)

// Files returns the paths, for the kernel, of the file of code that a spec names; several if the processes to be
// recorded use different files. It reports which a name alone is.
func (l *Locator) Files(name string) ([]string, error) {
	paths, err := l.candidates(name)
	for _, path := range paths {
		if !strings.Contains(name, "/") && l.first(name, path) {
			l.notice(fmt.Errorf("%s is %s", name, path))
		}
	}
	return paths, err
}

func (l *Locator) candidates(name string) ([]string, error) {
	if m := procRoot.FindStringSubmatch(name); m != nil {
		path, err := root(m[1]).path(m[2])
		return existing(name, path, err)
	}
	var paths []string
	var first error
	for _, pid := range l.PIDs {
		path, err := l.fileOf(pid, name)
		if err != nil {
			first = cmp.Or(first, err)
		} else if !slices.ContainsFunc(paths, func(p string) bool { return same(p, path) }) {
			paths = append(paths, path)
		}
	}
	if len(paths) > 0 {
		return paths, nil
	}
	if len(l.PIDs) > 0 && rootOf(l.PIDs[0]) != "" {
		return nil, &FileError{name, fmt.Errorf("for process %d: %w", l.PIDs[0], Errno(first))}
	}
	path, err := l.ofCommand(name)
	return existing(name, path, err)
}

// ofCommand looks up a file for the command that will be recorded: first among the files that it maps
// when it starts.
func (l *Locator) ofCommand(name string) (string, error) {
	own := native()
	if !strings.Contains(name, "/") && l.Command != "" {
		if path, err := exec.LookPath(l.Command); err == nil {
			var files []mapping
			for _, needed := range Needed(path) {
				files = append(files, mapping{name: needed, path: needed})
			}
			if m := named(files, name); m != nil {
				return m.path, nil
			}
			if len(files) > 0 {
				own = abiAt(files[0].path)
			}
		}
	}
	return root("").lookUp(name, own)
}

func existing(name, path string, err error) ([]string, error) {
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, &FileError{name, Errno(err)}
	}
	return []string{path}, nil
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// fileOf looks up a file for a process: first among the process's mapped files, then below the process's root.
func (l *Locator) fileOf(pid int, name string) (string, error) {
	r := rootOf(pid)
	maps, _ := mappings(pid) // of another user's process they are unknown
	if !strings.Contains(name, "/") {
		if m := named(maps, name); m != nil {
			return l.mapped(pid, m), nil
		}
	}
	if r != "" && strings.Contains(name, "/") && !filepath.IsAbs(name) {
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			return "", err
		}
		name = filepath.Join(cwd, name)
	}
	path, err := r.lookUp(name, abiAt(fmt.Sprintf("/proc/%d/exe", pid)))
	if err == nil {
		_, err = os.Stat(path)
	}
	view := strings.TrimPrefix(cmp.Or(path, name), string(r))
	if real, err := filepath.EvalSymlinks(view); r == "" && err == nil {
		view = real
	}
	i := slices.IndexFunc(maps, func(m mapping) bool { return m.name == view })
	if i >= 0 && maps[i].replaced {
		return l.mapped(pid, &maps[i]), nil
	}
	return path, err
}

// mapped returns the path of a file that a process maps. It reports that probes do not get into the file that has
// the name now.
func (l *Locator) mapped(pid int, m *mapping) string {
	if m.replaced && l.first("replaced ", m.path) {
		l.notice(fmt.Errorf("%s was deleted or replaced after process %d mapped it: probing the mapped file", m.name,
			pid))
	}
	return m.path
}

// named returns the first of a program's files with a name: with this file name, or else with this name by which
// programs ask for the library (DT_SONAME), as libc-2.31.so is libc.so.6.
func named(files []mapping, name string) *mapping {
	base := func(m *mapping) string { return filepath.Base(m.name) }
	asked := func(m *mapping) string { return soname(m.path) }
	for _, nameOf := range [...]func(*mapping) string{base, asked} {
		for i := range files {
			if n := nameOf(&files[i]); n == name || isLibrary(n, name) {
				return &files[i]
			}
		}
	}
	return nil
}

// soname returns the DT_SONAME of a library; "" if there is none.
func soname(path string) string {
	f, err := dso.OpenELF(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.DynString(elf.DT_SONAME)
	return strings.Join(names[:min(1, len(names))], "")
}

// mapping is code that a process mapped from a file.
type mapping struct {
	start, end, pgoff uint64
	name              string // path of the file in the process's view when it was mapped
	path              string // path of the mapped file in gperf's view
	replaced          bool   // name does not lead to the mapped file any more, path is a link of /proc
}

// mappings returns the code that a process mapped: first the code of files that still have a name.
func mappings(pid int) (l []mapping, err error) {
	maps, err := procfs.Maps(pid)
	if err != nil {
		return nil, err
	}
	r := rootOf(pid)
	for m := range maps {
		if m.Executable() && strings.HasPrefix(m.Path, "/") {
			l = append(l, r.mapping(pid, m))
		}
	}
	slices.SortStableFunc(l, func(a, b mapping) int { return cmp.Compare(b2i(a.replaced), b2i(b.replaced)) })
	return l, nil
}

// mapping looks up the file that a process maps. An upgrade deletes it, and gives another file the name.
func (r root) mapping(pid int, m procfs.Mapping) mapping {
	at := mapping{start: m.Start, end: m.End, pgoff: m.Off, name: dso.TrimDeleted(m.Path)}
	link := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	path, err := r.path(at.name)
	file, linkErr := untrusted.Stat(link)
	if linkErr != nil { // it requires CAP_CHECKPOINT_RESTORE
		at.replaced = dso.IsDeleted(m.Path)
	} else if err == nil {
		named, err := untrusted.Stat(path)
		at.replaced = err != nil || !os.SameFile(named, file)
	}
	if at.path = path; at.replaced || err != nil {
		at.path, at.replaced = link, true
	}
	return at
}

// lookUp returns the path of the file that a spec names: by path, or by name alone, for a program in $PATH, a
// library, preferably of this ABI, or a file in the current directory.
func (r root) lookUp(name string, own abi) (string, error) {
	if strings.Contains(name, "/") {
		return r.path(name)
	}
	library := func(name string) (string, bool) { return r.library(name, own) }
	looks := []func(string) (string, bool){r.program, library}
	if strings.HasPrefix(name, "lib") || strings.Contains(name, ".so") {
		slices.Reverse(looks)
	}
	for _, look := range looks {
		if path, ok := look(name); ok {
			return path, nil
		}
	}
	if r == "" {
		if path, err := r.path(name); err == nil && isFile(path) {
			return path, nil
		}
	}
	return "", errNoName
}

var errNoName = errors.New("no program of that name in $PATH, and no library in ld.so.cache; a path needs a slash " +
	"(./NAME)")

// find returns the first path with a file of code of this ABI, or else with one that this machine can run.
func (r root) find(paths []string, own abi) (string, bool) {
	other := ""
	for _, p := range paths {
		path, err := r.path(p)
		if err != nil || !isFile(path) {
			continue
		}
		file, err := Open(path)
		if err != nil {
			continue
		}
		is := abiOf(file.Image)
		file.Close()
		if own == (abi{}) || is == own {
			return path, true
		}
		other = cmp.Or(other, path)
	}
	return other, other != ""
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func (r root) program(name string) (string, bool) {
	var paths []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return r.find(paths, abi{})
}

// maxLdCache bounds ld.so.cache, in bytes; on a large system it takes 200 KB.
const maxLdCache = 64 << 20

// library looks up a library as the dynamic linker of programs of this ABI does: in the linker's cache, or else in
// ldconfig's default directories.
func (r root) library(name string, own abi) (string, bool) {
	var l []library
	if cache, err := r.path("/etc/ld.so.cache"); err == nil {
		if b, err := untrusted.ReadFile(cache, maxLdCache); err == nil {
			l = ldCache(b)
		}
	}
	for _, pattern := range [...]string{"/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib64", "/usr/lib64", "/lib",
		"/usr/lib", "/usr/local/lib"} {
		dirs, _ := filepath.Glob(string(r) + pattern)
		for _, dir := range dirs {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				l = append(l, library{e.Name(), filepath.Join(strings.TrimPrefix(dir, string(r)), e.Name()), anyABI})
			}
		}
	}
	l = slices.DeleteFunc(l, func(l library) bool { return l.name != name && !isLibrary(l.name, name) })
	slices.SortStableFunc(l, func(a, b library) int {
		return cmp.Or(cmp.Compare(b2i(b.fits(own)), b2i(a.fits(own))),
			cmp.Compare(b2i(b.name == name), b2i(a.name == name)), compareVersions(b.name, a.name))
	})
	var paths []string
	for _, l := range l {
		paths = append(paths, l.path)
	}
	return r.find(paths, own)
}

// isLibrary reports whether a file name is one of a library: "libssl.so.3" for ssl, libssl
// and libssl.so.
func isLibrary(file, name string) bool {
	rest, ok := strings.CutPrefix(file, strings.TrimSuffix(name, ".so"))
	if !ok {
		rest, ok = strings.CutPrefix(file, "lib"+strings.TrimSuffix(name, ".so"))
	}
	return ok && (rest == ".so" || strings.HasPrefix(rest, ".so."))
}

// compareVersions compares libx.so.9 and libx.so.10 by number.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, err1 := strconv.Atoi(as[i])
		y, err2 := strconv.Atoi(bs[i])
		if err1 == nil && err2 == nil && x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(as), len(bs))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

package program

import (
	"bufio"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/untrusted"
)

// maxNeeded limits the files that Needed returns: programs use up to some hundred libraries.
const maxNeeded = 500

// Needed returns the absolute paths, without symbolic links, of the files that a program maps when it starts: the
// program, the interpreter and the libraries, and the files that these need. For a script it returns the files of
// the script's interpreter.
func Needed(path string) []string {
	b, _ := os.ReadFile("/etc/ld.so.cache")
	return neededWith(ldCache(b), path)
}

func neededWith(cache []library, path string) []string {
	if shell, ok := interpreter(path); ok {
		path = shell
	}
	n := needed{cache: cache}
	n.add(path)
	return n.files
}

// interpreter returns the program that the first line of a script names.
func interpreter(path string) (string, bool) {
	f, err := untrusted.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxPath)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	return strings.Join(words[:min(1, len(words))], ""), strings.HasPrefix(line, "#!") && len(words) > 0
}

// needed is the files of a program.
type needed struct {
	abi    abi // of the program
	cache  []library
	linker string   // the dynamic linker, which is the program's interpreter, without symbolic links
	files  []string // the program first
}

// add adds a file, and then the file's interpreter and libraries. It reports false if the file cannot be read, or
// if the file's ABI differs from the program's.
func (n *needed) add(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil || len(n.files) == maxNeeded {
		return false
	}
	if slices.Contains(n.files, path) {
		return true
	}
	f, err := dso.OpenELF(path)
	if err != nil {
		return false
	}
	defer f.Close()
	own := abi{f.Machine, f.Class}
	if len(n.files) == 0 {
		n.abi = own
	}
	if own != n.abi {
		return false
	}
	n.files = append(n.files, path)
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz <= maxPath {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err == nil {
				linker := strings.TrimRight(string(b), "\x00")
				if n.add(linker) {
					n.linker, _ = filepath.EvalSymlinks(linker)
				}
			}
		}
	}
	dirs := runPath(f.File, filepath.Dir(path))
	names, _ := f.ImportedLibraries()
	for _, name := range names {
		n.addLibrary(name, dirs)
	}
	return true
}

// addLibrary adds the library that the dynamic linker would choose (ld.so(8)): from
// $LD_LIBRARY_PATH, the directories that a file names, the cache, or the usual directories.
func (n *needed) addLibrary(name string, dirs []string) {
	in := func(dir string) bool { return n.add(filepath.Join(dir, name)) }
	cached := func(l library) bool { return l.name == name && l.fits(n.abi) && n.add(l.path) }
	// The linker's own directory is Debian's for this architecture.
	usual := []string{filepath.Dir(n.linker), "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	_ = slices.ContainsFunc(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), in) || slices.ContainsFunc(dirs, in) ||
		slices.ContainsFunc(n.cache, cached) || slices.ContainsFunc(usual, in)
}

// runPath returns the directories that a file in the directory origin names for the file's libraries.
func runPath(f *elf.File, origin string) (dirs []string) {
	expand := strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin)
	for _, tag := range [...]elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, _ := f.DynString(tag)
		for _, p := range paths {
			dirs = append(dirs, filepath.SplitList(expand.Replace(p))...)
		}
	}
	return dirs
}

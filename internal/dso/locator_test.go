package dso

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

const idA, idB = "aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"

func TestFind(t *testing.T) {
	a, b := NewBuildID([]byte(idA)), NewBuildID([]byte(idB))
	hexA := a.String()
	entryA := filepath.Join(".build-id", hexA[:2], hexA[2:])
	for _, c := range []struct {
		name    string
		files   map[string][]byte // at: c/ the cache, d/ the debug directory, r/ the root
		id      BuildID
		find    string // file that Find returns
		syms    string // files that FindSymbols returns
		runtime string
		err     error
	}{
		{
			name:  "the path itself",
			files: map[string][]byte{"r/lib/x.so": withID(idA, false)},
			id:    a, find: "r/lib/x.so", syms: "r/lib/x.so", runtime: "r/lib/x.so",
		},
		{
			name:  "no ID recorded",
			files: map[string][]byte{"r/lib/x.so": withID(idA, false), "d/" + entryA + ".debug": debugFile(idA)},
			find:  "r/lib/x.so", syms: "d/" + entryA + ".debug", runtime: "r/lib/x.so",
		},
		{
			name:  "replaced since, not in the cache",
			files: map[string][]byte{"r/lib/x.so": withID(idB, true)},
			id:    a, err: ErrMismatch,
		},
		{
			name:  "replaced since by one without an ID",
			files: map[string][]byte{"r/lib/x.so": withID("", true)},
			id:    a, err: ErrNoBuildID,
		},
		{
			name:  "replaced since, in the cache",
			files: map[string][]byte{"r/lib/x.so": withID(idB, true), "c/" + entryA + "/elf": withID(idA, false)},
			id:    a, find: "c/" + entryA + "/elf", syms: "c/" + entryA + "/elf", runtime: "c/" + entryA + "/elf",
		},
		{
			name:  "cache of old perf",
			files: map[string][]byte{"c/" + entryA: withID(idA, true)},
			id:    a, find: "c/" + entryA, syms: "c/" + entryA, runtime: "c/" + entryA,
		},
		{
			name:  "missing, not in the cache",
			files: map[string][]byte{"c/other": withID(idA, true)},
			id:    a, err: ErrNoFile,
		},
		{
			name: "stripped, symbols by build ID",
			files: map[string][]byte{"r/lib/x.so": withID(idA, false), "c/" + entryA + "/elf": withID(idA, false),
				"d/" + entryA + ".debug": debugFile(idA)},
			id: a, find: "c/" + entryA + "/elf", syms: "d/" + entryA + ".debug", runtime: "c/" + entryA + "/elf",
		},
		{
			name:  "stripped, symbols by path",
			files: map[string][]byte{"r/lib/x.so": withID(idA, false), "d/ROOT/lib/x.so.debug": debugFile(idA)},
			id:    a, find: "r/lib/x.so", syms: "d/ROOT/lib/x.so.debug", runtime: "r/lib/x.so",
		},
		{
			name:  "debug information of another build",
			files: map[string][]byte{"r/lib/x.so": withID(idA, false), "d/ROOT/lib/x.so.debug": debugFile(idB)},
			id:    a, find: "r/lib/x.so", syms: "r/lib/x.so", runtime: "r/lib/x.so",
		},
		{
			name:  "debug information alone",
			files: map[string][]byte{"d/" + entryA + ".debug": debugFile(idA)},
			id:    a, syms: "d/" + entryA + ".debug", runtime: "d/" + entryA + ".debug", err: ErrNoFile,
		},
		{
			name:  "recorded ID padded with zeros",
			files: map[string][]byte{"r/lib/x.so": withID("short id", false)},
			id:    NewBuildID(append([]byte("short id"), make([]byte, 12)...)),
			find:  "r/lib/x.so", syms: "r/lib/x.so", runtime: "r/lib/x.so",
		},
		{
			name:  "no ELF file",
			files: map[string][]byte{"r/lib/x.so": []byte("text")},
			id:    b, err: ErrNotELF,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			real := func(name string) string { return filepath.Join(root, strings.Replace(name, "ROOT", root+"/r", 1)) }
			for name, contents := range c.files {
				writeFile(t, real(name), contents)
			}
			f := &Locator{Tree: Tree{BuildIDDir: root + "/c", DebugDir: root + "/d"}}
			path := filepath.Join(root, "r/lib/x.so")
			check := func(what string, im *Image, want string) {
				t.Helper()
				switch {
				case im == nil && want != "":
					t.Errorf("%s: nothing, want %s", what, want)
				case im != nil && (want == "" || im.Path != real(want)):
					t.Errorf("%s: %s, want %q", what, strings.TrimPrefix(im.Path, root+"/"), want)
				}
				im.Close()
			}
			im, err := f.Find(path, c.id)
			check("Find", im, c.find)
			if !errors.Is(err, c.err) {
				t.Errorf("Find: error %v, want %v", err, c.err)
			}
			syms, runtime, err := f.FindSymbols(path, c.id)
			check("syms", syms, c.syms)
			if runtime != syms {
				check("runtime", runtime, c.runtime)
			} else if c.runtime != c.syms {
				t.Errorf("runtime: the same file as syms, want %s", c.runtime)
			}
			if c.syms == "" && !errors.Is(err, c.err) {
				t.Errorf("FindSymbols: error %v, want %v", err, c.err)
			}
		})
	}
}

// TestFindNoPath checks that a DSO without a path is not looked up in the current directory.
func TestFindNoPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{"[heap]", "anon_inode:[perf_event]", ""} {
		t.Run(path, func(t *testing.T) {
			if path != "" {
				writeFile(t, filepath.Join(dir, path), withID(idA, true))
			}
			f := &Locator{Tree: Tree{BuildIDDir: dir + "/c", DebugDir: dir + "/d"}}
			if im, err := f.Find(path, BuildID{}); !errors.Is(err, ErrNoFile) {
				t.Errorf("Find(%q) = %v, %v, want ErrNoFile", path, im, err)
			}
		})
	}
}

func TestFindVDSO(t *testing.T) {
	dir := t.TempDir()
	a := NewBuildID([]byte(idA))
	f := &Locator{Tree: Tree{BuildIDDir: dir, DebugDir: dir, vdso: func() ([]byte, error) {
		return withID(idB, false), nil
	}}}
	if im, err := f.Find(VDSO, BuildID{}); err != nil || im.Path != VDSO {
		t.Errorf("no ID recorded: %v, want the running kernel's", err)
	}
	if im, err := f.Find(VDSO, NewBuildID([]byte(idB))); err != nil || im.Path != VDSO {
		t.Errorf("the running kernel's ID: %v", err)
	}
	if im, err := f.Find(VDSO, a); !errors.Is(err, ErrMismatch) {
		t.Errorf("another kernel's ID: %v, %v, want ErrMismatch", im, err)
	}
	cached := writeFile(t, f.Cache().Path(a, "vdso"), withID(idA, false))
	if im, err := f.Find(VDSO, a); err != nil || im.Path != cached {
		t.Errorf("another kernel's ID, in the cache: %v, want %s", err, cached)
	}
}

// TestFindBelowRoot checks that with a root, files are looked for only below it.
func TestFindBelowRoot(t *testing.T) {
	a := NewBuildID([]byte(idA))
	hex := a.String()
	entry := filepath.Join(".build-id", hex[:2], hex[2:])
	here := writeFile(t, filepath.Join(t.TempDir(), "x.so"), withID(idA, true))
	for _, c := range []struct {
		name, file, find string // file, and where it is found, below the root
		path             string
		id               BuildID
	}{
		{"the path", here, here, here, a},
		{"the path, no ID recorded", here, here, here, BuildID{}},
		{"flat", "x.so", "x.so", here, a},
		{"the cache", ".debug/" + entry + "/elf", ".debug/" + entry + "/elf", here, a},
		{"debug information", "/usr/lib/debug/" + entry + ".debug", "/usr/lib/debug/" + entry + ".debug", here, a},
		{"not there", "/other", "", here, a},
		{"this machine's vdso", "/other", "", VDSO, BuildID{}},
		{"no path", "/[heap]", "", "[heap]", BuildID{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &Locator{Tree: Tree{Root: t.TempDir(), Flat: c.name == "flat", vdso: func() ([]byte, error) {
				return withID(idB, true), nil
			}}}
			writeFile(t, filepath.Join(f.Root, c.file), withID(idA, true))
			im, err := f.Find(c.path, c.id)
			switch {
			case c.find == "" && !errors.Is(err, ErrNoFile):
				t.Errorf("%v, %v; want ErrNoFile", im, err)
			case c.find != "" && (err != nil || im.Path != filepath.Join(f.Root, c.find)):
				t.Errorf("%v, %v; want %s", im, err, c.find)
			}
			im.Close()
		})
	}
}

func TestOwnVDSO(t *testing.T) {
	if _, _, err := findVDSO(); err != nil {
		t.Skip(err)
	}
	im, err := new(Locator).Find(VDSO, BuildID{})
	if err != nil {
		t.Fatal(err)
	}
	if !im.HasDynsym() || im.BuildID().IsZero() {
		t.Errorf("vdso: dynsym %t, build ID %q; want both", im.HasDynsym(), im.BuildID())
	}
}

// TestFindInOtherTrees finds a file, by its build ID, that only a process in a container sees.
func TestFindInOtherTrees(t *testing.T) {
	a, b := NewBuildID([]byte(idA)), NewBuildID([]byte(idB))
	dir := t.TempDir()
	path := filepath.Join(dir, "lib/x.so")
	writeFile(t, path, withID(idB, true)) // the file at this path outside of the container
	tree := filepath.Join(dir, "tree")
	inside := writeFile(t, filepath.Join(tree, path), withID(idA, true))
	f := &Locator{Tree: Tree{BuildIDDir: filepath.Join(dir, "none"), DebugDir: filepath.Join(dir, "none")},
		trees: func() []string {
			return []string{filepath.Join(dir, "empty"), tree}
		}}
	for id, want := range map[BuildID]string{a: inside, b: path} {
		im, err := f.Find(path, id)
		if err != nil || im.Path != want {
			t.Errorf("Find(%s) = %v, %v; want %s", id, im, err, want)
			continue
		}
		im.Close()
	}
	if im, err := f.Find(path, NewBuildID([]byte("cccccccccccccccccccc"))); !errors.Is(err, ErrMismatch) {
		t.Errorf("Find of an unknown build ID = %v, %v; want ErrMismatch", im, err)
	}
}

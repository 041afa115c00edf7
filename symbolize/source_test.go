package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
	"gperf/symbolize/srcline"
)

const inlinedProgram = `
__attribute__((noinline)) int sink(int n) { __asm__ volatile("" : "+r"(n)); return n; }
static inline __attribute__((always_inline)) int inner(int n) {
	return sink(n) + 1;
}
static inline __attribute__((always_inline)) int middle(int n) {
	return inner(n) * 3;
}
__attribute__((noinline)) int outer(int n) {
	return middle(n) + sink(n);
}
int main(int argc, char **argv) { return outer(argc); }
`

// The inline frames of an address include all enclosing functions.
func TestUserSource(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := compile(t, inlinedProgram, "-O2", "-g")
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	start, _ := im.OffOfVaddr(vaddrOf(t, path, "outer"))
	s := New(Options{})
	defer s.Close()
	seen := map[string]bool{}
	for off := start; off < start+32; off++ {
		calls, why := s.UserSource(path, dso.BuildID{}, off)
		if why != Found {
			continue
		}
		var text []string
		for _, c := range calls {
			text = append(text, fmt.Sprintf("%s %s:%d %v", c.Function, filepath.Base(c.File), c.Line, c.Inlined))
		}
		seen[strings.Join(text, ", ")] = true
	}
	if want := "inner a.c:4 true, middle a.c:7 true, outer a.c:10 false"; !seen[want] {
		t.Errorf("%q is not among %v", want, seen)
	}
	if lineless, damage := s.Lineless(), s.Damage(); len(lineless)+len(damage) > 0 {
		t.Errorf("without lines: %v, damaged: %v", lineless, damage)
	}
	path = compile(t, inlinedProgram, "-O2", "-g0")
	if _, why := s.UserSource(path, dso.BuildID{}, start); why != NoLines {
		t.Errorf("without debug information: %v, want %v", why, NoLines)
	}
}

// A copy of a program with other source lines and the same build ID gets lines of its own, whichever was cached first.
func TestHostileLinesPoisoned(t *testing.T) {
	flags := []string{"-O2", "-g", "-Wl,--build-id=0x0123456789012345678901234567890123456789"}
	honest := compile(t, inlinedProgram, flags...)
	poisoned := compile(t, strings.ReplaceAll(inlinedProgram, "\n", "\n\n"), flags...)
	id, err := dso.BuildIDOf(honest)
	if other, _ := dso.BuildIDOf(poisoned); err != nil || other != id {
		t.Skip("the linker makes no build IDs: ", err)
	}
	im, err := dso.Open(honest)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	outer, _ := im.OffOfVaddr(vaddrOf(t, honest, "outer"))
	line := map[string]int{honest: 10, poisoned: 19}
	for _, order := range [][]string{{honest, poisoned, honest}, {poisoned, honest, poisoned}} {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		for _, path := range order {
			s := New(Options{})
			if calls, _ := s.UserSource(path, id, outer); len(calls) != 3 || calls[2].Line != line[path] {
				t.Errorf("%s: %+v, want line %d", path, calls, line[path])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		kept, err := srcline.NewCache()
		if err != nil {
			t.Fatal(err)
		}
		if files, _, err := kept.Size(); files != 2 || err != nil {
			t.Errorf("lines of %d files are kept: %v", files, err)
		}
	}
}

// TestModuleSource finds the lines of a module's addresses by its symbols, for sections
// loaded at any address; the second time in the cached lines, but not when the file has changed.
func TestModuleSource(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	object := compile(t, inlinedProgram, "-O2", "-g", "-r", "-nostdlib", "-Wl,--build-id=sha1", "-ffunction-sections")
	id, err := dso.BuildIDOf(object)
	if err != nil {
		t.Skip("the linker makes no build IDs: ", err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "lib/modules/6.1/kernel")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		filepath.Join(dir, "my-mod.ko"):                    b,
		filepath.Join(root, "lib/modules/6.1/modules.dep"): []byte("kernel/my-mod.ko:\n"),
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := srcline.NewCache()
	if err != nil {
		t.Fatal(err)
	}
	for i, outer := range []uint64{0xffffffffc0777000, 0xffffffffc0888000, 0xffffffffc0888000} {
		const changed = 2
		if i == changed {
			blank(t, filepath.Join(dir, "my-mod.ko"), ".debug_info")
		}
		path := filepath.Join(root, "kallsyms")
		kallsyms := fmt.Sprintf("ffffffff81000000 T _text\nffffffffc0001000 T sink\t[my_mod]\n%x T outer\t[my_mod]\n",
			outer)
		if err := os.WriteFile(path, []byte(kallsyms), 0o644); err != nil {
			t.Fatal(err)
		}
		s := New(Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}}, Kallsyms: path})
		found := false
		for ip := outer; ip < outer+0x20; ip++ {
			calls, why := s.ModuleSource("[my_mod]", id, ip)
			if why != Found && why != NoSymbol && i != changed {
				t.Fatalf("%#x: %v", ip, why)
			}
			found = found || len(calls) == 3 && calls[0].Function == "inner" && calls[0].Line == 4 &&
				calls[2].Function == "outer"
		}
		if found != (i != changed) {
			t.Errorf("step %d, outer at %#x: inner, inlined into middle and it, was found: %t", i, outer, found)
		}
		s.KernelSource(1)
		if i == changed {
			s.Close()
			continue
		}
		if l := s.Unresolved(); len(l) > 0 {
			t.Errorf("names that nobody asked for are missed: %v", l)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if files, _, err := kept.Size(); files != 1 || err != nil {
			t.Errorf("lines of %d files are kept: %v", files, err)
		}
	}
}

// blank fills a section of a file with zeros.
func blank(t *testing.T, path, section string) {
	t.Helper()
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s := im.Section(section)
	im.Close()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, s.FileSize), int64(s.Offset)); err != nil {
		t.Fatal(err)
	}
}

// The owner of a program vouches for its source files only if the lines are read from the program at its own path.
func TestHostileSourceOwner(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	program := compile(t, inlinedProgram, "-O2", "-g", "-Wl,--build-id=sha1")
	id, err := dso.BuildIDOf(program)
	if err != nil {
		t.Skip("the linker makes no build IDs: ", err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	place := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := place(dir + "/program")
	kept := place(dir + "/cache/.build-id/" + id.String()[:2] + "/" + id.String()[2:] + "/elf")
	link := dir + "/link"
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, cache string
		known       bool
	}{
		{own, dir + "/none", true},
		{link, dir + "/none", false},
		{own, dir + "/cache", false}, // the cache's copy comes first
		{kept, dir + "/cache", false},
		{place(dir + "/.hidden/program"), dir + "/none", false},
	} {
		for range 2 { // the second time from the cache of lines
			s := New(Options{Locator: &dso.Locator{Tree: dso.Tree{BuildIDDir: c.cache}}})
			owner := s.SourceOwner(c.path, id)
			if (owner != nil) != c.known || owner != nil && int(*owner) != os.Geteuid() {
				t.Errorf("%s, cache %s: owner %v", c.path, c.cache, owner)
			}
			s.UserSource(c.path, id, 0x1100)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

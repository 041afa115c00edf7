package main

import (
	"debug/elf"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// strippedProgram makes a program a, next to it the file of debug information, and a
// recording of a sample in the function hidden.
func strippedProgram(t *testing.T) (recording, debug string) {
	t.Helper()
	for _, tool := range []string{"gcc", "objcopy"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"),
		[]byte(
			"__attribute__((noinline)) static int hidden(int x) { return x * 7; }\nint main(int c, char **v) { return "+
				"hidden(c); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	runLines(t, dir, "gcc -O1 -g -Wl,--build-id -o a a.c", "objcopy --only-keep-debug a a.only")
	program := filepath.Join(dir, "a")
	r := &recorder{attrs: 1}
	const base = 0x10000000
	r.mmap(1, base, 1<<20, program)
	r.chain(1, 1, base+offOf(t, program, "hidden"))
	runLines(t, dir, "objcopy --strip-all a")
	return r.save(t), filepath.Join(dir, "a.only")
}

// runLines runs commands in dir, whose words are separated by blanks.
func runLines(t *testing.T, dir string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// offOf returns where in a program's file a function begins.
func offOf(t *testing.T, program, name string) uint64 {
	t.Helper()
	vaddr, text := vaddrOf(t, program, name)
	return vaddr - text.Addr + text.Offset
}

// vaddrOf returns the vaddr of a program's function, and the section.
func vaddrOf(t *testing.T, program, name string) (uint64, *elf.Section) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(syms, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s has no function %s", program, name)
	}
	return syms[i].Value, f.Section(".text")
}

func TestDebuginfod(t *testing.T) {
	recording, debug := strippedProgram(t)
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	t.Setenv("DEBUGINFOD_URLS", "")
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.ServeFile(w, r, debug)
	}))
	defer srv.Close()
	look := func(named bool, args ...string) (stderr string) {
		t.Helper()
		out, stderr := gperf(t, append([]string{"script", "-i", recording}, args...)...)
		if strings.Contains(out, "hidden+0x0") != named {
			t.Errorf("gperf script %q:\n%s%s", args, out, stderr)
		}
		return stderr
	}
	look(false)
	look(true, "--debuginfod", srv.URL)
	t.Setenv("DEBUGINFOD_URLS", srv.URL)
	look(false, "--debuginfod=no")
	srv.Close()
	look(true)
	if asked.Load() != 1 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
	// gperf reports a server that does not answer.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	t.Setenv("DEBUGINFOD_TIMEOUT", "1")
	url := "http://" + silent.Addr().String()
	if stderr := look(false, "--debuginfod", url); !strings.Contains(stderr,
		url+": no answer within 1s; it was not asked again") {
		t.Errorf("stderr: %s", stderr)
	}
}

// With --sysroot files are looked for there first, and otherwise here.
func TestSysroot(t *testing.T) {
	recording, debug := strippedProgram(t)
	root := t.TempDir()
	program := filepath.Join(filepath.Dir(debug), "a")
	if out, _ := gperf(t, "script", "-i", recording, "--sysroot", root); strings.Contains(out, "hidden") {
		t.Errorf("nothing is there:\n%s", out)
	}
	at := filepath.Join(root, program)
	if err := os.MkdirAll(filepath.Join(filepath.Dir(at), ".debug"), 0o755); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(debug)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(at), ".debug", "a"), contents, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := gperf(t, "script", "-i", recording, "--sysroot", root); !strings.Contains(out, "hidden+0x0") {
		t.Errorf("its symbols are below the root:\n%s", out)
	}
}

// TestDamagedDebugFile: damaged debug information costs only the names and lines of the
// damaged part, and gperf reports it.
func TestDamagedDebugFile(t *testing.T) {
	recording, debug := strippedProgram(t)
	whole, err := os.ReadFile(debug)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	at := filepath.Join(root, filepath.Dir(debug), ".debug", "a")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	const noNames, noLines = "addresses in 1 file have no names", "debug information of "
	fill := func(section string) func(b []byte) []byte {
		return func(b []byte) []byte { return overwrite(t, b, debug, section) }
	}
	for name, c := range map[string]struct {
		damage      func(b []byte) []byte
		shows, says string
	}{
		"cut":            {func(b []byte) []byte { return b[:len(b)/2] }, "10001129 [unknown]", noNames},
		"empty":          {func(b []byte) []byte { return nil }, "10001129 [unknown]", noNames},
		"no header":      {func(b []byte) []byte { clear(b[:64]); return b }, "10001129 [unknown]", noNames},
		"section names":  {fill(".shstrtab"), "10001129 [unknown]", noNames},
		"units":          {fill(".debug_info"), "hidden+0x0", noLines},
		"abbreviations":  {fill(".debug_abbrev"), "hidden+0x0", noLines},
		"lines":          {fill(".debug_line"), "hidden+0x0", noLines},
		"symbols' names": {fill(".strtab"), "a.c:1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			if err := os.WriteFile(at, c.damage(slices.Clone(whole)), 0o644); err != nil {
				t.Fatal(err)
			}
			out, stderr := gperf(t, "script", "-F", "+srcline", "-i", recording, "--sysroot", root)
			if !strings.Contains(out, c.shows) || !strings.Contains(stderr, c.says) {
				t.Errorf("want %q and %q:\n%s%s", c.shows, c.says, out, stderr)
			}
		})
	}
}

// overwrite fills a section with a byte that is no number of anything.
func overwrite(t *testing.T, b []byte, path, section string) []byte {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(section)
	if s == nil {
		t.Skipf("%s has no %s", path, section)
	}
	for i := range s.FileSize {
		b[s.Offset+i] = 0xfe
	}
	return b
}

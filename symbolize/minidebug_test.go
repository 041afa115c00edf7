package symbolize

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

const miniSource = `
__attribute__((noinline)) static long hidden(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline)) long exported(long n) { return hidden(n) + hidden(n + 1); }
int main(int c, char **v) { return exported(c) == 1; }
`

// miniProgram makes a program with symbols only in .dynsym and .gnu_debugdata, by the
// commands in gdb's manual.
func miniProgram(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"gcc", "objcopy", "nm", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (packages gcc, binutils, xz-utils)", tool)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.c"), []byte(miniSource), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(line string) string {
		t.Helper()
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return string(out)
	}
	run("gcc -O1 -rdynamic -Wl,--build-id -o m m.c")
	var keep []string
	dynamic := run("nm -D --format=just-symbols --defined-only m")
	for name := range strings.FieldsSeq(run("nm --format=just-symbols --defined-only m")) {
		if !strings.Contains(dynamic, name+"\n") {
			keep = append(keep, name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "keep"), []byte(strings.Join(keep, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	run("objcopy --only-keep-debug m mini")
	run("objcopy -S --keep-symbols=keep mini")
	run("xz mini")
	run("objcopy -S --add-section .gnu_debugdata=mini.xz m")
	return filepath.Join(dir, "m")
}

// TestMiniDebug finds symbols in .gnu_debugdata that .dynsym lacks.
func TestMiniDebug(t *testing.T) {
	s := New(Options{})
	d := s.userSymbols.dso(miniProgram(t), dso.BuildID{})
	if d.err != nil {
		t.Fatal(d.err)
	}
	found := map[string]bool{}
	for i := range d.table.entries {
		sym, _ := d.table.Lookup(d.table.entries[i].start)
		found[sym.Name] = true
	}
	for _, name := range []string{"hidden", "exported", "main"} {
		if !found[name] {
			t.Errorf("%s has no name; there are %v", name, found)
		}
	}
}

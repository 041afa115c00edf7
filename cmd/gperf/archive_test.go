package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchivePerfMap: names of code made at run time come along, also into an archive
// that is made of another.
func TestArchivePerfMap(t *testing.T) {
	const pid = 4_000_124 // near the kernel's limit: no process gets it
	path := writePerfMap(t, pid)
	r := &recorder{attrs: 1}
	r.mmap(pid, 0x10000000, 0x300, "//anon")
	for ip := uint64(0x10000000); ip < 0x10000300; ip += 8 {
		r.chain(pid, 1, ip)
	}
	name := r.save(t)
	want, _ := gperf(t, "script", "-i", name)
	if !strings.Contains(want, "first function+0x8") {
		t.Fatalf("there are no names:\n%.1000s", want)
	}
	gperf(t, "archive", name)
	os.Remove(path)
	got, _ := gperf(t, "script", "-i", name+".zip")
	sameText(t, "names of "+path, got, want)
	again := filepath.Join(filepath.Dir(name), "again")
	gperf(t, "archive", "-i", name+".zip", "-o", again)
	got, _ = gperf(t, "script", "-i", again)
	sameText(t, "names of "+path+", archived twice", got, want)
}

// TestArchiveDirectory: a recording that is a directory.
func TestArchiveDirectory(t *testing.T) {
	const dir = "../../testdata/drops.perf.dir"
	out := filepath.Join(t.TempDir(), "x")
	want, _ := gperf(t, "script", "-i", dir)
	gperf(t, "archive", "-i", dir, "-o", out)
	got, _ := gperf(t, "script", "-i", out)
	sameText(t, "a directory's samples", got, want)
}

const splitSource = `
static inline __attribute__((always_inline)) int inner(int x) { asm volatile("nop"); return x * 3; }
__attribute__((noinline)) int NAME(int x) { return inner(x) + 1; }
`

// TestArchiveSplit: the inlined calls of a program whose debug information was split
// come along, of those units alone that samples hit.
func TestArchiveSplit(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // which would contain them here
	// gcc's files of DWARF 5 are beyond the tools of binutils 2.40 and LLVM 14
	for _, tool := range []string{"clang", "llvm-dwp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (packages clang, llvm)", tool)
		}
	}
	for _, packaged := range []bool{false, true} {
		dir := t.TempDir()
		program := filepath.Join(dir, "a.out")
		lines := []string{"clang -O2 -g -gdwarf-5 -gsplit-dwarf -c hit.c",
			"clang -O2 -g -gdwarf-5 -gsplit-dwarf -c other.c", "clang -O2 main.c hit.o other.o"}
		kept := filepath.Join(dir, "hit.dwo")
		if packaged {
			lines = append(lines, "llvm-dwp -e a.out -o a.out.dwp", "rm hit.dwo other.dwo")
			kept = program + ".dwp"
		}
		for name, text := range map[string]string{
			"hit.c": strings.ReplaceAll(splitSource, "NAME", "hit"), "other.c": strings.ReplaceAll(splitSource, "NAME", "other"),
			"main.c": "int hit(int), other(int); int main(int n, char **v) { return hit(n) + other(n); }",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		runLines(t, dir, lines...)
		r := &recorder{attrs: 1}
		const base = 0x10000000
		off := offOf(t, program, "hit")
		r.mmap(1, base, 1<<20, program)
		for i := range uint64(8) {
			r.chain(1, 1, base+off+i)
		}
		name := r.save(t)
		want := mustGperf(t, "script", "-F", "+srcline", "-i", name)
		if !strings.Contains(want, "inner+0x") || !strings.Contains(want, "(inlined)") ||
			!strings.Contains(want, "hit.c:2") {
			t.Fatalf("nothing is inlined:\n%s", want)
		}
		packed := filepath.Join(dir, "packed")
		mustGperf(t, "archive", "-i", name, "-o", packed)
		for _, path := range []string{program, kept} {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		sameText(t, filepath.Base(kept), mustGperf(t, "script", "-F", "+srcline", "-i", packed), want)
		z, err := zip.OpenReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			if strings.HasSuffix(f.Name, "other.dwo") {
				t.Errorf("%s is packed, but was not hit", f.Name)
			}
		}
		z.Close()
	}
}

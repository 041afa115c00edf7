package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// bareELF returns an ELF file of an ABI with a header and nothing else.
func bareELF(a abi) []byte {
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(a.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	var b bytes.Buffer
	dyn, machine := uint16(elf.ET_DYN), uint16(a.machine)
	var header any = elf.Header64{Ident: ident, Type: dyn, Machine: machine, Version: 1, Ehsize: 64}
	if a.class == elf.ELFCLASS32 {
		header = elf.Header32{Ident: ident, Type: dyn, Machine: machine, Version: 1, Ehsize: 52}
	}
	binary.Write(&b, binary.LittleEndian, header)
	return b.Bytes()
}

// ldCacheOf writes a cache like ldconfig's.
func ldCacheOf(l []library) []byte {
	const header, entry = 48, 24
	b := append([]byte("glibc-ld.so.cache1.1"), make([]byte, header-20+entry*len(l))...)
	binary.NativeEndian.PutUint32(b[20:], uint32(len(l)))
	for i, l := range l {
		at := header + entry*i
		binary.NativeEndian.PutUint32(b[at:], l.flags)
		binary.NativeEndian.PutUint32(b[at+4:], uint32(len(b)))
		binary.NativeEndian.PutUint32(b[at+8:], uint32(len(b)+len(l.name)+1))
		b = append(b, l.name+"\x00"+l.path+"\x00"...)
	}
	return b
}

// In a tree with libraries of three ABIs under one name, as with Debian's libc6-x32 and libc6-i386, programs get
// the libraries of the program's ABI, with the linker's cache and without.
func TestLibraryABI(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the ABIs are those of x86")
	}
	x64, x32, i386 := native(), abi{elf.EM_X86_64, elf.ELFCLASS32}, abi{elf.EM_386, elf.ELFCLASS32}
	cache := []library{
		{"libc.so.6", "/libx32/libc.so.6", 0x803}, {"libc.so.6", "/lib32/libc.so.6", 0x003},
		{"libc.so.6", "/usr/lib64/libc.so.6", 0x303}, {"libold.so.1", "/lib32/libold.so.1", 0x003},
		{"libmixed.so.1", "/usr/lib64/libmixed.so.1", 0x303}, {"libmixed.so.2", "/libx32/libmixed.so.2", 0x803},
		{"libwrong.so.1", "/lib32/libwrong.so.1", 0x303}, {"libwrong.so.1", "/usr/lib64/libwrong.so.1", 0x303},
	}
	for _, c := range []struct {
		name  string
		cache bool
	}{{"cache", true}, {"directories", false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, l := range cache {
				path := l.path
				if !c.cache {
					path = strings.NewReplacer("/libx32/", "/usr/lib/x86_64-linux-gnux32/",
						"/lib32/", "/usr/lib/i386-linux-gnu/").Replace(path)
				}
				is := x64
				if strings.Contains(path, "x32") {
					is = x32
				} else if strings.Contains(path, "32") || strings.Contains(path, "i386") {
					is = i386
				}
				writeFile(t, filepath.Join(dir, path), bareELF(is))
			}
			if c.cache {
				writeFile(t, filepath.Join(dir, "etc/ld.so.cache"), ldCacheOf(cache))
			}
			for _, want := range []struct {
				name string
				abi  abi
				dir  string
			}{
				{"libc", x64, "/usr/lib64/"}, {"libc.so.6", x32, "x32/"}, {"c", i386, "32/ i386-linux-gnu/"},
				{"libold", x64, "32/ i386-linux-gnu/"}, // there is no other
				{"libmixed", x64, "/usr/lib64/libmixed.so.1"}, {"libwrong", x64, "/usr/lib64/"},
			} {
				path, ok := root(dir).library(want.name, want.abi)
				in := func(dir string) bool { return strings.Contains(path, dir) }
				if !ok || !slices.ContainsFunc(strings.Fields(want.dir), in) {
					t.Errorf("%s of %v is %s, want %s", want.name, want.abi, path, want.dir)
				}
			}
		})
	}
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A program needs the libraries of the same class: the machine of x32 and x86-64 is the same.
func TestNeededABI(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the ABIs are those of x86")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	x32 := filepath.Join(dir, "libc.so.6")
	writeFile(t, x32, bareELF(abi{elf.EM_X86_64, elf.ELFCLASS32}))
	want := Needed(bash)
	for _, flags := range []uint32{0x803, 0x303} { // the second: the cache is wrong
		cache := []library{{"libc.so.6", x32, flags}}
		if got := neededWith(cache, bash); !slices.Equal(got, want) {
			t.Errorf("with libc.so.6 of x32, marked %#x: %q, want %q", flags, got, want)
		}
	}
}

// A library's name alone is the file that the command maps, whatever the file name is, and which one is reported
// once.
func TestFileOfCommand(t *testing.T) {
	dir := t.TempDir()
	gcc := func(args ...string) {
		t.Helper()
		c := exec.Command("gcc", args...)
		c.Dir, c.Stdin = dir, strings.NewReader("int found(void) { return 1; } int main(void) { return !found(); }")
		if msg, err := c.CombinedOutput(); err != nil {
			t.Skipf("%v: %v\n%s", c, err, msg)
		}
	}
	gcc("-shared", "-fPIC", "-Wl,-soname,libfound.so.1", "-o", "found-1.2.so", "-xc", "-")
	if err := os.Symlink("found-1.2.so", filepath.Join(dir, "libfound.so.1")); err != nil {
		t.Fatal(err)
	}
	gcc("-o", "main", "-xc", "-", "-xnone", "-Wl,--no-as-needed", "libfound.so.1", "-Wl,-rpath,$ORIGIN")
	var notices []string
	l := Locator{Command: filepath.Join(dir, "main"),
		Notice: func(what error) { notices = append(notices, what.Error()) }}
	for range 2 {
		sites, err := l.Find(Query{File: "libfound", Name: "found"})
		if err != nil || len(sites) != 1 || filepath.Base(sites[0].Path) != "found-1.2.so" {
			t.Fatalf("libfound: %v, %v", sites, err)
		}
	}
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "libfound is /") {
		t.Errorf("notices %q", notices)
	}
	if _, err := new(Locator).Find(Query{File: "libfound", Name: "found"}); err == nil {
		t.Error("libfound is found without the command")
	}
}

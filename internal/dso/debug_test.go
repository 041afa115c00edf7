package dso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dwarfFile is a file of debug information with DWARF and more sections.
func dwarfFile(id string, more ...elfSection) []byte {
	f := elfFile{sections: []elfSection{
		{name: ".text", typ: elf.SHT_NOBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR},
		{name: ".debug_info", typ: elf.SHT_PROGBITS, data: []byte("DWARF")},
	}}
	if id != "" {
		f.sections = append(f.sections, elfSection{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC,
			data: gnuNote([]byte(id))})
	}
	f.sections = append(f.sections, more...)
	return f.bytes()
}

func altLink(name, id string) elfSection {
	return elfSection{name: ".gnu_debugaltlink", typ: elf.SHT_PROGBITS, data: []byte(name + "\x00" + id)}
}

func supSection(is byte, name, id string) elfSection {
	return elfSection{name: ".debug_sup", typ: elf.SHT_PROGBITS,
		data: slices.Concat([]byte{5, 0, is}, []byte(name), []byte{0, byte(len(id))}, []byte(id))}
}

// linked is stripped code that names the file with the debug information.
func linked(id, name string, contents []byte) []byte {
	link := append([]byte(name), make([]byte, 4-len(name)%4)...)
	f := elfFile{sections: []elfSection{
		{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: []byte{0xc3}},
		{name: ".gnu_debuglink", typ: elf.SHT_PROGBITS, data: binary.LittleEndian.AppendUint32(link, crc32.ChecksumIEEE(contents))},
	}}
	if id != "" {
		f.sections = append(f.sections, elfSection{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC,
			data: gnuNote([]byte(id))})
	}
	return f.bytes()
}

func TestDebug(t *testing.T) {
	const idC = "cccccccccccccccccccc"
	hexA, hexB := NewBuildID([]byte(idA)).String(), NewBuildID([]byte(idB)).String()
	entryA, entryB := hexA[:2]+"/"+hexA[2:], hexB[:2]+"/"+hexB[2:]
	plain, other := dwarfFile(idA), dwarfFile(idB)
	anonymous := dwarfFile("")
	for _, c := range []struct {
		name        string
		files       map[string][]byte // at: c/ the cache, d/ the debug directory, r/ the root
		id          string
		debug, supp string
		errs        []error
	}{
		{name: "in the file itself", files: map[string][]byte{"r/lib/x.so": plain}, id: idA, debug: "r/lib/x.so"},
		{name: "by build ID", files: map[string][]byte{"r/lib/x.so": withID(idA, true), "d/.build-id/" + entryA + ".debug": plain}, id: idA, debug: "d/.build-id/" + entryA + ".debug"},
		{name: "by build ID that was not recorded", files: map[string][]byte{"r/lib/x.so": withID(idA, true), "d/.build-id/" + entryA + ".debug": plain}, debug: "d/.build-id/" + entryA + ".debug"},
		{name: "in the cache", files: map[string][]byte{"c/.build-id/" + entryA + "/elf": withID(idA, true), "c/.build-id/" + entryA + "/debug": plain}, id: idA, debug: "c/.build-id/" + entryA + "/debug"},
		{name: "linked, same directory", files: map[string][]byte{"r/lib/x.so": linked(idA, "x.dbg", plain), "r/lib/x.dbg": plain}, id: idA, debug: "r/lib/x.dbg"},
		{name: "linked, .debug", files: map[string][]byte{"r/lib/x.so": linked(idA, "x.dbg", plain), "r/lib/.debug/x.dbg": plain}, id: idA, debug: "r/lib/.debug/x.dbg"},
		{name: "linked, debug directory", files: map[string][]byte{"r/lib/x.so": linked(idA, "x.dbg", plain), "d/ROOT/lib/x.dbg": plain}, id: idA, debug: "d/ROOT/lib/x.dbg"},
		{name: "linked, another build before the right one", files: map[string][]byte{"r/lib/x.so": linked(idA, "x.dbg", plain), "r/lib/x.dbg": other, "r/lib/.debug/x.dbg": plain}, id: idA, debug: "r/lib/.debug/x.dbg"},
		{name: "linked, without IDs", files: map[string][]byte{"r/lib/x.so": linked("", "x.dbg", anonymous), "r/lib/x.dbg": anonymous}, debug: "r/lib/x.dbg"},
		{name: "linked, another sum", files: map[string][]byte{"r/lib/x.so": linked("", "x.dbg", plain), "r/lib/x.dbg": anonymous}, errs: []error{ErrNoDWARF, errChecksum}},
		{name: "stripped", files: map[string][]byte{"r/lib/x.so": withID(idA, true)}, id: idA, errs: []error{ErrNoDWARF}},
		{name: "of another build", files: map[string][]byte{"r/lib/x.so": other}, id: idA, errs: []error{ErrNoDWARF, ErrMismatch}},
		{name: "nowhere", files: map[string][]byte{"c/x": plain}, id: idA, errs: []error{ErrNoDWARF, ErrNoFile}},

		{name: "dwz, by path", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, altLink("../dwz/sup", idB)), "r/dwz/sup": other}, id: idA, debug: "r/lib/x.so", supp: "r/dwz/sup"},
		{name: "dwz, by name", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, altLink("../dwz/sup", idB)), "d/.dwz/sup": other}, id: idA, debug: "r/lib/x.so", supp: "d/.dwz/sup"},
		{name: "dwz, by ID", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, altLink("/dwz/sup", idB)), "d/.build-id/" + entryB + ".debug": other}, id: idA, debug: "r/lib/x.so", supp: "d/.build-id/" + entryB + ".debug"},
		{name: "dwz, DWARF 5", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, supSection(0, "sup", "sum")), "r/lib/sup": dwarfFile("", supSection(1, "", "sum"))}, id: idA, debug: "r/lib/x.so", supp: "r/lib/sup"},
		{name: "dwz, another", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, altLink("sup", idB)), "r/lib/sup": dwarfFile(idC)}, id: idA, debug: "r/lib/x.so", errs: []error{ErrMismatch}},
		{name: "dwz, nowhere", files: map[string][]byte{"r/lib/x.so": dwarfFile(idA, altLink("sup", idB))}, id: idA, debug: "r/lib/x.so", errs: []error{ErrNoDWARF}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			real := func(name string) string { return filepath.Join(root, strings.Replace(name, "ROOT", root+"/r", 1)) }
			for name, contents := range c.files {
				writeFile(t, real(name), contents)
			}
			f := &Locator{Tree: Tree{BuildIDDir: root + "/c", DebugDir: root + "/d"}, trees: func() []string {
				return nil
			}}
			debug, supp, err := f.Debug(filepath.Join(root, "r/lib/x.so"), NewBuildID([]byte(c.id)))
			for _, is := range []struct {
				what string
				im   *Image
				want string
			}{{"debug", debug, c.debug}, {"supp", supp, c.supp}} {
				if (is.im != nil) != (is.want != "") || is.im != nil && is.im.Path != real(is.want) {
					t.Errorf("%s: %v, want %q", is.what, is.im, is.want)
				}
				is.im.Close()
			}
			if (err != nil) != (c.errs != nil) {
				t.Errorf("error %v", err)
			}
			for _, want := range c.errs {
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			}
		})
	}
}

// Files of servers are tried last, and the build IDs are checked too.
func TestDebugFetched(t *testing.T) {
	dir := t.TempDir()
	id := NewBuildID([]byte(idA))
	right, wrong := writeFile(t, dir+"/right", dwarfFile(idA)), writeFile(t, dir+"/wrong", dwarfFile(idB))
	var asked []string
	f := &Locator{Tree: Tree{BuildIDDir: dir, DebugDir: dir}, trees: func() []string { return nil }}
	f.Fetch = func(id BuildID, what string) (string, error) {
		asked = append(asked, what+" "+id.String())
		return right, nil
	}
	debug, _, err := f.Debug("/no/such/file", id)
	if err != nil || debug.Path != right || !slices.Equal(asked, []string{"debuginfo " + id.String()}) {
		t.Errorf("%v, %v; asked for %q", debug, err, asked)
	}
	debug.Close()
	f.Fetch = func(BuildID, string) (string, error) { return wrong, nil }
	if debug, _, err := f.Debug("/no/such/file", id); debug != nil || !errors.Is(err, ErrMismatch) {
		t.Errorf("another file from the server: %v, %v", debug, err)
	}
	f.Fetch = func(BuildID, string) (string, error) { return "", os.ErrDeadlineExceeded }
	if debug, _, err := f.Debug("/no/such/file", id); debug != nil || !errors.Is(err, os.ErrDeadlineExceeded) ||
		!strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("no answer: %v, %v", debug, err)
	}
}

// A file with code is fetched only if that is wanted and there is no other one.
func TestCodeFetched(t *testing.T) {
	dir := t.TempDir()
	id := NewBuildID([]byte(idA))
	code := writeFile(t, dir+"/code", dwarfFile(idA))
	var asked []string
	f := &Locator{Tree: Tree{BuildIDDir: dir, DebugDir: dir}, trees: func() []string { return nil }}
	f.Fetch = func(id BuildID, what string) (string, error) {
		asked = append(asked, what)
		return code, nil
	}
	count := func() (n int) {
		for im, err := range f.Candidates("/no/such/file", id) {
			if err == nil {
				n++
				im.Close()
			}
		}
		return n
	}
	if n := count(); n != 0 || len(asked) > 0 {
		t.Errorf("%d candidates, asked for %q", n, asked)
	}
	f.FetchCode = true
	if n := count(); n != 1 || !slices.Equal(asked, []string{CodeFile}) {
		t.Errorf("%d candidates, asked for %q", n, asked)
	}
}

func TestVmlinux(t *testing.T) {
	id := NewBuildID([]byte(idA))
	root := t.TempDir()
	f := &Locator{Tree: Tree{Root: root}}
	look := func(want string) {
		t.Helper()
		im, err := f.Vmlinux(id)
		if err != nil || im.Path != filepath.Join(root, want) {
			t.Errorf("%v, %v; want %s", im, err, want)
		}
		im.Close()
	}
	if im, err := f.Vmlinux(id); im != nil || !errors.Is(err, ErrNoDWARF) {
		t.Errorf("nowhere: %v, %v", im, err)
	}
	writeFile(t, root+"/boot/vmlinux-1.0", dwarfFile(idB)) // another build
	writeFile(t, root+"/boot/vmlinux-1.1", withID(idA, true))
	if im, err := f.Vmlinux(id); im != nil || !errors.Is(err, ErrMismatch) ||
		!strings.Contains(err.Error(), "vmlinux-1.1: no debug") {
		t.Errorf("none with DWARF: %v, %v", im, err)
	}
	writeFile(t, root+"/usr/lib/debug/lib/modules/1.2/vmlinux", dwarfFile(idA))
	look("usr/lib/debug/lib/modules/1.2/vmlinux")
	mine := writeFile(t, root+"/mine", dwarfFile(idB))
	f.VmlinuxPath = mine
	if im, err := f.Vmlinux(id); im != nil || !errors.Is(err, ErrMismatch) {
		t.Errorf("another that was asked for: %v, %v", im, err)
	}
	writeFile(t, root+"/mine", dwarfFile(idA))
	look("mine")
}

func TestModuleDebug(t *testing.T) {
	root := t.TempDir()
	f := &Locator{Tree: Tree{Root: root}}
	writeFile(t, root+"/lib/modules/1.0/modules.dep",
		[]byte("kernel/a.ko:\nkernel/net/nf-con_track.ko.xz: kernel/a.ko\n"))
	want := writeFile(t, root+"/usr/lib/debug/lib/modules/1.0/kernel/net/nf-con_track.ko", dwarfFile(idA))
	writeFile(t, root+"/usr/lib/debug/lib/modules/1.0/kernel/a.ko", dwarfFile(idB))
	im, _, err := f.Debug("[nf_con_track]", NewBuildID([]byte(idA)))
	if err != nil || im.Path != want {
		t.Errorf("%v, %v", im, err)
	}
	im.Close()
	if im, _, err := f.Debug("[a]", NewBuildID([]byte(idA))); im != nil || !errors.Is(err, ErrMismatch) {
		t.Errorf("another build: %v, %v", im, err)
	}
}

// With a system root, the root's files come before this machine's.
func TestSysroot(t *testing.T) {
	dir := t.TempDir()
	f := &Locator{Sysroot: dir + "/s", Tree: Tree{BuildIDDir: dir, DebugDir: dir}, trees: func() []string {
		return nil
	}}
	path := writeFile(t, dir+"/x.so", dwarfFile(idA))
	look := func(id, want string) {
		t.Helper()
		im, _, err := f.Debug(path, NewBuildID([]byte(id)))
		if err != nil || im.Path != want {
			t.Errorf("%v, %v; want %s", im, err, want)
		}
		im.Close()
	}
	look("", path)
	below := writeFile(t, filepath.Join(f.Sysroot, path), dwarfFile(idB))
	look("", below)
	look(idB, below)
	look(idA, path)
}

// Debug finds the files that strip, objcopy and dwz make of a program.
func TestDebugOfTools(t *testing.T) {
	for _, tool := range []string{"gcc", "objcopy", "dwz"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	t.Chdir(t.TempDir())
	writeFile(t, "a.c",
		[]byte("static inline int f(int x) { return x * 3; }\nint main(int c, char **v) { return f(c); }\n"))
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"one": {"-O2"}, "two": {"-O1"}, "five": {"-O2"}, "six": {"-O1"}} {
		run("gcc", append(flags, "-g", "-Wl,--build-id", "-o", name, "a.c")...)
	}
	run("dwz", "-m", "common", "-M", dir+"/common", "one", "two")
	run("dwz", "--dwarf-5", "-m", "common5", "-M", "common5", "five", "six")
	run("objcopy", "--only-keep-debug", "two", "two.debug")
	run("objcopy", "--strip-debug", "--add-gnu-debuglink=two.debug", "two")
	var f Locator
	for name, want := range map[string][2]string{"one": {"one", "common"}, "two": {"two.debug", "common"},
		"five": {"five", "common5"}} {
		debug, supp, err := f.Debug(filepath.Join(dir, name), BuildID{})
		if err != nil || filepath.Base(debug.Path) != want[0] || filepath.Base(supp.Path) != want[1] {
			t.Errorf("%s: %v, %v, %v; want %s", name, debug, supp, err, want)
			continue
		}
		debug.Close()
		supp.Close()
	}
	// The link's sum decides where there is no build ID.
	for _, name := range []string{"two", "two.debug"} {
		run("objcopy", "--remove-section=.note.gnu.build-id", name)
	}
	if debug, _, err := f.Debug(filepath.Join(dir, "two"), BuildID{}); debug != nil || !errors.Is(err, errChecksum) {
		t.Errorf("debug information that was changed: %v, %v", debug, err)
	}
}

// Damaged links name no file.
func TestDamagedLinks(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, []byte("x"), []byte("name\x00\x00\x00\x00\x01\x02\x03"),
		bytes.Repeat([]byte{'x'}, 100)} {
		im := imageOf(t, elfFile{sections: []elfSection{{name: ".gnu_debuglink", typ: elf.SHT_PROGBITS, data: b},
			{name: ".gnu_debugaltlink", typ: elf.SHT_PROGBITS, data: bytes.TrimRight(b, "\x00")},
			{name: ".debug_sup", typ: elf.SHT_PROGBITS, data: append([]byte{5, 0, 0}, b...)}}}.bytes())
		if name, _, ok := debugLink(im); ok {
			t.Errorf("%q: link to %q", b, name)
		}
		supplement(im)
	}
}

func TestDWO(t *testing.T) {
	dir := t.TempDir()
	debug := imageOf(t, dwarfFile(idA))
	debug.Path = dir + "/d/x.debug"
	for _, name := range []string{"x.dwp", "d/x.dwp", "build/u.dwo", "d/u.dwo"} {
		writeFile(t, filepath.Join(dir, name), dwarfFile(""))
	}
	var got []string
	for im := range new(Locator).DWO(dir+"/x", debug, dir+"/build", "u.dwo") {
		got = append(got, strings.TrimPrefix(im.Path, dir+"/"))
		im.Close()
	}
	if want := []string{"x.dwp", "d/x.dwp", "build/u.dwo", "d/u.dwo"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

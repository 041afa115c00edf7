package symbolize

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gperf/internal/dso"
)

// compile compiles C with gcc and returns the program's path.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	return compileWith(t, "gcc", source, flags...)
}

func compileWith(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath(compiler)
	if err != nil {
		t.Skipf("%s is not installed (package gcc, gcc-aarch64-linux-gnu)", compiler)
	}
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.out")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command(gcc, append(flags, "-o", out, src)...).CombinedOutput(); err != nil {
		t.Skipf("gcc %s: %v\n%s", strings.Join(flags, " "), err, msg)
	}
	return out
}

const cProgram = `
#include <stdio.h>
#include <string.h>
static int helper(int n) { return n * 3; }
int work(int n) { return helper(n) + helper(n + 1); }
int work_alias(int n) __attribute__((alias("work")));
int work_weak(int n) __attribute__((weak, alias("work")));
int table[64];
int main(int argc, char **argv) {
	char buf[64];
	table[0] = work(argc);
	snprintf(buf, sizeof buf, "%d", table[0] + work_alias(argc) + work_weak(argc));
	puts(buf);
	return strchr(buf, 'x') != NULL;
}
`

// TestSymbolWithoutSize: in a stripped file, a function of assembly without a size ends at the next function, which has
// no symbol.
func TestSymbolWithoutSize(t *testing.T) {
	const source = `
asm(".globl exported; .type exported, @function; exported: nop; ret; .p2align 4");
static __attribute__((noinline, used)) int local(int n) { return n * 3; }
int main(int argc, char **argv) { return local(argc); }
asm(".globl last; .type last, @function; .cfi_startproc; last: nop; ret; .cfi_endproc; .p2align 4");
static __attribute__((noinline, used)) int end(int n) { return n * 5; }`
	path := compile(t, source, "-O1", "-rdynamic", "-fno-toplevel-reorder")
	local, exported, last, end := vaddrOf(t, path, "local"), vaddrOf(t, path, "exported"), vaddrOf(t, path, "last"),
		vaddrOf(t, path, "end")
	if local < exported || end < last {
		t.Fatalf("the compiler moved functions: %#x, %#x; %#x, %#x", exported, local, last, end)
	}
	if msg, err := exec.Command("strip", path).CombinedOutput(); err != nil {
		t.Skipf("strip: %v: %s", err, msg)
	}
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	s := New(Options{})
	for vaddr, want := range map[uint64]string{exported: "exported", exported + 1: "exported", local: "", local + 2: "",
		last: "last", last + 1: "last", end: ""} {
		off, _ := im.OffOfVaddr(vaddr)
		name := ""
		if sym, _, why := s.User(path, dso.BuildID{}, off); why == Found {
			name = sym.Name
		}
		if name != want {
			t.Errorf("at %#x: %q, want %q", vaddr, name, want)
		}
	}
}

// vaddrOf asks the symbol table for an address.
func vaddrOf(t *testing.T, path, name string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
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
		t.Fatalf("%s has no symbol %s", path, name)
	}
	return syms[i].Value
}

// TestUser looks up symbols by file offset in programs with different load addresses.
func TestUser(t *testing.T) {
	for _, flags := range [][]string{{"-O0", "-pie", "-fPIE"}, {"-O0", "-no-pie"},
		{"-O0", "-no-pie", "-Wl,-Ttext-segment=0x10000000"}} {
		path := compile(t, cProgram, flags...)
		im, err := dso.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		off, ok := im.OffOfVaddr(vaddrOf(t, path, "work"))
		im.Close()
		if !ok {
			t.Fatalf("%v: work lies in no segment", flags)
		}
		s := New(Options{})
		for _, c := range []struct {
			off    uint64
			name   string
			offset uint64
		}{
			{off, "work_alias", 0}, // neither weak nor the shorter name
			{off + 5, "work_alias", 5},
			{off - 1, "helper", 0},
		} {
			sym, offset, why := s.User(path, dso.BuildID{}, c.off)
			if why != Found || sym.Name != c.name || c.offset != 0 && offset != c.offset {
				t.Errorf("%v: at off %#x: %+v+%#x, %v, want %s+%#x", flags, c.off, sym, offset, why, c.name, c.offset)
			}
		}
		if sym, _, why := s.User(path, dso.BuildID{}, 1<<40); why != NoSymbol {
			t.Errorf("%v: far away: %+v, %v, want %v", flags, sym, why, NoSymbol)
		}
	}
}

// A stripped Go program gets the names of its own table: the symbols' names, but for type arguments and wrappers.
func TestUserGo(t *testing.T) {
	dir := t.TempDir()
	own, stripped := filepath.Join(dir, "own"), filepath.Join(dir, "stripped")
	for path, flags := range map[string]string{own: "", stripped: "-s -w"} {
		build := exec.Command("go", "build", "-ldflags="+flags, "-o", path, "gperf/internal/testutil/drops")
		if msg, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, msg)
		}
	}
	im, err := dso.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	text := im.Section(".text")
	begin, _ := im.OffOfVaddr(text.Addr)
	s, same, other := New(Options{}), 0, 0
	for off := begin; off < begin+text.Size; off += text.Size/5000 + 1 {
		want, at, why := s.User(own, dso.BuildID{}, off)
		if why != Found || strings.Contains(want.Name, "[") || strings.HasPrefix(want.Name, "go:") {
			continue
		}
		got, gotAt, why := s.User(stripped, dso.BuildID{}, off)
		if why == Found && got.Name == strings.TrimSuffix(want.Name, ".abi0") && gotAt == at {
			same++
		} else if other++; other < 10 {
			t.Logf("at off %#x: %+v+%#x, %v, want %s+%#x", off, got, gotAt, why, want.Name, at)
		}
	}
	if same < 1000 || other*100 > same {
		t.Errorf("%d names are those of symbols, %d are not", same, other)
	}
}

// A stripped program takes its symbols from the file that was split off.
func TestUserSplit(t *testing.T) {
	objcopy, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("objcopy is not installed (package binutils)")
	}
	path := compile(t, cProgram, "-O0", "-Wl,--build-id=sha1")
	id, err := dso.BuildIDOf(path)
	if err != nil {
		t.Skip("the linker makes no build IDs: ", err)
	}
	vaddr := vaddrOf(t, path, "main")
	debugDir := t.TempDir()
	debug := filepath.Join(debugDir, ".build-id", id.String()[:2], id.String()[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--only-keep-debug", path, debug}, {"--strip-all", path}} {
		if msg, err := exec.Command(objcopy, args...).CombinedOutput(); err != nil {
			t.Fatalf("objcopy %v: %v\n%s", args, err, msg)
		}
	}
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	off, _ := im.OffOfVaddr(vaddr)
	locator := &dso.Locator{Tree: dso.Tree{BuildIDDir: t.TempDir(), DebugDir: debugDir}}
	s := New(Options{Locator: locator})
	if sym, offset, why := s.User(path, id, off+4); why != Found || sym.Name != "main" || offset != 4 {
		t.Errorf("with the debug file: %+v+%#x, %v, want main+0x4", sym, offset, why)
	}
	locator.DebugDir = t.TempDir()
	s = New(Options{Locator: locator})
	if sym, _, why := s.User(path, id, off+4); why != NoSymbols {
		t.Errorf("without the debug file: %+v, %v, want %v", sym, why, NoSymbols)
	}
}

func TestReasons(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Locator: &dso.Locator{Tree: dso.Tree{BuildIDDir: t.TempDir(), DebugDir: t.TempDir()}}})
	for _, c := range []struct {
		path string
		id   dso.BuildID
		want Reason
	}{
		{"/no/such/file", dso.BuildID{}, NoFile},
		{"//anon", dso.BuildID{}, NoFile},
		{"[heap]", dso.BuildID{}, NoFile},
		{script, dso.BuildID{}, Unreadable},
		{exe, dso.NewBuildID([]byte("another build")), Mismatch},
	} {
		if sym, _, why := s.User(c.path, c.id, 0x1000); why != c.want {
			t.Errorf("%s: %+v, %v, want %v", c.path, sym, why, c.want)
		}
		if err := s.Problem(c.path, c.id); err == nil || !strings.Contains(err.Error(), c.path) {
			t.Errorf("problem %v does not name the path %s", err, c.path)
		}
	}
}

// A Symbolizer serves several goroutines; run with -race.
func TestConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, testELF(), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Demangle: true, Kallsyms: writeKallsyms(t, filepath.Join(t.TempDir(), "kallsyms"))})
	var wg sync.WaitGroup
	syms := make([]*Symbol, 8)
	for i := range syms {
		wg.Go(func() {
			syms[i], _, _ = s.User(path, dso.BuildID{}, 0x1010)
			s.Kernel(0xffffffff81000150)
		})
	}
	wg.Wait()
	for _, sym := range syms {
		if sym == nil || sym != syms[0] {
			t.Fatalf("goroutines found %p and %p", sym, syms[0])
		}
	}
}

// TestVmlinux uses a vmlinux instead of kallsyms.
func TestVmlinux(t *testing.T) {
	im, err := dso.NewImage(bytes.NewReader(testELF()), int64(len(testELF())), "vmlinux")
	if err != nil {
		t.Fatal(err)
	}
	k, err := vmlinuxSymbols(im)
	if err != nil {
		t.Fatal(err)
	}
	if sym, module, ok := k.Lookup(0x401012); !ok || sym.Name != "first" || module != "" {
		t.Errorf("at 0x401012: %+v %q, want first", sym, module)
	}
}

// TestVmlinuxNamed checks that a vmlinux that the user names is used if no build ID was
// recorded, and that one with another build ID is an error.
func TestVmlinuxNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, testELF(), 0o644); err != nil {
		t.Fatal(err)
	}
	named := func() *dso.Locator { return &dso.Locator{VmlinuxPath: path} }
	s := New(Options{Locator: named()})
	if sym, off, _, why := s.Kernel(0x401012); why != Found || sym.Name != "first" || off != 2 {
		t.Errorf("%+v+%#x, %v; want first+0x2", sym, off, why)
	}
	s = New(Options{Locator: named(), KernelBuildID: dso.NewBuildID([]byte("of another kernel  !"))})
	if _, _, _, why := s.Kernel(0xffffffff81000000); why == Found {
		t.Error("another kernel's symbols are used")
	}
	if err := s.KernelProblem(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; want what is wrong with %s", err, path)
	}
}

func TestVDSO(t *testing.T) {
	s := New(Options{})
	if err := s.Problem(dso.VDSO, dso.BuildID{}); err != nil {
		t.Skip(err)
	}
	found := false
	for off := uint64(0); off < 0x3000 && !found; off += 4 {
		sym, _, why := s.User(dso.VDSO, dso.BuildID{}, off)
		found = why == Found && strings.Contains(sym.Name, "clock_gettime")
	}
	if !found {
		t.Error("the vdso has no clock_gettime")
	}
}

// TestPLTAgainstObjdump compares the entries with objdump's output for their jumps: the slot's symbol for GNU ld, and
// for the other linkers the addresses of the slots, which readelf lists with the symbols.
func TestPLTAgainstObjdump(t *testing.T) {
	const ibt = "-fcf-protection=full"
	for _, flags := range [][]string{
		{"-Wl,-z,lazy"},
		{"-Wl,-z,now"},
		{"-no-pie", "-Wl,-z,lazy"},
		{ibt, "-Wl,-z,ibtplt", "-Wl,-z,lazy"},
		{"-fuse-ld=gold"},
		{"-fuse-ld=lld", ibt, "-Wl,-z,force-ibt"},
		{"-fuse-ld=lld", "-no-pie", "-Wl,-z,now"},
		{"-fuse-ld=mold"},
		{"-fuse-ld=mold", "-no-pie", "-Wl,-z,now"},
		{"-s"}, // .dynsym has imports only
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			path := compile(t, cProgram, append([]string{"-O1", "-fno-builtin"}, flags...)...)
			comparePLT(t, path, "objdump", "readelf")
		})
	}
	const arm64 = "aarch64-linux-gnu-"
	for _, flags := range [][]string{nil, {"-no-pie", "-mbranch-protection=standard", "-Wl,-z,force-bti"},
		{"-mbranch-protection=standard", "-Wl,-z,force-bti,-z,pac-plt"}} {
		t.Run("arm64 "+strings.Join(flags, " "), func(t *testing.T) {
			path := compileWith(t, arm64+"gcc", cProgram, append([]string{"-O1", "-fno-builtin", "-w"}, flags...)...)
			comparePLT(t, path, arm64+"objdump", arm64+"readelf")
		})
	}
}

// comparePLT compares the names at all jumps through slots, in the sections of the PLT, with the relocations of the
// slots.
func comparePLT(t *testing.T, path, objdump, readelf string) {
	t.Helper()
	run := func(tool string, args ...string) string {
		out, err := exec.Command(tool, append(args, path)...).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skipf("%s is not installed (package binutils)", tool)
		}
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return string(out)
	}
	relocation := regexp.MustCompile(`(?m)^([0-9a-f]+)  [0-9a-f]+ R_\S+(?:JUMP_SLO\S*|GLOB_DAT) +\S+ +([^ @]+)`)
	slots := map[uint64]string{}
	for _, m := range relocation.FindAllStringSubmatch(run(readelf, "-rW"), -1) {
		slots[parseHex(t, m[1])] = m[2]
	}
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	// x86 prints the slot next to the jump, arm64 next to the addition of its offset to the page.
	jump := regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t(?:(?:bnd )?` +
		`jmp +\*.*# ([0-9a-f]+)\b|` +
		`adrp\tx16, ([0-9a-f]+) .*\n.*\n.*add\tx16, x16, #(\S+))`)
	s := New(Options{})
	code := run(objdump, "-d", "--no-show-raw-insn", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got")
	for _, m := range regexp.MustCompile(`(?m)^([0-9a-f]+) <([^>]+@plt)>:`).FindAllStringSubmatch(code, -1) {
		off, _ := im.OffOfVaddr(parseHex(t, m[1]))
		if sym, offset, why := s.User(path, dso.BuildID{}, off); why != Found || sym.Name != m[2] || offset != 0 {
			t.Errorf("entry at %s: %+v+%#x, %v, want %s", m[1], sym, offset, why, m[2])
		}
	}
	names := 0
	for _, m := range jump.FindAllStringSubmatch(code, -1) {
		vaddr, slot := parseHex(t, m[1]), uint64(0)
		if m[2] != "" {
			slot = parseHex(t, m[2])
		} else {
			slot = parseHex(t, m[3]) + parseHex(t, strings.TrimPrefix(m[4], "0x"))
		}
		want := ".plt"
		if name := slots[slot]; name != "" {
			want, names = name+"@plt", names+1
		}
		off, _ := im.OffOfVaddr(vaddr)
		if sym, _, why := s.User(path, dso.BuildID{}, off); why != Found || sym.Name != want {
			t.Errorf("at %#x: %+v, %v, want %s", vaddr, sym, why, want)
		}
	}
	if names < 2 {
		t.Fatalf("objdump shows %d PLT entries", names)
	}
}

func parseHex(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPLTOfStaticProgram checks the entries of IFUNCs, which are of 8 bytes, by the addresses of their resolvers.
func TestPLTOfStaticProgram(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed (package binutils)")
	}
	path := compile(t, cProgram, "-O1", "-fno-builtin", "-static")
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	out, err := exec.Command(objdump, "-d", "-j", ".plt", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	jumps := regexp.MustCompile(`(?m)^ +([0-9a-f]+):.*jmp +\*`).FindAllSubmatch(out, -1)
	s, named := New(Options{}), 0
	for i, m := range jumps {
		vaddr := parseHex(t, string(m[1]))
		off, _ := im.OffOfVaddr(vaddr)
		sym, offset, why := s.User(path, dso.BuildID{}, off)
		if why != Found || !strings.HasSuffix(sym.Name, "@plt") || offset != 0 || sym.End-sym.Start > 16 {
			t.Errorf("entry %d, at %#x: %+v+%#x, %v", i, vaddr, sym, offset, why)
		} else if sym.Name == "strlen@plt" {
			named++
		}
	}
	if named != 1 {
		t.Errorf("%d of %d entries are strlen@plt", named, len(jumps))
	}
}

func TestPLTNameCut(t *testing.T) {
	s := New(Options{})
	e := pltEntry(0, 16, strings.Repeat("x", 2000))
	if got := s.displayName(&e); got != strings.Repeat("x", 1023) {
		t.Errorf("a PLT name of %d bytes, want perf's 1023", len(got))
	}
}

// TestPlaceSymbols checks which symbols are used, and their offsets.
func TestPlaceSymbols(t *testing.T) {
	im, err := dso.NewImage(bytes.NewReader(testELF()), int64(len(testELF())), "test")
	if err != nil {
		t.Fatal(err)
	}
	fn := func(name string, change func(*rawSymbol)) rawSymbol {
		s := rawSymbol{name: name, value: 0x401010, size: 8, shndx: 1, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL}
		change(&s)
		return s
	}
	label := func(s *rawSymbol) { s.typ, s.size = elf.STT_NOTYPE, 0 }
	for _, c := range []struct {
		why  string
		sym  rawSymbol
		want uint64 // offset; math.MaxUint64: not used
	}{
		{"function", fn("f", func(*rawSymbol) {}), 0x1010},
		{"IFUNC", fn("f", func(s *rawSymbol) { s.typ = elf.STT_GNU_IFUNC }), 0x1010},
		{"data", fn("f", func(s *rawSymbol) { s.typ = elf.STT_OBJECT }), 0x1010},
		{"label in .text", fn("f", label), 0x1010},
		{"hidden label", fn("f", func(s *rawSymbol) { label(s); s.vis = elf.STV_HIDDEN }), math.MaxUint64},
		{"hidden function", fn("f", func(s *rawSymbol) { s.vis = elf.STV_HIDDEN }), 0x1010},
		{"label in .rodata", fn("f", func(s *rawSymbol) { label(s); s.shndx = 2 }), 0x1010},
		{"label elsewhere", fn("f", func(s *rawSymbol) { label(s); s.shndx = 6 }), math.MaxUint64},
		{"no name", fn("", func(*rawSymbol) {}), math.MaxUint64},
		{"undefined", fn("f", func(s *rawSymbol) { s.shndx = elf.SHN_UNDEF }), math.MaxUint64},
		{"absolute", fn("f", func(s *rawSymbol) { s.shndx = elf.SHN_ABS }), math.MaxUint64},
		{"no such section", fn("f", func(s *rawSymbol) { s.shndx = 99 }), math.MaxUint64},
		{"thread-local", fn("f", func(s *rawSymbol) { s.typ = elf.STT_TLS }), math.MaxUint64},
		{"section", fn("f", func(s *rawSymbol) { s.typ = elf.STT_SECTION }), math.MaxUint64},
		{"not in memory", fn("f", func(s *rawSymbol) { s.shndx = 3 }), math.MaxUint64},
		{"in no segment", fn("f", func(s *rawSymbol) { s.value = 0x900010 }), 0x900010 - 0x401000 + 0x1000},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := uint64(math.MaxUint64)
			if list := placeSymbols([]rawSymbol{c.sym}, im, im); len(list) == 1 {
				got = list[0].start
			}
			if got != c.want {
				t.Errorf("offset %#x, want %#x", got, c.want)
			}
		})
	}
}

func TestMappingSymbols(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine elf.Machine
		want    bool
	}{
		{"$a", elf.EM_ARM, true}, {"$d.12", elf.EM_AARCH64, true}, {"$x", elf.EM_AARCH64, true}, {"$t", elf.EM_ARM, true},
		{"$dollar", elf.EM_AARCH64, false}, {"$", elf.EM_ARM, false}, {"$x", elf.EM_X86_64, false}, {"$xrv64i", elf.EM_RISCV, true},
	} {
		t.Run(c.name+" "+c.machine.String(), func(t *testing.T) {
			if got := mappingSymbol(c.name, c.machine); got != c.want {
				t.Errorf("%s on %v: %t, want %t", c.name, c.machine, got, c.want)
			}
		})
	}
}

// testELF is a small ET_EXEC file: .text at off 0x1000 and vaddr 0x401000,
// .rodata, .comment, which is not in memory, and a symbol table.
func testELF() []byte {
	names := "\x00.text\x00.rodata\x00.comment\x00.symtab\x00.strtab\x00.plt\x00.rela.plt\x00"
	name := func(s string) uint32 { return uint32(strings.Index(names, "\x00"+s+"\x00") + 1) }
	strs := "\x00first\x00second\x00_ZN1a1bEv\x00"
	syms := []elf.Sym64{
		{},
		{Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1, Value: 0x401010, Size: 0x10},
		{Name: 7, Info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_FUNC), Shndx: 1, Value: 0x401018, Size: 0x10},
		{Name: 14, Info: elf.ST_INFO(elf.STB_WEAK, elf.STT_FUNC), Shndx: 1, Value: 0x401010, Size: 0},
	}
	rela := []elf.Rela64{{Off: 0x404018, Info: elf.R_INFO(1, uint32(elf.R_X86_64_JMP_SLOT))},
		{Off: 0x404020, Info: uint64(elf.R_X86_64_IRELATIVE), Addend: 0x401018}}
	const symAt, strAt, relaAt, nameAt, headersAt = 0x2000, 0x2100, 0x2140, 0x2180, 0x2200
	sections := []elf.Section64{
		{},
		{Name: name(".text"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: 0x401000, Off: 0x1000, Size: 0x100},
		{Name: name(".rodata"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: 0x401200, Off: 0x1200, Size: 0x10},
		{Name: name(".comment"), Type: uint32(elf.SHT_PROGBITS), Off: 0x1300, Size: 0x10},
		{Name: name(".symtab"), Type: uint32(elf.SHT_SYMTAB), Off: symAt, Size: uint64(24 * len(syms)), Link: 5, Entsize: 24},
		{Name: name(".strtab"), Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strs))},
		{Name: name(".plt"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: 0x401080, Off: 0x1080, Size: 0x30, Entsize: 16},
		{Name: name(".rela.plt"), Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_ALLOC), Off: relaAt, Size: uint64(24 * len(rela)), Link: 4, Entsize: 24},
		{Name: 0, Type: uint32(elf.SHT_STRTAB), Off: nameAt, Size: uint64(len(names))},
	}
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: headersAt, Ehsize: 64,
		Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	file := make([]byte, headersAt+64*len(sections))
	put := func(off int, data any) {
		var b bytes.Buffer
		if err := writeLE(&b, data); err != nil {
			panic(err)
		}
		copy(file[off:], b.Bytes())
	}
	put(0, header)
	put(64, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: 0x1000, Vaddr: 0x401000,
		Filesz: 0x400, Memsz: 0x400})
	put(symAt, syms)
	put(strAt, []byte(strs))
	put(relaAt, rela)
	put(0x1080, []byte{0xff, 0x35, 0x7a, 0x2f, 0, 0, 0xff, 0x25, 0x7c, 0x2f, 0, 0}) // push 0x404000; jmp *0x404008
	put(0x1090, []byte{0xff, 0x25, 0x82, 0x2f, 0, 0})                               // jmp *0x404018
	put(0x10a0, []byte{0xff, 0x25, 0x7a, 0x2f, 0, 0})                               // jmp *0x404020
	put(nameAt, []byte(names))
	put(headersAt, sections)
	return file
}

// TestUserTable looks up overlapping symbols, PLT entries and an IFUNC in a file made by
// testELF.
func TestUserTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, testELF(), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Demangle: true})
	for _, c := range []struct {
		off  uint64
		want string
	}{
		{0x1000, ""},
		{0x1010, "first+0x0"},  // has a size, unlike a::b()
		{0x1017, "first+0x7"},  // before second
		{0x101f, "second+0x7"}, // in first, too, but second is the tree's root
		{0x1027, "second+0xf"},
		{0x1028, ""},
		{0x1080, ".plt+0x0"},
		{0x1090, "first@plt+0x0"},
		{0x10a1, "offset_0x10a0@plt+0x1"}, // second is no IFUNC
		{0x10b0, ""},
	} {
		t.Run(fmt.Sprintf("%#x", c.off), func(t *testing.T) {
			got := ""
			if sym, offset, why := s.User(path, dso.BuildID{}, c.off); why == Found {
				got = fmt.Sprintf("%s+%#x", sym.Name, offset)
				if offset == 0 {
					got = sym.Name + "+0x0"
				}
			}
			if got != c.want {
				t.Errorf("at off %#x: %q, want %q", c.off, got, c.want)
			}
		})
	}
}

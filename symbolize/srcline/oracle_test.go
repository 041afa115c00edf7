package srcline

import (
	"bufio"
	"cmp"
	"debug/elf"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// program returns a tool's path, or skips.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (package %s)", name, pkg)
	}
	return path
}

// tool runs a tool in dir. It skips the test if the tool does not support the arguments.
func tool(t *testing.T, dir, pkg string, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t, args[0], pkg), args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// source returns the path of a file of testdata.
func source(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// llvmSymbolizer returns the frames that llvm-symbolizer prints for addresses.
func llvmSymbolizer(t *testing.T, path string, addrs []uint64) [][]InlineFrame {
	t.Helper()
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(program(t, "llvm-symbolizer", "llvm"), "--functions=linkage", "--inlines",
		"--no-demangle", "--obj="+path)
	cmd.Stdin = strings.NewReader(in.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-symbolizer: %v", err)
	}
	var all [][]InlineFrame
	var calls []InlineFrame
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		if s.Text() == "" {
			all, calls = append(all, calls), nil
			continue
		}
		c := InlineFrame{Function: s.Text()}
		s.Scan()
		f := strings.Split(s.Text(), ":")
		n := len(f)
		c.Line, _ = strconv.Atoi(f[n-2])
		c.Column, _ = strconv.Atoi(f[n-1])
		c.File = strings.Join(f[:n-2], ":")
		calls = append(calls, c)
	}
	if len(all) != len(addrs) {
		t.Fatalf("llvm-symbolizer says %d things of %d addresses", len(all), len(addrs))
	}
	return all
}

// openIndex returns the index of a file, which has its debug information itself.
func openIndex(t *testing.T, path, supp string) *Index {
	t.Helper()
	open := func(path string) *dso.Image {
		im, err := dso.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	files := Files{Debug: open(path)}
	if supp != "" {
		files.Supp = open(supp)
	}
	files.DWO = func(compDir, name string) iter.Seq[*dso.Image] {
		return new(dso.Locator).DWO(path, files.Debug, compDir, name)
	}
	x, err := Open(nil, dso.BuildID{}, func() (Files, error) { return files, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// randomCode returns addresses that units claim.
func randomCode(x *Index, n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	var code []span
	total := uint64(0)
	for i, p := range x.pieces {
		if p.owner >= 0 {
			code = append(code, span{p.addr, x.pieces[i+1].addr})
			total += x.pieces[i+1].addr - p.addr
		}
	}
	addrs := make([]uint64, n)
	for i := range addrs {
		at := r.Uint64N(total)
		for _, s := range code {
			if at < s.hi-s.lo {
				addrs[i] = s.lo + at
				break
			}
			at -= s.hi - s.lo
		}
	}
	return addrs
}

// sameCalls compares with LLVM, column by column. LLVM names the outermost function
// after the symbol; gperf's index uses the name in DWARF. That lacks suffixes of
// compilers (".cold") and of Go's ABIs, is the same for all variants of a
// constructor, distinguishes functions that the linker merged, lacks second
// entries of an assembler's function, and often lacks the linkage name of functions
// with internal linkage.
//
// If the compilation directory is relative, LLVM, binutils and elfutils prepend it
// to itself ("./resolv/./resolv/res_send.c"). gperf prints it once, since in DWARF 5
// directory 0 is that directory, and omits a directory ".".
func sameCalls(got, want []InlineFrame, symbols map[string]uint64) bool {
	if len(got) == 0 {
		return len(want) == 1 && want[0].File == "??"
	}
	if len(got) != len(want) {
		return false
	}
	for i, g := range got {
		w, last := want[i], i == len(got)-1
		w.StartLine, w.Inlined, w.Top = g.StartLine, !last, g.Top
		if at, ok := symbols[g.Function]; last && (ok && at == symbols[w.Function] ||
			sameName(g.Function, w.Function) || strings.HasSuffix(g.File, ".S")) {
			w.Function = g.Function
		}
		switch {
		case g.File == "" && w.Line == 0: // LLVM has the symbol table's name of the file
			w.File = ""
		case g.File == "":
			g.File = "??"
		case path.Clean(w.File) == path.Join(path.Dir(g.File), g.File), path.Clean(w.File) == path.Clean(g.File):
			w.File = g.File
		}
		if g != w {
			return false
		}
	}
	return true
}

// symbolsOf returns the addresses of a file's symbols.
func symbolsOf(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, _ := f.Symbols() // a file of debug information may have none
	m := make(map[string]uint64)
	for _, s := range list {
		m[s.Name] = s.Value
	}
	return m
}

var variants = strings.NewReplacer("C1E", "C4E", "C2E", "C4E", "D0E", "D4E", "D1E", "D4E", "D2E", "D4E")

func sameName(name, symbol string) bool {
	symbol, _, _ = strings.Cut(symbol, "@") // a version
	short, _, _ := strings.Cut(name, "<")
	name = strings.ReplaceAll(name, "·", ".")
	switch {
	case name == "" || name == symbol || strings.HasPrefix(symbol, name+"."):
		return true
	case name == "outer" || name == "cold": // of an object file, whose symbols LLVM does not place
		return true
	case strings.HasPrefix(name, "_Z"):
		symbol, _, _ = strings.Cut(symbol, ".")
		return variants.Replace(name) == variants.Replace(symbol)
	case short == "operator()":
		return strings.Contains(symbol, "cl")
	}
	return strings.HasPrefix(symbol, "_Z") && strings.Contains(symbol, short)
}

// likeLLVM looks n random addresses up in a file; its first section of code lies
// at base, where LLVM has it at 0.
func likeLLVM(t *testing.T, x *Index, path string, base uint64, n int) {
	t.Helper()
	addrs := randomCode(x, n)
	asked := make([]uint64, n)
	for i := range addrs {
		asked[i] = addrs[i] - base
	}
	theirs := llvmSymbolizer(t, path, asked)
	symbols := symbolsOf(t, path)
	bad, inlined := 0, 0
	for i, addr := range addrs {
		got := x.Lookup(addr)
		if len(got) > 1 {
			inlined++
		}
		if sameCalls(got, theirs[i], symbols) {
			continue
		}
		if bad++; bad < 5 {
			t.Errorf("%#x:\n got %+v\nwant %+v", addr, got, theirs[i])
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d differ", bad, n)
	}
	if inlined < n/20 {
		t.Errorf("only %d of %d are in inlined functions", inlined, n)
	}
	if err := x.Problem(); err != nil {
		t.Error(err)
	}
}

// Random addresses of C++ with much inlining, in all shapes of DWARF that
// compilers and tools make.
func TestLikeLLVM(t *testing.T) {
	gxx := []string{"g++", "-O2", "-g", "-std=c++17", source(t, "stl.cc"), "-o", "a.out"}
	clang := []string{"clang++", "-O2", "-g", "-std=c++17", source(t, "stl.cc"), "-o", "a.out"}
	objcopy := func(to string) []string { return []string{"objcopy", "--compress-debug-sections=" + to, "a.out"} }
	smallGxx, smallClang := slices.Clip(append(gxx, "-DSMALL")), slices.Clip(append(clang, "-DSMALL"))
	for _, c := range []struct {
		name  string
		short bool
		flags []string
		tools [][]string // commands that change a.out before the test reads it
	}{
		{"g++", true, gxx, nil},
		{"g++ DWARF 4", false, append(smallGxx, "-gdwarf-4"), nil},
		{"g++ DWARF 3", false, append(smallGxx, "-gdwarf-3", "-gstrict-dwarf"), nil},
		{"g++ DWARF 2", false, append(smallGxx, "-gdwarf-2"), nil},
		{"g++ 64-bit DWARF", false, append(smallGxx, "-gdwarf64"), nil},
		{"g++ type units", false, append(smallGxx, "-fdebug-types-section"), nil},
		{"g++ sections", false, append(smallGxx, "-ffunction-sections", "-Wl,--gc-sections"), nil},
		{"g++ lto", false, append(smallGxx, "-flto"), nil},
		{"g++ zlib", false, smallGxx, [][]string{objcopy("zlib")}},
		{"g++ zdebug", false, smallGxx, [][]string{objcopy("zlib-gnu")}},
		{"g++ dwz", false, smallGxx, [][]string{{"dwz", "a.out"}}},
		{"g++ split", true, append(smallGxx, "-gsplit-dwarf"), nil},
		{"g++ split DWARF 4", false, append(smallGxx, "-gsplit-dwarf", "-gdwarf-4"), nil},
		{"clang", true, clang, nil},
		{"clang DWARF 4", false, append(smallClang, "-gdwarf-4"), nil},
		{"clang split", false, append(smallClang, "-gsplit-dwarf"), nil},
		{"clang split DWARF 4", false, append(smallClang, "-gsplit-dwarf", "-gdwarf-4"), nil},
		{"clang package", false, append(smallClang, "-gsplit-dwarf", "-gdwarf-5"), [][]string{{"sh", "-c", "llvm-dwp -e a.out -o a.out.dwp && rm *.dwo"}}},
		{"clang package DWARF 4", false, append(smallClang, "-gsplit-dwarf", "-gdwarf-4"), [][]string{{"sh", "-c", "llvm-dwp -e a.out -o a.out.dwp && rm *.dwo"}}},
		{"clang ranges", false, append(smallClang, "-ffunction-sections"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !c.short {
				t.Skip("left out with -short")
			}
			dir := t.TempDir()
			for _, args := range append([][]string{c.flags}, c.tools...) {
				tool(t, dir, args[0], args...)
			}
			path := filepath.Join(dir, "a.out")
			likeLLVM(t, openIndex(t, path, ""), path, 0, samples(t))
		})
	}
}

// Rewriting a file changes no result. LLVM 14 cannot read these: parts that dwz
// moved into another file, and sections compressed with zstd.
func TestRewritten(t *testing.T) {
	dir := t.TempDir()
	tool(t, dir, "g++", "g++", "-O2", "-g", "-std=c++17", source(t, "stl.cc"), "-o", "before")
	before := openIndex(t, filepath.Join(dir, "before"), "")
	for _, c := range []struct {
		supp string
		args []string
	}{
		{"supp", []string{"dwz", "-m", "supp", "a.out", "b.out"}},
		{"", []string{"objcopy", "--compress-debug-sections=zstd", "a.out"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			tool(t, dir, "coreutils", "cp", "before", "a.out")
			tool(t, dir, "coreutils", "cp", "before", "b.out")
			tool(t, dir, c.args[0], c.args...)
			supp := c.supp
			if supp != "" {
				supp = filepath.Join(dir, supp)
			}
			x := openIndex(t, filepath.Join(dir, "a.out"), supp)
			for _, addr := range randomCode(x, 1000) {
				if got, want := fmt.Sprint(x.Lookup(addr)), fmt.Sprint(before.Lookup(addr)); got != want {
					t.Fatalf("%#x:\n got %s\nwant %s", addr, got, want)
				}
			}
		})
	}
}

// Object files for machines of both byte orders and word sizes, whose debug
// information is relocated.
func TestRelocatable(t *testing.T) {
	for _, target := range []string{"x86_64", "i386", "aarch64", "aarch64_be", "armv7", "powerpc", "powerpc64",
		"powerpc64le", "s390x"} {
		for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
			t.Run(target+version, func(t *testing.T) {
				dir := t.TempDir()
				tool(t, dir, "clang", "clang", "--target="+target+"-linux-gnu", "-O2", version, "-c",
					source(t, "inline.c"), "-o", "a.o")
				path := filepath.Join(dir, "a.o")
				x := openIndex(t, path, "")
				likeLLVM(t, x, path, x.pieces[0].addr&^(sectionAlign-1), 500)
			})
		}
	}
}

// Go's own programs; its assembler's functions have no inlined calls.
func TestGoProgram(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(program(t, "go", "golang"), "build", "-o", filepath.Join(dir, "gofmt"), "cmd/gofmt")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("go build: %v\n%s", err, out)
	}
	path := filepath.Join(dir, "gofmt")
	x := openIndex(t, path, "")
	likeLLVM(t, x, path, 0, samples(t))
	likeGo(t, x, path, samples(t))
}

// likeGo compares with Go's addr2line, which reads Go's own table: the outermost
// function and the innermost line. Generated code has line 1 of "<autogenerated>"
// there, and no line in DWARF, as here.
func likeGo(t *testing.T, x *Index, path string, n int) {
	t.Helper()
	addrs := randomCode(x, n)
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command("go", "tool", "addr2line", path)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("go tool addr2line: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2*n {
		t.Fatalf("go tool addr2line says %d lines of %d addresses", len(lines), n)
	}
	bad := 0
	for i, addr := range addrs {
		calls := x.Lookup(addr)
		got := []string{"?", "?:0"}
		if len(calls) > 0 {
			got = []string{calls[len(calls)-1].Function, fmt.Sprintf("%s:%d", calls[0].File, calls[0].Line)}
		}
		want := lines[2*i : 2*i+2]
		if len(calls) == 0 && want[1] == ":-1" { // padding after a function
			continue
		}
		if want[1] == "<autogenerated>:1" && len(calls) > 0 && calls[0].File == "" {
			want = []string{want[0], ":0"}
		}
		if !slices.Equal(got, want) {
			if bad++; bad < 8 {
				t.Errorf("%#x: %q, want %q", addr, got, want)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d differ from go tool addr2line", bad, n)
	}
}

func TestRust(t *testing.T) {
	dir := t.TempDir()
	src := `fn main() {
	let mut v: Vec<String> = std::env::args().map(|a| a.to_uppercase()).collect();
	v.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
	let m: std::collections::HashMap<_, _> = v.iter().enumerate().map(|(i, s)| (s.clone(), i)).collect();
	println!("{:?} {:?}", v, m.get("X").map(|n| n * 2));
}`
	if err := os.WriteFile(filepath.Join(dir, "a.rs"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, dir, "rustc", "rustc", "-O", "-g", "a.rs", "-o", "a.out")
	path := filepath.Join(dir, "a.out")
	likeLLVM(t, openIndex(t, path, ""), path, 0, samples(t))
}

// Debian's C library with its debug package.
func TestLibc(t *testing.T) {
	for _, lib := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"} {
		id, err := dso.BuildIDOf(lib)
		if err != nil {
			continue
		}
		hex := id.String()
		path := "/usr/lib/debug/.build-id/" + hex[:2] + "/" + hex[2:] + ".debug"
		if _, err := os.Stat(path); err != nil {
			t.Skip("the debug information of libc is not installed (package libc6-dbg)")
		}
		likeLLVM(t, openIndex(t, path, ""), path, 0, samples(t))
		return
	}
	t.Skipf("no libc of Debian's for %s", runtime.GOARCH)
}

// A file of one's own choice, for example a kernel's: $GPERF_SRCLINE_FILE.
func TestFile(t *testing.T) {
	path := os.Getenv("GPERF_SRCLINE_FILE")
	if path == "" {
		t.Skip("$GPERF_SRCLINE_FILE names no file to compare")
	}
	likeLLVM(t, openIndex(t, path, ""), path, 0, samples(t))
}

// samples is how many addresses of each file are compared: $GPERF_SRCLINE_ADDRESSES.
func samples(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("GPERF_SRCLINE_ADDRESSES"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package names

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gperf/internal/dso"
	"gperf/internal/runtimes"
	"gperf/symbolize/demangle"
)

// fn returns a function of 100 bytes with two lines.
func fn(name string, first int32) *runtimes.Function {
	return &runtimes.Function{Name: name, File: "/src/" + name + ".py", Size: 100,
		Lines: []runtimes.Line{{Off: 0, Line: first}, {Off: 10, Line: first + 300}, {Off: 20, Line: first - 1}}}
}

// lineOf returns the file and line in DWARF for a vaddr.
func lineOf(t *testing.T, f *elf.File, vaddr uint64) string {
	t.Helper()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	unit, err := d.Reader().Next()
	if err != nil || unit.Tag != dwarf.TagCompileUnit {
		t.Fatalf("%+v, %v", unit, err)
	}
	lines, err := d.LineReader(unit)
	if err != nil {
		t.Fatal(err)
	}
	var e dwarf.LineEntry
	if err := lines.SeekPC(vaddr, &e); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s:%d", e.File.Name, e.Line)
}

// TestFile checks that the stored file contains the symbols and the lines, and is found by name and build ID.
func TestFile(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := New()
	a, ok := s.Add(dso.PythonName, fn("a", 50))
	b, ok2 := s.Add(dso.PythonName, fn("größe", 7))
	again, _ := s.Add(dso.PythonName, fn("a", 50))
	other, _ := s.Add(dso.PythonName, fn("a", 51))
	if !ok || !ok2 || a != again || a == other || s.Len() != 3 {
		t.Fatalf("a at %#x and %#x, another at %#x, %d functions", a, again, other, s.Len())
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	m := s.Mapping(1, FileOf(a))
	id := dso.NewBuildID(m.BuildID)
	path := new(dso.Tree).Cache().Path(id, "elf")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil || len(symbols) != 3 || symbols[1].Name != "größe" || symbols[1].Size != 100 {
		t.Errorf("symbols %+v, %v", symbols, err)
	}
	vaddr := func(ip uint64) uint64 { return ip - m.Start + m.Pgoff }
	for _, c := range []struct {
		ip, off uint64
		want    string
	}{{a, 0, "/src/a.py:50"}, {a, 9, "/src/a.py:50"}, {a, 10, "/src/a.py:350"}, {a, 99, "/src/a.py:49"},
		{b, 0, "/src/größe.py:7"}, {b, 10, "/src/größe.py:307"}, {b, 99, "/src/größe.py:6"}} {
		if got := lineOf(t, f, vaddr(c.ip+c.off)); got != c.want {
			t.Errorf("%#x+%d: %s, want %s", c.ip, c.off, got, c.want)
		}
	}
	im, err := new(dso.Locator).Find(dso.PythonName, id)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if bias, ok := im.Bias(m.Start, m.Start+m.Len, m.Pgoff); !ok || bias != m.Start {
		t.Errorf("bias %#x, %v", bias, ok)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "new.*")); len(left) > 0 {
		t.Errorf("temporary files %v", left)
	}
}

// TestCarried checks that the records of a recording's files contain the complete files, and that a file contains
// only the functions added to it.
func TestCarried(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := New()
	for round := range 3 {
		ip, _ := s.Add(dso.PythonName, fn(fmt.Sprint("f", round), 10))
		if FileOf(ip) != round {
			t.Fatalf("round %d: %#x is in file %d", round, ip, FileOf(ip))
		}
		m := s.Mapping(1, round)
		c := new(dso.Carried)
		for _, r := range s.Complete() {
			c.Add(nil, r.Addr, r.New)
		}
		l := dso.Locator{Carried: c, Tree: dso.Tree{Root: t.TempDir()}}
		im, err := l.Find(dso.PythonName, dso.NewBuildID(m.BuildID))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Save(); err != nil {
			t.Fatal(err)
		}
		stored, err := os.ReadFile(new(dso.Tree).Cache().Path(im.BuildID(), "elf"))
		got, err2 := io.ReadAll(io.NewSectionReader(im, 0, int64(im.Size)))
		if err != nil || err2 != nil || string(got) != string(stored) {
			t.Errorf("round %d: the recording has %d bytes (%v), the cache %d (%v)",
				round, len(got), err2, len(stored), err)
		}
	}
	if s.Complete() != nil {
		t.Error("a file without functions")
	}
}

// TestSymbolName checks that no reader decodes the name of a function as one of C++.
func TestSymbolName(t *testing.T) {
	for name, want := range map[string]string{"a": "a()", "Pf": "Pf()", "_Z1fv": "_Z1fv()", "spin": "spin",
		"<module>":                     "<module>",
		"Foo.method.<locals>.<lambda>": "Foo.method.<locals>.<lambda>", "größe": "größe"} {
		got := symbolName(name)
		if got != want || demangle.Name(got) != got {
			t.Errorf("%s: symbol %s, which is read as %s, want %s", name, got, demangle.Name(got), want)
		}
	}
}

func TestFull(t *testing.T) {
	s := New()
	big := fn("a", 1)
	big.Size = maxText - textOff
	if _, ok := s.Add(dso.PythonName, big); ok {
		t.Error("a function is too large for a file, and was added")
	}
	if _, ok := s.Add(dso.PythonName, fn("b", 1)); !ok {
		t.Error("no room for another function")
	}
}

func TestIP(t *testing.T) {
	for off, want := range map[uint32]uint64{0: 0x1001, 8: 0x1009, 10: 0x1001, 0x7ffffffe: 0x1001} {
		if got := IP(0x1000, 10, off); got != want {
			t.Errorf("offset %d of 10 bytes: %#x, want %#x", off, got, want)
		}
	}
}

package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

func TestPerfMapTable(t *testing.T) {
	table := perfMapTable(strings.Join([]string{
		"1000 40 first function", "0x1040 0x20 LazyCompile:~f file.js:1", "", "garbage", "1100", "1100 10", "1100 10 ab",
		"1200 100 outer", "1240 10 inner", "1400 0 point", "fffffffffffffff0 40 last", "1500 8 cut",
	}, "\n"))
	for ip, want := range map[uint64]string{
		0x1000: "first function", 0x103f: "first function", 0x1040: "LazyCompile:~f file.js:1",
		0x105f: "LazyCompile:~f file.js:1", 0x1060: "", 0x1100: "", 0x1200: "outer", 0x1260: "outer", 0x1400: "point",
		0x1401: "", 0xfff: "", 0x1507: "cut", 0xfffffffffffffff8: "last",
	} {
		t.Run(fmt.Sprintf("%#x", ip), func(t *testing.T) {
			name := ""
			if sym, ok := table.Lookup(ip); ok {
				name = sym.Name
			}
			if name != want {
				t.Errorf("at %#x: %q, want %q", ip, name, want)
			}
		})
	}
}

// TestPerfMapReused: the last line counts at addresses that several lines list.
func TestPerfMapReused(t *testing.T) {
	table := perfMapTable(strings.Join([]string{
		"1000 40 old", "1000 40 new",
		"2000 100 outer", "2040 20 inner",
		"3040 20 inside", "3000 100 around",
		"4000 40 left", "4020 40 right", "4010 20 middle",
		"5000 40 first", "5000 20 second", "5000 40 third",
		"6000 0 point", "6000 10 sized",
	}, "\n"))
	for ip, want := range map[uint64]string{
		0x1000: "new", 0x103f: "new", 0x203f: "outer", 0x2040: "inner", 0x205f: "inner", 0x2060: "outer", 0x3000: "around",
		0x3040: "around", 0x30ff: "around", 0x400f: "left", 0x4010: "middle", 0x402f: "middle", 0x4030: "right",
		0x405f: "right", 0x4060: "", 0x5000: "third", 0x501f: "third", 0x503f: "third", 0x6000: "sized", 0x600f: "sized",
	} {
		name := ""
		sym, ok := table.Lookup(ip)
		if ok {
			name = sym.Name
		}
		if name != want || ok && ip < sym.Start {
			t.Errorf("at %#x: %q, want %q", ip, name, want)
		}
	}
}

// TestPerfMap checks that ips are looked up in a perf map unless another user owns it.
func TestPerfMap(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "tmp/perf-4711.map")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	s := func() *Symbolizer { return New(Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}}}) }
	if _, _, why := s().User(dso.PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != NoFile {
		t.Errorf("no file: %v", why)
	}
	if err := os.WriteFile(path, []byte("7f0000001000 20 made up\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sym, off, why := s().User(dso.PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != Found ||
		sym.Name != "made up" || off != 0x10 {
		t.Errorf("%+v, %#x, %v", sym, off, why)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: cannot make a file of another user")
	}
	if err := os.Chown(path, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if sym, _, why := s().User(dso.PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != NotOwned {
		t.Errorf("another user's: %+v, %v", sym, why)
	}
	forced := New(Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}, Force: true}})
	if _, _, why := forced.User(dso.PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != Found {
		t.Errorf("another user's, forced: %v", why)
	}
}

// FuzzPerfMap checks for any text that a symbol contains the address at which it is found.
func FuzzPerfMap(f *testing.F) {
	f.Add("1000 40 first function\n0x1040 0x20 LazyCompile:~f file.js:1\ngarbage\n")
	f.Add("1200 100 outer\n1240 10 inner\nfffffffffffffff0 40 last\n")
	f.Fuzz(func(t *testing.T, text string) {
		table := perfMapTable(text)
		for i := range table.entries {
			start := table.entries[i].start
			if sym, ok := table.Lookup(start); ok && (start < sym.Start || start >= sym.End && start != sym.Start) {
				t.Errorf("at %#x: %+v", start, sym)
			}
		}
	})
}

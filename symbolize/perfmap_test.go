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

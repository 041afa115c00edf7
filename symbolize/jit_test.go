package symbolize

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/internal/dso"
)

func TestParsePerfMap(t *testing.T) {
	table := parsePerfMap("1000 40 first function\n0x1040 0x20 LazyCompile:~f file.js:1\n\ngarbage\n1100\n1100 10\n1100 10 ab\n1200 100 outer\n1240 10 inner\n1400 0 point\nfffffffffffffff0 40 last\n1500 8 cut")
	for ip, want := range map[uint64]string{
		0x1000: "first function", 0x103f: "first function", 0x1040: "LazyCompile:~f file.js:1", 0x105f: "LazyCompile:~f file.js:1",
		0x1060: "", 0x1100: "", 0x1200: "outer", 0x1260: "outer", 0x1400: "point", 0x1401: "", 0xfff: "", 0x1507: "cut", 0xfffffffffffffff8: "last",
	} {
		name := ""
		if sym, ok := table.Lookup(ip); ok {
			name = sym.Name
		}
		if name != want {
			t.Errorf("at %#x: %q, want %q", ip, name, want)
		}
	}
}

func TestPerfMapName(t *testing.T) {
	if pid, ok := PerfMapPID(PerfMap(4711)); pid != 4711 || !ok {
		t.Errorf("%d, %t", pid, ok)
	}
	for _, name := range []string{"/tmp/perf-.map", "/tmp/perf-12.map.old", "/tmp/perf-99999999999.map", "/var/tmp/perf-1.map"} {
		if pid, ok := PerfMapPID(name); ok {
			t.Errorf("%s is process %d's", name, pid)
		}
	}
}

// A perf map names code by ips; a file of another user's does not.
func TestPerfMap(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "tmp/perf-4711.map")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	s := func() *Symbolizer { return New(Options{Finder: &dso.Finder{Root: root}}) }
	if _, _, why := s().User(PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != NoFile {
		t.Errorf("no file: %v", why)
	}
	if err := os.WriteFile(path, []byte("7f0000001000 20 made up\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sym, off, why := s().User(PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != Found || sym.Name != "made up" || off != 0x10 {
		t.Errorf("%+v, %#x, %v", sym, off, why)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: no file of another user's can be made")
	}
	if err := os.Chown(path, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if sym, _, why := s().User(PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != NotOwned {
		t.Errorf("another user's: %+v, %v", sym, why)
	}
	forced := New(Options{Finder: &dso.Finder{Root: root, Force: true}})
	if _, _, why := forced.User(PerfMap(4711), dso.BuildID{}, 0x7f0000001010); why != Found {
		t.Errorf("another user's, forced: %v", why)
	}
}

// jitFile makes a jitdump file of records.
func jitFile(order binary.AppendByteOrder, records ...[]byte) []byte {
	b := order.AppendUint32(nil, 0x4a695444)
	for _, v := range []uint32{1, 40, 62, 0, 4711} {
		b = order.AppendUint32(b, v)
	}
	b = order.AppendUint64(order.AppendUint64(b, 5), 0)
	return append(b, slices.Concat(records...)...)
}

// jitRecord makes a record; strings end with a zero.
func jitRecord(order binary.AppendByteOrder, kind uint32, time uint64, fields ...any) []byte {
	var body []byte
	for _, f := range fields {
		switch v := f.(type) {
		case uint32:
			body = order.AppendUint32(body, v)
		case uint64:
			body = order.AppendUint64(body, v)
		case string:
			body = append(append(body, v...), 0)
		case []byte:
			body = append(body, v...)
		}
	}
	b := order.AppendUint32(order.AppendUint32(nil, kind), uint32(16+len(body)))
	return append(order.AppendUint64(b, time), body...)
}

func TestReadJITDump(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		const pid = uint32(4711)
		u64 := func(v uint64) uint64 { return v }
		file := jitFile(order,
			jitRecord(order, jitLoad, 30, pid, pid, u64(0x3000), u64(0x3000), u64(16), u64(2), "later", make([]byte, 16)),
			jitRecord(order, jitDebug, 10, u64(0x1000), u64(3), u64(0x1000), uint32(7), uint32(0), "a.js", u64(0x1008), uint32(9), uint32(0), "\xff", u64(0x100c), uint32(1), uint32(0), "b.js"),
			jitRecord(order, 4, 10, u64(0), u64(0), u64(0)), // unwinding
			jitRecord(order, jitLoad, 10, pid, pid, u64(0x1000), u64(0x1000), u64(16), u64(1), "function", make([]byte, 16)),
			jitRecord(order, jitMove, 20, pid, pid, u64(0x2000), u64(0x1000), u64(0x2000), u64(16), u64(1)),
			jitRecord(order, jitLoad, 40, pid, pid, u64(0), u64(0x4000), u64(0), u64(3), "empty"),
			jitRecord(order, 3, 50),
			[]byte{1, 2, 3},
		)
		d, err := ReadJITDump(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range d.Codes {
			got = append(got, fmt.Sprintf("%d %s %x-%x", c.Time, c.Symbol.Name, c.Symbol.Start, c.Symbol.End))
		}
		if want := []string{"10 function 1000-1010", "20 function 2000-2010", "30 later 3000-3010"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for i, start := range []uint64{0x1000, 0x2000} {
			for off, want := range []string{0: "a.js:7", 7: "a.js:7", 8: "a.js:9", 15: "b.js:1"} {
				if file, line := d.Codes[i].Line(start + uint64(off)); want != "" && fmt.Sprintf("%s:%d", file, line) != want {
					t.Errorf("%#x+%d: %s:%d, want %s", start, off, file, line, want)
				}
			}
		}
		if file, line := d.Codes[2].Line(0x3000); file != "" || line != 0 {
			t.Errorf("%s:%d of code without lines", file, line)
		}
	}
	for _, b := range []string{"", "DTiJ", "ELF" + strings.Repeat("\x00", 40)} {
		if d, err := ReadJITDump(strings.NewReader(b)); err == nil {
			t.Errorf("%q: %+v", b, d)
		}
	}
}

// Dumps that others made hold what others read in them.
func TestJITDumpsOfOthers(t *testing.T) {
	const dir = "../../shared/fixtures"
	for _, name := range []string{"jitlink", "julia", "php"} {
		file, err := os.Open(filepath.Join(dir, "jitdump", name+".dump"))
		if err != nil {
			t.Skip("no recordings of others: ", err)
		}
		defer file.Close()
		text, err := os.ReadFile(filepath.Join(dir, "expected/jitdump", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		type prefix struct{ Timestamp uint64 }
		var want struct {
			CodeLoads []struct {
				Prefix             prefix
				CodeAddr, CodeSize uint64
				Name               string
			}
			DebugInfo []struct {
				CodeAddr uint64
				Entries  []struct {
					Addr   uint64
					Lineno int
					Name   string
				}
			}
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		d, err := ReadJITDump(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(d.Codes) != len(want.CodeLoads) {
			t.Errorf("%s: %d functions, want %d", name, len(d.Codes), len(want.CodeLoads))
			continue
		}
		at := map[uint64]*JITCode{}
		for i, w := range want.CodeLoads {
			c := &d.Codes[i]
			at[c.Symbol.Start] = c
			if c.Time != w.Prefix.Timestamp || c.Symbol.Name != w.Name || c.Symbol.Start != w.CodeAddr || c.Symbol.End != w.CodeAddr+w.CodeSize {
				t.Errorf("%s: function %d: %+v, want %+v", name, i, c, w)
			}
		}
		for _, w := range want.DebugInfo {
			first := w.Entries[0]
			if file, line := at[w.CodeAddr].Line(w.CodeAddr); file != first.Name || line != first.Lineno {
				t.Errorf("%s: %#x: %s:%d, want %s:%d", name, w.CodeAddr, file, line, first.Name, first.Lineno)
			}
		}
	}
}

// FuzzPerfMap: any text makes a table in which names are found within their bounds.
func FuzzPerfMap(f *testing.F) {
	f.Add("1000 40 first function\n0x1040 0x20 LazyCompile:~f file.js:1\ngarbage\n")
	f.Add("1200 100 outer\n1240 10 inner\nfffffffffffffff0 40 last\n")
	f.Fuzz(func(t *testing.T, text string) {
		table := parsePerfMap(text)
		for i := range table.entries {
			start := table.entries[i].start
			if sym, ok := table.Lookup(start); ok && (start < sym.Start || start >= sym.End && start != sym.Start) {
				t.Errorf("at %#x: %+v", start, sym)
			}
		}
	})
}

// FuzzJITDump: any bytes are refused or make functions that begin before they end,
// in the order of time.
func FuzzJITDump(f *testing.F) {
	le := binary.LittleEndian
	f.Add(jitFile(le, jitRecord(le, jitDebug, 10, uint64(0x1000), uint64(1), uint64(0x1040), uint32(7), uint32(0), "a.js"),
		jitRecord(le, jitLoad, 10, uint32(1), uint32(1), uint64(0x1000), uint64(0x1000), uint64(16), uint64(1), "function"),
		jitRecord(le, jitMove, 20, uint32(1), uint32(1), uint64(0x2000), uint64(0x1000), uint64(0x2000), uint64(16), uint64(1))))
	f.Add(jitFile(binary.BigEndian))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadJITDump(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := range d.Codes {
			c := &d.Codes[i]
			if c.Symbol.End < c.Symbol.Start || i > 0 && c.Time < d.Codes[i-1].Time {
				t.Errorf("function %d: %+v", i, c)
			}
			c.Line(c.Symbol.Start)
		}
	})
}

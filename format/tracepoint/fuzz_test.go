package tracepoint

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// TestBoundedText checks that a few bytes of a print fmt or of fields cannot produce
// unbounded text.
func TestBoundedText(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	field := "\tfield:char a[4096];\toffset:0;\tsize:4096;\tsigned:0;\n"
	for _, text := range []string{
		syntheticHead + `"` + many(4000, "%4096d") + `"` + many(4000, ",1"),
		syntheticHead + `"` + many(2000, "%s") + `"` + many(2000, ", __get_str(str)"),
		syntheticHead + `"` + many(500, "%s") + `"` + many(500, ", __print_array(REC->comm, 9999, 3)"),
		syntheticHead + `"%4096s", __print_flags(REC->d, "x", {1,""},{2,""},{4,""},{8,""},{16,""},{32,""},{64,""},{128,""})`,
		"name: x\nID: 1\nformat:\n" + many(1200, field) + "\nprint fmt: unreadable",
	} {
		f, err := Parse([]byte(text), "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 8, 200, 4096, 1<<16 - 1} {
			raw := bytes.Repeat([]byte{1}, n)
			got := f.AppendPrint([]byte("before "), raw, &Env{})
			if len(got) > len("before ")+MaxPrint(n) || !bytes.HasPrefix(got, []byte("before ")) {
				t.Errorf("%.60q: %d bytes of text from %d", text, len(got), n)
			}
			if len(got) == len("before ")+MaxPrint(n) && !bytes.HasSuffix(got, []byte("...")) {
				t.Errorf("%.60q: cut without a mark", text)
			}
		}
	}
}

// FuzzParse parses arbitrary text as a format file and prints empty data with it.
func FuzzParse(f *testing.F) {
	for _, r := range readRecorded(f) {
		f.Add(formatText(f, r.name), r.f.System)
	}
	f.Add([]byte("name: x\nID: 1\nprint fmt: \"%d\", REC->x"), "ftrace")
	f.Fuzz(func(t *testing.T, text []byte, system string) {
		format, err := Parse(text, system)
		if (err == nil) == (format == nil) {
			t.Fatal("neither format nor error, or both")
		}
		if err != nil {
			return
		}
		if format.common > len(format.Fields) {
			t.Fatalf("%d of %d fields are common", format.common, len(format.Fields))
		}
		for i := range format.Fields {
			fd := &format.Fields[i]
			if fd.Offset < 0 || fd.Size < 0 || fd.Len < 0 || fd.ElemSize < 0 {
				t.Fatalf("field %+v", fd)
			}
		}
		again, err := Parse(text, system)
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte("some data that may mean anything")
		got, want := again.AppendPrint(nil, raw, &Env{}), format.AppendPrint(nil, raw, &Env{})
		if string(got) != string(want) {
			t.Fatalf("the same text read twice prints %q and %q", want, got)
		}
	})
}

// FuzzRaw prints arbitrary data with the formats of testdata.
func FuzzRaw(f *testing.F) {
	all := readRecorded(f)
	for i, r := range all {
		f.Add(uint(i), r.raw, false)
	}
	f.Fuzz(func(t *testing.T, which uint, raw []byte, big bool) {
		r := all[which%uint(len(all))]
		env := Env{Symbol: testSymbol, Printk: r.env.Printk}
		if big {
			env.Order, env.LongSize = binary.BigEndian, 4
		}
		before := string(raw)
		out := r.f.AppendPrint(nil, raw, &env)
		if len(out) > MaxPrint(len(raw)) {
			t.Fatalf("%d bytes of text from %d", len(out), len(raw))
		}
		if again := r.f.AppendPrint(nil, raw, &env); string(again) != string(out) {
			t.Fatalf("%q, then %q", out, again)
		}
		for i := range r.f.Fields {
			r.f.AppendField(nil, &r.f.Fields[i], raw, &env)
		}
		if string(raw) != before {
			t.Fatal("the data was changed")
		}
	})
}

// formatText returns the format file inside a file of testdata.
func formatText(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("# format\n"))
	text, _, _ = bytes.Cut(text, []byte("# raw\n"))
	return text
}

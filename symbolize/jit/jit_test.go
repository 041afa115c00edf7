package jit

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
)

// jitFile returns a jitdump file with these records.
func jitFile(order binary.AppendByteOrder, records ...[]byte) []byte {
	b := order.AppendUint32(nil, 0x4a695444)
	for _, v := range []uint32{1, 40, 62, 0, 4711} {
		b = order.AppendUint32(b, v)
	}
	b = order.AppendUint64(order.AppendUint64(b, 5), 0)
	return append(b, slices.Concat(records...)...)
}

// jitRecord returns a record; it terminates strings with a zero byte.
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

func TestReadDump(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		t.Run(order.String(), func(t *testing.T) {
			const pid = uint32(4711)
			u64 := func(v uint64) uint64 { return v }
			file := jitFile(order,
				jitRecord(order, recordLoad, 30, pid, pid, u64(0x3000), u64(0x3000), u64(16), u64(2), "later",
					make([]byte, 16)),
				jitRecord(order, recordDebug, 10, u64(0x1000), u64(3), u64(0x1000), uint32(7), uint32(0), "a.js",
					u64(0x1008), uint32(9), uint32(0), "\xff", u64(0x100c), uint32(1), uint32(0), "b.js"),
				jitRecord(order, recordUnwind, 10, u64(5), u64(2), u64(8), []byte{1, 2, 3, 4, 5}),
				jitRecord(order, recordLoad, 10, pid, pid, u64(0x1000), u64(0x1000), u64(16), u64(1), "function",
					make([]byte, 16)),
				jitRecord(order, recordMove, 20, pid, pid, u64(0x2000), u64(0x1000), u64(0x2000), u64(16), u64(1)),
				jitRecord(order, recordLoad, 40, pid, pid, u64(0), u64(0x4000), u64(0), u64(3), "empty"),
				jitRecord(order, 3, 50),
				[]byte{1, 2, 3},
			)
			d, err := ReadDump(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range d.Codes {
				got = append(got, fmt.Sprintf("%d %s %x-%x", c.Time, c.Name, c.Start, c.End))
			}
			if want := []string{"10 function 1000-1010", "20 function 2000-2010",
				"30 later 3000-3010"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			for i, start := range []uint64{0x1000, 0x2000} {
				for off, want := range []string{0: "a.js:7", 7: "a.js:7", 8: "a.js:9", 15: "b.js:1"} {
					if file, line := d.Codes[i].Line(start + uint64(off)); want != "" &&
						fmt.Sprintf("%s:%d", file, line) != want {
						t.Errorf("%#x+%d: %s:%d, want %s", start, off, file, line, want)
					}
				}
			}
			for i, want := range []string{"\x01\x02\x03", "\x01\x02\x03", ""} {
				if got := string(d.Codes[i].EHFrame); got != want {
					t.Errorf("function %d: .eh_frame %q, want %q", i, got, want)
				}
			}
			if file, line := d.Codes[2].Line(0x3000); file != "" || line != 0 {
				t.Errorf("code without lines: %s:%d", file, line)
			}
		})
	}
	for _, b := range []string{"", "DTiJ", "ELF" + strings.Repeat("\x00", 40)} {
		if d, err := ReadDump(strings.NewReader(b)); err == nil {
			t.Errorf("%q: %+v", b, d)
		}
	}
}

// TestReadDumpFixtures compares dumps of real runtimes with the output of another parser.
func TestReadDumpFixtures(t *testing.T) {
	const dir = "../../../shared/fixtures"
	for _, name := range []string{"jitlink", "julia", "php"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join(dir, "jitdump", name+".dump"))
			if err != nil {
				t.Skip("no fixtures: ", err)
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
			d, err := ReadDump(file)
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			if len(d.Codes) != len(want.CodeLoads) {
				t.Errorf("%d functions, want %d", len(d.Codes), len(want.CodeLoads))
				return
			}
			at := map[uint64]*Code{}
			for i, w := range want.CodeLoads {
				c := &d.Codes[i]
				at[c.Start] = c
				if c.Time != w.Prefix.Timestamp || c.Name != w.Name || c.Start != w.CodeAddr ||
					c.End != w.CodeAddr+w.CodeSize {
					t.Errorf("function %d: %+v, want %+v", i, c, w)
				}
			}
			for _, w := range want.DebugInfo {
				first := w.Entries[0]
				if file, line := at[w.CodeAddr].Line(w.CodeAddr); file != first.Name || line != first.Lineno {
					t.Errorf("%#x: %s:%d, want %s:%d", w.CodeAddr, file, line, first.Name, first.Lineno)
				}
			}
		})
	}
}

// TestFollow reads a file of which more and more is there.
func TestFollow(t *testing.T) {
	order, pid := binary.LittleEndian, uint32(4711)
	u64 := func(v uint64) uint64 { return v }
	info := func(b ...byte) []byte {
		return jitRecord(order, recordUnwind, 1, u64(uint64(len(b))), u64(0), u64(0), b)
	}
	load := func(start uint64) []byte {
		return jitRecord(order, recordLoad, 1, pid, pid, start, start, u64(16), start, "function", make([]byte, 16))
	}
	b := jitFile(order, info(1), load(0x1000), load(0x2000), info(2, 3), load(0x3000), info(4))
	f, err := Follow(bytes.NewReader(b[:40]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for n := 40; n <= len(b); n++ {
		f.Next(bytes.NewReader(b[:n]), int64(n), func(c Code) {
			got = append(got, fmt.Sprintf("%x-%x %v", c.Start, c.End, c.EHFrame))
		})
	}
	if want := []string{"1000-1010 [1]", "3000-3010 [2 3]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Follow(bytes.NewReader(b[:39])); err == nil {
		t.Error("followed half a header")
	}
}

// FuzzFollow: a Follower returns functions with unwinding information from the file, and nothing else.
func FuzzFollow(f *testing.F) {
	le := binary.LittleEndian
	f.Add(jitFile(le, jitRecord(le, recordUnwind, 1, uint64(4), uint64(1), uint64(0), []byte{1, 2, 3, 4}),
		jitRecord(le, recordLoad, 10, uint32(1), uint32(1), uint64(0x1000), uint64(0x1000), uint64(16),
			uint64(1), "name")))
	f.Add(jitFile(le, jitRecord(le, recordUnwind, 1, ^uint64(0), uint64(1), uint64(0))))
	f.Add(jitFile(binary.BigEndian, jitRecord(binary.BigEndian, recordUnwind, 1, uint64(8), uint64(9), uint64(0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		follower, err := Follow(bytes.NewReader(b))
		if err != nil {
			return
		}
		follower.Next(bytes.NewReader(b), int64(len(b)), func(c Code) {
			if c.End <= c.Start || len(c.EHFrame) == 0 || len(c.EHFrame) > len(b) {
				t.Errorf("%#x-%#x: %d bytes", c.Start, c.End, len(c.EHFrame))
			}
		})
	})
}

// FuzzDump: ReadDump rejects any bytes, or returns functions that start before they end, sorted by time.
func FuzzDump(f *testing.F) {
	le := binary.LittleEndian
	f.Add(jitFile(le, jitRecord(le, recordDebug, 10, uint64(0x1000), uint64(1), uint64(0x1040),
		uint32(7), uint32(0), "a.js"),
		jitRecord(le, recordLoad, 10, uint32(1), uint32(1), uint64(0x1000), uint64(0x1000), uint64(16),
			uint64(1), "function"),
		jitRecord(le, recordMove, 20, uint32(1), uint32(1), uint64(0x2000), uint64(0x1000), uint64(0x2000),
			uint64(16), uint64(1))))
	f.Add(jitFile(binary.BigEndian))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDump(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := range d.Codes {
			c := &d.Codes[i]
			if c.End < c.Start || i > 0 && c.Time < d.Codes[i-1].Time {
				t.Errorf("function %d: %+v", i, c)
			}
			c.Line(c.Start)
		}
	})
}

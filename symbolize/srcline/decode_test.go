package srcline

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"gperf/internal/dwarf"
)

// asm makes bytes of numbers of fixed size, strings with their NUL, and bytes.
func asm(big bool, parts ...any) (b []byte) {
	var order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	for _, p := range parts {
		switch v := p.(type) {
		case int:
			b = append(b, byte(v))
		case uint16:
			b = order.AppendUint16(b, v)
		case uint32:
			b = order.AppendUint32(b, v)
		case uint64:
			b = order.AppendUint64(b, v)
		case string:
			b = append(append(b, v...), 0)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

// unit32 puts the length before a unit.
func unit32(big bool, body []byte) []byte { return append(asm(big, uint32(len(body))), body...) }

func TestResolveClaims(t *testing.T) {
	for _, c := range []struct {
		name   string
		claims []claim
		want   []piece
	}{
		{"nothing", nil, nil},
		{"apart", []claim{{span{20, 30}, 1}, {span{0, 10}, 0}}, []piece{{0, 0}, {10, -1}, {20, 1}, {30, -1}}},
		{"nested", []claim{{span{0, 100}, 0}, {span{10, 50}, 1}, {span{20, 30}, 2}}, []piece{{0, 0}, {10, 1}, {20, 2}, {30, 1}, {50, 0}, {100, -1}}},
		{"same start", []claim{{span{0, 100}, 0}, {span{0, 50}, 1}}, []piece{{0, 1}, {50, 0}, {100, -1}}},
		{"same end", []claim{{span{0, 100}, 0}, {span{50, 100}, 1}}, []piece{{0, 0}, {50, 1}, {100, -1}}},
		{"across", []claim{{span{0, 50}, 0}, {span{40, 90}, 1}}, []piece{{0, 0}, {40, 1}, {90, -1}}},
		{"the first is higher", []claim{{span{0, 50}, 1}, {span{40, 90}, 0}}, []piece{{0, 1}, {50, 0}, {90, -1}}},
		{"ended below", []claim{{span{0, 30}, 1}, {span{10, 20}, 0}, {span{25, 40}, 0}}, []piece{{0, 1}, {30, 0}, {40, -1}}},
	} {
		if got := resolveClaims(c.claims, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, big := range []bool{false, true} {
		s := &sections{
			big: big,
			ranges: asm(big, uint32(0xdead), uint32(1), uint32(3), uint32(0xffffffff), uint32(0x1000), uint32(4), uint32(4),
				uint32(5), uint32(8), uint32(0), uint32(0), uint32(7), uint32(9)),
			addr: asm(big, uint32(0), uint32(0x100), uint32(0x200)),
			rnglists: asm(big, uint32(4), // an offset from here on
				dwarf.RangeBaseAddressx, 1, dwarf.RangeOffsetPair, 1, 2, dwarf.RangeStartxEndx, 0, 1, dwarf.RangeStartxLength, 1, 0x10, dwarf.RangeBaseAddress, uint32(0x8000),
				dwarf.RangeOffsetPair, 0, 0x81, 1, dwarf.RangeStartEnd, uint32(5), uint32(6), dwarf.RangeStartLength, uint32(7), 8, dwarf.RangeEnd, dwarf.RangeOffsetPair, 1, 2),
		}
		old := &unit{sections: s, layout: layout{4, 4, 4}, low: 0x10}
		if got, want := old.rangeList(value{u: 4, form: formSecOffset}, nil),
			[]span{{0x11, 0x13}, {0x1005, 0x1008}}; !slices.Equal(got, want) {
			t.Errorf(".debug_ranges: %x, want %x", got, want)
		}
		u := &unit{sections: s, layout: layout{4, 4, 5}, low: 0x10, addrBase: 4}
		want := []span{{0x201, 0x202}, {0x100, 0x200}, {0x200, 0x210}, {0x8000, 0x8081}, {5, 6}, {7, 15}}
		for _, v := range []value{{4, formSecOffset}, {0, formRnglistx}} {
			if got := u.rangeList(v, nil); !slices.Equal(got, want) {
				t.Errorf(".debug_rnglists, form %#x: %x, want %x", v.form, got, want)
			}
		}
	}
}

// everywhere is code at all addresses.
var everywhere = spans{{0, ^uint64(0)}}

// oldLines is a table of version 2 to 4 with the given program.
func oldLines(version uint16, program []byte) []byte {
	ops := []any{1}
	if version >= 4 {
		ops = append(ops, 1)
	}
	ops = append(ops, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, "inc", "/abs", 0, "a.c", 0, 0, 0, "b.h", 1,
		0, 0, "/c.h", 2, 0, 0, 0)
	header := asm(false, ops...)
	return unit32(false, asm(false, version, uint32(len(header)), header, program))
}

func TestLines(t *testing.T) {
	program := asm(false,
		0, 9, lneSetAddress, uint64(0x2000), lnsAdvanceLine, 9, lnsSetColumn, 5, lnsCopy, // 0x2000: a.c:10:5
		lnsSetFile, 2, 13+14*3+5+2, // 0x2003: b.h:12
		lnsCopy,             // the same again
		lnsConstAddPC, 13+5, // 0x2014: b.h:12
		lnsFixedAdvancePC, uint16(2), // 0x2016
		0, 1, lneEndSequence,
		0, 9, lneSetAddress, uint64(0x1000), lnsCopy, lnsAdvancePC, 0x10, 0, 1, lneEndSequence,
		0, 9, lneSetAddress, uint64(0x3000), lnsCopy) // has no end
	for version := uint16(2); version <= 4; version++ {
		u := &unit{sections: &sections{line: oldLines(version, program)}, layout: layout{8, 4, version}, hasLines: true,
			compDir: []byte("/dir")}
		l := lineProgram{code: everywhere}
		if !l.read(u) {
			t.Fatalf("version %d: damaged", version)
		}
		var got []string
		for _, s := range l.seqs {
			for _, r := range s.rows {
				got = append(got, fmt.Sprintf("%#x %s:%d:%d", r.addr, l.path(nil, uint64(r.file)), r.line, r.column))
			}
			got = append(got, fmt.Sprintf("%#x end", s.end))
		}
		want := []string{"0x1000 /dir/a.c:1:0", "0x1010 end", "0x2000 /dir/a.c:10:5", "0x2003 /dir/inc/b.h:12:5",
			"0x2014 /dir/inc/b.h:12:5", "0x2016 end"}
		if !slices.Equal(got, want) {
			t.Errorf("version %d:\n got %q\nwant %q", version, got, want)
		}
		if got := string(l.path(nil, 3)); got != "/c.h" {
			t.Errorf("version %d: file 3 is %q", version, got)
		}
	}
}

// Version 5 counts directories and files from 0, and may have checksums for them.
func TestLines5(t *testing.T) {
	md5 := make([]byte, 16)
	header := asm(false, 1, 1, 1, 0xfb, 14, 1,
		1, lnctPath, formLineStrp, 2, uint32(0), uint32(5),
		3, lnctPath, formString, lnctDirectoryIndex, formData1, 5, formData16, 3,
		"a.c", 0, md5, "a.c", 0, md5, "b.h", 1, md5)
	body := asm(false, uint16(5), 8, 0, uint32(len(header)), header)
	u := &unit{
		sections: &sections{line: unit32(false, body), lineStr: asm(false, "/dir", "inc")}, layout: layout{8, 4, 5},
		hasLines: true, compDir: []byte("/other"),
	}
	l := lineProgram{code: everywhere}
	if !l.read(u) {
		t.Fatal("damaged")
	}
	for i, want := range []string{"/dir/a.c", "/dir/a.c", "/other/inc/b.h", ""} {
		if got := string(l.path(nil, uint64(i))); got != want {
			t.Errorf("file %d is %q, want %q", i, got, want)
		}
	}
}

// A table returns the rows that it was made from, and a damaged one does not
// panic.
func TestTable(t *testing.T) {
	tr := &tree{nodes: []node{
		{parent: -1, function: 2, start: 0, end: 1},
		{parent: 0, function: 1, file: 1, line: 7, column: 3, inlined: true, start: 1, end: 2},
	}, spans: []span{{100, 200}, {120, 140}}, functions: []function{{}, {name: []byte("inner"), startLine: 1}, {name: []byte("outer"), startLine: 5}}}
	l := &lineTable{version: 4, compDir: []byte("/x/out"),
		files: []lineFile{{}, {name: []byte("/x/a.c")}, {name: []byte("/b.h")}}}
	for i := range uint32(300) {
		l.rows = append(l.rows, lineRow{uint64(90 + i), 1 + i%2, 1000 - i, i % 3})
	}
	l.seqs = []sequence{{l.rows, 390}}
	var strings stringTable
	var e encoder
	e.encode(tr, l)
	e.addStrings(tr, l, &strings)
	b, err := e.table(tr)
	if err != nil {
		t.Fatal(err)
	}
	files := []InlineFrame{{File: "/x/a.c", Top: 3}, {File: "/b.h"}}
	for addr := uint64(80); addr < 400; addr++ {
		var want []InlineFrame
		i := int(addr) - 90
		at := files[max(i, 0)%2]
		at.Line, at.Column = 1000-i, max(i, 0)%3
		switch {
		case addr < 90 || addr >= 390:
		case addr >= 120 && addr < 140:
			at.Function, at.StartLine, at.Inlined = "inner", 1, true
			want = []InlineFrame{at, {Function: "outer", File: "/x/a.c", Top: 3, Line: 7, Column: 3, StartLine: 5}}
		case addr >= 100 && addr < 200:
			at.Function, at.StartLine = "outer", 5
			want = []InlineFrame{at}
		default:
			want = []InlineFrame{at}
		}
		if got := b.lookup(addr, strings.b); !slices.Equal(got, want) {
			t.Fatalf("%d: %+v, want %+v", addr, got, want)
		}
	}
	for i := range b {
		for _, bit := range []byte{1, 0x10, 0x80} {
			damaged := slices.Clone(b)
			damaged[i] ^= bit
			damaged.lookup(130, strings.b)
			damaged[:i].lookup(130, strings.b)
		}
	}
}

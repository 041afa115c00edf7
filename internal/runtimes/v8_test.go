package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"gperf/internal/dso"
)

// v8Test13 and v8Test11 are V8 as in Node.js 24 and 20.
func v8Test13() *v8Process {
	return &v8Process{vm: &v8{version: [2]int{13, 6},
		walk: v8Walk{Shared: 32, Data: 8, Script: 40, Literal: 60, ScriptID: 64, BytecodeHeader: 64},
		objects: v8Objects{instanceType: 12, nameOrScope: 24, firstLocal: 6, positions: 4, length: 12, first: 16,
			second: 24, actual: 16, parent: 16, offset: 24, chars: 16, resource: 24, source: 8, scriptName: 16,
			lineOffset: 24, bytecode: 8, sourcePositions: 24, mapType: 255, sharedType: 282, scopeType: 280,
			scriptType: 167, bytecodeType: 186, codeType: 187, oneByteMask: 8, representationMask: 7,
			notStringMask: 0xff80},
		layout: v8Layout{stream: 192, first: 32, code: 8, start: 40, size: 56, table: 16, deopt: 8, flags: 52,
			kindMask: 15, baseline: 10, literals: 3, outer: 7, inlined: 8}}}
}

func v8Test11() *v8Process {
	v := v8Test13()
	v.vm.version = [2]int{11, 3}
	v.vm.walk.Script, v.vm.walk.Literal, v.vm.walk.BytecodeHeader = 32, 52, 54
	o := &v.vm.objects
	o.nameOrScope, o.firstLocal, o.positions, o.bytecode, o.sourcePositions = 16, 4, 0, 16, 32
	o.sharedType, o.scopeType, o.bytecodeType, o.codeType = 262, 261, 191, 245
	v.vm.layout = v8Layout{stream: 252, first: 16, code: 8, start: 40, size: 56, table: 24, deopt: 16, flags: 48,
		kindMask: 15, baseline: 11, literals: 2, outer: 6, inlined: 7}
	return v
}

// v8Test10 is V8 as in Node.js 18, with instructions in the Code object.
func v8Test10() *v8Process {
	v := v8Test11()
	v.vm.version = [2]int{10, 2}
	v.vm.layout = v8Layout{stream: v.vm.objects.codeType, first: 128, size: 40, table: 24, deopt: 16, flags: 48,
		kindMask: 15, baseline: 11, literals: 2, outer: 6, inlined: 7}
	return v
}

// v8Memory is a heap from v8Base on.
type v8Memory struct{ b []byte }

const v8Base = 0x10000

func (m *v8Memory) ReadAt(b []byte, addr int64) (int, error) {
	off := addr - v8Base
	if off < 0 || off+int64(len(b)) > int64(len(m.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, m.b[off:]), nil
}

// object adds an object with a type and words after the map, and returns the tagged pointer.
func (m *v8Memory) object(typ uint16, words ...uint64) uint64 {
	kind := m.raw(binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(typ)<<32))
	b := binary.LittleEndian.AppendUint64(nil, kind+1)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return m.raw(b) + 1
}

// raw adds bytes, and returns the address.
func (m *v8Memory) raw(b []byte) uint64 {
	at := v8Base + uint64(len(m.b))
	m.b = append(m.b, b...)
	m.b = append(m.b, make([]byte, (8-len(b)%8)%8)...)
	return at
}

func toSmi(n int) uint64 { return uint64(uint32(n)) << 32 }

// oneByte and twoByte are flags of strings' types.
const (
	oneByte = 8
	twoByte = 0
)

// characters encodes a string.
func characters(s string, width uint16) (b []byte) {
	for _, c := range utf16.Encode([]rune(s)) {
		if b = append(b, byte(c)); width == twoByte {
			b = append(b, byte(c>>8))
		}
	}
	return b
}

// seq adds a string that contains the characters itself.
func (m *v8Memory) seq(s string, width uint16) uint64 {
	b := characters(s, width)
	words := make([]uint64, (len(b)+7)/8)
	for i, c := range b {
		words[i/8] |= uint64(c) << (i % 8 * 8)
	}
	return m.object(width, append([]uint64{length(s)}, words...)...)
}

// length returns the word of a string that contains the length.
func length(s string) uint64 { return uint64(len(utf16.Encode([]rune(s)))) << 32 }

// array adds an array of bytes.
func (m *v8Memory) array(b []byte) uint64 {
	words := []uint64{toSmi(len(b))}
	for i, c := range b {
		if i%8 == 0 {
			words = append(words, 0)
		}
		words[len(words)-1] |= uint64(c) << (i % 8 * 8)
	}
	return m.object(1000, words...)
}

// v8Function is a function to add.
type v8Function struct {
	name, inferred  uint64 // strings, 0: none
	only            uint64 // instead of a ScopeInfo
	start           int
	source, file    uint64
	positions       []byte
	lineOffset      int
	variables, size int
}

// add adds a function, and returns the frame that BPF passes for it.
func (m *v8Memory) add(v *v8Process, f v8Function) Interpreted {
	scope := f.only
	if scope == 0 {
		flags, words := uint64(0), []uint64{0, 0, toSmi(f.variables)}
		if v.vm.objects.positions != 0 {
			words = append(words, toSmi(f.start), toSmi(f.start+50))
		}
		inline := 2 * f.variables
		if f.variables >= v8MaxInlineNames {
			inline = f.variables + 1
		}
		for range inline {
			words = append(words, 0xbad1)
		}
		if f.name != 0 {
			flags |= 1 << 12
			words = append(words, f.name, toSmi(-1))
		}
		if f.inferred != 0 {
			flags |= v8InferredName
			words = append(words, f.inferred)
		}
		if v.vm.objects.positions == 0 {
			words = append(words, toSmi(f.start), toSmi(f.start+50))
			flags <<= 32
		} else {
			flags |= 4
		}
		words[0] = flags
		scope = m.object(v.vm.objects.scopeType, append(words, 0, 0, 0, 0, 0)...)
	}
	code := make([]uint64, 8)
	code[0], code[v.vm.objects.sourcePositions/8-1] = toSmi(max(f.size, 1)), m.array(f.positions)
	const id = 77
	script := m.object(v.vm.objects.scriptType, f.source, f.file, toSmi(f.lineOffset), 0, 0, 0, 0, toSmi(id))
	words := make([]uint64, 9)
	words[v.vm.walk.Data/8-1] = m.object(v.vm.objects.bytecodeType, code...)
	words[v.vm.objects.nameOrScope/8-1] = scope
	words[v.vm.walk.Script/8-1] = script
	words[v.vm.walk.Literal/8-1] |= 5 << (8 * (v.vm.walk.Literal % 8))
	return Interpreted{Code: m.object(v.vm.objects.sharedType, words...), Check: v8Check(toSmi(id), 5)}
}

// signedBytes encodes a table of positions.
func signedBytes(values ...int) (b []byte) {
	for _, n := range values {
		u := uint64(int64(n)<<1) ^ uint64(int64(n)>>63)
		for ; u >= 0x80; u >>= 7 {
			b = append(b, byte(u)|0x80)
		}
		b = append(b, byte(u))
	}
	return b
}

// TestV8Positions decodes the table of a function with a separate position for the entry, at offset -1.
func TestV8Positions(t *testing.T) {
	v, m := v8Test13(), &v8Memory{}
	words := make([]uint64, 8)
	words[v.vm.objects.sourcePositions/8-1] = m.array(signedBytes(-0-1, 2*(10+1), 1, 2*5, 4, 2*7))
	got := v.heap(m).positionsOf(m.object(v.vm.objects.bytecodeType, words...))
	if want := []v8Position{{0, 10}, {0, 15}, {4, 22}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

const v8Source = "'use strict';\nfunction f(n) {\r\n  g(n);\n  return n;\u2028}\n"

// TestV8Function reads functions with names and lines.
func TestV8Function(t *testing.T) {
	for _, v := range []*v8Process{v8Test11(), v8Test13()} {
		m := &v8Memory{}
		source, file := m.seq(v8Source, twoByte), m.seq("/a/f.js", oneByte)
		f, g, empty := m.seq("f", oneByte), m.seq("größe数", twoByte), m.seq("", oneByte)
		// The function starts at the parameters; offset 3 is at g, an expression, and 9 at return. A table's first
		// step is from offset -1.
		at := func(s string) int { return len(utf16.Encode([]rune(v8Source[:strings.Index(v8Source, s)]))) }
		table := signedBytes(-4-1, 2*(at("g(n)")+1), 6, 2*(at("return")-at("g(n)")))
		lines := []Line{{0, 2}, {6, 3}, {18, 4}}
		for _, c := range []struct {
			f          v8Function
			name, path string
			lines      []Line
		}{
			{v8Function{name: f, start: at("(n) {"), source: source, file: file, positions: table, size: 12}, "f", "/a/f.js",
				lines},
			{v8Function{name: f, inferred: g, start: at("(n) {"), source: source, file: file}, "f", "/a/f.js", lines[:1]},
			{v8Function{name: empty, inferred: g, start: at("(n) {"), source: source,
				file: m.seq("file:///a/%C3%9F.mjs", oneByte)},
				"größe数", "/a/ß.mjs", lines[:1]},
			{v8Function{only: g, source: source, file: file}, "größe数", "/a/f.js", nil},
			{v8Function{start: 0, source: source, file: m.object(131)}, "(anonymous)", "(eval)", []Line{{0, 1}}},
			{v8Function{name: f, variables: 3, start: at("(n) {"), lineOffset: 10, source: source, file: file}, "f", "/a/f.js",
				[]Line{{0, 12}}},
			{v8Function{name: f, variables: 80, start: at("(n) {"), source: source, file: file}, "f", "/a/f.js", lines[:1]},
			{v8Function{name: f, start: at("(n) {"), source: m.object(131), file: file}, "f", "/a/f.js", nil},
		} {
			passed := m.add(v, c.f)
			got, err := v.Function(m, passed)
			if err != nil {
				t.Errorf("%s: %s: %v", v.vm, c.name, err)
				continue
			}
			if got.Name != c.name || got.File != c.path || !slices.Equal(got.Lines, c.lines) ||
				got.Size != 2*uint32(max(c.f.size, 1)) {
				t.Errorf("%s: %+v, want %+v", v.vm, got, c)
			}
			other := passed
			other.Check += 2
			if _, err := v.Function(m, other); !errors.Is(err, ErrChanged) {
				t.Errorf("another function: %v", err)
			}
			other = passed
			other.Code = source
			if _, err := v.Function(m, other); !errors.Is(err, ErrChanged) {
				t.Errorf("another object: %v", err)
			}
		}
	}
}

// moving is a heap that changes after some reads.
type moving struct {
	*v8Memory
	reads  int
	change func()
}

func (m *moving) ReadAt(b []byte, addr int64) (int, error) {
	if m.reads--; m.reads == 0 {
		m.change()
	}
	return m.v8Memory.ReadAt(b, addr)
}

// TestV8Moving moves the name of a function at each step of reading it: the function must not get the name of the
// object that is there afterwards.
func TestV8Moving(t *testing.T) {
	for reads := 1; reads < 80; reads++ {
		v, m := v8Test13(), &v8Memory{}
		name := m.seq("right", oneByte)
		passed := m.add(v, v8Function{name: name, source: m.seq(v8Source, twoByte), file: m.seq("/f.js", oneByte)})
		moved := m.seq("right", oneByte)
		change := func() {
			for at := 0; at < len(m.b); at += 8 {
				if binary.LittleEndian.Uint64(m.b[at:]) == name {
					binary.LittleEndian.PutUint64(m.b[at:], moved)
				}
			}
			copy(m.b[name-1+16-v8Base:], "wrong")
		}
		f, err := v.Function(&moving{m, reads, change}, passed)
		if err == nil && f.Name != "right" {
			t.Errorf("moved at read %d: %+v", reads, f)
		}
		if err != nil {
			t.Errorf("moved at read %d: %v", reads, err)
		}
	}
}

// TestV8SourceMoves reads a function while the garbage collector moves the script's source and name: the function is
// partial until they are back.
func TestV8SourceMoves(t *testing.T) {
	for _, what := range []string{"source", "name", "neither"} {
		v, m := v8Test13(), &v8Memory{}
		objects := map[string]uint64{"source": m.seq(v8Source, twoByte), "name": m.seq("/f.js", oneByte)}
		passed := m.add(v, v8Function{name: m.seq("f", oneByte), start: 20, source: objects["source"],
			file: objects["name"]})
		kind := []byte{}
		if at := objects[what]; at != 0 {
			kind = m.b[at-v8Tag-v8Base:][:8]
		}
		was := slices.Clone(kind)
		copy(kind, []byte{0, 0x10, 0x20, 0x30, 0x40, 0x50, 0, 0}) // where it goes: an address without a tag
		f, err := v.Function(m, passed)
		if err != nil || f.Name != "f" || f.Partial != (what != "neither") {
			t.Errorf("%s moves: %+v, %v", what, f, err)
		}
		copy(kind, was)
		f, err = v.Function(m, passed)
		if err != nil || f.Partial || f.File != "/f.js" || !slices.Equal(f.Lines, []Line{{0, 2}}) {
			t.Errorf("%s is back: %+v, %v", what, f, err)
		}
	}
}

// TestV8Strings reads strings of all kinds.
func TestV8Strings(t *testing.T) {
	m := &v8Memory{}
	abc, wide := m.seq("abcdef", oneByte), m.seq("größe数x", twoByte)
	outside := m.raw([]byte("outside"))
	cons := m.object(oneByte|v8Cons, length("abcdefabcdef"), abc, abc)
	deep := abc
	for range 2000 {
		deep = m.object(oneByte|v8Cons, length("x"), deep, m.seq("x", oneByte))
	}
	cycle := m.object(oneByte|v8Cons, length("x"), 0, 0)
	for _, at := range []uint64{16, 24} {
		binary.LittleEndian.PutUint64(m.b[cycle-1+at-v8Base:], cycle)
	}
	thin := m.object(oneByte|v8Thin, length("abcdef"), abc)
	self := m.object(oneByte|v8Thin, length("x"), 0)
	binary.LittleEndian.PutUint64(m.b[self-1+16-v8Base:], self)
	for _, c := range []struct {
		name   string
		object uint64
		want   string // "": an error
	}{
		{"one byte", abc, "abcdef"},
		{"two bytes", wide, "größe数x"},
		{"cons", cons, "abcdefabcdef"},
		{"deep", deep, "abcdef" + strings.Repeat("x", 2000)},
		{"thin", thin, "abcdef"},
		{"sliced", m.object(oneByte|v8Sliced, length("cde"), abc, toSmi(2)), "cde"},
		{"sliced wide", m.object(twoByte|v8Sliced, length("ße数"), wide, toSmi(3)), "ße数"},
		{"sliced thin", m.object(oneByte|v8Sliced, length("def"), thin, toSmi(3)), "def"},
		{"external", m.object(oneByte|v8External, length("outside"), 0, outside), "outside"},
		{"control characters", m.seq("a\x1b[2J", oneByte), "a?[2J"},
		{"a surrogate alone", m.object(twoByte, 1<<32, 0xd800), "?"},
		{"sliced past the end", m.object(oneByte|v8Sliced, length("cdefg"), abc, toSmi(2)), ""},
		{"sliced before the start", m.object(oneByte|v8Sliced, length("a"), abc, toSmi(-1)), ""},
		{"a cycle", cycle, ""},
		{"itself", self, ""},
		{"no string", m.object(282), ""},
		{"a number", toSmi(5), ""},
		{"too long", m.object(oneByte, 1<<62), ""},
	} {
		h := v8Test13().heap(m)
		got, err := h.str(c.object)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %.40q, %v", c.name, got, err)
		}
	}
}

// FuzzV8 reads functions from any memory.
func FuzzV8(f *testing.F) {
	for i, v := range []*v8Process{v8Test11(), v8Test13()} {
		m := &v8Memory{}
		source := m.object(oneByte|v8Cons, length("a\nb\nc\n"), m.seq("a\nb\n", oneByte), m.seq("c\n", twoByte))
		p := m.add(v, v8Function{name: m.seq("f", oneByte), inferred: m.seq("g", twoByte), variables: 2, start: 3,
			source: source, file: m.object(oneByte|v8Thin, length("/f"), m.seq("/f", oneByte)),
			positions: signedBytes(-3, 4, 7, 6, 1<<40, 3), size: 20})
		f.Add(m.b, p.Code, p.Check, i == 1)
	}
	f.Fuzz(func(t *testing.T, b []byte, code uint64, check uint32, newest bool) {
		v := v8Test11()
		if newest {
			v = v8Test13()
		}
		fn, err := v.Function(&v8Memory{b}, Interpreted{Code: code, Check: check})
		if err != nil {
			return
		}
		if fn.Name == "" || len(fn.Name) > maxName || len(fn.File) > 3*maxName || fn.Size > 2*maxCode {
			t.Errorf("%+v", fn)
		}
		for _, l := range fn.Lines {
			if l.Off > 2*maxCode || l.Line < 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestFindV8 finds V8 in the Node.js of this machine.
func TestFindV8(t *testing.T) {
	const path = "/usr/bin/node"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /usr/bin/node (Debian's nodejs)")
	}
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	r, err := Find(im, path)
	if r == nil && err == nil {
		t.Skip("V8 is in a library")
	}
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(r.String(), "V8 %d.%d", &major, &minor); err != nil || major < v8First || major > v8Last {
		t.Errorf("%s, %v", r, err)
	}
}

package runtimes

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gperf/internal/testutil/inputs"
)

// TestLines compares the lines of functions with those that each version of Python says itself: testdata/lines.py.
func TestLines(t *testing.T) {
	file, err := os.Open("testdata/lines.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	versions := map[int]bool{}
	for s := bufio.NewScanner(file); s.Scan(); {
		var c struct {
			Version int
			Name    string
			First   int32
			Size    uint32
			Table   string
			Lines   [][2]int32
		}
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		table, _ := hex.DecodeString(c.Table)
		versions[c.Version] = true
		got := formatOf(c.Version).decode(table, c.First, c.Size)
		var want []Line
		for _, l := range c.Lines {
			want = append(want, Line{uint32(l[0]), l[1]})
		}
		for off := uint32(0); off < c.Size; off += 2 {
			if g, w := lineAt(got, off), lineAt(want, off); g != w {
				t.Errorf("3.%d: %s: line %d at %d, want %d", c.Version, c.Name, g, off, w)
				break
			}
		}
	}
	if len(versions) != 7 {
		t.Errorf("versions %v", versions)
	}
}

func formatOf(version int) lineFormat {
	switch {
	case version < 10:
		return numberTable
	case version == 10:
		return lineTable
	}
	return locationTable
}

func lineAt(l []Line, off uint32) (line int32) {
	for _, x := range l {
		if x.Off > off {
			break
		}
		line = x.Line
	}
	return line
}

// TestDebugOffsets reads the offsets of Debian's Python 3.13 and 3.14 for x86-64.
func TestDebugOffsets(t *testing.T) {
	for _, c := range []struct {
		version int
		want    pythonWalk
	}{
		{13, pythonWalk{Head: 632, Threads: 7344, NextInterpreter: 7264, NextThread: 8, ThreadID: 152, Status: 32, Top: 72,
			TopFrame: noField, ThreadSize: 160, Back: 8, Instr: 56, Owner: 70, CopyIndex: noField, FrameSize: 72,
			CodeAt: 64, CodeSize: 80, FirstLine: 4, File: 48, Name: 56, Lines: 72, Instrs: 200, StringHash: 24,
			StringData: 40, Entry: entryShim, InstrBits: 64, InstrUnit: 1}},
		{14, pythonWalk{Head: 808, Threads: 7344, NextInterpreter: 7272, NextThread: 8, ThreadID: 152, Status: 32, Top: 72,
			TopFrame: noField, ThreadSize: 160, Back: 8, Instr: 56, Owner: 74, CopyIndex: noField, FrameSize: 80,
			CodeAt: 64, CodeSize: 80, FirstLine: 4, File: 48, Name: 56, Lines: 72, Instrs: 208, StringHash: 24,
			StringData: 40, Entry: entryShim, InstrBits: 64, InstrUnit: 1}},
	} {
		b, err := os.ReadFile("testdata/debugoffsets-3." + map[int]string{13: "13", 14: "14"}[c.version])
		if err != nil {
			t.Fatal(err)
		}
		got, o, err := debugOffsets(b, [2]int{3, c.version})
		if err != nil || got != c.want {
			t.Errorf("3.%d: %+v, %v, want %+v", c.version, got, err, c.want)
		}
		if want := (pythonObjects{qualname: 128, codeUnits: 16, bytesSize: 16, bytesData: 32, length: 16, state: 32,
			stateShift: 2, ascii: 40, compact: 56, lines: locationTable}); o != want {
			t.Errorf("3.%d: %+v, want %+v", c.version, o, want)
		}
		for off := 0; off < len(b); off += 8 { // no content makes BPF read past the end of memory
			bad := bytes.Clone(b)
			copy(bad[off:], "\xff\xff\xff\xff\xff\xff\xff\x7f")
			w, _, err := debugOffsets(bad, [2]int{3, c.version})
			if err == nil {
				checkWalk(t, &w)
			}
		}
		if _, _, err := debugOffsets(b, [2]int{3, c.version + 1}); !errors.Is(err, errOffsets) {
			t.Errorf("3.%d: offsets of another version: %v", c.version, err)
		}
	}
}

// checkWalk fails if BPF would read more of an object than fits its buffer, or would use fields that it did not read.
func checkWalk(t *testing.T, w *pythonWalk) {
	t.Helper()
	for _, size := range []uint16{w.ThreadSize, w.FrameSize, w.CodeSize} {
		if size > maxObject {
			t.Fatalf("an object of %d bytes: %+v", size, w)
		}
	}
	for _, f := range []uint16{w.FirstLine, w.File, w.Name, w.Lines} {
		if f >= w.CodeSize {
			t.Fatalf("a field at %d of %d bytes: %+v", f, w.CodeSize, w)
		}
	}
}

// memory is the memory of a process: parts by address.
type memory map[uint64][]byte

func (m memory) ReadAt(b []byte, addr int64) (int, error) { return inputs.Memory(m).ReadAt(b, addr) }

// str puts a string with characters of a width into the memory.
func (m memory) str(o *pythonObjects, addr uint64, text string, width int) {
	b := make([]byte, o.compact)
	state := uint32(width) | 1<<3
	if width == 0 {
		state, width, b = 1|1<<3|1<<4, 1, b[:o.ascii]
	}
	n := 0
	for _, r := range text {
		n++
		b = append(b, binary.LittleEndian.AppendUint32(nil, uint32(r))[:width]...)
	}
	binary.LittleEndian.PutUint64(b[o.length:], uint64(n))
	binary.LittleEndian.PutUint64(b[o.length+8:], addr*31)
	binary.LittleEndian.PutUint32(b[o.state:], state<<o.stateShift)
	m[addr] = b
}

// code puts a code object at 0x1000 into the memory, with these strings and a table of lines, and returns the
// object's frame.
func (m memory) code(l *pythonLayout, name, file string, width int, table []byte) Interpreted {
	w, o, le := &l.walk, &l.objects, binary.LittleEndian
	b := make([]byte, 256)
	put := func(off uint64, v uint64) { le.PutUint64(b[off:], v) }
	at := uint64(w.CodeAt)
	put(at+uint64(w.File), 0x8000)
	put(at+uint64(w.Name), 0x4000)
	put(at+uint64(w.Lines), 0xc000)
	le.PutUint32(b[at+uint64(w.FirstLine):], 7)
	m.str(o, 0x4000, name, width)
	m.str(o, 0x8000, file, 0)
	lines := make([]byte, o.bytesData, 64)
	le.PutUint64(lines[o.bytesSize:], uint64(len(table)))
	m[0xc000] = append(lines, table...)
	if o.qualname != 0 {
		put(o.qualname, 0x10000)
		m.str(o, 0x10000, "A."+name, width)
		put(o.codeUnits, 10)
	} else {
		put(o.bytecode, 0x14000)
		m[0x14000] = make([]byte, 64)
		le.PutUint64(m[0x14000][o.bytesSize:], 20)
	}
	m[0x1000] = b
	check := checkOf(mix(mix(mix(7, 0x8000), 0xc000), 0x4000), withTexts(0x4000*31, file))
	return Interpreted{Code: 0x1000, Check: check}
}

// withTexts returns the hash of h and of texts, of which the first 192 bytes count.
func withTexts(h uint64, texts ...string) uint64 {
	for _, text := range texts {
		text = text[:min(len(text), 192)]
		h = mix(h, uint64(len(text)))
		for b := []byte(text); len(b) > 0; b = b[min(len(b), 8):] {
			word := append(bytes.Clone(b[:min(len(b), 8)]), make([]byte, 8)...)
			h = mix(h, binary.LittleEndian.Uint64(word))
		}
	}
	return h
}

// TestPythonVersion finds the version of a Python without Py_Version.
func TestPythonVersion(t *testing.T) {
	for _, c := range []struct {
		name   string
		places pythonAddrs
		want   string
	}{
		{"3.6", pythonAddrs{}, "[0 0] unknown version before 3.8"},
		{"3.7", pythonAddrs{runtime: 1}, "[0 0] unknown version before 3.8"},
		{"3.8", pythonAddrs{runtime: 1, has38: true}, "[3 8] <nil>"},
		{"3.9", pythonAddrs{runtime: 1, has38: true, has39: true}, "[3 9] <nil>"},
		{"3.10", pythonAddrs{runtime: 1, has38: true, has39: true, has310: true}, "[3 10] <nil>"},
	} {
		v, err := c.places.version(nil)
		if got := fmt.Sprint(v, " ", err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFunction(t *testing.T) {
	for version, l := range pythonLayouts {
		p := &python{walk: l.walk, objects: l.objects}
		for _, c := range []struct {
			name  string
			width int
		}{{"spin", 0}, {"größe", 1}, {"数", 2}, {"😀", 4}, {strings.Repeat("x", 5000), 0}} {
			mem := memory{}
			frame := mem.code(&l, c.name, "/tmp/a.py", c.width, []byte{0x80, 0, 0x80, 0})
			f, err := p.Function(mem, frame)
			if err != nil {
				t.Fatalf("3.%d: %.20s: %v", version, c.name, err)
			}
			want := c.name
			if l.objects.qualname != 0 {
				want = "A." + want
			}
			want = want[:min(len(want), maxName)]
			if f.Name != want || f.File != "/tmp/a.py" || f.Size != 20 {
				t.Errorf("3.%d: %.20q in %q, %d bytes, want %.20q", version, f.Name, f.File, f.Size, want)
			}
			frame.Check++
			if _, err := p.Function(mem, frame); !errors.Is(err, ErrChanged) {
				t.Errorf("3.%d: another code object: %v", version, err)
			}
		}
	}
}

func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31m\n\u0085": "a?[31m??", "größe": "größe", "\ufffd": "?",
		strings.Repeat("x", maxName-1) + "ö": strings.Repeat("x", maxName-1),
	} {
		if got := shown(in); got != want {
			t.Errorf("%.20q is shown as %.20q", in, got)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add(uint8(numberTable), []byte{2, 1, 255, 0, 4, 200}, int32(1), uint32(100))
	f.Add(uint8(lineTable), []byte{2, 0x80, 4, 1, 0, 127}, int32(1), uint32(100))
	f.Add(uint8(locationTable), []byte{0xf0, 0x41, 3, 0xe8, 0x42, 1, 1, 1, 0xd8, 4, 9}, int32(1), uint32(100))
	f.Fuzz(func(t *testing.T, format uint8, table []byte, first int32, size uint32) {
		last := int64(-1)
		for _, l := range lineFormat(format).decode(table, first, size) {
			if int64(l.Off) <= last || l.Off >= size || l.Line < 0 {
				t.Fatalf("line %d at %d of %d, after %d", l.Line, l.Off, size, last)
			}
			last = int64(l.Off)
		}
	})
}

func FuzzDebugOffsets(f *testing.F) {
	for _, v := range []string{"13", "14"} {
		b, err := os.ReadFile("testdata/debugoffsets-3." + v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 13+int(v[1]-'3'))
		b[16] = 1 // free-threaded
		f.Add(bytes.Clone(b), 13+int(v[1]-'3'))
	}
	f.Fuzz(func(t *testing.T, b []byte, version int) {
		if w, _, err := debugOffsets(b, [2]int{3, version}); err == nil {
			checkWalk(t, &w)
		}
	})
}

// FuzzFunction reads functions from any memory: one part contains all objects.
func FuzzFunction(f *testing.F) {
	for version, l := range pythonLayouts {
		m := memory{}
		frame := m.code(&l, "größe", "/tmp/a.py", 1, []byte{0x80, 0, 0x80, 0})
		b := make([]byte, 0x15000)
		for at, part := range m {
			copy(b[at:], part)
		}
		f.Add(version, b[0x1000:], frame.Check)
	}
	f.Fuzz(func(t *testing.T, version int, b []byte, check uint32) {
		l, ok := pythonLayouts[version]
		if !ok {
			return
		}
		p := &python{walk: l.walk, objects: l.objects}
		mem := memory{0x1000: b}
		if code, err := readAt(mem, 0x1000+uint64(l.walk.CodeAt), int(l.walk.CodeSize)); err == nil {
			if c, err := p.check(mem, code); err == nil {
				check = c // most changes would only be those
			}
		}
		fn, err := p.Function(mem, Interpreted{Code: 0x1000, Check: check})
		if err == nil && (len(fn.Name) > maxName || len(fn.File) > maxName || fn.Size > 2*maxCode) {
			t.Fatalf("a name of %d bytes, a file's of %d, code of %d", len(fn.Name), len(fn.File), fn.Size)
		}
	})
}

// TestMayHave checks which files are searched for runtimes, by name.
func TestMayHave(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/python3.11": "Python", "/usr/lib/libpython3.11.so.1.0": "Python", "/opt/pypython": "Python",
		"/usr/bin/ruby": "Ruby", "/usr/lib/libruby-3.1.so.3.1.2": "Ruby", "jruby": "Ruby",
		"/usr/sbin/php-fpm8.2": "PHP", "/usr/lib/apache2/modules/libphp8.2.so": "PHP",
		"/usr/bin/perl5.36.0": "Perl", "/usr/lib/libperl.so.5.36": "Perl",
		"/usr/lib/jvm/lib/server/libjvm.so": "Java", "/usr/bin/node": "V8", "/usr/lib/libnode.so.108": "V8",
		"/usr/lib/xphp.so": "", "/usr/lib/libxperl.so": "", "/usr/lib/libjvm.so.1": "", "/usr/bin/inode": "",
		"/python/lib.so": "", "": "", "[vdso]": "", "//anon": "", "\xffpython\xff": "Python",
	} {
		var got []string
		for _, f := range finders {
			if f.may(name) {
				got = append(got, f.name)
			}
		}
		if got := strings.Join(got, " "); got != want || MayHave(name) != (want != "") {
			t.Errorf("%q may have %q, want %q", name, got, want)
		}
	}
}

package runtimes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// perlHEK puts a name into the memory.
func (m memory) perlHEK(addr uint64, text string, flags byte) {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text))<<32)
	m[addr] = append(append(b, text...), 0, flags)
}

// perlCode puts a function at 0x1000 into the memory, with the name in the function or in a glob, in a package with
// one name or several, and returns the function's frame.
func (m memory) perlCode(own, several bool, name, file string, flags byte) Interpreted {
	le := binary.LittleEndian
	object := func(at, body uint64, flags uint32) {
		m[at] = le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, body), 1), flags)
	}
	object(0x1000, 0x1100, 0)
	code := make([]byte, perlCodeSize)
	m.perlHEK(0x8000, name, flags)
	at := uint64(0x8000)
	if own {
		le.PutUint32(code[perlCodeFlags:], perlNamed)
		le.PutUint64(code[perlStash:], 0x1300)
	} else {
		at = 0x1200
		object(0x1200, 0x1280, 0)
		glob := make([]byte, perlGlobStash+8)
		le.PutUint64(glob[perlGlobName:], 0x8000)
		le.PutUint64(glob[perlGlobStash:], 0x1300)
		m[0x1280] = glob
	}
	le.PutUint64(code[perlNameAt:], at)
	le.PutUint64(code[perlFile:], 0x1600)
	m[0x1100] = code
	m[0x1600] = append([]byte(file), make([]byte, 64)...)
	object(0x1300, 0x1380, perlHasName)
	stash := make([]byte, perlNameCount+4)
	le.PutUint64(stash[perlStashNames:], 0x1480)
	m.perlHEK(0x1480, "A", 0)
	if several {
		le.PutUint64(stash[perlStashNames:], 0x1500)
		le.PutUint32(stash[perlNameCount:], 2)
		m[0x1500] = le.AppendUint64(nil, 0x1480)
	}
	m[0x1380] = stash
	f := Interpreted{Code: 0x1000, Native: 2}
	le.PutUint32(code[perlSequence:], 77)
	f.Check = uint32(mix(mix(mix(mix(0x1100, at), 0x1600), 77), 2)) | 1
	return f
}

func TestPerlFunction(t *testing.T) {
	p := &perl{}
	for i, c := range []struct {
		name, want string
		flags      byte
	}{
		{"spin", "A::spin", 0},
		{"gr\xf6\xdfe", "A::größe", 0},
		{"数", "A::数", perlUTF8},
		{strings.Repeat("x", 5000), "A::" + strings.Repeat("x", maxName-3), 0},
	} {
		for _, own := range []bool{true, false} {
			mem := memory{}
			frame := mem.perlCode(own, i%2 == 0, c.name, "/srv/app.pl", c.flags)
			f, err := p.Function(mem, frame)
			if err != nil {
				t.Fatalf("%.20s: %v", c.name, err)
			}
			if f.Name != c.want || f.File != "/srv/app.pl" {
				t.Errorf("%.20q in %q, want %.20q", f.Name, f.File, c.want)
			}
			if line := lineAt(f.Lines, 2*7); line != 2*perlLines+7 || f.Size != 2*perlLines {
				t.Errorf("line %d, %d bytes", line, f.Size)
			}
			frame.Check += 2
			if _, err := p.Function(mem, frame); !errors.Is(err, ErrChanged) {
				t.Errorf("another function: %v", err)
			}
		}
	}
	mem := memory{0x2000: append([]byte("/srv/long/app.pl"), make([]byte, 64)...)}
	for tag, want := range map[uint64]string{perlIsMain: "(main)", perlIsText: "(eval)"} {
		frame := Interpreted{Code: 0x2000 | tag, Native: 1}
		h := mix(frame.Code, binary.LittleEndian.Uint64([]byte("/srv/lon")))
		frame.Check = uint32(mix(mix(h, binary.LittleEndian.Uint64([]byte("g/app.pl"))), 1)) | 1
		f, err := p.Function(mem, frame)
		if err != nil || f.Name != want || f.File != "/srv/long/app.pl" {
			t.Errorf("%+v, %v, want %s", f, err, want)
		}
	}
}

// TestFindPerl finds the interpreter in Debian's program, which is stripped.
func TestFindPerl(t *testing.T) {
	const name = "/usr/bin/perl"
	im, err := dso.Open(name)
	if err != nil {
		t.Skipf("no %s (Debian's perl)", name)
	}
	defer im.Close()
	r, err := Find(im, name)
	if err != nil || r == nil {
		t.Fatalf("%s: %v, %v", filepath.Base(name), r, err)
	}
	p := r.(*perl)
	if p.context.Kind == 0 || r.DSO() != dso.PerlName || !p.run.contain(p.run[0].Start) || p.run.contain(0) ||
		r.Walk(0x1000).Kind != kindPerl {
		t.Errorf("%+v", p)
	}
}

// FuzzPerlFunction reads functions from any memory: one part contains all objects.
func FuzzPerlFunction(f *testing.F) {
	for i := range 4 {
		m := memory{}
		m.perlCode(i%2 == 0, i/2 == 0, "gr\xf6\xdfe", "app.pl", 0)
		b := make([]byte, 0x7100)
		for at, part := range m {
			copy(b[at-0x1000:], part)
		}
		f.Add(b, uint8(0), uint16(i))
		f.Add(bytes.Clone(b), uint8(perlIsMain), uint16(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, tag uint8, lines uint16) {
		mem := memory{0x1000: b}
		frame := Interpreted{Code: 0x1000 | uint64(tag&7), Native: lines}
		body, _ := readWord(mem, 0x1000)
		name, _ := readWord(mem, body+perlNameAt)
		file, _ := readWord(mem, body+perlFile)
		sequence, _ := readWord(mem, body+perlSequence)
		h := mix(mix(mix(body, name), file), uint64(uint32(sequence)))
		if tag&7 != 0 {
			more, _ := readWord(mem, 0x1008)
			h = mix(mix(frame.Code, body), more)
		}
		frame.Check = uint32(mix(h, uint64(lines))) | 1
		fn, err := (&perl{}).Function(mem, frame)
		if err == nil && (len(fn.Name) > maxName || len(fn.File) > maxName || len(fn.Lines) != perlLines) {
			t.Fatalf("a name of %d bytes, a file's of %d, %d lines", len(fn.Name), len(fn.File), len(fn.Lines))
		}
	})
}

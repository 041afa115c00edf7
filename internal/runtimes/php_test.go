package runtimes

import (
	"encoding/binary"
	"errors"
	"testing"
)

// phpString puts a string at an address into the memory.
func (m memory) phpString(addr uint64, text string) {
	b := make([]byte, phpText, phpText+len(text)+8)
	binary.LittleEndian.PutUint64(b[phpHash:], addr*31)
	binary.LittleEndian.PutUint64(b[phpLength:], uint64(len(text)))
	m[addr] = append(append(b, text...), make([]byte, 8)...)
}

// phpFunction puts a function at 0x1000 into the memory, whose instructions are at lines, and returns the
// function's frame. Without lines, it is a C function.
func (m memory) phpFunction(w *phpWalk, class, name string, lines ...uint32) Interpreted {
	le := binary.LittleEndian
	b := make([]byte, w.FunctionSize)
	var check, texts uint64
	if name != "" {
		le.PutUint64(b[phpName:], 0x4000)
		m.phpString(0x4000, name)
		check, texts = 0x4000, 0x4000*31
	}
	check = mix(0, check)
	if class != "" {
		le.PutUint64(b[phpScope:], 0x5000)
		m[0x5000] = make([]byte, 16)
		le.PutUint64(m[0x5000][phpClassName:], 0x6000)
		m.phpString(0x6000, class)
	}
	m[0x1000] = b
	if len(lines) == 0 {
		b[phpType] = phpInternal
		return Interpreted{Code: 0x1000, Check: checkOf(check, texts)}
	}
	b[phpType] = 2
	le.PutUint32(b[w.Count:], uint32(len(lines)))
	le.PutUint64(b[w.Code:], 0x10000)
	le.PutUint64(b[w.File:], 0x8000)
	le.PutUint32(b[w.Lines:], lines[0])
	le.PutUint32(b[w.Lines+4:], lines[len(lines)-1])
	m.phpString(0x8000, "/srv/größe.php")
	code := make([]byte, phpInstr*len(lines))
	for i, line := range lines {
		le.PutUint32(code[phpInstr*i+phpLine:], line)
	}
	m[0x10000] = code
	check = mix(mix(check, 0x10000), 0x8000)
	check = mix(mix(check, uint64(lines[len(lines)-1])<<32|uint64(lines[0])), uint64(len(lines)))
	return Interpreted{Code: 0x1000, Check: checkOf(check, withTexts(texts, "/srv/größe.php"))}
}

// TestPHPFunction reads functions of each version, of PHP and of C.
func TestPHPFunction(t *testing.T) {
	for _, v := range phpVersions {
		p := &php{version: v.version, walk: v.walk}
		p.walk.FunctionSize = v.walk.Lines + 8
		for _, c := range []struct {
			class, name string
			lines       []uint32
			want        string
		}{
			{"", "spin", []uint32{3, 3, 4}, "spin"},
			{"Größe", "berechne", []uint32{3, 3, 4}, "Größe::berechne"},
			{"", "", []uint32{3, 3, 4}, "{main}"},
			{"Fiber", "start", nil, "Fiber::start"},
		} {
			mem := memory{}
			frame := mem.phpFunction(&p.walk, c.class, c.name, c.lines...)
			f, err := p.Function(mem, frame)
			if err != nil || f.Name != c.want {
				t.Errorf("%s: %+v, %v, want %s", p, f, err, c.want)
				continue
			}
			if c.lines != nil && (f.File != "/srv/größe.php" || f.Size != 96 || lineAt(f.Lines, 0) != 3 ||
				lineAt(f.Lines, 63) != 3 || lineAt(f.Lines, 64) != 4) {
				t.Errorf("%s: %s: %+v", p, c.want, f)
			}
			frame.Check++
			if _, err := p.Function(mem, frame); !errors.Is(err, ErrChanged) {
				t.Errorf("%s: another function: %v", p, err)
			}
		}
	}
}

// FuzzPHPFunction reads functions from any memory: one part contains all objects.
func FuzzPHPFunction(f *testing.F) {
	for number, v := range phpVersions {
		w := v.walk
		w.FunctionSize = w.Lines + 8
		m := memory{}
		frame := m.phpFunction(&w, "A", "größe", 7, 8, 9)
		b := make([]byte, 0x11000)
		for at, part := range m {
			copy(b[at:], part)
		}
		f.Add(number, b[0x1000:], frame.Check)
	}
	f.Fuzz(func(t *testing.T, number string, b []byte, check uint32) {
		v, ok := phpVersions[number]
		if !ok {
			return
		}
		p := &php{walk: v.walk}
		p.walk.FunctionSize = v.walk.Lines + 8
		mem := memory{0x1000: b}
		if function, err := readAt(mem, 0x1000, int(p.walk.FunctionSize)); err == nil {
			if c, err := p.check(mem, function); err == nil {
				check = c // most changes would only be those
			}
		}
		fn, err := p.Function(mem, Interpreted{Code: 0x1000, Check: check})
		if err == nil && (len(fn.Name) > 2*maxName || len(fn.File) > maxName || fn.Size > maxCode) {
			t.Fatalf("a name of %d bytes, a file's of %d, code of %d", len(fn.Name), len(fn.File), fn.Size)
		}
	})
}

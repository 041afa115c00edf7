package runtimes

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// Addresses of the objects in rubyMemory.
const (
	rubyISeq      = 0x1000
	rubyBody      = 0x1100
	rubyLabel     = 0x1300
	rubyPath      = 0x1400
	rubyReal      = 0x1500
	rubyPaths     = 0x1600
	rubyEntries   = 0x2000
	rubyPositions = 0x4200
	rubyText      = 0x5200
	rubyEnd       = 0x6800
)

// rubyFunction is a function in a process's memory.
type rubyFunction struct {
	label, path, real string
	words             uint32
	lines             []Line // Off in words
	encoded           bool   // the positions are in a succinct table
}

// memory returns the memory of a process, from rubyISeq on, with the function, and the function's frame.
func (f *rubyFunction) memory(l rubyLayout) (memory, Interpreted) {
	le := binary.LittleEndian
	b := make([]byte, rubyEnd-rubyISeq)
	put := func(at, v uint64) { le.PutUint64(b[at-rubyISeq:], v) }
	text := uint64(rubyText)
	str := func(at uint64, s string) {
		switch {
		case len(s) > 24:
			put(at, typeString|notEmbedded)
			put(at+stringLen, uint64(len(s)))
			put(at+stringData, text)
			text += uint64(copy(b[text-rubyISeq:], s))
		case l.shortLen:
			put(at, typeString|uint64(len(s))<<shortLenShift)
			copy(b[at+shortString-rubyISeq:], s)
		default:
			put(at, typeString)
			put(at+stringLen, uint64(len(s)))
			copy(b[at+stringData-rubyISeq:], s)
		}
	}
	str(rubyLabel, f.label)
	str(rubyPath, f.path)
	put(rubyBody+bodyPath, rubyPath)
	if f.real != "" {
		str(rubyReal, f.real)
		put(rubyPaths, typeArray|arrayEmbedded)
		put(rubyPaths+arrayFirst, rubyPath)
		put(rubyPaths+arrayFirst+8, rubyReal)
		put(rubyBody+bodyPath, rubyPaths)
	}
	put(rubyISeq+iseqBody, rubyBody)
	put(rubyBody, uint64(f.words)<<32)
	put(rubyBody+bodyCode, 0x777000)
	put(rubyBody+bodyLabel, rubyLabel)
	info := uint64(rubyBody + l.lines)
	put(info, rubyEntries)
	put(info+infoCount, uint64(len(f.lines)))
	for i, line := range f.lines {
		le.PutUint32(b[rubyEntries-rubyISeq+i*int(l.lineSize):], uint32(line.Line))
		le.PutUint32(b[rubyPositions-rubyISeq+4*i:], line.Off)
	}
	at := infoPositions
	if f.encoded {
		at = infoSuccinct
		copy(b[rubyPositions-rubyISeq:], succinct(f.words, f.lines))
	}
	put(info+uint64(at), rubyPositions)
	h := mix(uint64(f.words)<<32, 0x777000)
	h = mix(mix(mix(h, le.Uint64(b[rubyBody+bodyPath-rubyISeq:])), rubyLabel), 0)
	return memory{rubyISeq: b}, Interpreted{Code: rubyISeq, Check: checkOf(h, withTexts(0, f.label, f.path))}
}

// succinct encodes the positions of lines, as Ruby does.
func succinct(words uint32, lines []Line) []byte {
	le := binary.LittleEndian
	last := lines[len(lines)-1].Off
	b := make([]byte, 4096)
	rank, next := uint64(0), 0
	for i := range uint32(directWords) {
		if next < len(lines) && lines[next].Off == i {
			rank, next = rank+1, next+1
		}
		at := b[i/directInWord*8:]
		le.PutUint64(at, le.Uint64(at)|rank<<(i%directInWord*directBits))
	}
	for _, l := range lines[next:] {
		i := l.Off - directWords
		at := b[directWords/directInWord*8+i/blockWords*blockSize+blockBits+i%blockWords/64*8:]
		le.PutUint64(at, le.Uint64(at)|1<<(i%64))
	}
	if last < directWords {
		return b[:directWords/directInWord*8]
	}
	return b
}

// everyWords returns lines that begin every step words, of n words.
func everyWords(step, n uint32) (l []Line) {
	for off := uint32(0); off < n; off += step {
		l = append(l, Line{off, int32(10 + off)})
	}
	return l
}

func TestRubyFunction(t *testing.T) {
	for minor, l := range rubyLayouts {
		r := &ruby{version: [3]int{3, minor, 0}, layout: l}
		for _, f := range []rubyFunction{
			{label: "spin", path: "/tmp/a.rb", words: 10, lines: []Line{{0, 3}}},
			{label: "block in größe_数", path: "a.rb", real: "/tmp/a.rb", words: 54, lines: everyWords(5, 54), encoded: true},
			{label: strings.Repeat("x", 5000), path: "(eval)", words: 10, lines: everyWords(3, 10)},
			{label: "short", path: "/tmp/a.rb", words: 20, lines: everyWords(1, 20), encoded: true},
			{label: "long", path: "/tmp/a.rb", words: 1200, lines: everyWords(3, 1200), encoded: true},
			{label: "limit", path: "/tmp/a.rb", words: 567, lines: everyWords(2, 567), encoded: true},
			{label: "none", path: "/tmp/a.rb", words: 20},
		} {
			mem, frame := f.memory(l)
			got, err := r.Function(mem, frame)
			if err != nil {
				t.Fatalf("%s: %.20s: %v", r, f.label, err)
			}
			var want []Line
			for _, l := range f.lines {
				want = append(want, Line{8 * l.Off, l.Line})
			}
			name := f.label[:min(len(f.label), maxName)]
			file := f.path
			if f.real != "" {
				file = f.real
			}
			if got.Name != name || got.File != file || got.Size != 8*f.words || !slices.Equal(got.Lines, want) {
				t.Errorf("%s: %.20q in %q, %d bytes, %d lines, want %.20q, %d", r, got.Name, got.File, got.Size,
					len(got.Lines), name, len(want))
			}
			frame.Check++
			if _, err := r.Function(mem, frame); !errors.Is(err, ErrChanged) {
				t.Errorf("%s: another instruction sequence: %v", r, err)
			}
		}
	}
}

// Names need not be UTF-8.
func TestRubyBytes(t *testing.T) {
	r := &ruby{layout: rubyLayouts[4]}
	f := rubyFunction{label: "\x93\xfa\x1b[m", path: "a.rb", words: 1}
	got, err := r.Function(f.memory(r.layout))
	if err != nil || got.Name != "??[m" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRubyStripped finds the interpreter of this machine's libraries by code, and compares the function's symbol.
func TestRubyStripped(t *testing.T) {
	libraries, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/libruby-3.*.so.3.*.*")
	if len(libraries) == 0 {
		t.Skip("no libruby for x86-64 (Debian's libruby)")
	}
	for _, path := range libraries {
		im, err := dso.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		r := &ruby{}
		s := r.symbols(im)
		exec, err := execFromTables(im)
		if err != nil || len(exec) == 0 {
			t.Fatalf("%s: %v, %v", path, exec, err)
		}
		for _, want := range r.exec {
			if !slices.ContainsFunc(exec, func(e Range) bool { return e.Start == want.Start && e.End >= want.End }) {
				t.Errorf("%s: %#x, without %#x", path, exec, want)
			}
		}
		if v, err := contextFromCode(im, s.threadCurrent); err != nil || v.Kind != threadModule {
			t.Errorf("%s: the context is at %+v, %v", path, v, err)
		}
	}
}

// FuzzRubyCode looks for the interpreter in a file whose code, data and tables are the fuzzer's.
func FuzzRubyCode(f *testing.F) {
	code := []byte{0x66, 0x48, 0x8d, 0x3d, 0xf8, 0x0f, 0, 0, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x80,
		8, 0, 0, 0}
	f.Add(code, []byte{1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xf0, 0xff, 0xff, 0, 0, 0, 0},
		binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{0, 0x20, 0, 0, 0, 0, 0, 0}, 16), 0))
	f.Add(code[1:], []byte{1, 0x1b, 3, 0x3b}, bytes.Repeat([]byte{8}, 24*120))
	f.Fuzz(func(t *testing.T, code, header, relocs []byte) {
		im := rubyFile(t, code, header, relocs)
		contextFromCode(im, 0x1000)
		if list, err := execFromTables(im); err == nil && len(list) == 0 {
			t.Error("neither a function nor an error")
		}
	})
}

// rubyFile returns a file with code at 0x1000, .eh_frame_hdr at 0x2000 and relocations.
func rubyFile(t *testing.T, code, header, relocs []byte) *dso.Image {
	names := "\x00.text\x00.eh_frame_hdr\x00.rela.dyn\x00.shstrtab\x00"
	var b bytes.Buffer
	parts := [][]byte{code, header, relocs, []byte(names)}
	sections := []elf.Section64{{}}
	off := uint64(64 + 56)
	for i, p := range parts {
		s := elf.Section64{Name: uint32(strings.Index(names, [...]string{".text", ".eh_f", ".rela", ".shst"}[i])),
			Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: uint64(i+1) << 12, Off: off,
			Size: uint64(len(p))}
		if i == 2 {
			s.Type = uint32(elf.SHT_RELA)
		}
		if i == 3 {
			s.Type = uint32(elf.SHT_STRTAB)
		}
		sections = append(sections, s)
		off += uint64(len(p))
	}
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: off,
		Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 5, Shstrndx: 4}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	binary.Write(&b, binary.LittleEndian, h)
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 120, Vaddr: 0x1000,
		Filesz: off - 120, Memsz: off - 120, Flags: 5})
	for _, p := range parts {
		b.Write(p)
	}
	binary.Write(&b, binary.LittleEndian, sections)
	im, err := dso.NewImage(bytes.NewReader(b.Bytes()), int64(b.Len()), "libruby.so")
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func FuzzRubyFunction(f *testing.F) {
	for minor, l := range rubyLayouts {
		for _, fn := range []rubyFunction{
			{label: "spin", path: "/tmp/a.rb", words: 10, lines: []Line{{0, 3}}},
			{label: strings.Repeat("größe", 10), path: "a.rb", real: "/tmp/a.rb", words: 700, lines: everyWords(5, 700),
				encoded: true},
		} {
			mem, frame := fn.memory(l)
			f.Add(minor, mem[rubyISeq], frame.Check)
		}
	}
	f.Fuzz(func(t *testing.T, minor int, b []byte, check uint32) {
		if minor < 0 || minor >= len(rubyLayouts) {
			return
		}
		r := &ruby{layout: rubyLayouts[minor]}
		mem := memory{rubyISeq: b}
		if body, err := readAt(mem, rubyBody, bodyBytes); err == nil {
			if c, err := r.check(mem, body); err == nil {
				check = c // most changes would only be those
			}
		}
		fn, err := r.Function(mem, Interpreted{Code: rubyISeq, Check: check})
		if err != nil {
			return
		}
		if len(fn.Name) > maxName || len(fn.File) > maxName || fn.Size > maxCode {
			t.Fatalf("a name of %d bytes, a file's of %d, code of %d", len(fn.Name), len(fn.File), fn.Size)
		}
		last := int64(-1)
		for _, l := range fn.Lines {
			if int64(l.Off) <= last || l.Off >= fn.Size || l.Line < 0 {
				t.Fatalf("line %d at %d of %d, after %d", l.Line, l.Off, fn.Size, last)
			}
			last = int64(l.Off)
		}
	})
}

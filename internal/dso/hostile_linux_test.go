package dso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"gperf/internal/testutil/inputs"
)

// TestHostileHeaders reads files whose headers lie: whatever else is in them, they cost little.
func TestHostileHeaders(t *testing.T) {
	whole := elfFile{progs: make([]elf.Prog64, 3), sections: []elfSection{
		{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: make([]byte, 64)},
		{name: ".symtab", typ: elf.SHT_SYMTAB, data: make([]byte, 240)},
		{name: ".dynsym", typ: elf.SHT_DYNSYM, flags: elf.SHF_ALLOC, data: make([]byte, 240)},
		{name: ".eh_frame", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, data: make([]byte, 64)},
		{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC, data: gnuNote([]byte(idA))},
	}}.bytes()
	le := binary.LittleEndian
	sections := le.Uint64(whole[40:])
	for name, change := range map[string]func(b []byte){
		"65,535 sections": func(b []byte) { le.PutUint16(b[60:], 0xffff) },
		"2^32 sections, as the first one says": func(b []byte) {
			le.PutUint16(b[60:], 0)
			le.PutUint64(b[sections+32:], 1<<32)
		},
		"65,535 segments":     func(b []byte) { le.PutUint16(b[56:], 0xffff) },
		"sections at 2^63":    func(b []byte) { le.PutUint64(b[40:], 1<<63) },
		"names in no section": func(b []byte) { le.PutUint16(b[62:], 0xfff0) },
		"sections of 2^63 bytes": func(b []byte) {
			for i := sections; i+64 <= uint64(len(b)); i += 64 {
				le.PutUint64(b[i+32:], 1<<63)
			}
		},
		"sections that all are the file": func(b []byte) {
			for i := sections; i+64 <= uint64(len(b)); i += 64 {
				le.PutUint64(b[i+24:], 0)
				le.PutUint64(b[i+32:], uint64(len(b)))
			}
		},
		"segments in each other": func(b []byte) {
			for i := 64; i < 64+3*56; i += 56 {
				le.PutUint32(b[i:], uint32(elf.PT_LOAD))
				le.PutUint32(b[i+4:], uint32(elf.PF_X))
				le.PutUint64(b[i+32:], ^uint64(0))
				le.PutUint64(b[i+40:], ^uint64(0))
			}
		},
	} {
		b := bytes.Clone(whole)
		change(b)
		cheap(t, name, func() {
			im, err := NewImage(bytes.NewReader(b), int64(len(b)), name)
			if err != nil {
				return
			}
			for _, s := range im.Sections {
				im.Data(s)
			}
			im.Bias(0, 0x1000, 0)
			if l, err := im.Symbols(".symtab"); err == nil {
				for range l {
				}
			}
			im.MiniDebug()
		})
	}
}

// cheap fails if a function takes a second, or allocates 64 MB.
func cheap(t *testing.T, name string, read func()) {
	t.Helper()
	inputs.AtMost(t, name, time.Second, 64<<20, read)
}

// TestHostileLinks looks for the debug information of a file that names itself, a FIFO, a device or a directory as its
// debug file and as the supplementary one.
func TestHostileLinks(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", dir+"/device"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"x", "fifo", "device", "loop", ".", "../../../../../../dev/zero"} {
		path := writeFile(t, dir+"/x", elfFile{sections: []elfSection{
			{name: ".debug_info", typ: elf.SHT_PROGBITS, data: []byte{0}},
			{name: ".gnu_debuglink", typ: elf.SHT_PROGBITS, data: append(append([]byte(to), make([]byte, 4-len(to)%4)...), 1, 2, 3, 4)},
			{name: ".gnu_debugaltlink", typ: elf.SHT_PROGBITS, data: append([]byte(to+"\x00"), idA...)},
		}}.bytes())
		cheap(t, to, func() {
			debug, supp, err := new(Locator).Debug(path, BuildID{})
			if err == nil {
				debug.Close()
				supp.Close()
			}
			if supp != nil {
				t.Errorf("link to %s: %s", to, supp.Path)
			}
		})
	}
}

// TestHostileOpenELF opens files that package debug/elf would decompress, or wait for.
func TestHostileOpenELF(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenELF(dir + "/fifo"); err == nil {
		t.Error("a FIFO is open")
	}
	for name, b := range inputs.BombFiles("debug_info") {
		if _, err := OpenELF(writeFile(t, dir+"/x", b)); !errors.Is(err, ErrUnpacked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

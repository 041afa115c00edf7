package dso

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"testing"
)

// TestCarried reads a file that a recording contains, in parts with a hole between them.
func TestCarried(t *testing.T) {
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	im, err := NewImage(bytes.NewReader(exe), int64(len(exe)), "self")
	if err != nil || len(exe) > maxCarriedFile {
		t.Skip(err)
	}
	f := &sparse{size: 30, parts: []part{{20, []byte("world")}, {0, []byte("hello")}}}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	want := "hello" + string(make([]byte, 15)) + "world" + string(make([]byte, 5))
	if string(got) != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	var none *Carried
	if none.open(im.BuildID()) != nil {
		t.Error("a file of no recording")
	}
	c := new(Carried)
	c.Add(nil, FunctionsBase+1000, exe[1000:])
	c.Add(nil, 0x1000, exe[:1000])
	c.Add(nil, 1<<63, exe[:1000])
	if len(c.done) != 0 || len(c.files) != 1 {
		t.Errorf("%d files are complete, %d not", len(c.done), len(c.files))
	}
}

// FuzzCarried adds records as a recording may contain them: an address, a size and bytes each.
func FuzzCarried(f *testing.F) {
	f.Add([]byte("\x00\x10\x00\x00\x00\x00\x04\x00\x04\x00abcd\x00\x00\x00\x00\x00\x00\x04\x00\x04\x00\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := new(Carried)
		for len(b) >= 10 {
			addr, n := binary.LittleEndian.Uint64(b), min(int(binary.LittleEndian.Uint16(b[8:])), len(b)-10)
			c.Add(nil, addr, b[10:10+n])
			b = b[10+n:]
		}
		for id := range c.done {
			if im := c.open(id); im != nil {
				for _, s := range im.Sections {
					im.Data(s)
				}
			}
		}
	})
}

package dso

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// TestEntry: programs, and the dynamic loader, begin at the address in the header. Libraries do not, whatever it says.
func TestEntry(t *testing.T) {
	const entry = 0x1234
	for name, want := range map[string]uint64{
		"/bin/true":                           entry,
		"/proc/self/exe":                      entry,
		"/lib64/ld-linux-x86-64.so.2":         entry,
		"/usr/lib/x86_64-linux-gnu/libm.so.6": 0,
	} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		binary.LittleEndian.PutUint64(b[24:], entry)
		im, err := NewImage(bytes.NewReader(b), int64(len(b)), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := im.Entry(); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
	}
}

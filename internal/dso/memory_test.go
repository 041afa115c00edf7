package dso

import (
	"bytes"
	"os"
	"testing"
)

// FuzzMemoryFile reads a file from a memory with the file's parts at other addresses.
func FuzzMemoryFile(f *testing.F) {
	if b, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(b[:min(len(b), 1<<16)], uint32(0x1000))
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"), uint32(3))
	f.Fuzz(func(t *testing.T, file []byte, at uint32) {
		n := uint64(len(file))
		split := min(uint64(at), n)
		memory := append(bytes.Clone(file[split:]), file[:split]...) // the second part first
		r := &memoryFile{bytes.NewReader(memory), []mappedPart{{0, split, n - split}, {split, n - split, 0}}}
		want := bytes.Clone(file)
		withoutSections(want, 0)
		got := make([]byte, n)
		if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read: %v", err)
		}
		half := make([]byte, n/2)
		if _, err := r.ReadAt(half, int64(n-n/2)); err != nil || !bytes.Equal(half, want[n-n/2:]) {
			t.Fatalf("read the second half: %v", err)
		}
		if _, err := r.ReadAt(make([]byte, 1), int64(n)); err == nil {
			t.Error("a byte after the file was read")
		}
		im, err := NewImage(r, int64(n), "memory")
		if err != nil {
			return
		}
		if im.Is64 && len(im.Sections) > 0 {
			t.Error("it has sections")
		}
		for _, l := range im.Loads {
			im.Bytes(l.Off, min(l.Filesz, 1<<20))
		}
	})
}

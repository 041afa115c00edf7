package hotspot

import (
	"errors"
	"testing"
)

func TestRead(t *testing.T) {
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			m := newImage(&r)
			l, err := Read(m, m.symbol)
			if err != nil || len(l) != 1 {
				t.Fatalf("Read: %v, %v", l, err)
			}
			h := l[0]
			if h.Low != heapAt || h.High != heapAt+heapSize || h.Segments != segmentAt || h.Shift != shift ||
				h.Interp != interpAt || h.InterpSize != 0x400 || h.CacheLow != h.Low || h.CacheHigh != h.High {
				t.Errorf("heap: %+v", h)
			}
			if uint64(h.Blob) != r.header || uint64(h.Size) != r.header+r.size || uint64(h.Used) != r.used {
				t.Errorf("layout: %+v", h)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	r := &releases[1]
	for _, c := range []struct {
		name   string
		change func(m *image)
		is     error
	}{
		{"without interpreter", func(m *image) { m.put64(interpreter(m), 0) }, ErrStarting},
		{"without heaps", func(m *image) { m.put32(m.stackWord(heaps(m)), 0) }, ErrStarting},
		{"without a symbol", func(m *image) { delete(m.symbols, "gHotSpotVMTypes") }, nil},
		{"an unreadable table", func(m *image) { m.put64(m.symbols["gHotSpotVMStructs"], 16) }, nil},
		{"entries of 0 bytes", func(m *image) { m.put64(m.symbols["gHotSpotVMStructEntryArrayStride"], 0) }, nil},
		{"large entries", func(m *image) { m.put64(m.symbols["gHotSpotVMStructEntryArrayStride"], 1<<40) }, nil},
		{"a heap in the kernel", func(m *image) {
			m.put64(m.stackWord(m.stackWord(m.stackWord(heaps(m))+8))+8, 1<<63)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newImage(r)
			c.change(m)
			if l, err := Read(m, m.symbol); err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("Read: %v, %v", l, err)
			}
		})
	}
}

// stackWord returns a word of the image.
func (m *image) stackWord(addr uint64) uint64 {
	v, _ := m.stack(addr)
	return v
}

// interpreter and heaps return the addresses of two static variables.
func interpreter(m *image) uint64 { return static(m, "AbstractInterpreter") }
func heaps(m *image) uint64       { return static(m, "CodeCache") }

func static(m *image, typ string) uint64 {
	t, err := readTables(newMemory(m), m.symbol)
	if err != nil {
		panic(err)
	}
	if typ == "CodeCache" {
		return t.addr("CodeCache._heaps")
	}
	return t.addr(typ + "._code")
}

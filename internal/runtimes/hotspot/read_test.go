package hotspot

import (
	"errors"
	"testing"

	"gperf/internal/procmem"
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
			if h.Unloaded != unloadedAt {
				t.Errorf("unloaded classes are counted at %#x, want %#x", h.Unloaded, uint64(unloadedAt))
			}
			if uint64(h.Blob) != r.header || uint64(h.Size) != r.header+r.size || uint64(h.Used) != r.used {
				t.Errorf("layout: %+v", h)
			}
		})
	}
}

// A process without counters is read all the same, as one with counters that are no memory.
func TestReadNoCounters(t *testing.T) {
	for name, change := range map[string]func(m *image){
		"off":             func(m *image) { m.put64(counters(m), 0) },
		"no memory":       func(m *image) { m.put64(counters(m), 0x1000) },
		"entries of 0":    func(m *image) { m.put32(imageBase+0x140, 0); m.put32(imageBase+0x1c0, 0) },
		"another counter": func(m *image) { m.put(imageBase+0x140+24, 'x'); m.put(imageBase+0x1c0+24, 'x') },
	} {
		t.Run(name, func(t *testing.T) {
			m := newImage(&releases[1])
			change(m)
			l, err := Read(m, m.symbol)
			if err != nil || len(l) != 1 || l[0].Unloaded != 0 {
				t.Errorf("%+v, %v", l, err)
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

// These functions return the addresses of static variables.
func interpreter(m *image) uint64 { return static(m, "AbstractInterpreter._code") }
func heaps(m *image) uint64       { return static(m, "CodeCache._heaps") }
func counters(m *image) uint64    { return static(m, "PerfMemory._start") }

func static(m *image, name string) uint64 {
	t, err := readTables(procmem.NewCursor(m, maxPages), m.symbol)
	if err != nil {
		panic(err)
	}
	return t.addr(name)
}

package unwind

import (
	"debug/elf"
	"os"
	"testing"

	"gperf/internal/dso"
)

// benchImage opens the file that GPERF_ELF names, or the largest of some that
// machines have.
func benchImage(b *testing.B) *dso.Image {
	b.Helper()
	var path string
	var size int64
	for _, p := range append([]string{os.Getenv("GPERF_ELF")},
		"/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1", "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
		"/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "/lib/x86_64-linux-gnu/libc.so.6") {
		st, err := os.Stat(p)
		if err == nil && st.Size() > size {
			path, size = p, st.Size()
		}
		if err == nil && p == os.Getenv("GPERF_ELF") {
			break
		}
	}
	if path == "" {
		b.Skip("no large ELF file; GPERF_ELF names one")
	}
	im, err := dso.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { im.Close() })
	b.Logf("%s", path)
	return im
}

func BenchmarkBuild(b *testing.B) {
	im := benchImage(b)
	b.ReportAllocs()
	var t *Table
	for b.Loop() {
		var err error
		if t, err = Build(im); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(t.Rows)), "rows")
	b.ReportMetric(float64(t.Bytes())/float64(len(t.Rows)), "B/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t.Rows)), "ns/row")
	b.Logf("%d rules, %d pages, %+v", len(t.Rules), len(t.Pages), t.Stats)
}

func BenchmarkCacheLoad(b *testing.B) {
	im, c := benchImage(b), &Cache{Dir: b.TempDir()}
	t, err := c.Build(im)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, save, err := c.Get(im); err != nil || save != nil {
			b.Fatal("not in the cache", err)
		}
	}
	b.ReportMetric(float64(len(t.Rows)), "rows")
}

// BenchmarkCacheMiss builds a table that is to be cached.
func BenchmarkCacheMiss(b *testing.B) {
	im := benchImage(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (&Cache{Dir: b.TempDir()}).Get(im); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWalk walks 20 frames of one function, by rules and by full CFI.
func BenchmarkWalk(b *testing.B) {
	f := parseSection(elf.EM_X86_64, asm(entry32(uint32(0xffffffff), 3, "", plain),
		entry32(uint32(0), uint64(0x2000), uint64(0x400), cfaDefCFAOffset, 16),
		entry32(uint32(0), uint64(0x2400), uint64(0x10), cfaUndefined, 16)), false)
	table := f.Table()
	stack := &Stack{Addr: 0x7000_0000}
	for i := range 20 {
		ret := uint64(0x2010 + i*8)
		if i == 18 {
			ret = 0x2404
		}
		stack.Bytes = append(stack.Bytes, asm(uint64(0), ret)...)
	}
	space := &space1{Mapping{Start: 0x1000, End: 0x41000, Object: NewObject(table, func() (*CFI, error) {
		return f, nil
	})}}
	regs := NewRegs(elf.EM_X86_64, 0x2008, stack.Addr, 0)
	var u Unwinder
	b.Run("rules", func(b *testing.B) {
		b.ReportAllocs()
		var frames []Frame
		for b.Loop() {
			var why Reason
			if frames, why = u.Walk(frames[:0], &regs, stack, space); len(frames) != 20 || why != EndOfStack {
				b.Fatal(len(frames), why)
			}
		}
	})
	b.Run("full", func(b *testing.B) {
		b.ReportAllocs()
		var frames []Frame
		for b.Loop() {
			if frames, _, _ = u.walk(frames[:0], &regs, stack, space, true); len(frames) != 20 {
				b.Fatal(len(frames))
			}
		}
	})
}

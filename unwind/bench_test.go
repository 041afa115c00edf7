package unwind

import (
	"os"
	"testing"

	"gperf/symbolize/dso"
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

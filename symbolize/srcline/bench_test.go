package srcline

import (
	"os"
	"sync"
	"testing"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
)

// BenchmarkLookup opens $GPERF_SRCLINE_FILE, for example a vmlinux, and looks up
// random addresses: without a disk cache from one goroutine and from two, then
// with everything in the disk cache.
func BenchmarkLookup(b *testing.B) {
	path := os.Getenv("GPERF_SRCLINE_FILE")
	if path == "" {
		b.Skip("$GPERF_SRCLINE_FILE names no file to look addresses up in")
	}
	id, err := dso.BuildIDOf(path)
	if err != nil {
		b.Skip(err)
	}
	open := func(c *cache.Dir) *Index {
		x, err := Open(c, id, func() (Files, error) {
			im, err := dso.Open(path)
			return Files{Debug: im}, err
		})
		if err != nil {
			b.Fatal(err)
		}
		return x
	}
	x := open(nil)
	addrs := randomCode(x, 10000)
	x.Close()
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	kept, err := NewCache()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		addrs   []uint64
		workers int
		kept    *cache.Dir
	}{{"first", addrs[:1], 1, nil}, {"10000", addrs, 1, nil}, {"10000 in parallel", addrs, 2, nil}, {"10000 kept", addrs, 1, kept}} {
		b.Run(c.name, func(b *testing.B) {
			look := func() {
				x := open(c.kept)
				var done sync.WaitGroup
				for w := range c.workers {
					done.Go(func() {
						for i := w; i < len(c.addrs); i += c.workers {
							x.Lookup(c.addrs[i])
						}
					})
				}
				done.Wait()
				x.Close()
			}
			if c.kept != nil {
				look()
			}
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}

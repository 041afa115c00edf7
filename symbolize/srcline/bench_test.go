package srcline

import (
	"os"
	"sync"
	"testing"

	"gperf/symbolize/dso"
)

// BenchmarkCold looks 10,000 random addresses of $GPERF_SRCLINE_FILE up, of which
// nothing is kept on disk: one by one, and from two goroutines.
func BenchmarkCold(b *testing.B) {
	path := os.Getenv("GPERF_SRCLINE_FILE")
	if path == "" {
		b.Skip("$GPERF_SRCLINE_FILE names no file to look addresses up in")
	}
	open := func() *Index {
		im, err := dso.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		x, err := indexOf(im)
		if err != nil {
			b.Fatal(err)
		}
		return x
	}
	x := open()
	addrs := randomCode(x, 10000)
	x.Close()
	for _, c := range []struct {
		name    string
		addrs   []uint64
		workers int
	}{{"first", addrs[:1], 1}, {"10000", addrs, 1}, {"10000 in parallel", addrs, 2}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x := open()
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
		})
	}
}

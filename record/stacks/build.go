package stacks

import (
	"runtime"
	"sync"
	"sync/atomic"

	"gperf/unwind"
)

// builder builds unwind tables in the background.
type builder struct {
	cache   *unwind.Cache
	jobs    chan *mappedFile
	done    chan built
	wake    func()
	stop    atomic.Bool
	running sync.WaitGroup
}

type built struct {
	file *mappedFile
	err  error
}

func newBuilder(wake func()) *builder {
	cache, _ := unwind.NewCache() // without a home directory there is no cache, and nil caches nothing
	b := &builder{cache: cache, jobs: make(chan *mappedFile, maxJobs), done: make(chan built, maxJobs), wake: wake}
	for range max(1, runtime.NumCPU()/2) {
		b.running.Go(b.run)
	}
	return b
}

func (b *builder) run() {
	for f := range b.jobs {
		if b.stop.Load() {
			return
		}
		b.done <- built{f, f.build(b.cache)}
		b.wake()
	}
}

// maxJobs is the maximum number of tables waiting to be made.
const maxJobs = 1 << 12

// request starts making a file's table in the background, unless that was requested before.
// If too many requests are open, it does nothing: the next sample requests the table again.
func (b *builder) request(f *mappedFile) {
	if f.state != fileUnknown {
		return
	}
	select {
	case b.jobs <- f:
		f.state = filePending
	default:
	}
}

func (b *builder) close() {
	b.stop.Store(true)
	close(b.jobs)
	b.running.Wait()
}

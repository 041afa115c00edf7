package stacks

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gperf/unwind"
)

// builder builds unwind tables in the background.
type builder struct {
	cache *unwind.Cache
	wake  func() // called when there are tables to take
	// keeper keeps the files; nil: they are not kept.
	keeper *keeper
	// lean makes the builder return memory to the kernel after large tables, and keep nothing but tables: the CFI of a
	// compiler's library takes more than the recorder needs otherwise.
	lean bool

	mu      sync.Mutex
	more    sync.Cond // there are jobs, or closed is set
	jobs    []*mappedFile
	unsaved []func() // store tables when there are no jobs
	done    []built
	since   time.Time // when the first of done was built
	working int       // jobs that are being done
	rows    int       // of the tables since memory was returned
	closed  bool
	running sync.WaitGroup
}

type built struct {
	file *mappedFile
	err  error
}

// leanRows is the number of rows after which a lean builder returns memory.
const leanRows = 200_000

func newBuilder(wake func(), lean bool, keeper *keeper) *builder {
	cache, _ := unwind.NewCache() // without a home directory there is no cache, and nil caches nothing
	b := &builder{cache: cache, wake: wake, lean: lean, keeper: keeper}
	b.more.L = &b.mu
	workers := max(2, runtime.NumCPU()/2)
	if lean {
		workers = 1
	}
	for range workers {
		b.running.Go(b.run)
	}
	return b
}

// run builds requested tables. It stores tables in the cache only while none is requested,
// because samples wait for those.
func (b *builder) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case len(b.jobs) > 0 && !b.closed:
			b.build()
		case len(b.unsaved) > 0:
			save := b.unsaved[0]
			b.unsaved = b.unsaved[1:]
			b.mu.Unlock()
			save()
			b.mu.Lock()
		case b.lean && b.rows >= leanRows:
			b.rows = 0
			b.mu.Unlock()
			debug.FreeOSMemory()
			b.mu.Lock()
		case b.closed:
			return
		default:
			b.more.Wait()
		}
	}
}

// build builds the table that was requested first. It is called with mu held.
func (b *builder) build() {
	f := b.jobs[0]
	b.jobs = b.jobs[1:]
	b.working++
	b.mu.Unlock()
	save, err := f.build(b.cache, b.lean)
	if err == nil {
		b.keeper.hold(f.name, f.im, f.file)
	}
	b.mu.Lock()
	b.working--
	if len(b.done) == 0 {
		b.since = time.Now()
	}
	b.done = append(b.done, built{f, err})
	if f.table != nil {
		b.rows += len(f.table.Rows)
	}
	if save != nil {
		b.unsaved = append(b.unsaved, save)
	}
	if b.ready() {
		b.wake()
	}
}

// batchTime is how long built tables wait for others that are requested: BPF gets all of them
// with one update of each process's mappings.
const batchTime = 10 * time.Millisecond

// ready reports whether take returns tables.
func (b *builder) ready() bool {
	idle := len(b.jobs) == 0 && b.working == 0
	return len(b.done) > 0 && (idle || time.Since(b.since) >= batchTime)
}

// take returns the tables built since the last call.
func (b *builder) take() (done []built) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready() {
		done, b.done = b.done, nil
	}
	return done
}

// request starts building a file's table. Code heaps come first, because they take a millisecond.
func (b *builder) request(f *mappedFile) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.vm != nil {
		b.jobs = slices.Insert(b.jobs, 0, f)
	} else {
		b.jobs = append(b.jobs, f)
	}
	b.more.Signal()
}

// close ends the builder. It drops requests and stores the tables that are built.
func (b *builder) close() {
	b.mu.Lock()
	b.closed = true
	b.more.Broadcast()
	b.mu.Unlock()
	b.running.Wait()
}

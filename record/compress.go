package record

import (
	"sync/atomic"
	"time"

	"gperf/format"
)

// compressing is the goroutine that compresses records and writes them, while
// the recorder empties the rings: between the two is a queue that holds as much as
// the rings have in a second of very many samples. When it is full the recorder
// waits, and the kernel counts what finds no place in the rings.
type compressing struct {
	c     *format.Compressor
	w     *format.Writer
	wake  func()        // tells the recorder of an error
	batch []byte        // not yet in the queue
	whole bool          // no record of the batch's goes on in the next one
	queue chan batch    //
	free  chan []byte   // batches' memory
	done  chan struct{} // closed by the goroutine
	size  atomic.Int64  // of the file
	err   atomic.Value  // error: from there on nothing is written
	last  struct {      // the goroutine's until done is closed
		size  int64 // of the file, up to the last flush
		tally tally // of what it holds up to there
	}
}

// batch is a number of records. With a tally it ends with a whole one.
type batch struct {
	records []byte
	tally   *tally
}

const (
	batchSize  = 256 << 10
	maxBatches = 128
	// maxUnmarked is how much is written at most before the file's size is noted
	// as one to go back to.
	maxUnmarked = 1 << 20
)

func newCompressing(w *format.Writer, kind format.Type, level int, t tally, wake func()) (*compressing, error) {
	c, err := format.NewCompressor(w, kind, level)
	if err != nil {
		return nil, err
	}
	z := &compressing{c: c, w: w, wake: wake, whole: true, queue: make(chan batch, maxBatches),
		free: make(chan []byte, maxBatches), done: make(chan struct{})}
	z.last.size, z.last.tally = w.Size(), t
	z.size.Store(w.Size())
	go z.run()
	return z, nil
}

// write takes records, copied. The error may be of earlier ones.
func (z *compressing) write(b []byte) error {
	if err, failed := z.err.Load().(error); failed {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), batchSize-len(z.batch))
		z.batch = append(z.batch, b[:n]...)
		b = b[n:]
		z.whole = false
		if len(z.batch) == batchSize {
			z.send(nil)
		}
	}
	return nil
}

// commit says that all records are whole, and what they were.
func (z *compressing) commit(t tally) {
	if !z.whole {
		z.send(&t)
		z.whole = true
	}
}

func (z *compressing) send(t *tally) {
	z.queue <- batch{z.batch, t}
	select {
	case z.batch = <-z.free:
	default:
		z.batch = nil
	}
}

func (z *compressing) run() {
	defer close(z.done)
	for b := range z.queue {
		if z.err.Load() == nil {
			if err := z.compress(b); err != nil {
				z.err.Store(err)
				z.wake()
			}
		}
		select {
		case z.free <- b.records[:0]:
		default:
		}
	}
}

// compress writes a batch. What is small waits for the next one, if that is there.
func (z *compressing) compress(b batch) error {
	if err := z.c.Write(b.records); err != nil {
		return err
	}
	z.size.Store(z.w.Size())
	if b.tally == nil || len(z.queue) > 0 && z.w.Size()-z.last.size < maxUnmarked {
		return nil
	}
	if err := z.c.Flush(); err != nil {
		return err
	}
	z.size.Store(z.w.Size())
	z.last.size, z.last.tally = z.w.Size(), *b.tally
	return nil
}

// close waits until everything is written, and returns the size of the file up
// to the last complete record, and what it holds.
func (z *compressing) close(progress func(step string, n, of int)) (size int64, t tally, err error) {
	close(z.queue)
	of := len(z.queue)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-z.done:
			running = false
		case <-tick.C:
			progress("compressing records", of-len(z.queue), of)
		}
	}
	err, _ = z.err.Load().(error)
	return z.last.size, z.last.tally, err
}

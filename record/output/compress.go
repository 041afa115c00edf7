package output

import (
	"sync/atomic"
	"time"

	"gperf/format"
)

// compressing is the goroutine that compresses records and writes them, while the recorder
// empties the rings. The queue between the two holds as much as the rings receive in a second
// of very many samples. When it is full, the recorder waits, and the kernel counts records
// that do not fit into the rings as lost.
type compressing struct {
	c           *format.Compressor
	w           *format.Writer
	checkpoints bool      // make the file readable by perf whenever the queue is empty
	wake        func()    // wakes the recorder after an error
	hurries     bool      // each commit passes the records on: a reader waits for them
	batch       []byte    // not yet in the queue
	complete    bool      // there are no records since the last commit
	sent        time.Time // when the last commit passed records on
	committed   struct {  // the records that are not yet in the queue
		size   int     // of the batch, up to the last commit
		counts *Counts // of all records up to there; nil if all are in the queue
	}
	queue chan batch    //
	free  chan []byte   // batches' memory
	done  chan struct{} // the goroutine closes it
	size  atomic.Int64  // of the file
	err   atomic.Value  // error: nothing is written after it
	last  struct {      // owned by the goroutine until done is closed
		size   int64  // of the file, up to the last flush
		counts Counts // of the records up to there
	}
}

// batch is a number of records. A batch with counts ends with a complete record.
type batch struct {
	records []byte
	counts  *Counts // of all records up to its end
}

const (
	batchSize  = 256 << 10
	maxBatches = 128
	// sendTime is how long a commit of few records may wait for more, because each takes a compressed block of its own.
	// smallBatch is the size of many records.
	sendTime   = 200 * time.Millisecond
	smallBatch = 32 << 10
	// maxUnmarked is the maximum number of bytes written before the file's size is stored as
	// one to truncate to.
	maxUnmarked = 1 << 20
)

func newCompressing(w *format.Writer, o *Options) (*compressing, error) {
	c, err := format.NewCompressor(w, o.compressedType(), o.Compress)
	if err != nil {
		return nil, err
	}
	z := &compressing{c: c, w: w, checkpoints: o.Checkpoints, hurries: o.Path == Pipe, wake: o.Wake, complete: true,
		queue: make(chan batch, maxBatches), free: make(chan []byte, maxBatches), done: make(chan struct{})}
	z.last.size = w.Size()
	z.size.Store(w.Size())
	go z.run()
	return z, nil
}

// write takes a copy of records. The error may belong to earlier ones.
func (z *compressing) write(b []byte) error {
	if err, failed := z.err.Load().(error); failed {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), batchSize-len(z.batch))
		z.batch = append(z.batch, b[:n]...)
		b = b[n:]
		z.complete = false
		if len(z.batch) == batchSize {
			z.send(nil)
		}
	}
	return nil
}

// commit marks all records as complete, with their counts. Few records wait for the next commit.
func (z *compressing) commit(c Counts) {
	if z.complete && z.committed.counts == nil {
		return
	}
	z.complete = true
	z.committed.size, z.committed.counts = len(z.batch), &c
	if z.hurries || len(z.batch) >= smallBatch || time.Since(z.sent) >= sendTime {
		z.sent = time.Now()
		z.send(&c)
	}
}

func (z *compressing) send(c *Counts) {
	z.committed.counts = nil
	z.queue <- batch{z.batch, c}
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

// compress writes a batch. It delays a small batch if another one is queued.
func (z *compressing) compress(b batch) error {
	if err := z.c.Write(b.records); err != nil {
		return err
	}
	z.size.Store(z.w.Size())
	if b.counts == nil || len(z.queue) > 0 && z.w.Size()-z.last.size < maxUnmarked {
		return nil
	}
	if err := z.c.Flush(); err != nil {
		return err
	}
	z.size.Store(z.w.Size())
	z.last.size, z.last.counts = z.w.Size(), *b.counts
	if z.checkpoints && len(z.queue) == 0 {
		return z.w.Checkpoint()
	}
	return nil
}

// close waits until everything is written, and returns the size of the file up to the last
// complete record, and the counts of its records.
func (z *compressing) close(progress func(step string, n, of int)) (size int64, c Counts, err error) {
	if c := z.committed.counts; c != nil {
		z.batch = z.batch[:z.committed.size]
		z.send(c)
	}
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
	return z.last.size, z.last.counts, err
}

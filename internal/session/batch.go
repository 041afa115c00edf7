package session

import (
	"sync"

	"gperf/format"
)

// batchSize is the number of records that one goroutine passes to the next at a time.
const batchSize = 512

// Batch holds consecutive samples of the recording, and the records between them
// that WalkOptions.Records selects.
type Batch struct {
	Samples []Sample
	Records []Record

	frames     arena        // of callchains that occurred only once
	raws       []format.Raw // in memory, whose bytes Samples and Records borrow
	memory     *[batchSize]format.Raw
	read, size int64 // Reader.Progress after raws
	pre        predecoded
}

// Record is a record that is no sample. Batch.Release invalidates it.
type Record struct {
	format.Record
	Raw    format.Raw
	ID     format.RecordID // see File.RecordID
	Event  int             // index in File.Attrs
	Thread *Thread         // the record's subject, nil for none
	Comm   string          // of Thread, at the record's time
	Before int             // number of the batch's samples before it
}

// Keep removes the samples that keep rejects.
func (b *Batch) Keep(keep func(*Sample) bool) {
	kept, records := b.Samples[:0], b.Records
	for i := range b.Samples {
		for len(records) > 0 && records[0].Before <= i {
			records[0].Before = len(kept)
			records = records[1:]
		}
		if keep(&b.Samples[i]) {
			kept = append(kept, b.Samples[i])
		}
	}
	for i := range records {
		records[i].Before = len(kept)
	}
	clear(b.Samples[len(kept):])
	b.Samples = kept
}

// Release returns the batch's memory. The caller must not use the batch, the samples and the records any more.
func (b *Batch) Release() {
	if b.pre.decoded != nil {
		b.Samples = b.pre.decoded
	}
	b.pre.release()
	if cap(b.Samples) == batchSize {
		clear(b.Samples)
		samples.Put((*[batchSize]Sample)(b.Samples[:batchSize]))
	}
	b.Samples = nil
	b.Records = nil
	b.frames.used = 0
	format.ReleaseAll(b.raws)
	b.raws = nil
	batches.Put(b)
}

var batches = sync.Pool{New: func() any { return &Batch{memory: new([batchSize]format.Raw)} }}

// samples is memory for the samples of batches. A waiting batch holds none.
var samples = sync.Pool{New: func() any { return new([batchSize]Sample) }}

func newBatch() *Batch { return batches.Get().(*Batch) }

// add appends an empty sample.
func (b *Batch) add() *Sample {
	n := len(b.Samples)
	switch {
	case b.Samples == nil:
		b.Samples = samples.Get().(*[batchSize]Sample)[:0]
	case n == cap(b.Samples):
		b.Samples = append(b.Samples, Sample{})
	}
	b.Samples = b.Samples[:n+1]
	return &b.Samples[n]
}

// last returns the sample that was added last.
func (b *Batch) last() *Sample { return &b.Samples[len(b.Samples)-1] }

// removeLast removes the sample that was added last.
func (b *Batch) removeLast() {
	*b.last() = Sample{}
	b.Samples = b.Samples[:len(b.Samples)-1]
}

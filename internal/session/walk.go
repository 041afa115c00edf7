package session

import (
	"io"
	"sync"

	"gperf/format"
)

// batchSize is how many records go from one goroutine to the next at a time.
const batchSize = 512

// Batch is some consecutive samples of the recording, and the other records
// between them that History.Show asks for.
type Batch struct {
	Samples []Sample
	Records []Record

	frames arena        // of callchains that came only once
	raws   []format.Raw // from which Samples and Records borrow
}

// Keep removes the other samples from the batch.
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

// Record is a record that is no sample.
type Record struct {
	format.Record
	Raw    format.Raw
	ID     format.RecordID // see File.RecordID
	Event  int             // index in File.Attrs
	Thread *Thread         // its subject, nil for none
	Comm   string          // of Thread, then
	Before int             // so many samples of the batch come before it
}

var batches = sync.Pool{New: func() any {
	return &Batch{Samples: make([]Sample, 0, batchSize), raws: make([]format.Raw, 0, batchSize)}
}}

// Release returns the batch's memory; the caller must not use the batch any more.
func (b *Batch) Release() {
	clear(b.Samples)
	b.Samples = b.Samples[:0]
	b.Records = nil
	b.frames.used = 0
	for i := range b.raws {
		b.raws[i].Release()
	}
	b.raws = b.raws[:0]
	batches.Put(b)
}

// Walk reads f's records and passes its samples, resolved and in the order of time,
// to use, which owns the batch. keep, which may be nil, selects samples by their
// Thread and Comm before their frames are resolved. The result counts the skipped
// parts. Walk ends early with use's error.
func (h *History) Walk(f *format.File, keep func(*Sample) bool, use func(*Batch) error) (format.Skipped, error) {
	h.Walked = true
	if h.Also.Names {
		// The kernel lists its symbols slowly: read the file meanwhile.
		go h.sym.KernelProblem()
	}
	in := make(chan *Batch, 4)
	quit := make(chan struct{})
	reader := f.Records()
	if h.AsWritten {
		reader = f.RecordsAsWritten()
	}
	var readErr error
	go func() {
		defer close(in)
		readErr = readBatches(reader, in, quit)
	}()
	skipped, err := h.walk(f, in, keep, use)
	close(quit)
	for range in { // until the reader has seen quit
	}
	if err == nil {
		err = readErr
	}
	skipped.Merge(reader.Skipped)
	h.Late = reader.Late
	return skipped, err
}

// readBatches sends batches of samples that are not decoded yet.
func readBatches(r *format.Reader, in chan<- *Batch, quit <-chan struct{}) error {
	for {
		b := batches.Get().(*Batch)
		var err error
		for len(b.raws) < batchSize && err == nil {
			var raw format.Raw
			if raw, err = r.Next(); err == nil {
				b.raws = append(b.raws, raw)
			}
			if raw.Type == format.TypeFinishedRound {
				break // a live recording's next round takes its time
			}
		}
		select {
		case in <- b:
		case <-quit:
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (h *History) walk(f *format.File, in <-chan *Batch, keep func(*Sample) bool, use func(*Batch) error) (skipped format.Skipped, err error) {
	for b := range in {
		h.batchFrames = &b.frames
		for _, raw := range b.raws {
			if err := h.one(f, raw, b, keep); err != nil {
				if f.Strict {
					return skipped, err
				}
				skipped.Add(err)
			}
		}
		if err := h.finish(b, use); err != nil {
			return skipped, err
		}
	}
	b := batches.Get().(*Batch)
	h.batchFrames = &b.frames
	h.flush(f, 0, b, keep)
	return skipped, h.finish(b, use)
}

// finish hands a batch to use.
func (h *History) finish(b *Batch, use func(*Batch) error) error {
	if len(b.Samples)+len(b.Records) == 0 {
		b.Release()
		return nil
	}
	h.unwind(b.Samples)
	return use(b)
}

// one applies a record, or appends a sample to b.
func (h *History) one(f *format.File, raw format.Raw, b *Batch, keep func(*Sample) bool) error {
	if raw.Type != format.TypeSample {
		rec, err := f.Record(raw)
		if err != nil {
			return err
		}
		if d, ok := rec.(*format.CallchainDeferred); ok {
			h.deferred(f, d, b, keep)
		}
		if h.Show[raw.Type] {
			b.Records = append(b.Records, h.show(f, raw, rec, len(b.Samples)))
		} else {
			h.Apply(rec)
		}
		return nil
	}
	n := len(b.Samples)
	if n == cap(b.Samples) {
		b.Samples = append(b.Samples, Sample{})
	}
	b.Samples = b.Samples[:n+1]
	s := &b.Samples[n]
	if err := f.Sample(raw, &s.Sample); err != nil {
		b.Samples = b.Samples[:n]
		return err
	}
	if cookie, ok := cookieOf(&f.Attrs[s.Event], s.Callchain); ok {
		h.hold(raw, s.TID, cookie)
		b.Samples = b.Samples[:n]
		h.flush(f, maxHeld, b, keep)
		return nil
	}
	h.deliver(f, b, keep)
	return nil
}

// deliver completes b's last sample, which has been decoded.
func (h *History) deliver(f *format.File, b *Batch, keep func(*Sample) bool) {
	if b.Samples[len(b.Samples)-1].Read.Len() > 0 {
		h.spread(f, b, keep)
	} else {
		h.place(b, keep)
	}
}

// place sets the thread and frames of b's last sample, or removes the sample if
// keep rejects it.
func (h *History) place(b *Batch, keep func(*Sample) bool) {
	n := len(b.Samples) - 1
	s := &b.Samples[n]
	h.Samples++
	s.Thread = h.thread(s.PID, s.TID)
	s.Comm, s.Named = s.Thread.Comm, s.Thread.Named
	s.Namespaces, s.Parallelism = s.Thread.namespaces, h.parallelism()
	if s.Sample.Cgroup != 0 {
		s.Cgroup = h.cgroups[s.Sample.Cgroup]
	}
	if keep != nil && !keep(s) {
		b.Samples = b.Samples[:n]
		return
	}
	h.jitUntil(s.Time)
	h.resolveFrames(s)
}

// spread replaces b's last sample with one for each of its counter values.
func (h *History) spread(f *format.File, b *Batch, keep func(*Sample) bool) {
	n := len(b.Samples) - 1
	s := b.Samples[n].Sample
	b.Samples = b.Samples[:n]
	h.Counted(f, &s, func() {
		b.Samples = append(b.Samples, Sample{Sample: s})
		h.place(b, keep)
	})
}

// show applies rec and finds its subject, as process_comm_event and similar
// functions of perf's builtin-script.c do: an exiting thread still has its name.
func (h *History) show(f *format.File, raw format.Raw, rec format.Record, before int) Record {
	r := Record{Record: rec, Raw: raw, Before: before}
	r.ID, r.Event = f.RecordID(raw)
	if _, exits := rec.(*format.Exit); exits {
		defer h.Apply(rec)
	} else {
		h.Apply(rec)
	}
	pid, tid := subject(rec, r.ID)
	if tid != -1 && raw.Type < format.TypeHeaderAttr {
		r.Thread = h.thread(pid, tid)
		r.Comm = r.Thread.Comm
	}
	return r
}

// subject returns the thread that a record names, or else the running one.
func subject(rec format.Record, id format.RecordID) (pid, tid int32) {
	switch r := rec.(type) {
	case *format.Comm:
		return r.PID, r.TID
	case *format.Fork:
		return r.PID, r.TID
	case *format.Exit:
		return r.PID, r.TID
	case *format.Mmap:
		return r.PID, r.TID
	case *format.Namespaces:
		return r.PID, r.TID
	}
	return id.PID, id.TID
}

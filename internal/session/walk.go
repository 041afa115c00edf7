package session

import (
	"io"
	"time"

	"gperf/format"
)

// WalkOptions select the data that a walk resolves and passes on.
type WalkOptions struct {
	// Names reads the symbols of each DSO in advance, concurrently: set it if the
	// names of frames are used.
	Names bool
	// LeafOnly leaves out the callchains: samples have their IP's frame alone.
	LeafOnly bool
	// Branches resolves the branch stacks, Data the data addresses.
	Branches, Data bool
	// KeepChains keeps each distinct part of a process's callchains in memory: samples then have ChainKeys.
	KeepChains bool
	// AsPerf names the callers in recordings that perf made as perf does: by the instruction at the return address,
	// which belongs to another function if the call never returns.
	AsPerf bool
	// Records are the types of records, other than samples, that batches contain.
	Records []format.Type
	// AsWritten reads the records in file order instead of the order of time.
	AsWritten bool
	// Ticks makes the walk call Tick between two batches, in the goroutine that calls use,
	// for each value. An error of Tick ends the walk. The walk forgets the frames of
	// earlier samples after a Tick if there are many of them.
	Ticks <-chan time.Time
	Tick  func() error
}

// walk is one pass over the recording.
//
//	readBatches ─▶ decode ─▶ record ─▶ deliver ─▶ place ─▶ resolve ─▶ finish ─▶ use
//	                            └─▶ hold, release ─┘
type walk struct {
	session *Session
	file    *format.File
	machine *machine
	frames  *frames
	opts    WalkOptions
	use     func(*Batch) error

	resolver resolver

	batch  *Batch // the current one
	held   []held
	shown  map[format.Type]bool // WalkOptions.Records
	stacks []stackSample        // of the current batch
	wakers wakers
	// hidesWaits is Session.hidesWaits.
	hidesWaits bool

	decoders *decoders // nil: the walk decodes each sample record when it comes to it
}

// Walk reads the recording and passes the selected samples, resolved and in the order of time, to use, which owns
// the batch. Options.Keep selects samples by Thread and Comm, before the addresses are resolved. The result counts
// the skipped parts. Walk ends early with use's error.
func (s *Session) Walk(opts WalkOptions, use func(*Batch) error) (format.Skipped, error) {
	w := s.newWalk(opts, use)
	if opts.Names {
		// The kernel lists symbols slowly: read the recording meanwhile.
		go s.Symbols.KernelProblem()
	}
	in := make(chan *Batch, maxWaiting)
	quit := make(chan struct{})
	reader := s.File.Records()
	if opts.AsWritten {
		reader = s.File.RecordsAsWritten()
	}
	var readErr error
	if canPredecode(s.File) {
		w.decoders = newDecoders(s.File, opts.LeafOnly)
	}
	go func() {
		defer close(in)
		if w.decoders != nil {
			defer w.decoders.stop()
		}
		readErr = w.readBatches(reader, in, quit)
	}()
	skipped, err := w.run(in)
	close(quit)
	for range in { // until the reader notices quit
	}
	if err == nil {
		err = readErr
	}
	skipped.Merge(reader.Skipped)
	s.Late = reader.Late
	s.machine.dropChains() // nothing is resolved any more
	return skipped, err
}

func (s *Session) newWalk(opts WalkOptions, use func(*Batch) error) *walk {
	s.frames = newFrames(s.machine, &opts)
	w := &walk{session: s, file: s.File, machine: s.machine, frames: s.frames, opts: opts, use: use,
		shown: map[format.Type]bool{}, wakers: wakers{}, hidesWaits: s.hidesWaits()}
	for _, t := range opts.Records {
		w.shown[t] = true
	}
	w.resolver = resolver{file: s.File, frames: s.frames, opts: &w.opts}
	for i := range s.File.Attrs {
		w.resolver.called = append(w.resolver.called, isCalled(s.File, i))
	}
	return w
}

// maxWaiting is how many batches wait for the walk. There are many because the reader must read a complete round of
// records before it can pass any of them on (see format.RoundSorter), which would leave the walk without work.
const maxWaiting = 64

// readBatches sends batches of records.
func (w *walk) readBatches(r *format.Reader, in chan<- *Batch, quit <-chan struct{}) error {
	for {
		b := newBatch()
		var err error
		if w.hidesWaits { // a waker and its wait are in one batch
			b.raws, err = r.Append(b.memory[: 0 : batchSize-1])
			if n := len(b.raws); err == nil && endsWithWaker(w.file, b.raws) {
				b.raws, err = r.Append(b.memory[: n : n+1])
			}
		} else {
			b.raws, err = r.Append(b.memory[:0])
		}
		b.read, b.size = r.Progress()
		if d := w.decoders; d != nil {
			d.offer(b)
			for len(in) == cap(in) && d.help() {
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

func (w *walk) run(in <-chan *Batch) (skipped format.Skipped, err error) {
	for {
		select {
		case <-w.opts.Ticks:
			if err := w.opts.Tick(); err != nil {
				return skipped, err
			}
			w.forget()
		case b, more := <-in:
			if !more {
				w.begin(newBatch())
				w.flush(0)
				return skipped, w.finish()
			}
			read, size := b.read, b.size
			if err := w.runBatch(b, &skipped); err != nil {
				return skipped, err
			}
			if w.session.Progress != nil {
				w.session.Progress(read, size)
			}
		}
	}
}

func (w *walk) runBatch(b *Batch, skipped *format.Skipped) error {
	if w.decoders != nil {
		w.decoders.decoded(b)
	}
	w.begin(b)
	for _, raw := range b.raws {
		if err := w.record(raw); err != nil {
			if w.file.Strict {
				return err
			}
			skipped.Add(err)
		}
	}
	return w.finish()
}

func (w *walk) begin(b *Batch) { w.batch, w.frames.batch = b, &b.frames }

// finish unwinds stack copies and passes the batch to use.
func (w *walk) finish() error {
	b := w.batch
	if len(b.Samples)+len(b.Records) == 0 {
		b.Release()
		return nil
	}
	if !w.opts.LeafOnly {
		w.unwind(b.Samples)
	}
	if w.session.NoNative {
		for i := range b.Samples {
			w.hideNative(&b.Samples[i])
		}
	}
	if w.session.Select != nil {
		b.Keep(w.session.Select)
	}
	if w.hidesWaits {
		w.hideIdleWaits()
	}
	return w.use(b)
}

// record decodes a record and appends a sample to the batch, or applies the record.
func (w *walk) record(raw format.Raw) error {
	if raw.Type != format.TypeSample {
		return w.sideBand(raw)
	}
	if w.decoders != nil {
		if err := w.batch.take(); err != nil {
			w.batch.removeLast()
			return err
		}
		w.place()
		return nil
	}
	s := w.batch.add()
	if err := w.file.Sample(raw, &s.Sample); err != nil {
		w.batch.removeLast()
		return err
	}
	if cookie, ok := cookieOf(&w.file.Attrs[s.Event], s.Callchain); ok {
		w.hold(raw, s.TID, cookie)
		w.batch.removeLast()
		w.flush(maxHeld)
		return nil
	}
	w.deliver()
	return nil
}

// sideBand applies a record, and appends it to the batch if it is selected.
func (w *walk) sideBand(raw format.Raw) error {
	rec, err := w.file.Record(raw)
	if err != nil {
		return err
	}
	if d, ok := rec.(*format.CallchainDeferred); ok {
		w.deferred(d)
	}
	if w.shown[raw.Type] {
		w.batch.Records = append(w.batch.Records, w.show(raw, rec))
	} else {
		w.session.Apply(rec)
	}
	return nil
}

// deliver completes the batch's last sample, which is decoded.
func (w *walk) deliver() {
	if w.batch.last().Read.Len() > 0 {
		w.spread()
	} else {
		w.place()
	}
}

// spread replaces the batch's last sample with one for each counter that advanced.
func (w *walk) spread() {
	s := w.batch.last().Sample
	w.batch.removeLast()
	w.session.Counted(&s, func() {
		w.batch.add().Sample = s
		w.place()
	})
}

// place sets the thread and frames of the batch's last sample, or removes the
// sample if Keep rejects it.
func (w *walk) place() {
	s, m := w.batch.last(), w.machine
	w.session.Samples++
	s.Thread = m.thread(s.PID, s.TID)
	s.Comm, s.Named = s.Thread.Comm, s.Thread.Named
	s.Namespaces, s.Parallelism = s.Thread.namespaces, m.parallelism()
	if s.Sample.Cgroup != 0 {
		cg := m.cgroups[s.Sample.Cgroup]
		s.Cgroup, s.Container = cg.path, cg.container
	}
	a := &w.file.Attrs[s.Event]
	if IsWait(a) {
		s.Waker = w.wakers.take(s)
	}
	keep := w.session.Keep == nil || w.session.Keep(s)
	if keep || IsWaker(a) {
		m.jitUntil(s.Time)
		w.resolver.resolve(s)
	}
	if IsWaker(a) {
		w.wakers.add(s, w.opts.KeepChains)
	}
	if !keep || w.session.NoIdle && w.session.idleCPU(s) {
		w.batch.removeLast()
	}
}

// show applies rec and finds the subject of rec, as process_comm_event and similar functions of perf's
// builtin-script.c do: an exiting thread keeps the name.
func (w *walk) show(raw format.Raw, rec format.Record) Record {
	r := Record{Record: rec, Raw: raw, Before: len(w.batch.Samples)}
	r.ID, r.Event = w.file.RecordID(raw)
	if _, exits := rec.(*format.Exit); exits {
		defer w.session.Apply(rec)
	} else {
		w.session.Apply(rec)
	}
	pid, tid := subject(rec, r.ID)
	if tid != -1 && raw.Type < format.TypeHeaderAttr {
		r.Thread = w.machine.thread(pid, tid)
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

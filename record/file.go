package record

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/output"
	"gperf/record/perfevent"
	"gperf/record/programs"
	"gperf/record/synth"
)

// file is the file that records are written to, one after another when output is switched.
type file struct {
	opts *plan
	set  *perfevent.Set
	out  *output.Output
	sum  *Summary
	// meter measures what the recording takes.
	meter *meter

	tally  perfevent.Tally
	mapped map[string]bool // mapped files, if MMAP2 has no build IDs
	names  containerNames  // with AllCgroups

	described bool      // the synthesized records are written
	data      bool      // other records are written as well
	round     time.Time // time when the last round was closed
	rounds    int       // number of rounds still to be closed for the written records
	hold      bool      // no round is closed, because older records may follow
	// closed are the times of the newest samples when the last two rounds were closed. At the
	// end of a round, readers process the records up to the end of the previous one.
	closed [2]uint64
	// clock is the offset to add to CLOCK_MONOTONIC for the recording's clock, nil if unknown.
	clock *uint64
}

// init sets up the counts, when the attrs are final. wake is called after a failed write in
// the background.
func (f *file) init(o *plan, set *perfevent.Set, sum *Summary, wake func()) {
	f.opts, f.set, f.sum = o, set, sum
	f.out = output.New(output.Options{Path: o.Output.Path, To: o.Output.To, Name: sum.Path,
		Compress: o.Output.Compress, Compressed2: o.Output.Compressed2,
		Timestamp: o.Output.Timestamp || o.Output.Switch.enabled(), MaxFiles: o.Output.Switch.MaxFiles,
		Next: o.Output.NextFile, Checkpoints: o.Output.Checkpoints,
		Wake: wake, Notice: o.notice, Progress: o.progress})
	f.tally.Layout = format.NewSampleLayout(&set.Attrs[0])
	if offset, err := perfevent.ClockOffset(&set.Attrs[0]); err == nil { // otherwise the times of day are unknown
		f.clock = &offset
	}
	if o.Output.Switch.enabled() && !o.Target.byCPU() {
		f.tally.Forked = map[int32]bool{}
	}
	if o.Samples.AllCgroups {
		f.names.read() // those of containers that are removed meanwhile
	}
	if !o.Output.NoBuildID && !kernelBuildIDs(set.Attrs) {
		f.mapped = map[string]bool{}
		f.tally.Mapped = f.mapped
	}
}

// create creates a file, and writes everything that comes before the records.
func (f *file) create() error {
	events := f.set.Events
	if f.opts.Count {
		events = nil // their samples have no fields
	}
	tracepoints, err := described(events)
	if err != nil {
		return err
	}
	o := f.opts
	attrs := f.attrs()
	early, err := synth.EarlySections(&synth.Recording{Version: o.Output.Version, Cmdline: o.Output.Cmdline,
		Events: f.set.Events, Attrs: attrs,
		UseClockID: o.Samples.UseClockID, ClockID: o.Samples.ClockID, ClockOffset: f.clock,
		Tracefs: o.Tracefs, Tracepoints: tracepoints})
	if err != nil {
		return err
	}
	f.described, f.data = false, false
	return f.out.Create(attrs, early)
}

// attrs returns the attrs for the file: there the samples' callchains have their user part,
// from the kernel or from BPF.
func (f *file) attrs() []format.Attr {
	l := slices.Clone(f.set.Attrs)
	for i := range l {
		l[i] = f.set.ForKernel(l[i])
		programs.CountAttrForFile(&l[i])
		if f.opts.Stacks.KernelChain || l[i].SampleType&format.SampleStackUser != 0 ||
			l[i].Flags&format.FlagExcludeCallchainUser == 0 {
			continue
		}
		l[i].Flags &^= format.FlagExcludeCallchainUser
		l[i].SampleMaxStack = cmp.Or(l[i].SampleMaxStack, bpf.MaxFrames)
	}
	return l
}

// write appends complete records.
func (f *file) write(b []byte) error {
	f.data = f.described
	return f.out.Write(b)
}

// commit marks all data written so far as complete, counted records.
func (f *file) commit() {
	f.out.Commit(output.Counts{Samples: f.tally.Samples, First: f.tally.First, Last: f.tally.Last})
}

// full reports whether all files together have reached MaxSize.
func (f *file) full() bool {
	if n := f.sum.Bytes + f.out.Size(); f.opts.Output.MaxSize > 0 && n >= f.opts.Output.MaxSize {
		f.sum.Full = n
		return true
	}
	return false
}

// large reports whether the file has reached the size at which output is switched. The size
// counts only after records other than the synthesized ones were written.
func (f *file) large() bool {
	size := f.opts.Output.Switch.Size
	return size > 0 && f.data && f.out.Size() >= size
}

// finishInit writes PERF_RECORD_FINISHED_INIT: the synthesized records are complete.
func (f *file) finishInit() error {
	if err := f.write(format.AppendMark(nil, format.TypeFinishedInit)); err != nil {
		return err
	}
	f.commit()
	f.described = true
	return nil
}

// roundTime is the minimum duration of a round. Readers sort by rounds: at the end of a round
// they treat all records up to the newest of the previous round as complete. A record may
// reach its ring this much later than its time, because of an interrupt or differing CPU
// clocks, and is still sorted correctly.
const roundTime = 20 * time.Millisecond

var finishedRound = format.AppendMark(nil, format.TypeFinishedRound)

// drained marks the drained records as complete, if there are any, and closes the round if it
// has lasted long enough. Nothing older than the records may be written afterwards, except
// with hold, which keeps the round open.
func (f *file) drained(records, hold bool) error {
	f.commit()
	if records && !f.opts.SideBand.TailSynth { // TailSynth's file is one round: names come at its end
		f.rounds = 1
		if f.opts.pipe() {
			f.rounds = 2 // a reader shows the records of a round at the end of the next
		}
	}
	now := time.Now()
	if f.rounds == 0 || !f.described || hold || f.hold || now.Sub(f.round) < roundTime {
		return nil
	}
	if err := f.write(finishedRound); err != nil {
		return err
	}
	f.commit()
	f.rounds--
	f.round = now
	f.closed = [2]uint64{f.closed[1], f.tally.Last}
	return nil
}

// finish closes the file, and adds its figures to the summary. It returns the file's name if
// that includes a time, "" otherwise.
func (f *file) finish() (name string, err error) {
	done, err := f.out.Finish(f.lateSections)
	f.sum.Bytes += done.Bytes
	f.sum.Samples += done.Counts.Samples
	f.sum.Original += done.Original
	f.sum.Compressed += done.Compressed
	f.tally.NewFile()
	return done.Name, err
}

// lateSections returns the feature sections that are known when a file is finished.
func (f *file) lateSections(c output.Counts) []format.Section {
	f.sum.Cost = f.meter.cost(f.sum.Lost)
	l := []format.Section{format.Uint64Section(format.FeatureSampleTime, c.First, c.Last),
		format.CostSection(f.sum.Cost)}
	if f.opts.Samples.AllCgroups {
		l = append(l, f.names.section())
	}
	if f.mapped != nil {
		l = append(l, synth.BuildIDSection(slices.Sorted(maps.Keys(f.mapped))))
	}
	return l
}

// kernelBuildIDs reports whether the kernel puts build IDs into MMAP2 records.
func kernelBuildIDs(attrs []format.Attr) bool {
	return slices.ContainsFunc(attrs, func(a format.Attr) bool { return a.Flags&format.FlagBuildID != 0 })
}

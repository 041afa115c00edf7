package record

import (
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/record/output"
	"gperf/record/synth"
)

// openOutput creates a file, and writes everything that comes before the records.
func (r *recorder) openOutput() error {
	tracepoints, err := described(r.set.Events)
	if err != nil {
		return err
	}
	attrs := r.fileAttrs()
	early, err := synth.EarlySections(&synth.Recording{Version: r.opts.Version, Cmdline: r.opts.Cmdline, Events: r.set.Events, Attrs: attrs,
		UseClockID: r.opts.UseClockID, ClockID: r.opts.ClockID, Tracefs: r.opts.Tracefs, Tracepoints: tracepoints})
	if err != nil {
		return err
	}
	r.described, r.data = false, false
	return r.out.Create(attrs, early)
}

// write appends complete records to the file.
func (r *recorder) write(b []byte) error {
	r.data = r.described
	return r.out.Write(b)
}

// commit marks all data written so far as complete, counted records.
func (r *recorder) commit() {
	r.out.Commit(output.Counts{Samples: r.tally.Samples, First: r.tally.First, Last: r.tally.Last})
}

// full reports whether all files together have reached MaxSize.
func (r *recorder) full() bool {
	if n := r.sum.Bytes + r.out.Size(); r.opts.MaxSize > 0 && n >= r.opts.MaxSize {
		r.sum.Full = n
		return true
	}
	return false
}

// closeOutput finishes the file, and adds its figures to the summary. It returns the file's
// name if that includes a time, "" otherwise.
func (r *recorder) closeOutput() (name string, err error) {
	done, err := r.out.Finish(r.lateSections)
	r.sum.Bytes += done.Bytes
	r.sum.Samples += done.Counts.Samples
	r.sum.Original += done.Original
	r.sum.Compressed += done.Compressed
	r.tally.NewFile()
	return done.Name, err
}

// lateSections returns the feature sections that are known when a file is finished.
func (r *recorder) lateSections(c output.Counts) []format.Section {
	l := []format.Section{format.Uint64Section(format.FeatureSampleTime, c.First, c.Last)}
	if r.files != nil {
		l = append(l, synth.BuildIDSection(slices.Sorted(maps.Keys(r.files))))
	}
	return l
}

// newSynthesizer returns a Synthesizer that passes its records, except the omitted kinds, to out.
func (r *recorder) newSynthesizer(omit synth.Kinds, out func([]byte) error) *synth.Synthesizer {
	return synth.New(synth.Options{IDSize: r.sideBandIDSize(), Omit: omit, Data: r.opts.DataMmap || r.opts.dumpsStacks(),
		Namespaces: r.opts.Namespaces, BuildIDs: r.kernelBuildIDs(), Files: r.files, Out: out})
}

// describe passes synthesized records of everything that runs, except the omitted kinds, to
// out. It calls between after each process, with the number of processes done.
func (r *recorder) describe(omit synth.Kinds, out func([]byte) error, between func(n, of int) error) error {
	s := r.newSynthesizer(omit, out)
	visible, err := s.Kernel()
	if err != nil {
		return err
	}
	if !visible && r.samplesKernel() && r.out.Files() == 0 {
		r.opts.notice(ErrKernelHidden)
	}
	if r.opts.AllCgroups && omit&synth.Cgroup == 0 {
		if err := s.Cgroups(); err != nil {
			return err
		}
	}
	var pids []int
	if omit&synth.Task == 0 {
		if pids, err = r.running(); err != nil {
			return err
		}
	}
	for i, pid := range pids {
		if err := s.Process(pid); err != nil {
			return err
		}
		if err := between(i+1, len(pids)); err != nil {
			return err
		}
	}
	if r.sum.Command != nil && omit&synth.Task == 0 { // it has exited
		pid, parent := int32(r.command.proc.Pid), int32(os.Getpid())
		s.Thread(format.Fork{PID: pid, TID: pid, PPID: parent, PTID: parent}, r.command.comm())
	}
	if s.Denied() > 0 && r.out.Files() == 0 && !capable(unix.CAP_SYS_PTRACE) {
		r.opts.notice(&MapsHiddenError{s.Denied()})
	}
	return s.Flush(1)
}

// sideBandIDSize returns the size of the sample id at the end of the recorder's own records.
// The id in it is 0, and so readers assign these records to the first event.
func (r *recorder) sideBandIDSize() int { return r.set.Attrs[0].SampleIDSize() }

// synthesize writes the synthesized records, unless they come at the end. BPF needs them in
// any case.
func (r *recorder) synthesize() error {
	out := r.write
	between := func(n, of int) error { r.progress("reading processes", n, of); return nil }
	if r.dwarf != nil {
		idSize := r.sideBandIDSize()
		learn := func(b []byte) error { r.dwarf.synthesized(b, idSize); return nil }
		if r.opts.Omit == 0 && !r.opts.TailSynth {
			out = func(b []byte) error { learn(b); return r.write(b) }
		} else if err := r.describe(0, learn, between); err != nil {
			return err
		}
	}
	if !r.opts.TailSynth {
		if err := r.describe(r.opts.Omit, out, between); err != nil {
			return err
		}
	}
	return r.finishInit()
}

// tail writes the records that come after the drained ones: of rings that are not drained,
// and the synthesized ones. These come last, because synthesizing takes time, during which
// the rings still fill.
func (r *recorder) tail() error {
	if !r.opts.TailSynth {
		return nil
	}
	if r.opts.Overwrite {
		if err := r.overwritten.Flush(time.Now(), r.write); err != nil {
			return err
		}
		r.commit()
	}
	if err := r.describe(r.opts.Omit, r.write, func(int, int) error { return nil }); err != nil {
		return err
	}
	r.commit()
	return nil
}

// finishInit writes PERF_RECORD_FINISHED_INIT: the synthesized records are complete.
func (r *recorder) finishInit() error {
	if err := r.write(format.AppendMark(nil, format.TypeFinishedInit)); err != nil {
		return err
	}
	r.commit()
	r.described = true
	return nil
}

func (r *recorder) samplesKernel() bool {
	return slices.ContainsFunc(r.set.Attrs, func(a format.Attr) bool { return a.Flags&format.FlagExcludeKernel == 0 })
}

// running returns the processes of which the kernel has written no side band.
func (r *recorder) running() ([]int, error) {
	t := &r.opts.Target
	switch {
	case t.byCPU():
		return procfs.Processes()
	case t.ownCommand():
		return r.withForked([]int{r.command.proc.Pid}), nil
	}
	pids := slices.Clone(t.PIDs)
	for _, uid := range t.UIDs {
		pids = append(pids, processesOf(uid)...)
	}
	for _, tid := range t.TIDs {
		if st, err := procfs.StatusOf(tid); err == nil {
			pids = append(pids, st.Tgid)
		}
	}
	return r.withForked(pids), nil
}

// withForked adds the processes that recorded processes have forked, if these are recorded
// too, and returns each pid once.
func (r *recorder) withForked(pids []int) []int {
	for pid := range r.tally.Forked {
		pids = append(pids, int(pid))
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// kernelBuildIDs reports whether the kernel puts build IDs into MMAP2 records.
func (r *recorder) kernelBuildIDs() bool {
	return slices.ContainsFunc(r.set.Attrs, func(a format.Attr) bool { return a.Flags&format.FlagBuildID != 0 })
}

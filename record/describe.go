package record

import (
	"context"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/record/synth"
)

// describer describes the running system, in synthesized records.
type describer struct {
	opts    *plan
	file    *file
	command *command // nil without one
	// kernelScan, if set, is what the first file has of the kernel.
	kernelScan synth.KernelScan
}

// idSize returns the size of the sample id at the end of the recorder's own records. The id in
// it is 0, and so readers assign these records to the first event.
func (d *describer) idSize() int { return d.file.set.Attrs[0].SampleIDSize() }

// synthesizer returns a Synthesizer that passes its records, except the omitted kinds, to out.
func (d *describer) synthesizer(omit synth.Kinds, out func([]byte) error) *synth.Synthesizer {
	side := &d.opts.SideBand
	return synth.New(synth.Options{IDSize: d.idSize(), Omit: omit, Data: side.DataMmap || d.opts.dumpsStacks(),
		Namespaces: side.Namespaces, BuildIDs: kernelBuildIDs(d.file.set.Attrs), Files: d.file.mapped,
		Kernel: d.kernelScan, Out: out})
}

// all passes synthesized records of everything that runs, except the omitted kinds, to out.
func (d *describer) all(omit synth.Kinds, out func([]byte) error) work {
	s := d.synthesizer(omit, out)
	return sequence(once(func() error { return d.kernel(s, omit) }), d.processes(s, omit),
		once(func() error { return s.Flush(1) }))
}

// kernel makes the records that are not of a process.
func (d *describer) kernel(s *synth.Synthesizer, omit synth.Kinds) error {
	visible, err := s.Kernel()
	if err != nil {
		return err
	}
	if !visible && d.samplesKernel() && d.first() {
		d.opts.notice(ErrKernelHidden)
	}
	if d.opts.Samples.AllCgroups && omit&synth.Cgroup == 0 {
		return s.Cgroups()
	}
	return nil
}

// first reports whether the file is the first one.
func (d *describer) first() bool { return d.file.out.Files() == 0 }

// processes makes the records of the recorded processes.
func (d *describer) processes(s *synth.Synthesizer, omit synth.Kinds) work {
	if omit&synth.Task != 0 {
		return nothing
	}
	return func(yield func(error) bool) {
		pids, err := d.running()
		if err != nil {
			yield(err)
			return
		}
		for n, err := range s.Processes(pids) {
			if !yield(err) {
				return
			}
			if d.first() {
				d.opts.progress("reading processes", n, len(pids))
			}
		}
		if d.file.sum.Command != nil { // it has exited
			pid, parent := int32(d.command.proc.Pid), int32(os.Getpid())
			s.Thread(format.Fork{PID: pid, TID: pid, PPID: parent, PTID: parent}, d.command.comm())
		}
		if s.Denied() > 0 && d.first() && !capable(unix.CAP_SYS_PTRACE) {
			d.opts.notice(&MapsHiddenError{s.Denied()})
		}
	}
}

// start writes the synthesized records that come first. Records of processes also go to learn,
// unless it is nil, even if the file has them at its end or not at all. If ctx is done, there will be no samples, and
// nothing more is read for them.
func (d *describer) start(ctx context.Context, learn func(b []byte, idSize int) error) error {
	out := d.file.write
	if learn != nil {
		idSize := d.idSize()
		tee := func(b []byte) error { return learn(b, idSize) }
		if d.opts.SideBand.Omit == 0 && !d.opts.SideBand.TailSynth {
			out = func(b []byte) error { tee(b); return d.file.write(b) }
		} else if err := run(ctx, d.all(0, tee)); err != nil {
			return err
		}
	}
	if !d.opts.SideBand.TailSynth {
		if err := run(ctx, d.all(d.opts.SideBand.Omit, out)); err != nil {
			return err
		}
	}
	d.kernelScan = nil // other files have what is there then
	return d.file.finishInit()
}

// tail writes the synthesized records that come at the end of the file: after the drained
// ones, because synthesizing takes time, during which the rings still fill.
func (d *describer) tail() error {
	if !d.opts.SideBand.TailSynth {
		return nil
	}
	if err := run(context.Background(), d.all(d.opts.SideBand.Omit, d.file.write)); err != nil {
		return err
	}
	d.file.commit()
	return nil
}

func (d *describer) samplesKernel() bool {
	inKernel := func(a format.Attr) bool { return a.Flags&format.FlagExcludeKernel == 0 }
	return slices.ContainsFunc(d.file.set.Attrs, inKernel)
}

// running returns the processes whose side band the kernel has not written.
func (d *describer) running() ([]int, error) {
	t := &d.opts.Target
	switch {
	case t.byCPU():
		return procfs.Processes()
	case t.ownCommand():
		return d.withForked([]int{d.command.proc.Pid}), nil
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
	return d.withForked(pids), nil
}

// withForked adds the processes that recorded processes have forked, if these are recorded
// too, and returns each pid once.
func (d *describer) withForked(pids []int) []int {
	for pid := range d.file.tally.Forked {
		pids = append(pids, int(pid))
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

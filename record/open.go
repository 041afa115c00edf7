package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/programs"
	"gperf/record/synth"
)

// opened holds the sources of a recording: counters, rings, BPF programs, and the target.
type opened struct {
	opts     *plan
	plain    plainEvents
	probes   probeSetup
	set      *perfevent.Set // events and their counters
	cpus     []int          // that are recorded
	rings    []*perfevent.Ring
	pages    int // of each ring
	sleepers sleepers
	programs bpfPrograms
	source   source
	tally    *perfevent.Tally // of the records of source
	trigger  trigger
	poller   *poller
	command  *command // nil without one
	// kernelScan is set if it has begun before there is a file.
	kernelScan synth.KernelScan
	// opening receives the result of open, which still goes on after openUntil has returned. Nil: it has ended.
	opening chan error
}

// endOpening is how long the end of a recording waits for the end of a step of open.
const endOpening = 100 * time.Millisecond

// openUntil opens all until ctx is done. The step that is under way then cannot be ended: the kernel may verify a
// program for seconds where many threads want to run. So the recording ends without it, unless it has probes, which
// would stay in the kernel.
func (r *opened) openUntil(ctx context.Context) error {
	if r.probes.set != nil {
		return r.open(ctx)
	}
	r.opening = make(chan error, 1)
	go func() { r.opening <- r.open(ctx) }()
	patience := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endOpening, func() { close(patience) }) })()
	select {
	case err := <-r.opening:
		r.opening = nil
		return err
	case <-patience:
		return errInterrupted
	}
}

// open performs all steps that can fail before there is a file. If the process may not open
// enough files to walk user stacks, or cannot load the BPF programs for it, it records them in
// another way.
func (r *opened) open(ctx context.Context) error {
	r.newSet()
	if slices.ContainsFunc(r.set.Attrs, func(a format.Attr) bool { return perfevent.Walked(&a) }) {
		done := r.opts.begin("loading BPF programs")
		err := r.programs.loadWalker(r.opts, r.set)
		if done(); err != nil {
			if r.opts.Count {
				return err
			}
			r.recordWithoutWalks(err)
		}
	}
	walks := r.programs.walker != nil && !r.opts.Count
	if !r.loadsMore() {
		r.scanKernel()
	}
	err := r.prepare(ctx)
	if err == nil && walks {
		err = spareFiles()
	}
	if why := r.plain.restore(r.opts.Events, err); why != nil {
		r.opts.notice(why)
		r.closeAll()
		return r.open(ctx)
	}
	if walks && noFiles(err) {
		r.closeAll()
		r.recordWithoutWalks(err)
		err = r.prepare(ctx)
	}
	return err
}

// loadsMore reports whether prepare loads BPF programs.
func (r *opened) loadsMore() bool {
	return r.opts.Count || slices.ContainsFunc(r.set.Events, func(ev event.Event) bool { return ev.BPFSampled() })
}

// scanKernel begins to read what the file has of the kernel, while the rest is opened. All BPF programs must be loaded.
// For CPUs and processes, it is read only when the side band is on, which has the code that comes later.
func (r *opened) scanKernel() {
	if r.opts.Target.ownCommand() && r.kernelScan == nil {
		r.kernelScan = synth.ScanKernel()
	}
}

// ErrNoClock: no event supports Options.NoIdle.
var ErrNoClock = errors.New("the kernel leaves out idle tasks only of cpu-clock and task-clock, and none is recorded")

// checkIdle warns if NoIdle has no effect. Counters of a PMU ignore or refuse the flag of the kernel,
// and mostly stand still while a CPU is idle.
func (r *opened) checkIdle() {
	if r.opts.NoIdle && !slices.ContainsFunc(r.set.Attrs, func(a format.Attr) bool { return a.IsClock() }) {
		r.opts.notice(ErrNoClock)
	}
}

// checkChildren warns if events cannot count the programs and threads that the target starts.
func (r *opened) checkChildren() {
	var childless []string
	for i := range r.set.Events {
		ev, a := &r.set.Events[i], &r.set.Attrs[i]
		if a.SampleType&format.SampleRead != 0 && r.opts.commonAttr(ev).Flags&^a.Flags&format.FlagInherit != 0 {
			childless = append(childless, ev.Name)
		}
	}
	if childless != nil {
		r.opts.notice(&ChildlessError{childless})
	}
}

// newSet begins a set of counters.
func (r *opened) newSet() {
	r.set = &perfevent.Set{Config: r.opts.counterConfig()}
	r.set.Events, r.set.Attrs = r.opts.attrs()
}

// recordWithoutWalks configures the recording for user stacks that are not unwound in the
// kernel.
func (r *opened) recordWithoutWalks(why error) {
	r.opts.instead = instead(why)
	r.opts.notice(r.opts.instead)
	r.newSet()
}

// closeAll closes everything that prepare opened, so that prepare can run again.
func (r *opened) closeAll() {
	r.programs.close()
	r.unmapRings()
	r.trigger.close()
	r.set.Close()
	r.poller.close()
}

func (r *opened) unmapRings() {
	perfevent.Unmap(r.rings)
	r.rings = nil
}

// prepare opens the counters, maps their rings and attaches the BPF programs, in this order:
//   - The waiting command starts first, because counters are opened for its process.
//   - It is paused while programs are attached to the counters one by one: threads that Go
//     starts in it inherit counters as they are at that moment.
//   - The ids are known once the counters are open. Programs for threads and the merging of
//     their output need them.
//   - Rings come after all counters, because a ring belongs to the first counter of its CPU.
//   - The programs' output goes to the rings, so these exist before it. The programs do nothing
//     yet: with samples but no drain, a ring would fill.
func (r *opened) prepare(ctx context.Context) (err error) {
	r.set.Opening = func(n int) error { return r.opts.step(ctx, "opening events", n, len(r.set.Events)) }
	t := &r.opts.Target
	if r.cpus, r.set.SideBandCPUs, err = t.cpus(); err != nil {
		return err
	}
	threads, err := r.startTarget()
	if err != nil {
		return err
	}
	if r.command != nil && (r.programs.walker != nil || r.opts.Count) {
		if err := r.command.pause(); err != nil {
			return err
		}
		defer r.command.resume()
	}
	if r.opts.Count {
		if err := r.programs.loadCounts(r.opts, r.set, r.cpus, threads); err != nil {
			return err
		}
	}
	if threads, err = r.openCounters(threads); err != nil {
		return err
	}
	logCounters(r.opts, r.set, len(r.cpus))
	if err := r.set.ReadIDs(programs.IDOf); err != nil {
		return err
	}
	if err := r.openRings(); err != nil {
		return err
	}
	if err := r.trigger.open(r.opts, r.cpus, r.set.SideBandCPUs, threads, r.poller); err != nil {
		return err
	}
	if r.source, err = r.programs.attach(r); err != nil {
		return err
	}
	r.scanKernel()
	if r.command != nil {
		r.programs.prepare(r.command.path)
	}
	if r.programs.offcpu != nil && t.byTask() {
		r.sleepers = findSleepers(threads)
	}
	return nil
}

// openTries limits how often the counters of a target that starts threads all the time are opened.
const openTries = 4

// openCounters opens the counters, and returns the threads that have some. A thread that starts meanwhile inherits all
// of them, some or none: then it opens all again, for that thread too. Programs that count have space for the first
// threads only.
func (r *opened) openCounters(threads []int) ([]int, error) {
	for try := 1; ; try++ {
		if err := r.set.Open(r.cpus, threads); err != nil {
			return nil, err
		}
		started := r.opts.Target.startedSince(threads)
		if len(started) == 0 {
			return threads, nil
		}
		if try == openTries || r.opts.Count {
			r.opts.notice(&StartedError{len(started)})
			return threads, nil
		}
		r.set.Close()
		r.set.Counters = nil
		threads = append(threads, started...)
	}
}

// startTarget starts the waiting command, if there is one, and returns the threads that
// counters are opened for.
func (r *opened) startTarget() ([]int, error) {
	t := &r.opts.Target
	threads, err := t.threads()
	if err != nil {
		return nil, err
	}
	if len(t.Command) > 0 && r.command == nil {
		if r.command, err = startCommand(t.Command, r.opts.pipe()); err != nil {
			return nil, err
		}
	}
	switch {
	case t.ownCommand():
		threads = []int{r.command.proc.Pid}
	case r.command != nil && slices.Contains(t.UIDs, os.Geteuid()): // the command is one of the user's processes
		threads = append(threads, r.command.proc.Pid)
	}
	return threads, nil
}

// openRings maps the rings, and makes the poller wait for them. Copies of stacks and spans come
// in bursts: rings are larger where there are any.
func (r *opened) openRings() (err error) {
	wide := (r.programs.walker != nil || hasSpans(r.opts.Events)) && len(r.cpus) <= 32
	if r.rings, r.pages, err = mapRings(r.opts, r.set, wide); err != nil {
		return err
	}
	r.opts.warnSwitchSize(r.rings[0].Size())
	if err := r.poller.open(); err != nil {
		return err
	}
	return watchRings(r.poller, r.set, r.rings, r.opts.Overwrite)
}

// spareFiles fails with EMFILE if a recording cannot open the files that it needs after the
// events are open: the output, and for a moment each, files in /proc and programs.
func spareFiles() error {
	for range 12 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening the output: %w", err)
		}
		defer unix.Close(fd)
	}
	return nil
}

// counterConfig returns how counters are opened.
func (o *plan) counterConfig() perfevent.Config {
	return perfevent.Config{SystemWide: o.Target.byCPU(), KernelChain: o.Stacks.KernelChain, NoIdle: o.NoIdle,
		Tracefs: o.Tracefs, Notice: o.notice}
}

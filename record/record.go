package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/output"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/synth"
	"gperf/record/tracefs"
)

// Run records until ctx is done, the command has exited, or the recorded threads have. Once
// there is a file, it returns a summary, also with an error: the file is then readable as far
// as the summary says.
func Run(ctx context.Context, opts *Options) (*Summary, error) {
	o := *opts
	if o.Output == "" {
		o.Output = "perf.data"
	}
	if o.Tracefs == nil {
		o.Tracefs = new(tracefs.FS)
	}
	o.TailSynth = o.TailSynth || o.Overwrite
	o.capFreq()
	if o.Output == output.Pipe && o.Switch.enabled() {
		return nil, errors.New("output to a pipe cannot be switched to another file")
	}
	if o.Kcore && (o.Output == output.Pipe || o.Switch.enabled()) {
		return nil, errors.New("the kernel's code is copied into a directory: output to a pipe or switched output is not possible")
	}
	r := &recorder{opts: &o, set: new(perfevent.Set), epoll: -1, wake: -1, requests: make(chan request, 16)}
	r.sum.Path = o.Output
	defer r.release()
	o.tellLeftovers()
	if err := r.addProbes(ctx, &o); err != nil {
		return nil, err
	}
	r.newSet()
	if slices.ContainsFunc(r.set.Attrs, func(a format.Attr) bool { return perfevent.Walked(&a) }) {
		var err error
		if r.dwarf, err = newDWARF(&o, r.set.Events, r.set.Attrs); err != nil {
			r.doWithoutWalks(err)
		} else {
			r.set.Opened = r.dwarf.opened
		}
	}
	err := r.prepare(ctx)
	if err == nil && r.dwarf != nil {
		err = spareFiles()
	}
	if r.dwarf != nil && (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) {
		r.closeAll()
		r.doWithoutWalks(err)
		err = r.prepare(ctx)
	}
	if err != nil {
		return nil, err
	}
	if o.Realtime != 0 {
		if err := realtime(o.Realtime); err != nil {
			return nil, err
		}
	}
	if o.Kcore {
		if err := makeDir(o.Output); err != nil {
			return nil, err
		}
		o.Output = filepath.Join(o.Output, format.DirData)
	}
	r.out = output.New(output.Options{Path: o.Output, Compress: o.Compress, Compressed2: o.Compressed2,
		Timestamp: o.Timestamp || o.Switch.enabled(), MaxFiles: o.Switch.MaxFiles, Wake: r.signal, Notice: o.notice, Progress: r.progress})
	err = r.begin()
	if err == nil {
		err = r.record(ctx)
	}
	err = r.end(err)
	if r.out.Files() == 0 {
		return nil, err
	}
	return &r.sum, err
}

// recorder is one recording.
type recorder struct {
	opts        *Options
	set         *perfevent.Set // events and their counters
	cpus        []int
	command     *command // nil without one
	exited      chan *os.ProcessState
	rings       []*perfevent.Ring // of the CPUs
	out         *output.Output
	described   bool // the synthesized records are in the file
	data        bool // other records are in the file as well
	tally       perfevent.Tally
	raw         *perfevent.Source
	overwritten *perfevent.Overwritten
	probes      *probe.Set
	// functions are the entry addresses of the probed functions at which BPF programs run.
	functions map[*probe.Probe]uint64
	joiners   []*joiner // by ring, with dwarf or emit
	dwarf     *dwarf    // nil without
	emit      *emitter  // nil without
	round     time.Time // time when the last round was closed
	rounds    int       // number of rounds still to be closed for the written records
	switching
	rereading rereading
	trigger   trigger
	files     map[string]bool // mapped files, if MMAP2 has no build IDs
	epoll     int
	wake      int          // eventfd: wakes the loop for other reasons than rings
	polled    int          // counters in epoll
	requests  chan request // the loop runs them between drains
	closer    *os.Process  // closes the counters after the recorder has exited; nil: the recorder closes them
	sum       Summary
}

// pipe reports whether the output is standard output.
func (o *Options) pipe() bool { return o.Output == output.Pipe }

// makeDir creates the directory of a recording, with a copy of the kernel's code.
func makeDir(path string) error {
	kcore, err := synth.OpenKcore()
	if err != nil {
		return err
	}
	defer kcore.Close()
	if err := output.MakeDir(path); err != nil {
		return err
	}
	return synth.CopyKernel(filepath.Join(path, format.DirKcore), kcore)
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

// doWithoutWalks configures the recording for user stacks that are not unwound in the kernel.
func (r *recorder) doWithoutWalks(why error) {
	r.opts.instead = instead(why)
	r.opts.notice(r.opts.instead)
	r.newSet()
}

// newSet begins a set of counters.
func (r *recorder) newSet() {
	r.set = &perfevent.Set{Config: r.opts.counterConfig()}
	r.set.Events, r.set.Attrs = r.opts.attrs()
}

// counterConfig returns how counters are opened.
func (o *Options) counterConfig() perfevent.Config {
	return perfevent.Config{SystemWide: o.Target.byCPU(), KernelChain: o.KernelChain, Tracefs: o.Tracefs, Notice: o.notice}
}

// closeAll closes everything that prepare opened, so that prepare can run again.
func (r *recorder) closeAll() {
	if r.emit != nil {
		r.emit.close()
		r.emit = nil
	}
	r.dwarf.close()
	r.dwarf, r.joiners = nil, nil
	r.unmapRings()
	r.trigger.close()
	r.trigger = trigger{}
	r.set.Close()
	for _, fd := range []*int{&r.epoll, &r.wake} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
	r.polled = 0
}

// prepare performs all steps that can fail before there is a file: it starts the waiting
// command, opens the counters and maps their rings.
func (r *recorder) prepare(ctx context.Context) (err error) {
	r.set.Opening = func(n int) error { return r.step(ctx, "opening events", n, len(r.set.Events)) }
	t := &r.opts.Target
	if r.cpus, r.set.SideBandCPUs, err = t.cpus(); err != nil {
		return err
	}
	threads, err := t.threads()
	if err != nil {
		return err
	}
	if len(t.Command) > 0 && r.command == nil {
		if err := r.startCommand(t.Command); err != nil {
			return err
		}
	}
	switch {
	case t.ownCommand():
		threads = []int{r.command.proc.Pid}
	case r.command != nil && slices.Contains(t.UIDs, os.Geteuid()): // the command is one of the user's processes
		threads = append(threads, r.command.proc.Pid)
	}
	if r.command != nil && r.dwarf != nil {
		if err := r.command.pause(); err != nil {
			return err
		}
		defer r.command.resume()
	}
	if err := r.set.Open(r.cpus, threads); err != nil {
		return err
	}
	r.tellOpened()
	if err := r.set.ReadIDs(func(ev *event.Event) uint64 { return emittedID(ev.Config) }); err != nil {
		return err
	}
	if err := r.mapRings(); err != nil {
		return err
	}
	r.raw, r.overwritten = perfevent.NewSource(r.rings, &r.tally), perfevent.NewOverwritten(r.rings, &r.tally)
	if err := r.watch(); err != nil {
		return err
	}
	if err := r.openTrigger(threads); err != nil {
		return err
	}
	if r.dwarf != nil || slices.ContainsFunc(r.set.Events, func(ev event.Event) bool { return ev.BPFSampled() }) {
		r.newJoiners()
	}
	if r.dwarf != nil {
		if err := r.dwarf.attach(r); err != nil {
			return err
		}
	}
	return r.newEmitter()
}

func (r *recorder) tellOpened() {
	if r.opts.Verbose == nil {
		return
	}
	for i, a := range r.set.Attrs {
		r.opts.Verbose(fmt.Sprintf("event %d: %s, type %d, config %#x, sample type %#x, period or frequency %d, flags %#x",
			i, a.Name, a.Type, a.Config, a.SampleType, a.SamplePeriod, a.Flags))
	}
	for _, name := range r.set.Missing() {
		r.opts.Verbose("this kernel does not know " + name)
	}
	r.opts.Verbose(fmt.Sprintf("%d counters on %d CPUs", len(r.set.Counters), len(r.cpus)))
}

func (r *recorder) startCommand(argv []string) error {
	names := eventNames(r.set.Events[:max(1, len(r.opts.Events))])
	path, err := findCommand(argv, names)
	if err != nil {
		return err
	}
	stdout := os.Stdout
	if r.opts.pipe() {
		stdout = os.Stderr // as in perf: the pipe gets the recording only
	}
	r.command, err = startCommand(path, argv, names, stdout)
	return err
}

// begin creates the file and writes everything that comes before the kernel's first record.
func (r *recorder) begin() error {
	r.tally.Layout = format.NewSampleLayout(&r.set.Attrs[0])
	if r.opts.Switch.enabled() && !r.opts.Target.byCPU() {
		r.tally.Forked = map[int32]bool{}
	}
	if !r.opts.NoBuildID && !r.kernelBuildIDs() {
		r.files = map[string]bool{}
		r.tally.Mapped = r.files
	}
	if err := r.openOutput(); err != nil {
		return err
	}
	return r.synthesize()
}

// record starts the counters and the command, and moves records until the recording is to
// stop.
func (r *recorder) record(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.signal)()
	if r.opts.Delay == 0 {
		if err := r.enablePrograms(true); err != nil {
			return err
		}
		if !r.opts.Target.ownCommand() {
			if err := r.enable(true); err != nil {
				return err
			}
		}
	}
	if r.command != nil {
		if err := r.command.exec(); err != nil {
			return err
		}
		r.exited = make(chan *os.ProcessState, 1)
		go func() {
			st, _ := r.command.proc.Wait()
			r.exited <- st
			r.signal()
		}()
	}
	if r.opts.Delay != 0 {
		r.opts.say("Events disabled")
	}
	loop, ended := context.WithCancel(ctx)
	defer ended()
	r.schedule(loop)
	r.listen(loop)
	r.followCPUs(loop)
	defer r.startSwitching()()
	for {
		n, err := r.drain()
		if err != nil {
			return err
		}
		if r.full() {
			return nil
		}
		if err := r.reread(false); err != nil {
			return err
		}
		if r.switchDue() {
			if err := r.switchOutput(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case r.sum.Command = <-r.exited:
			r.exited = nil
			return nil
		case do := <-r.requests:
			if end, err := do(); end || err != nil {
				return err
			}
		default:
		}
		if n > r.busy() {
			continue // the rings fill as fast as they are drained
		}
		if gone, err := r.wait(); gone || err != nil {
			return err
		}
	}
}

// busy is the number of drained bytes from which the next drain follows immediately. It is
// not 0: if system calls are recorded, each drain causes records itself.
func (r *recorder) busy() int { return r.rings[0].Size() / 16 }

// roundTime is the minimum duration of a round. Readers sort by rounds: at the end of a round
// they treat all records up to the newest of the previous round as complete. A record may
// reach its ring this much later than its time, because of an interrupt or differing CPU
// clocks, and is still sorted correctly.
const roundTime = 20 * time.Millisecond

// drain moves the rings' records to the file, and closes the round if it has lasted long
// enough.
func (r *recorder) drain() (total int, err error) {
	switch {
	case r.opts.Overwrite: // the rings are read by snapshot
	case r.dwarf != nil:
		if total, err = r.dwarf.drain(r.write); err != nil {
			return total, err
		}
		r.commit()
	case r.emit != nil:
		if total, err = r.emit.drain(r.joiners, r.write); err != nil {
			return total, err
		}
		r.commit()
	default:
		if total, err = r.raw.Drain(r.write); err != nil {
			return total, err
		}
		r.commit()
	}
	if total > 0 && !r.opts.TailSynth { // TailSynth's file is one round: names come at its end
		r.rounds = 1
		if r.opts.pipe() {
			r.rounds = 2 // a reader shows the records of a round at the end of the next
		}
	}
	if now := time.Now(); r.rounds > 0 && r.described && now.Sub(r.round) >= roundTime && !r.holds() && !r.rereading.running {
		if err = r.write(finishedRound); err != nil {
			return total, err
		}
		r.commit()
		r.rounds--
		r.round = now
		r.rereading.closed = [2]uint64{r.rereading.closed[1], r.tally.Last}
	}
	return total, err
}

var finishedRound = format.AppendMark(nil, format.TypeFinishedRound)

// Interval in ms at which rings that are not half full are emptied, so that the file is never
// far out of date; the reader of a pipe may be interactive.
const (
	idleFlush     = 1000
	idleFlushPipe = 200
)

// wait waits until there is something to do. It reports whether the last of the threads has
// exited.
func (r *recorder) wait() (gone bool, err error) {
	var events [64]unix.EpollEvent
	idle := idleFlush
	if r.opts.pipe() {
		idle = idleFlushPipe
	}
	n, err := unix.EpollWait(r.epoll, events[:], idle)
	if err != nil && err != unix.EINTR {
		return false, err
	}
	for _, e := range events[:max(n, 0)] {
		switch {
		case int(e.Fd) == r.wake:
			var b [8]byte
			unix.Read(r.wake, b[:])
		case r.trigger.ring(int(e.Fd)) != nil:
			r.triggered(r.trigger.ring(int(e.Fd)), e.Events)
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
			unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
			r.polled--
		default:
			r.sum.Wakeups++
		}
	}
	return r.polled == 0 && !r.opts.Target.byCPU(), nil
}

// signal ends a wait.
func (r *recorder) signal() {
	unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// enable starts or stops all counters. For hundreds of events this takes long enough to fill
// the rings of the first ones: it drains them meanwhile.
func (r *recorder) enable(on bool) error {
	for i := range r.set.Counters {
		if err := r.set.Enable(&r.set.Counters[i], on); err != nil {
			return err
		}
		if i%64 == 63 && r.out.IsOpen() {
			if _, err := r.drain(); err != nil {
				return err
			}
			r.progress("switching counters", i, len(r.set.Counters))
		}
	}
	return nil
}

// enablePrograms starts or stops the BPF programs: those at tracepoints and probes run
// whether or not a counter is enabled. In a recording of threads, programs that make samples
// also need an enabled counter.
func (r *recorder) enablePrograms(on bool) error {
	switch {
	case r.emit != nil && r.opts.NoSamples:
		return nil
	case r.emit != nil:
		return r.emit.bpf.Enable(on)
	case r.dwarf != nil:
		return r.dwarf.bpf.Enable(on)
	}
	return nil
}

// end stops the counters, writes the remaining records, finishes the file, and waits for the
// command. cause is the error, if any, that ended the recording early: the file is then
// finished as far as possible.
func (r *recorder) end(cause error) error {
	err := cause
	r.leaveToCloser()
	if r.out.IsOpen() {
		if cause == nil {
			err = r.stop()
		}
		name, e := r.closeOutput()
		if err == nil {
			err = e
		}
		if r.sum.Dumped = name; name != "" {
			r.out.DropOldest(name)
		}
	}
	if r.exited != nil {
		r.command.proc.Signal(unix.SIGTERM)
		select {
		case r.sum.Command = <-r.exited:
		case <-r.opts.Hurry:
		}
	}
	return err
}

// hurried reports whether the caller has closed Hurry.
func (r *recorder) hurried() bool {
	select {
	case <-r.opts.Hurry:
		return true
	default:
		return false
	}
}

// stop stops the counters and then the programs, and writes their remaining records and their
// counts of lost records. Once they are stopped, the rings get no more records, so one drain
// is enough. With running counters, the drains themselves could cause records, and draining
// until the rings are empty would never end.
func (r *recorder) stop() error {
	if err := r.enable(false); err != nil {
		return err
	}
	if err := r.enablePrograms(false); err != nil {
		return err
	}
	if _, err := r.drain(); err != nil {
		return err
	}
	if err := r.reread(true); err != nil {
		return err
	}
	if err := r.settle(time.Now()); err != nil {
		return err
	}
	if err := r.tail(); err != nil {
		return err
	}
	if r.dwarf != nil {
		r.dwarf.finish()
		r.sum.Unwind = &r.dwarf.sum
	}
	if r.emit != nil {
		st := r.emit.bpf.Stats()
		r.sum.Missed = st.Missed
		if st.Runs > 0 && r.opts.Verbose != nil {
			r.opts.Verbose(ran("sampling ", st))
		}
	}
	return r.writeLost()
}

// settle writes the samples of before a time that still wait for unwind tables.
func (r *recorder) settle(before time.Time) error {
	if r.dwarf == nil {
		return nil
	}
	of := len(r.dwarf.held)
	for r.dwarf.holdsBefore(before) && !r.hurried() {
		time.Sleep(time.Millisecond)
		if _, err := r.dwarf.drain(r.write); err != nil {
			return err
		}
		r.progress("unwinding held samples", of-len(r.dwarf.held), of)
	}
	r.commit()
	return nil
}

// writeLost writes the losses since its last call.
func (r *recorder) writeLost() error {
	b, err := r.lostRecords(nil)
	if err != nil || len(b) == 0 {
		return err
	}
	err = r.write(b)
	if err == nil {
		r.commit()
	}
	return err
}

// release frees the recording's resources.
func (r *recorder) release() {
	r.leaveToCloser()
	if r.command != nil {
		r.command.close()
	}
	if r.emit != nil {
		r.emit.close()
	}
	if r.dwarf != nil {
		r.dwarf.close()
	}
	r.unmapRings()
	r.trigger.close()
	if r.probes != nil { // probes cannot be removed while counters are open
		r.removeProbes()
	} else {
		go r.set.Close() // the process's exit does the same
	}
	for _, fd := range []int{r.epoll, r.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

package record

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/output"
	"gperf/record/perfevent"
	"gperf/record/synth"
	"gperf/record/tracefs"
)

// Run records until ctx is done, the command has exited, or the recorded threads have. Once
// there is a file, it returns a summary, also with an error: the file is then readable as far
// as the summary says.
func Run(ctx context.Context, opts *Options) (*Summary, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errBigEndian
	}
	o := plan{Options: *opts}
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := newRecorder(&o)
	defer LowerNice()()
	defer r.release()
	o.warnLeftovers()
	if err := addFollowed(&o); err != nil {
		return nil, err
	}
	var err error
	if r.plain, err = addPackets(&o); err != nil {
		return nil, err
	}
	omitDrops(&o)
	if err := r.probes.add(ctx, &o); err != nil {
		return nil, err
	}
	if err := r.openUntil(ctx); err != nil {
		return nil, err
	}
	defer r.hurryToCloser()()
	r.checkIdle()
	r.checkChildren()
	if o.Realtime != 0 {
		if err := setRealtime(o.Realtime); err != nil {
			return nil, err
		}
	}
	if o.Output.Kcore {
		done := o.begin("copying the kernel's code")
		err := makeDir(o.Output.Path)
		if done(); err != nil {
			return nil, err
		}
		o.Output.Path = filepath.Join(o.Output.Path, format.DirData)
	}
	err = r.begin(ctx)
	switch {
	case err != nil:
	case ctx.Err() != nil:
		r.sum.Early, r.sleepers = true, sleepers{} // their waits are not recorded either
	default:
		err = r.record(ctx)
	}
	err = r.end(err)
	if r.file.out.Files() == 0 {
		return nil, err
	}
	return &r.sum, err
}

// complete sets defaults, and checks that the options go together.
func (o *plan) complete() error {
	o.Output.Path = cmp.Or(o.Output.Path, "perf.data")
	if o.Tracefs == nil {
		o.Tracefs = new(tracefs.FS)
	}
	o.SideBand.TailSynth = o.SideBand.TailSynth || o.Overwrite
	o.Target.All = o.Target.All || o.Follow != nil
	o.capFreq()
	setSpanClock(o)
	if err := checkCount(o); err != nil {
		return err
	}
	if err := o.findCgroups(); err != nil {
		return err
	}
	if o.pipe() && o.Output.Switch.enabled() {
		return errors.New("output to a pipe cannot be switched to another file")
	}
	if o.Output.Kcore && (o.pipe() || o.Output.Switch.enabled()) {
		return errors.New("the kernel's code is copied into a directory: " +
			"output to a pipe or switched output is not possible")
	}
	return nil
}

// pipe reports whether the output is standard output.
func (o *plan) pipe() bool { return o.Output.Path == output.Pipe }

// recorder conducts one recording: it opens the events, drains their samples into the file
// until the recording is to end, and closes everything. Its parts know each other, but not the
// recorder.
type recorder struct {
	opened
	file      file
	describer describer
	losses    losses
	rereader  rereader
	enabler   enabler
	control   controller
	switcher  switcher
	successor successor
	copies    copies
	governor  governor
	meter     meter
	reporter  reporter
	began     time.Time // when the command began; zero without one
	exited    chan *os.ProcessState
	closer    closer
	// unrecorded are the CPUs that came online and are not recorded, which was reported.
	unrecorded map[int]bool
	sum        Summary
}

func newRecorder(o *plan) *recorder {
	r := &recorder{opened: opened{opts: o, set: new(perfevent.Set), poller: newPoller()}}
	r.tally = &r.file.tally
	r.sum.Path = o.Output.Path
	r.probes.opts = o
	r.governor.used = cpuTime()
	if o.MaxCPU > 0 {
		o.affords = r.governor.affordsTable
	}
	return r
}

// begin connects the parts of the recorder, creates the file, and writes everything that comes
// before the kernel's first record.
func (r *recorder) begin(ctx context.Context) error {
	o, signal := r.opts, r.poller.signal
	r.sum.Pages = r.pages
	r.file.init(o, r.set, &r.sum, signal)
	r.meter = meter{opts: o}
	r.file.meter = &r.meter
	r.describer = describer{opts: o, file: &r.file, command: r.command, kernelScan: r.kernelScan}
	r.losses = losses{file: &r.file, programs: &r.programs}
	r.rereader = rereader{opts: o, file: &r.file, describe: &r.describer, losses: &r.losses,
		successor: &r.successor}
	r.enabler = newEnabler(o, r.set, &r.programs)
	r.control = controller{opts: o, file: &r.file, enabler: &r.enabler, requests: make(chan request, 16),
		signal: signal}
	r.switcher.opts, r.switcher.signal = o, signal
	r.successor = successor{opts: o, file: &r.file, describe: &r.describer}
	r.governor = governor{opts: o, set: r.set, used: r.governor.used}
	if err := r.file.create(); err != nil {
		return err
	}
	if err := r.enabler.track(); err != nil { // before /proc is read
		return err
	}
	if r.programs.walker == nil {
		r.copies.follow(&r.file, r.describer.idSize())
		return r.successor.first(ctx, nil)
	}
	return r.successor.first(ctx, r.programs.learn)
}

// record starts the counters and the command, and moves records until the recording is to
// stop.
func (r *recorder) record(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.poller.signal)()
	r.reporter = reporter{opts: r.opts, file: &r.file, command: r.command}
	r.reporter.begin() // before the command may write
	if err := r.start(); err != nil {
		return err
	}
	loop, ended := context.WithCancel(ctx)
	defer ended()
	r.control.schedule(loop)
	r.control.listen(loop)
	r.followCPUs(loop)
	r.followSnapshots(loop)
	defer r.switcher.start()()
	r.governor.start()
	r.meter.begin()
	defer time.AfterFunc(settleTime, settle).Stop()
	for {
		n, err := r.drain()
		if err != nil {
			return err
		}
		if r.file.full() {
			return nil
		}
		if err := r.do(r.rereader.check(false)); err != nil {
			return err
		}
		if r.switcher.due.Swap(false) || r.file.large() {
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
		case asked := <-r.control.requests:
			w, end := asked()
			if err := r.do(w); end || err != nil {
				return err
			}
		default:
		}
		if err := r.govern(); err != nil {
			return err
		}
		r.reporter.check()
		if n > r.busy() {
			continue // the rings fill as fast as they are drained
		}
		if err := r.file.out.Checkpoint(); err != nil {
			return err
		}
		if exited, err := r.wait(); exited || err != nil {
			if st := awaitExit(r.exited); st != nil {
				r.sum.Command, r.exited = st, nil
			}
			return err
		}
	}
}

// awaitExit returns the state of the command, whose threads have exited, once it has ended: programs
// count the spans of its last thread only then. It returns nil after a second: then it has threads
// that are not recorded.
func awaitExit(exited <-chan *os.ProcessState) *os.ProcessState {
	if exited == nil { // there is no command
		return nil
	}
	select {
	case st := <-exited:
		return st
	case <-time.After(time.Second):
		return nil
	}
}

// start starts the counters and the command.
func (r *recorder) start() error {
	if r.command != nil {
		r.programs.awaitPrepared()
	}
	if err := r.do(r.enabler.start()); err != nil {
		return err
	}
	if r.command != nil {
		if err := r.command.exec(); err != nil {
			return err
		}
		r.began = time.Now()
		r.exited = make(chan *os.ProcessState, 1)
		go func() {
			st, _ := r.command.proc.Wait()
			r.exited <- st
			r.poller.signal()
		}()
	}
	if r.opts.Delay != 0 {
		r.opts.say("Events disabled")
	}
	return nil
}

// govern applies the governor's decision.
func (r *recorder) govern() error {
	switch r.governor.check() {
	case pause:
		return r.do(r.enabler.pause(true))
	case resume:
		if err := r.do(r.enabler.pause(false)); err != nil {
			return err
		}
		r.programs.forget() // no side band was recorded
		r.successor.lost()
		return r.do(r.rereader.afterPause())
	}
	return nil
}

// busy is the number of drained bytes from which the next drain follows immediately. It is
// not 0: if system calls are recorded, each drain causes records itself.
func (r *recorder) busy() int { return r.rings[0].Size() / 16 }

// drain moves the rings' records to the file.
func (r *recorder) drain() (total int, err error) {
	newest := r.file.tally.Last
	if total, err = r.source.Drain(r.governor.weighing(r.file.write)); err != nil {
		return total, err
	}
	if err := r.copies.write(newest); err != nil {
		return total, err
	}
	r.successor.drained()
	return total, r.file.drained(total > 0, r.source.Pending() > 0 || r.programs.keepSamples())
}

// flush writes the samples that wait to be written.
func (r *recorder) flush() error {
	if err := r.source.Flush(time.Now(), r.file.write); err != nil {
		return err
	}
	r.file.commit()
	return nil
}

// end stops the counters, writes the remaining records, finishes the file, and waits for the
// command. cause is the error, if any, that ended the recording early: the file is then
// finished as far as possible.
func (r *recorder) end(cause error) error {
	err := cause
	defer r.opts.begin("finishing the recording")()
	r.leaveToCloser()
	if r.file.out.IsOpen() {
		if cause == nil {
			err = r.stop()
		}
		name, e := r.file.finish()
		err = cmp.Or(err, e)
		r.programs.keepNames(&r.sum, r.opts.notice)
		if r.sum.Dumped = name; name != "" {
			r.file.out.DropOldest(name)
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

// stop stops the counters and then the programs, and writes their remaining records and their
// counts of lost records. Once they are stopped, the rings get no more records, so one drain
// is enough. With running counters, the drains themselves could cause records, and draining
// until the rings are empty would never end.
func (r *recorder) stop() error {
	asleep := r.sleepers.remaining()
	if err := r.do(r.enabler.pause(true)); err != nil {
		return err
	}
	if _, err := r.drain(); err != nil {
		return err
	}
	if r.sum.Slept = uint64(len(asleep)); len(asleep) > 0 {
		n, err := r.programs.offcpu.Asleep(asleep, r.sleepers.since)
		if err != nil {
			r.opts.verbose("the threads that sleep: " + err.Error())
		}
		r.sum.SleptUnknown = r.sum.Slept - uint64(n)
	}
	if err := r.do(step(r.programs.all.Finish)); err != nil {
		return err
	}
	if err := r.do(r.rereader.check(true)); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.describer.tail(); err != nil {
		return err
	}
	r.programs.summarize(&r.sum, r.opts.verbose, r.opts.notice)
	r.probes.summarize(&r.sum.Summary, r.set.Events)
	r.sum.Throttled = r.losses.throttled()
	return r.losses.write()
}

// release frees the recording's resources.
func (r *recorder) release() {
	if r.opening != nil {
		go func() {
			<-r.opening
			r.opening = nil
			r.release()
		}()
		return
	}
	r.leaveToCloser()
	if r.command != nil {
		r.command.close()
	}
	r.meter.close()
	r.programs.close()
	r.unmapRings()
	r.trigger.close()
	if r.probes.set != nil { // probes cannot be removed while counters are open
		r.probes.remove(r.set)
	} else {
		go r.set.Close() // the process's exit does the same
	}
	r.poller.close()
}

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

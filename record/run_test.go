package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/probe"
)

func TestAttrs(t *testing.T) {
	tp := event.Event{Name: "skb:kfree_skb", Type: format.TypeTracepoint, Config: 7, Tracepoint: "skb/kfree_skb"}
	clock := event.Event{Name: "cpu-clock", Type: format.TypeSoftware}
	const (
		sideBand = format.FlagMmap | format.FlagMmap2 | format.FlagComm | format.FlagCommExec | format.FlagTask |
			format.FlagKSymbol | format.FlagBPFEvent | format.FlagBuildID
		user   = format.FlagExcludeKernel | format.FlagExcludeHV | format.FlagExcludeGuest
		always = format.SampleIP | format.SampleTID | format.SampleTime
	)
	command := Target{Command: []string{"true"}}
	for _, c := range []struct {
		name   string
		opts   Options
		index  int
		name2  string // of the attr
		flags  format.AttrFlags
		sample format.SampleType
		period uint64
	}{
		{"command", Options{Events: []event.Event{clock}, Target: command, Freq: 99}, 0, "cpu-clock",
			sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec | format.FlagFreq, always | format.SamplePeriod, 99},
		{"no inherit, fixed period", Options{Events: []event.Event{clock}, Target: command, Period: 5, NoInherit: true}, 0, "cpu-clock",
			sideBand | format.FlagDisabled | format.FlagEnableOnExec, always, 5},
		{"tracepoint", Options{Events: []event.Event{tp}, Target: command}, 0, "skb:kfree_skb",
			sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec,
			always | format.SamplePeriod | format.SampleCPU | format.SampleRaw, 1},
		{"all CPUs", Options{Events: []event.Event{tp}, Target: Target{All: true}, Stacks: StackOptions{Callchain: true}}, 0, "skb:kfree_skb", format.FlagDisabled,
			always | format.SampleCallchain | format.SamplePeriod | format.SampleCPU | format.SampleRaw | format.SampleIdentifier, 1},
		{"all CPUs, tracking", Options{Events: []event.Event{tp}}, 1, "dummy:u",
			sideBand | user,
			always | format.SampleCPU | format.SampleIdentifier, 1},
		{"equal samples", Options{Events: []event.Event{clock, clock}, Target: command, Freq: 99}, 1, "cpu-clock",
			format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec | format.FlagFreq, always | format.SamplePeriod | format.SampleID, 99},
		{"no idle", Options{Events: []event.Event{clock}, Target: command, Freq: 99, NoIdle: true}, 0, "cpu-clock",
			sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec | format.FlagFreq | format.FlagExcludeIdle,
			always | format.SamplePeriod, 99},
		{"no idle, tracepoint", Options{Events: []event.Event{tp}, Target: command, NoIdle: true}, 0, "skb:kfree_skb",
			sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec,
			always | format.SamplePeriod | format.SampleCPU | format.SampleRaw, 1},
		{"process", Options{Events: []event.Event{clock}, Target: Target{PIDs: []int{1}}, Freq: 99, SideBand: SideBandOptions{NoBuildIDMmap: true}}, 0, "cpu-clock",
			sideBand&^format.FlagBuildID | format.FlagDisabled | format.FlagInherit | format.FlagFreq, always | format.SamplePeriod, 99},
		{"default", Options{Target: command, Freq: 99}, 0, "cycles:P",
			(sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec | format.FlagFreq).WithPreciseIP(3), always | format.SamplePeriod, 99},
		{"process, later", Options{Events: []event.Event{clock}, Target: Target{PIDs: []int{1}}, Delay: 1}, 1, "dummy:u",
			sideBand | user | format.FlagInherit | format.FlagDisabled | format.FlagEnableOnExec,
			always | format.SampleIdentifier, 1},
		{"command, controlled", Options{Events: []event.Event{clock}, Target: command,
			Control: Control{Commands: os.Stdin}}, 1, "dummy:u",
			sideBand | user | format.FlagInherit | format.FlagDisabled | format.FlagEnableOnExec,
			always | format.SampleIdentifier, 1},
		{"waits after a hardware event", Options{Events: []event.Event{event.Default}, Target: command,
			OffCPU: true}, 2, "dummy:u",
			sideBand | user | format.FlagInherit | format.FlagDisabled | format.FlagEnableOnExec,
			always | format.SampleIdentifier, 1},
		{"waits after a software event", Options{Events: []event.Event{clock}, Target: command, OffCPU: true,
			Freq: 99}, 0, "cpu-clock",
			sideBand | format.FlagDisabled | format.FlagInherit | format.FlagEnableOnExec | format.FlagFreq,
			always | format.SamplePeriod | format.SampleIdentifier, 99},
	} {
		_, attrs := (&plan{Options: c.opts}).attrs()
		a := attrs[c.index]
		if want := c.flags | format.FlagSampleIDAll; a.Name != c.name2 || a.Flags != want || a.SampleType != c.sample ||
			a.SamplePeriod != c.period {
			t.Errorf("%s: %s, flags %#x, sample type %#x, period %d\nwant %s, %#x, %#x, %d",
				c.name, a.Name, a.Flags, a.SampleType, a.SamplePeriod, c.name2, want, c.sample, c.period)
		}
	}
}

// A recording that is to end before it has begun ends at once, although a step does not: the kernel may verify a
// program for seconds. Nothing is read for samples that there will not be, and the command is not executed.
func TestEndBeforeBegin(t *testing.T) {
	for _, step := range []string{"opening events", "reading processes"} {
		dir := t.TempDir()
		events, err := event.Parse("cpu-clock:u,page-faults:u", &event.Resolver{Resolver: new(probe.Resolver)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		calls, stuck := 0, make(chan struct{})
		o := &Options{Events: events, Output: OutputOptions{Path: filepath.Join(dir, "perf.data")}, Freq: 99,
			Target: Target{All: true, Command: []string{"touch", filepath.Join(dir, "executed")}}}
		o.Progress = func(name string, n, of int) {
			if name != step {
				return
			}
			if cancel(); step == "opening events" {
				<-stuck
			}
			if calls++; calls > 1 {
				t.Errorf("%s goes on: %d of %d", step, n, of)
			}
		}
		ended := make(chan error, 1)
		go func() {
			sum, err := Run(ctx, o)
			if sum != nil && sum.Early { // there is a file
				err = errInterrupted
			}
			ended <- err
		}()
		select {
		case err = <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the recording does not end", step)
		}
		close(stuck)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			t.Skipf("recording all CPUs needs CAP_PERFMON, or kernel.perf_event_paranoid below 1: %v", err)
		}
		if !errors.Is(err, errInterrupted) {
			t.Errorf("%s: %v", step, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "executed")); err == nil {
			t.Errorf("%s: the command is executed", step)
		}
	}
}

// TestRun records with this test program: the command's name, mappings and samples are in the
// file.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	events, err := event.Parse("cpu-clock:u", &event.Resolver{Resolver: new(probe.Resolver)})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Run(context.Background(), &Options{Events: events, Output: OutputOptions{Path: path}, Freq: 999,
		Stacks: StackOptions{Callchain: true},
		Target: Target{Command: []string{"sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 4"}}})
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_PERFMON is missing, or kernel.perf_event_paranoid above 2: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum.Command.ExitCode() != 4 || sum.Samples == 0 || sum.Lost != 0 {
		t.Errorf("%+v, exit code %d", sum, sum.Command.ExitCode())
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || st.Size() != sum.Bytes || st.Mode().Perm() != 0o600 {
		t.Errorf("a file of %d bytes, mode %v; the summary says %d", st.Size(), st.Mode(), sum.Bytes)
	}
	f, err := format.Open(file, sum.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	samples, mapped, named := uint64(0), false, false
	recs := f.Records()
	for raw, err := recs.Next(); err == nil; raw, err = recs.Next() {
		if raw.Type == format.TypeSample {
			samples++
			continue
		}
		rec, err := f.Record(raw)
		if err != nil {
			t.Fatal(err)
		}
		switch rec := rec.(type) {
		case *format.Mmap:
			mapped = mapped || filepath.Base(rec.Filename) == "libc.so.6"
		case *format.Comm:
			named = named || rec.Comm == "sh" && rec.Exec
		}
	}
	if samples != sum.Samples || !mapped || !named {
		t.Errorf("%d samples of %d, libc mapped: %v, sh named: %v", samples, sum.Samples, mapped, named)
	}
}

// TestRunCancelled checks that the end of the context ends the recording, with a complete
// file.
func TestRunCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	events, _ := event.Parse("cpu-clock:u", &event.Resolver{Resolver: new(probe.Resolver)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // the file exists once the events are open
		for ctx.Err() == nil {
			if _, err := os.Stat(path); err == nil {
				time.Sleep(100 * time.Millisecond)
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	sum, err := Run(ctx, &Options{Events: events, Output: OutputOptions{Path: path},
		Target: Target{Command: []string{"sleep", "100"}}})
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_PERFMON is missing, or kernel.perf_event_paranoid above 2: %v", err)
	}
	if err != nil || sum.Command.ExitCode() != -1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f, err := format.Open(file, sum.Bytes); err != nil || !f.Complete {
		t.Errorf("%v, complete: %v", err, f != nil && f.Complete)
	}
}

package record

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
)

// TestFewer: a clock has a period in ns as soon as it is open, other events keep their frequency.
func TestFewer(t *testing.T) {
	clock := format.Attr{Type: format.TypeSoftware, Config: format.SWCPUClock, SamplePeriod: 20, Flags: format.FlagFreq}
	cycles := format.Attr{Type: format.TypeHardware, SamplePeriod: 19, Flags: format.FlagFreq}
	tracepoint := format.Attr{Type: format.TypeTracepoint, SamplePeriod: 3}
	for _, c := range []struct {
		name string
		attr *format.Attr
		want [maxLevel + 1]uint64
	}{
		{"clock", &clock, [...]uint64{50e6, 100e6, 200e6, 500e6, 1e9}},
		{"cycles", &cycles, [...]uint64{19, 9, 4, 2, 1}},
		{"tracepoint", &tracepoint, [...]uint64{3, 24, 192, 1536, 12288}},
	} {
		for level, want := range c.want {
			if got := fewer(c.attr, level); got != want {
				t.Errorf("%s, level %d: %d, want %d", c.name, level, got, want)
			}
		}
	}
}

// TestWeighing: the samples of clocks, and no others, get the period of the level, whether records are in one piece or
// in two.
func TestWeighing(t *testing.T) {
	const st = format.SampleIdentifier | format.SampleIP | format.SamplePeriod
	sample := func(id, period uint64) []byte {
		b := make([]byte, format.HeaderSize+3*8)
		b[0], b[6] = byte(format.TypeSample), byte(len(b))
		binary.LittleEndian.PutUint64(b[8:], id)
		binary.LittleEndian.PutUint64(b[24:], period)
		return b
	}
	g := governor{level: 2, set: &perfevent.Set{Events: make([]event.Event, 2), Attrs: []format.Attr{
		{Type: format.TypeSoftware, Config: format.SWCPUClock, SampleType: st, SamplePeriod: 20, Flags: format.FlagFreq,
			IDs: []uint64{1, 2}},
		{Type: format.TypeTracepoint, SampleType: st, SamplePeriod: 1, IDs: []uint64{3}}}}}
	g.findClocks()
	mark := format.AppendMark(nil, format.TypeFinishedRound)
	in := slices.Concat(sample(1, 50e6), sample(3, 1), mark, sample(2, 50e6))
	want := slices.Concat(sample(1, 200e6), sample(3, 1), mark, sample(2, 200e6))
	for cut := 0; cut <= len(in); cut += 8 {
		var out []byte
		write := g.weighing(func(b []byte) error { out = append(out, b...); return nil })
		write(in[:cut])
		write(in[cut:])
		split := cut%len(want) > 0 && !slices.Contains([]int{0, 32, 64, 72, 104}, cut)
		switch {
		case len(out) != len(want):
			t.Fatalf("cut at %d: %d bytes", cut, len(out))
		case !split && !slices.Equal(out, want):
			t.Errorf("cut at %d:\n got %x\nwant %x", cut, out, want)
		}
		for i := 24; i < len(out); i += 8 { // a sample in two pieces keeps its period
			if out[i] != want[i] && out[i] != in[i] {
				t.Errorf("cut at %d: byte %d is %d", cut, i, out[i])
			}
		}
	}
}

// TestGovernor: the level follows the CPU time, and its notices are few.
func TestGovernor(t *testing.T) {
	notices := 0
	o := &plan{Options: Options{MaxCPU: 1e-9, Hooks: Hooks{Notice: func(error) { notices++ }}}}
	set := &perfevent.Set{Attrs: make([]format.Attr, 1)}
	g := governor{opts: o, set: set}
	g.start()
	g.credit = 0
	tick := func() turn {
		for end := cpuTime() + time.Millisecond; cpuTime() < end; {
		}
		g.at = g.at.Add(-measureTime)
		return g.check()
	}
	for level := 1; level <= maxLevel; level++ {
		if tick(); g.level != level || g.paused {
			t.Errorf("level %d, want %d", g.level, level)
		}
	}
	g.raised = g.raised.Add(-pauseTime)
	if tick() != pause || !g.paused {
		t.Error("the recorder does not pause at the last level")
	}
	o.MaxCPU = 1
	g.at = g.at.Add(-creditTime)
	if tick() != resume || g.paused || g.level != maxLevel {
		t.Errorf("paused %v, level %d after a minute", g.paused, g.level)
	}
	for level := maxLevel - 1; level >= 0; level-- {
		g.raised = g.raised.Add(-lowerTime)
		if tick(); g.level != level {
			t.Errorf("level %d, want %d", g.level, level)
		}
	}
	if notices != 1 {
		t.Errorf("%d notices in an hour", notices)
	}
}

// TestPausedAndDisabled: an event runs only while it is neither disabled nor paused, in whichever order these end.
func TestPausedAndDisabled(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := format.Attr{Type: format.TypeSoftware, Config: format.SWTaskClock, Size: format.AttrSize,
		Flags: format.FlagDisabled | format.FlagExcludeKernel}
	set := &perfevent.Set{Attrs: []format.Attr{clock, clock}, Events: make([]event.Event, 2)}
	if err := set.Open([]int{-1}, []int{unix.Gettid()}); err != nil {
		t.Skip(err)
	}
	defer set.Close()
	e := newEnabler(&plan{}, set, new(bpfPrograms))
	for _, step := range []struct {
		name string
		do   func() work
		want [2]bool
	}{
		{"start", e.start, [2]bool{true, true}},
		{"disable the first", func() work { return e.one(0, false) }, [2]bool{false, true}},
		{"pause", func() work { return e.pause(true) }, [2]bool{}},
		{"resume", func() work { return e.pause(false) }, [2]bool{false, true}},
		{"pause again", func() work { return e.pause(true) }, [2]bool{}},
		{"disable in the pause", func() work { return e.all(false) }, [2]bool{}},
		{"resume disabled", func() work { return e.pause(false) }, [2]bool{}},
		{"pause disabled", func() work { return e.pause(true) }, [2]bool{}},
		{"enable in the pause", func() work { return e.all(true) }, [2]bool{}},
		{"resume enabled", func() work { return e.pause(false) }, [2]bool{true, true}},
	} {
		if err := run(t.Context(), step.do()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		for i, want := range step.want {
			before := countOf(t, set.Counters[i].FD)
			if running := countOf(t, set.Counters[i].FD) > before; running != want {
				t.Errorf("%s: event %d runs: %v, want %v", step.name, i, running, want)
			}
		}
	}
}

// countOf returns the count of a counter.
func countOf(t *testing.T, fd int) uint64 {
	t.Helper()
	var b [8]byte
	if _, err := unix.Read(fd, b[:]); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

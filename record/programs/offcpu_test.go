package programs

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/probe/kernel"
	"gperf/record/stacks"
)

func words(l ...uint64) (b []byte) {
	for _, w := range l {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// The frames of the BPF program and of the scheduler are left out.
func TestCallers(t *testing.T) {
	for _, c := range []struct {
		name         string
		code         kernel.Code
		frames, want []byte
	}{
		{"scheduler", kernel.Code{Start: 100, End: 200}, words(7, 8, 150, 160, 300, 150, 400), words(300, 150, 400)},
		{"its last function", kernel.Code{Start: 100, End: 200}, words(7, 200, 300), words(300)},
		{"function after it", kernel.Code{Start: 100, End: 200}, words(7, 150, 201), words(201)},
		{"unknown scheduler", kernel.Code{}, words(7, 8, 150, 300), words(150, 300)},
		{"short", kernel.Code{}, words(7), nil},
		{"scheduler only", kernel.Code{Start: 100, End: 200}, words(7, 150), nil},
		{"none", kernel.Code{Start: 100, End: 200}, nil, nil},
	} {
		if got := callersOf(c.frames, kernel.Codes{c.code}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

// A wait gets the copy from the start of the wait, whatever the order in which waits are read.
func TestCopies(t *testing.T) {
	var l copies
	for i := range uint64(4) {
		l.add(7, copied{time: 1e9 + i*2e5, data: []byte{byte(i)}})
	}
	l.add(8, copied{time: 1e9, data: []byte{9}})
	for _, i := range []uint64{2, 0, 3} {
		if c, ok := l.take(7, 1e9+i*2e5-5000, 1e9+i*2e5+1e5, false); !ok || c.data[0] != byte(i) {
			t.Errorf("wait %d: %v, %v", i, c, ok)
		}
	}
	if _, ok := l.take(7, 2e9, 3e9, false); ok {
		t.Error("a copy for a wait without one")
	}
	if c, ok := l.take(8, 1e9, 1e9, false); !ok || c.data[0] != 9 || l.bytes != 1 {
		t.Errorf("%v, %v; %d bytes", c, ok, l.bytes)
	}
	l.add(7, copied{time: 20e9})
	if _, ok := l.take(7, 20e9, 20e9, false); !ok || len(l.byTID) != 0 || l.bytes != 0 {
		t.Errorf("%v, %d bytes, want the old copy to be dropped", l.byTID, l.bytes)
	}
	l.add(7, copied{time: 30e9}) // by a walk that took 5 ms
	if _, ok := l.take(7, 29_995e6, 29_999e6, false); ok {
		t.Error("a copy from after the wait")
	}
	if _, ok := l.take(7, 29_995e6, 31e9, false); !ok {
		t.Error("no copy after a slow walk")
	}
	for range 3 {
		l.add(7, copied{data: make([]byte, maxCopies/2)})
	}
	if len(l.byTID[7]) != 1 || l.bytes != maxCopies/2 {
		t.Errorf("%d copies of %d bytes", len(l.byTID[7]), l.bytes)
	}
}

func ended(w bpf.Wait) wait { return wait{Wait: w, time: 77, cpu: 3} }

// Ranges that touch are one; there is room for so many, and the end of the last symbol is unknown.
func TestRanges(t *testing.T) {
	var l []bpf.Code
	for i := range uint64(bpf.MaxRanges + 5) {
		l = appendMerged(l, bpf.Code{Start: 100 * i, End: 100*i + 50})
		l = appendMerged(l, bpf.Code{Start: 100*i + 50, End: 100*i + 60})
	}
	if len(l) != bpf.MaxRanges || l[3] != (bpf.Code{Start: 300, End: 360}) {
		t.Errorf("%v", l)
	}
	if l = appendMerged(nil, bpf.Code{Start: 1, End: math.MaxUint64}); len(l) != 0 {
		t.Errorf("%v", l)
	}
}

// The name of a waker that is not recorded, and the waker, come before the wait, with the wait's time, CPU and
// period.
func TestWaker(t *testing.T) {
	waits := format.Attr{SampleType: SampleType, IDs: []uint64{1}, Flags: format.FlagSampleIDAll}
	wakers := waits
	wakers.IDs = []uint64{2}
	r := &OffCPU{opts: OffCPUOptions{Attr: waits, Waker: &wakers}, event: stacks.NewEvent(&waits),
		waker: stacks.NewEvent(&wakers), comms: map[uint32]string{},
		stacks: stackStore{known: map[uint64]bpf.Stack{5: {Kernel: words(1, 2, 0x50)}, 6: {Kernel: words(1, 2, 0x60)}}}}
	wait := bpf.Wait{Duration: 1234, Stack: 5, PID: 7, TID: 8,
		Waker: bpf.Waker{Known: true, Stack: 6, PID: 9, TID: 10, Comm: "alarm"}}
	late := wait
	late.Waker.Stack = 99 // not read yet
	unknown := wait
	unknown.Waker = bpf.Waker{}
	for _, w := range []bpf.Wait{wait, late, wait, unknown} {
		r.waits = append(r.waits, ended(w))
	}
	var j stacks.Merged
	r.Late(&j)
	comm := format.Comm{PID: 9, TID: 10, Comm: "alarm", ID: format.RecordID{PID: 9, TID: 10, Time: 77, CPU: 3, ID: 2}}
	w := ended(wait)
	waker := w.sample(&wakers, thread{9, 10}, &bpf.Stack{Kernel: words(0x60)})
	of := w.sample(&waits, thread{7, 8}, &bpf.Stack{Kernel: words(0x50)})
	want := slices.Concat(comm.AppendTo(nil, format.NewSampleLayout(&waits).Trailer), waker, of, waker, of, of)
	if !slices.Equal(j.Records, want) {
		t.Errorf("%x\nwant %x", j.Records, want)
	}
	if len(r.waits) != 1 || !r.waits[0].tried {
		t.Errorf("waits for later: %v", r.waits)
	}
}

// A sample contains the fields in the attr, which readers decode.
func TestSample(t *testing.T) {
	for name, c := range map[string]struct {
		flags format.AttrFlags
		stack bpf.Stack
		mode  format.Misc
		ip    uint64
		chain []uint64
	}{
		"kernel":          {0, bpf.Stack{Kernel: words(5, 6), User: words(7)}, format.MiscKernel, 5, []uint64{format.ContextKernel, 5, 6}},
		"user only":       {format.FlagExcludeKernel, bpf.Stack{Kernel: words(5, 6), User: words(7)}, format.MiscUser, 7, nil},
		"no kernel chain": {format.FlagExcludeCallchainKernel, bpf.Stack{Kernel: words(5, 6)}, format.MiscKernel, 5, nil},
		"unknown":         {0, bpf.Stack{}, format.MiscKernel, 0, nil},
	} {
		a := format.Attr{SampleType: SampleType | format.SampleCallchain, IDs: []uint64{99}, Flags: c.flags,
			SampleMaxStack: 2}
		w := &wait{Wait: bpf.Wait{Duration: 1234}, time: 77, cpu: 3}
		rec := w.sample(&a, thread{1, 2}, &c.stack)
		want := words(uint64(format.TypeSample)|uint64(c.mode)<<32|uint64(len(rec))<<48, 99, c.ip, 2<<32|1, 77, 3, 1234,
			uint64(len(c.chain)))
		if want = append(want, words(c.chain...)...); !slices.Equal(rec, want) {
			t.Errorf("%s: %x\nwant %x", name, rec, want)
		}
	}
}

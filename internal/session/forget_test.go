package session

import (
	"strings"
	"testing"

	"gperf/format"
)

// TestForget: a live recording forgets the addresses, callchains and mappings of exited processes. Addresses of
// running processes resolve as before, and frames that callers keep stay valid.
func TestForget(t *testing.T) {
	s := newSession()
	w := s.newWalk(WalkOptions{KeepChains: true}, nil)
	w.begin(newBatch())
	sample := func(pid int32, ip uint64) *Sample {
		a := &Sample{Sample: format.Sample{PID: pid, TID: pid, IP: ip, Misc: format.MiscUser,
			Callchain: chainOf(format.ContextUser, ip, ip+8)}}
		a.Thread = s.machine.thread(pid, pid)
		w.resolver.resolve(a)
		return a
	}
	s.Apply(mmapOf(10, 0x1000, 0x1000, 0, "/bin/runs"))
	s.Apply(mmapOf(11, 0x1000, 0x1000, 0, "/bin/exits"))
	before := sample(10, 0x1010)
	kept := sample(11, 0x1020).User
	s.Apply(&format.Exit{PID: 11, TID: 11})

	w.forget() // too few frames to forget
	if n := w.frames.chains.made; n != 4 || len(s.machine.known) != 2 {
		t.Fatalf("%d frames and %d mappings, want those of both processes", n, len(s.machine.known))
	}
	w.frames.chains.made = maxFrames
	w.forget()
	if w.frames.chains.made != 0 || s.frames != w.frames {
		t.Errorf("%d frames are left", w.frames.chains.made)
	}
	if len(s.machine.known) != 1 {
		t.Errorf("%d mappings are left, want that of the running process", len(s.machine.known))
	}
	if th := s.machine.thread(10, 10); strings.Join(describe(th.space.maps), "") != "1000-2000 /bin/runs+0" {
		t.Errorf("the running process maps %v", describe(th.space.maps))
	}
	after := sample(10, 0x1010)
	if after.Leaf == before.Leaf || after.Leaf.Map != before.Leaf.Map || after.User.Len() != 2 {
		t.Errorf("%+v and %+v, want new frames of the same mapping", after.Leaf, before.Leaf)
	}
	if sample(10, 0x1010).Leaf != after.Leaf {
		t.Error("new frames are not cached")
	}
	if f := kept.At(0); f.IP != 0x1020 || f.Map.DSO.Name != "/bin/exits" || f.Symbol() != "[unknown]" {
		t.Errorf("a kept frame is %+v", f)
	}
}

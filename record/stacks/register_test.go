package stacks

import (
	"slices"
	"testing"

	"gperf/bpf"
	"gperf/format"
)

// testRegistry is a registry without BPF programs: passing anything to them panics.
func testRegistry() *registry { return newRegistry(nil, func(string) {}) }

// parent adds a process that BPF walks.
func (g *registry) parent(pid int32) *process {
	p := g.tracker.replace(pid, &addrSpace{})
	p.bpfProcess = bpfProcess{tgid: uint32(pid), execSeq: 5, registered: true, inBPF: true}
	p.space.loaded = true
	g.tracker.record(mmapRecord(pid, 0x1000, 0x2000, 0, "/bin/sh"))
	p.touched, p.space.stale, g.tracker.touched = false, false, nil
	return p
}

// run applies the records of a process that calls exec and maps some files.
func (g *registry) run(pid int32, exit bool) {
	g.apply(&format.Comm{PID: pid, TID: pid, Exec: true})
	for i, name := range []string{"/bin/true", "/lib/ld.so", "/lib/libc.so"} {
		start := uint64(i+1) << 16
		g.apply(mmapRecord(pid, start, start+0x1000, 0, name))
	}
	if exit {
		g.apply(&format.Exit{PID: pid, TID: pid})
	}
}

// TestRegistryShortProcess checks that a process that exits before the next update costs BPF
// nothing, although its parent is walked.
func TestRegistryShortProcess(t *testing.T) {
	g := testRegistry()
	g.parent(1)
	for pid := int32(10); pid < 20; pid++ {
		g.apply(&format.Fork{PID: pid, TID: pid, PPID: 1, PTID: 1})
		if p := g.tracker.byPID[pid]; !p.registered || p.execSeq != 5 || p.space != g.tracker.byPID[1].space {
			t.Fatalf("a child of a process that BPF walks: %+v", p)
		}
		g.run(pid, true)
	}
	g.update() // testRegistry runs without BPF programs: it would fail if a process were passed to them
	g.tracker.forgetAll(g.tracker.left)
	if len(g.tracker.byPID) != 1 || len(g.tracker.touched) != 0 || g.tracker.byPID[1].space.refs != 1 {
		t.Errorf("%d processes are left, %d touched; the parent's mappings have %d users", len(g.tracker.byPID),
			len(g.tracker.touched), g.tracker.byPID[1].space.refs)
	}
}

// TestRegistryExec checks that exec and new mappings result in one change of a process in BPF, and that exit
// removes the process.
func TestRegistryExec(t *testing.T) {
	g := testRegistry()
	g.parent(1)
	g.run(1, false)
	p := g.tracker.byPID[1]
	if want := (bpfProcess{tgid: 1, execSeq: 6, registered: true, inBPF: true}); p.bpfProcess != want {
		t.Errorf("after exec: %+v, want %+v", p.bpfProcess, want)
	}
	if !slices.Equal(g.tracker.touched, []*process{p}) || len(g.deleted) != 0 || len(g.unused) != 1 {
		t.Errorf("touched %d, deleted %v, unused mappings %d; want 1, none, 1",
			len(g.tracker.touched), g.deleted, len(g.unused))
	}
	g.apply(&format.Exit{PID: 1, TID: 1})
	g.tracker.forgetAll(g.tracker.left)
	if !slices.Equal(g.deleted, []uint32{1}) {
		t.Errorf("after exit, update removes %v", g.deleted)
	}
}

// TestRegistryExecUnsampled: a child that no sample hit before its exec is registered by its first sample after it, and
// its entry in BPF, if it got one, is removed.
func TestRegistryExecUnsampled(t *testing.T) {
	g := testRegistry()
	g.parent(1)
	g.apply(&format.Fork{PID: 2, TID: 2, PPID: 1, PTID: 1})
	child := g.tracker.byPID[2]
	child.inBPF = true // an update passed it, with its parent's mappings
	g.tracker.touched, child.touched = nil, false
	g.run(2, false)
	p := g.tracker.byPID[2]
	if p.registered || p.inBPF || len(g.tracker.touched) != 0 || !slices.Equal(g.deleted, []uint32{2}) {
		t.Errorf("after exec without a sample: %+v, %d touched, deleted %v", p.bpfProcess, len(g.tracker.touched),
			g.deleted)
	}
	g.lookUp(2, &bpf.Head{TGID: 2, Exec: 6})
	if want := (bpfProcess{tgid: 2, execSeq: 6, registered: true}); p.bpfProcess != want ||
		!slices.Equal(g.tracker.touched, []*process{p}) {
		t.Errorf("after a sample: %+v, want %+v", p.bpfProcess, want)
	}
	p.inBPF = true
	g.run(2, false)
	if want := (bpfProcess{tgid: 2, execSeq: 7, registered: true, inBPF: true}); g.tracker.byPID[2].bpfProcess != want {
		t.Errorf("after exec with a sample: %+v, want %+v", g.tracker.byPID[2].bpfProcess, want)
	}
}

// TestRegistryLearns: a process that runs when the recording starts outlives its first thread.
func TestRegistryLearns(t *testing.T) {
	const idSize = 16
	var b []byte
	for _, rec := range []interface{ Append([]byte, int) []byte }{
		&format.Fork{PID: 1, TID: 1, Ran: true}, &format.Comm{PID: 1, TID: 1, Comm: "server"},
		mmapRecord(1, 0x1000, 0x2000, 0, "/bin/server"),
		&format.Fork{PID: 1, TID: 2, PPID: 1, PTID: 1, Ran: true}, &format.Comm{PID: 1, TID: 2, Comm: "worker"},
		&format.Fork{PID: 3, TID: 3, PPID: 1, PTID: 1, Ran: true}} {
		b = rec.Append(b, idSize)
	}
	g := testRegistry()
	g.learn(b, idSize)
	has(t, g.tracker, 3)
	g.apply(&format.Exit{PID: 1, TID: 1})
	for range 3 {
		g.tracker.forgetExited()
	}
	has(t, g.tracker, 1, "1000-2000 0 /bin/server")
	g.apply(&format.Exit{PID: 1, TID: 2})
	for range 2 {
		g.tracker.forgetExited()
	}
	if g.tracker.byPID[1] != nil {
		t.Error("the process is known after its last thread has exited")
	}
}

// TestPlace checks that an unresolved sample is resolved with the mappings at the time of the sample, whatever
// follows in the same batch of records, and that nothing remains of a process after the exit.
func TestPlace(t *testing.T) {
	d := testResolver()
	d.procs = testRegistry()
	d.tables.procs = d.procs
	d.procs.tracker.replace(1, &addrSpace{})
	d.procs.tracker.record(mmapRecord(1, 0x1000, 0x2000, 0, "/bin/a"))
	record := func(time uint64, rec format.Record) {
		d.side.records = append(d.side.records, sideRecord{time, rec})
		d.side.newest = time
	}
	record(20, mmapRecord(1, 0x8000, 0x9000, 0, "/lib/b"))
	record(30, mmapRecord(1, 0x1000, 0x2000, 0, "/bin/c"))
	record(40, &format.Exit{PID: 1, TID: 1})
	for _, time := range []uint64{35, 10, 25} {
		d.merged.unresolved = append(d.merged.unresolved, unresolvedSample{time: time, pid: 1,
			head: bpf.Head{End: bpf.EndNoProcess, TGID: 1}, data: make([]byte, bpf.CopyAhead)})
	}
	d.place()
	var got []string
	var spaces []*addrSpace
	for _, u := range d.merged.unresolved {
		name := "-"
		if m := u.space.find(0x8010); m != nil {
			name = m.file.name
		}
		got = append(got, u.space.find(0x1010).file.name+" "+name)
		spaces = append(spaces, u.space)
	}
	if want := []string{"/bin/a -", "/bin/a /lib/b", "/bin/c /lib/b"}; !slices.Equal(got, want) {
		t.Errorf("mappings by time: %q, want %q", got, want)
	}
	d.resolve()
	d.procs.tracker.forgetAll(d.procs.tracker.left)
	for _, s := range spaces {
		if s.refs != 0 {
			t.Errorf("mappings of an exited process have %d users", s.refs)
		}
	}
	d.procs.update()
	if len(d.procs.tracker.byPID) != 0 {
		t.Error("the process is left")
	}
}

// TestNewMappingIsNoCode checks that an address whose mapping BPF did not know yet is not
// reported as code outside all mappings.
func TestNewMappingIsNoCode(t *testing.T) {
	s := &addrSpace{}
	s.insert(mapping{start: 0x1000, end: 0x2000, file: &mappedFile{}})
	for ip, want := range map[uint64]bpf.End{0x1010: bpf.EndNoProcess, 0x3000: bpf.EndNoMapping} {
		if e := (&earlyEnd{head: bpf.Head{End: bpf.EndNoMapping}, ip: ip}); e.cause(s) != want {
			t.Errorf("%#x: %v, want %v", ip, e.cause(s), want)
		}
	}
}

package stacks

import (
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/untrusted"
	"gperf/unwind"
)

// testResolver returns a resolver without BPF programs: no process is registered with them.
func testResolver() *resolver {
	procs := &registry{tracker: newTracker(func(*process) {}), verbose: func(string) {}}
	return &resolver{merged: new(Merged), side: new(sideBand), procs: procs, incomplete: placeCounts{},
		tables: &tables{procs: procs, builder: &builder{}}}
}

// TestCountEarly checks that a stack that ends early is counted by the mapping of the last frame at the time of
// the stack, and by the program that ran then.
func TestCountEarly(t *testing.T) {
	d := testResolver()
	d.procs.tracker.replace(1, &addrSpace{})
	d.procs.tracker.record(mmapRecord(1, 0x800, 0x900, 0, "/dev/zero (deleted)")) // memory for code
	d.procs.tracker.record(mmapRecord(1, 0x1000, 0x2000, 0, "/bin/a"))
	d.procs.tracker.record(mmapRecord(1, 0x8000, 0x9000, 0, "/lib/c"))
	exec := &format.Comm{PID: 1, TID: 1, Exec: true}
	d.side.records = []sideRecord{{time: 50, rec: exec}, {time: 51, rec: mmapRecord(1, 0x8000, 0x9000, 0, "/bin/b")}}
	rule := bpf.Head{End: bpf.EndNoRule}
	d.merged.early = []earlyEnd{
		{time: 10, pid: 1, head: rule, ip: 0x8010}, {time: 11, pid: 1, head: rule, ip: 0x8020},
		{time: 12, pid: 1, head: bpf.Head{End: bpf.EndNoMapping}, ip: 0x5000},
		{time: 13, pid: 1 << 30, head: bpf.Head{End: bpf.EndNoProcess}, ip: 0x8000},
		{time: 60, pid: 1, head: rule, ip: 0x8010}, {time: 90, pid: 1, head: rule, ip: 0x8010},
	}
	d.countEarly(70)
	if len(d.merged.early) != 1 || d.merged.early[0].time != 90 {
		t.Errorf("left to be counted: %+v", d.merged.early)
	}
	want := []Incomplete{{Cause: bpf.EndNoRule, DSO: "/lib/c", Program: "/bin/a", N: 2},
		{Cause: bpf.EndNoProcess, DSO: "", Program: "", N: 1},
		{Cause: bpf.EndNoMapping, DSO: "", Program: "/bin/a", N: 1},
		{Cause: bpf.EndNoRule, DSO: "/bin/b", Program: "/bin/b", N: 1}}
	if got := d.incomplete.list(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestUnreadFiles checks that stacks which end in a file without a table say why it has none.
func TestUnreadFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		why  error
		end  bpf.End
		want string
	}{
		{"/mnt/a", fmt.Errorf("open /mnt/a: %w", untrusted.ErrBlocked), bpf.EndFP, "its file system does not answer"},
		{"/mnt/a", &fs.PathError{Op: "open", Path: "/mnt/a", Err: unix.EACCES}, bpf.EndUnreadable, "it may not be read"},
		{"/mnt/a", fmt.Errorf("open /mnt/a: %w", dso.ErrNoFile), bpf.EndNoRule, "it cannot be opened"},
		{"/mnt/a", fmt.Errorf("open /mnt/a: %w", dso.ErrNoFile), bpf.EndDepth, ""},
		{"/mnt/a", unwind.ErrNoCFI, bpf.EndFP, ""},
		{"//anon", fs.ErrPermission, bpf.EndFP, ""}, // code that a process made is in no file
	} {
		d := testResolver()
		d.procs.tracker.replace(1, &addrSpace{})
		d.procs.tracker.record(mmapRecord(1, 0x1000, 0x2000, 0, c.name))
		space := d.procs.tracker.byPID[1].space
		d.tables.refuse(space.find(0x1000).file, c.why)
		d.incomplete.add(c.end, space, 0x1010, false, nil)
		want := []Incomplete{{Cause: c.end, DSO: c.name, N: 1, Unread: c.want}}
		want[0].Program = space.program()
		if got := d.incomplete.list(); !slices.Equal(got, want) {
			t.Errorf("%v: got  %+v\nwant %+v", c.why, got, want)
		}
	}
}

// TestUnknownProcessLookedUp checks that the stack of an unknown process makes BPF know it, even if there was no
// space in the ring for a copy of the stack.
func TestUnknownProcessLookedUp(t *testing.T) {
	d := testResolver()
	pid := int32(os.Getpid())
	ip := uint64(reflect.ValueOf(TestUnknownProcessLookedUp).Pointer())
	d.merged.early = []earlyEnd{{time: 10, pid: pid, head: bpf.Head{End: bpf.EndNoProcess, TGID: 77, Exec: 3},
		ip: ip}}
	d.countEarly(70)
	want := bpfProcess{tgid: 77, execSeq: 3, registered: true}
	if p := d.procs.tracker.byPID[pid]; p == nil || p.bpfProcess != want || len(d.procs.tracker.touched) == 0 {
		t.Errorf("the process is not registered with BPF: %+v", p)
	}
	if len(d.tables.builder.jobs) != 1 {
		t.Error("the table of its code was not requested")
	}
	if l := d.incomplete.list(); len(l) != 1 || l[0].Program == "" {
		t.Errorf("counted as %+v", l)
	}
}

package stacks

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"gperf/bpf"
)

// deferrals is a resolver with a process that maps files of 4 KiB, one after another from 0x1000 on.
type deferrals struct {
	*resolver
	files []*mappedFile
}

func newDeferrals(names ...string) *deferrals {
	d := &deferrals{resolver: testResolver()}
	d.procs.tracker.replace(1, &addrSpace{})
	for i, name := range names {
		m := mmapRecord(1, uint64(0x1000*(i+1)), uint64(0x1000*(i+2)), 0, name)
		d.procs.tracker.record(m)
		d.files = append(d.files, d.procs.tracker.file(m))
	}
	return d
}

// sample adds an unresolved sample at ip, with a stack of these words.
func (d *deferrals) sample(time, ip uint64, stack ...uint64) {
	le := binary.LittleEndian
	data := make([]byte, bpf.CopyAhead)
	const sp = 0x7000_0000
	le.PutUint64(data[8*map[string]int{"amd64": 7, "arm64": 31}[runtime.GOARCH]:], sp)
	le.PutUint64(data[8*(bpf.NumRegs-1):], ip)
	le.PutUint64(data[8*bpf.NumRegs:], ip)
	le.PutUint64(data[8*(bpf.NumRegs+1):], sp)
	for _, w := range stack {
		data = le.AppendUint64(data, w)
	}
	d.merged.unresolved = append(d.merged.unresolved, unresolvedSample{time: time, pid: 1,
		head: bpf.Head{End: bpf.EndNoTable, TGID: 1, Stack: uint32(8 * len(stack))}, data: data, sample: make([]byte, 64), chain: 8})
	d.place()
	d.resolve()
}

// built is the end of building a file's table: the table finds only a return address in every function.
func (d *deferrals) built(f *mappedFile) {
	f.state = fileFP
	d.retry([]*mappedFile{f})
}

// TestPostponed: without CPU time for tables, samples do not wait, and the files' tables are requested later.
func TestPostponed(t *testing.T) {
	d := newDeferrals("/bin/a", "/lib/b")
	a, b := d.files[0], d.files[1]
	affords := false
	d.tables.affords = func() bool { return affords }
	d.sample(10, 0x1100, 0, 0x2200)
	if a.state != fileFP || !a.postponed || d.deferred.n != 0 {
		t.Errorf("state %d, postponed %v, %d samples wait", a.state, a.postponed, d.deferred.n)
	}
	d.tables.retryPostponed()
	if a.state != fileFP {
		t.Errorf("state %d while there is no time", a.state)
	}
	affords = true
	d.tables.retryPostponed()
	if a.state != fileUnknown || a.postponed || len(d.tables.postponed) != 0 {
		t.Errorf("state %d, postponed %v when there is time", a.state, a.postponed)
	}
	d.sample(20, 0x1100, 0, 0x2200)
	if a.state != filePending || b.state != fileUnknown || d.deferred.n != 1 {
		t.Errorf("states %d and %d, %d samples wait: only the walk needs a table", a.state, b.state, d.deferred.n)
	}
}

// TestDeferred checks that samples wait for the tables that they need, and no longer.
func TestDeferred(t *testing.T) {
	d := newDeferrals("/bin/a", "/lib/b", "/lib/c", "/lib/d")
	a, b, c, last := d.files[0], d.files[1], d.files[2], d.files[3]
	d.sample(10, 0x1100, 0, 0x2200, 0x9999, 0x3300)
	for i, want := range []fileState{filePending, filePending, filePending, fileUnknown} {
		if got := d.files[i].state; got != want {
			t.Errorf("file %d has state %d: the stack points to the first three", i, got)
		}
	}
	d.sample(20, 0x4100)
	if len(d.tables.builder.jobs) != 4 || d.deferred.n != 2 || d.deferred.bytes != 2*bpf.CopyAhead+4*8 {
		t.Errorf("%d jobs; %d samples of %d bytes wait", len(d.tables.builder.jobs), d.deferred.n, d.deferred.bytes)
	}
	d.built(b)
	d.built(c)
	if d.deferred.n != 2 {
		t.Errorf("%d samples wait after tables of other files", d.deferred.n)
	}
	d.built(last)
	if d.deferred.n != 1 || d.deferred.queue[0].time != 10 || !d.deferred.before(time.Now()) {
		t.Errorf("%d samples wait after the second one's table", d.deferred.n)
	}
	d.built(a)
	if d.deferred.n != 0 || d.deferred.bytes != 0 || len(d.deferred.queue) != 0 || d.deferred.before(time.Now()) {
		t.Errorf("at the end %+v", d.deferred)
	}
	if n := d.merged.ends[bpf.EndNoTable]; n != 0 {
		t.Errorf("%d stacks ended for want of a table", n)
	}
}

// TestDeferredTooLong checks that samples do not wait forever, nor without limit.
func TestDeferredTooLong(t *testing.T) {
	d := newDeferrals("/bin/a", "/lib/b")
	d.sample(10, 0x1100)
	d.sample(20, 0x2100)
	d.deferred.queue[0].since = time.Now().Add(-maxWait)
	d.retry(nil)
	if d.deferred.n != 1 || d.merged.ends[bpf.EndNoTable] != 1 {
		t.Errorf("%d samples wait; ends %v", d.deferred.n, d.merged.ends)
	}
	d.deferred.bytes += maxDeferred
	d.sample(30, 0x2100)
	if d.deferred.n != 1 || d.merged.ends[bpf.EndNoTable] != 2 {
		t.Errorf("without room: %d samples wait; ends %v", d.deferred.n, d.merged.ends)
	}
	d.deferred.bytes -= maxDeferred
	d.built(d.files[0]) // the sample is walked
	d.built(d.files[1])
	if d.deferred.n != 0 || d.deferred.bytes != 0 || len(d.incomplete) == 0 {
		t.Errorf("at the end %+v", d.deferred)
	}
	want := Incomplete{Cause: bpf.EndNoTable, DSO: "/bin/a", Program: "/bin/a", N: 1, Copied: true}
	if l := d.incomplete.list(); !slices.Contains(l, want) {
		t.Errorf("the summary's causes: %+v", l)
	}
}

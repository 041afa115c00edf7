package stacks

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/unwind"
)

// TestPrune checks that files and tables are removed when no process mapped the files for a while, even if there
// are few.
func TestPrune(t *testing.T) {
	d := &tables{procs: &registry{tracker: newTracker(func(*process) {})}}
	var deferred []*deferredSample
	mmap := func(pid int32, name string, ino uint64) *mappedFile {
		if d.procs.tracker.byPID[pid] == nil {
			d.procs.tracker.replace(pid, &addrSpace{})
		}
		m := &format.Mmap{PID: pid, Start: ino << 20, Len: 1 << 16, Prot: format.ProtExec, Ino: ino, Filename: name}
		m.Misc = format.MiscUser
		d.procs.tracker.record(m)
		return d.procs.tracker.file(m)
	}
	stays, goes, pending := mmap(1, "/bin/stays", 1), mmap(2, "/bin/goes", 2), mmap(2, "/bin/pending", 3)
	again := mmap(2, "/bin/again", 4)
	pending.state = filePending
	d.procs.tracker.remove(2)
	now := time.Now()
	sweep := func() {
		now = now.Add(sweepTime)
		d.prune(now, deferred)
	}
	known := func() map[*mappedFile]bool {
		m := map[*mappedFile]bool{}
		for _, f := range d.procs.tracker.files {
			m[f] = true
		}
		return m
	}
	sweep()
	if k := known(); len(k) != 4 {
		t.Errorf("one sweep after a process exited, %d of 4 files are known", len(k))
	}
	mmap(3, "/bin/again", 4) // as programs that run again and again
	sweep()
	if k := known(); !k[stays] || k[goes] || !k[pending] || !k[again] {
		t.Errorf("known files: mapped %v, unmapped %v, pending %v, mapped again %v", k[stays], k[goes],
			k[pending], k[again])
	}
	needed := &addrSpace{}
	needed.insert(mapping{start: 0x1000, end: 0x2000, file: again})
	deferred = []*deferredSample{{unresolvedSample: unresolvedSample{space: needed}}}
	d.procs.tracker.remove(3)
	for range 3 {
		sweep()
	}
	if k := known(); !k[again] {
		t.Error("a file that a deferred sample needs is dropped")
	}
}

// TestTablesEvicted checks that tables without recent walks make room for others.
func TestTablesEvicted(t *testing.T) {
	u, err := bpf.Load(bpf.Options{Programs: []bpf.Program{bpf.OnEvent}, CPUs: 1, Rows: 1 << 16})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF is missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	procs := newRegistry(u, func(string) {})
	d := &tables{bpf: u, procs: procs}
	file := func(name string, rows int) *mappedFile {
		rs := make([]unwind.Row, rows)
		f := &mappedFile{name: name, state: fileReady}
		f.table = &unwind.Table{Pages: []unwind.Page{{N: uint32(rows)}}, Rows: rs, Rules: make([]unwind.Rule, 1)}
		d.procs.tracker.files[fileKey{name: name}] = f
		return f
	}
	a, b, huge := file("a", 40000), file("b", 40000), file("huge", 70000)
	for _, f := range []*mappedFile{a, b, huge} {
		d.load(f)
	}
	if a.state != fileUnknown || b.state != fileReady || b.loaded || huge.state != fileFP {
		t.Errorf("after a, b and a huge one: %d, %d, %d", a.state, b.state, huge.state)
	}
	time.Sleep(150 * time.Millisecond) // a walk may still use the removed tables
	d.requestFile(b)
	if b.state != fileReady || !b.loaded || a.loaded {
		t.Errorf("b has state %d", b.state)
	}
}

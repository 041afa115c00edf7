package record

import (
	"testing"
	"time"

	"gperf/format"
)

// TestPrune checks that files and their tables are removed when no process has had them
// mapped for a while, even if there are few.
func TestPrune(t *testing.T) {
	d := &dwarf{}
	d.procs = newTracker(func(*process) {})
	mmap := func(pid int32, name string, ino uint64) *mappedFile {
		if d.procs.byPID[pid] == nil {
			d.procs.replace(pid, &space{})
		}
		m := &format.Mmap{PID: pid, Start: ino << 20, Len: 1 << 16, Prot: format.ProtExec, Ino: ino, Filename: name}
		m.Misc = format.MiscUser
		d.procs.record(m)
		return d.procs.file(m)
	}
	stays, goes, pending := mmap(1, "/bin/stays", 1), mmap(2, "/bin/goes", 2), mmap(2, "/bin/pending", 3)
	again := mmap(2, "/bin/again", 4)
	pending.state = filePending
	d.procs.remove(2)
	now := time.Now()
	sweep := func() {
		now = now.Add(sweepTime)
		d.prune(now)
	}
	known := func() map[*mappedFile]bool {
		m := map[*mappedFile]bool{}
		for _, f := range d.procs.files {
			m[f] = true
		}
		return m
	}
	sweep()
	if k := known(); len(k) != 4 {
		t.Errorf("one sweep after a process has gone, %d of its and another's 4 files are known", len(k))
	}
	mmap(3, "/bin/again", 4) // as programs that run again and again
	sweep()
	if k := known(); !k[stays] || k[goes] || !k[pending] || !k[again] {
		t.Errorf("a file that is mapped is known: %v; none maps it: %v; its table is being made: %v; mapped again: %v", k[stays], k[goes], k[pending], k[again])
	}
	needed := &space{}
	needed.insert(mapping{start: 0x1000, end: 0x2000, file: again})
	d.held = []held{{space: needed}}
	d.procs.remove(3)
	for range 3 {
		sweep()
	}
	if k := known(); !k[again] {
		t.Error("a file is forgotten that a held sample needs")
	}
}

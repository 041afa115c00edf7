package stacks

import (
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

// trackerLog is a tracker whose processes are all registered with BPF, and the pids that it
// removed.
func trackerLog() (*tracker, *[]int32) {
	var removed []int32
	return newTracker(func(p *process) { removed = append(removed, p.pid) }), &removed
}

func mmapRecord(pid int32, start, end, pgoff uint64, name string) *format.Mmap {
	return &format.Mmap{V2: true, Misc: format.MiscUser, PID: pid, TID: pid, Start: start, Len: end - start,
		Pgoff: pgoff, Prot: format.ProtExec,
		Filename: name, BuildID: []byte(name)}
}

// has checks a process's mappings, each "start-end pgoff file".
func has(t *testing.T, p *tracker, pid int32, want ...string) {
	t.Helper()
	proc := p.byPID[pid]
	if proc == nil {
		t.Fatalf("process %d is not known", pid)
	}
	var got []string
	for r := range proc.space.maps.All() {
		m := r.Value
		got = append(got, fmt.Sprintf("%x-%x %x %s", m.start, m.end, m.pgoff, m.file.name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("process %d: %q\nwant %q", pid, got, want)
	}
}

func TestTracker(t *testing.T) {
	p, removed := trackerLog()
	p.replace(1, &addrSpace{})
	p.record(mmapRecord(1, 0x1000, 0x5000, 0, "/bin/a"))
	p.record(mmapRecord(1, 0x8000, 0x9000, 0x100, "/lib/c"))
	p.record(&format.Fork{PID: 2, TID: 2, PPID: 1, PTID: 1})
	has(t, p, 2, "1000-5000 0 /bin/a", "8000-9000 100 /lib/c")

	// New mappings of parent and child are separate. A mapping that overlaps another one cuts
	// it, or splits it in two.
	p.record(mmapRecord(2, 0x2000, 0x3000, 0x77000, "/lib/d"))
	has(t, p, 1, "1000-5000 0 /bin/a", "8000-9000 100 /lib/c")
	has(t, p, 2, "1000-2000 0 /bin/a", "2000-3000 77000 /lib/d", "3000-5000 2000 /bin/a", "8000-9000 100 /lib/c")
	p.record(mmapRecord(1, 0x4000, 0x8800, 0, "/lib/e"))
	has(t, p, 1, "1000-4000 0 /bin/a", "4000-8800 0 /lib/e", "8800-9000 900 /lib/c")
	if p.byPID[1].space.find(0x1000).file != p.byPID[2].space.find(0x1000).file {
		t.Error("two processes' mappings of one file are of different files")
	}

	// Threads, mappings without code, and kernel mappings change nothing.
	p.record(&format.Fork{PID: 1, TID: 9, PPID: 1, PTID: 1})
	data := mmapRecord(1, 0x1000, 0x2000, 0, "/lib/f")
	data.Prot = 0
	p.record(data)
	kernel := mmapRecord(1, 0x1000, 0x2000, 0, "/lib/f")
	kernel.Misc = format.MiscKernel
	p.record(kernel)
	p.record(&format.Comm{PID: 1, TID: 1, Comm: "named"})
	p.record(&format.Exit{PID: 1, TID: 9, PPID: 1, PTID: 1})
	has(t, p, 1, "1000-4000 0 /bin/a", "4000-8800 0 /lib/e", "8800-9000 900 /lib/c")
	if len(*removed) != 0 {
		t.Errorf("removed: %v", *removed)
	}

	p.record(&format.Comm{PID: 2, TID: 2, Exec: true})
	has(t, p, 2)
	p.record(mmapRecord(2, 0x1000, 0x2000, 0, "/bin/b"))
	p.record(&format.Exit{PID: 1, TID: 1})
	has(t, p, 2, "1000-2000 0 /bin/b")
	p.forgetExited()
	has(t, p, 1, "1000-4000 0 /bin/a", "4000-8800 0 /lib/e", "8800-9000 900 /lib/c") // for samples after its EXIT
	p.forgetExited()
	if p.byPID[1] != nil || !slices.Equal(*removed, []int32{2, 1}) {
		t.Errorf("removed: %v", *removed)
	}

	// The pid is reused by a child of an unknown process: the child is unknown.
	p.record(&format.Fork{PID: 2, TID: 2, PPID: 77, PTID: 77})
	if p.byPID[2] != nil {
		t.Error("a process with unknown mappings is known")
	}
	p.record(mmapRecord(2, 0x1000, 0x2000, 0, "/bin/b"))
	if p.byPID[2] != nil {
		t.Error("one mapping makes a process known")
	}
}

// TestTrackerLeaderExits: a process whose leader exits before other threads exits with the last of them.
func TestTrackerLeaderExits(t *testing.T) {
	p, removed := trackerLog()
	p.replace(1, &addrSpace{})
	p.record(mmapRecord(1, 0x1000, 0x5000, 0, "/bin/a"))
	p.record(&format.Fork{PID: 1, TID: 8, PPID: 1, PTID: 1})
	p.record(&format.Exit{PID: 1, TID: 1})
	p.record(&format.Fork{PID: 1, TID: 9, PPID: 1, PTID: 8})
	p.record(&format.Exit{PID: 1, TID: 8})
	for range 3 {
		p.forgetExited()
	}
	has(t, p, 1, "1000-5000 0 /bin/a")
	p.record(&format.Fork{PID: 2, TID: 2, PPID: 1, PTID: 9})
	has(t, p, 2, "1000-5000 0 /bin/a")
	p.record(&format.Exit{PID: 1, TID: 9})
	for range 2 {
		p.forgetExited()
	}
	if !slices.Equal(*removed, []int32{1}) {
		t.Errorf("removed: %v", *removed)
	}
}

// TestTrackerCounts checks reference counts of spaces: a space without users has count 0
// after any sequence of records.
func TestTrackerCounts(t *testing.T) {
	p, _ := trackerLog()
	rnd := rand.New(rand.NewSource(1))
	p.replace(0, &addrSpace{})
	for i := range 20000 {
		pid, other := int32(rnd.Intn(30)), int32(rnd.Intn(30))
		switch rnd.Intn(6) {
		case 0, 1:
			p.record(&format.Fork{PID: pid, TID: pid, PPID: other, PTID: other})
		case 2:
			p.record(&format.Comm{PID: pid, TID: pid, Exec: true})
		case 3:
			p.record(&format.Exit{PID: pid, TID: pid})
			p.forgetExited()
		default:
			start := uint64(rnd.Intn(100)) << 12
			p.record(mmapRecord(pid, start, start+uint64(1+rnd.Intn(20))<<12, 0, "/bin/a"))
		}
		users := map[*addrSpace]int{}
		for _, proc := range p.byPID {
			users[proc.space]++
		}
		for s, n := range users {
			if s.refs != n {
				t.Fatalf("step %d: a space with %d users counts %d", i, n, s.refs)
			}
		}
	}
}

// TestTrackerLooksUp checks that a process without records is read from /proc, also after
// records were lost.
func TestTrackerLooksUp(t *testing.T) {
	p, _ := trackerLog()
	pid := int32(os.Getpid())
	for range 2 {
		proc := p.get(pid)
		if proc == nil {
			t.Fatal("this process is not found")
		}
		exe, err := os.Readlink("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if !proc.space.mapsFile(func(f *mappedFile) bool { return f.name == exe }) ||
			!proc.space.mapsFile(func(f *mappedFile) bool { return strings.HasPrefix(f.name, "[vdso") }) {
			t.Errorf("%d mappings, none of %s or vdso", proc.space.maps.Len(), exe)
		}
		p.forget()
	}
	if p.get(1<<30) != nil {
		t.Error("a process that does not exist is found")
	}
}

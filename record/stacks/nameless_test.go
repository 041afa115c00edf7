package stacks

import (
	"os"
	"slices"
	"testing"

	"gperf/format"
	"gperf/internal/dso"
)

// TestNamelessJava checks that sampled Java processes without a perf map are listed, whether or not they still
// run, but neither children of these nor processes with a map or a jitdump.
func TestNamelessJava(t *testing.T) {
	const (
		running, exited, child = 1<<30 + 1, 1<<30 + 2, 1<<30 + 3
		dumping, other, named  = 1<<30 + 4, 1<<30 + 5, 1<<30 + 6
	)
	if err := os.WriteFile(dso.PerfMap(named), nil, 0o666); err != nil {
		t.Skip(err)
	}
	defer os.Remove(dso.PerfMap(named))
	g := &registry{verbose: func(string) {}}
	g.tracker = newTracker(func(p *process) { g.exitedJava(p) })
	for _, pid := range []int32{running, exited, dumping, other, named} {
		g.tracker.replace(pid, &addrSpace{}).registered = true
		if pid != other {
			g.tracker.record(mmapRecord(pid, 0x1000, 0x2000, 0, "/usr/lib/jvm/lib/server/libjvm.so"))
		}
	}
	g.tracker.record(mmapRecord(dumping, 0x3000, 0x4000, 0, "/home/a/.debug/jit-4.dump"))
	g.tracker.record(&format.Fork{PPID: exited, PID: child})
	g.tracker.record(&format.Exit{PID: child, TID: child})
	g.tracker.record(&format.Exit{PID: exited, TID: exited})
	g.tracker.record(&format.Exit{PID: named, TID: named})
	want := []Nameless{{PID: running}, {PID: exited, Exited: true}}
	if got := g.namelessJava(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

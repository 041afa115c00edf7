package stacks

import (
	"encoding/binary"
	"fmt"
	"testing"

	"gperf/format"
	"gperf/record/perfevent"
)

// BenchmarkShortProcesses reads the side band of processes that a shell forks, each of which
// calls exec, maps four files and exits, in batches as the recorder drains them.
func BenchmarkShortProcesses(b *testing.B) {
	const st = format.SampleIdentifier | format.SampleTID | format.SampleTime
	const batch = 200 // processes
	var data []byte
	time := uint64(1)
	add := func(rec interface{ Append([]byte, int) []byte }, misc format.Misc) {
		at := len(data)
		data = rec.Append(data, 24)
		time++
		end := data[len(data)-24:]
		binary.LittleEndian.PutUint64(end[8:], time)
		binary.LittleEndian.PutUint64(end[16:], 1)
		binary.LittleEndian.PutUint16(data[at+4:], binary.LittleEndian.Uint16(data[at+4:])|uint16(misc))
	}
	for i := range batch {
		pid := int32(100 + i)
		add(&format.Fork{PID: pid, TID: pid, PPID: 1, PTID: 1}, 0)
		add(&format.Comm{PID: pid, TID: pid, Comm: "true"}, format.MiscCommExec)
		for n, name := range []string{"/usr/bin/true", "/usr/lib/ld-linux.so", "[vdso]", "/usr/lib/libc.so.6"} {
			start := uint64(n+1) << 24
			m := mmapRecord(pid, start, start+0x5000, 0, name)
			m.BuildID = fmt.Append(nil, "0123456789012345678", n)
			add(m, 0)
		}
		at := len(data)
		add(&format.Fork{PID: pid, TID: pid, PPID: 1, PTID: 1}, 0)
		binary.LittleEndian.PutUint32(data[at:], uint32(format.TypeExit))
	}
	size := 1 << 20
	var head uint64
	mem := make([]byte, size)
	n := &Merger{Ring: perfevent.NewRing(mem, &head), tally: new(perfevent.Tally)}
	side := sideBand{types: map[uint64]format.SampleType{1: st}, scanned: []uint64{0}}
	g := testRegistry()
	g.parent(1)
	heads := []uint64{0}
	b.ReportAllocs()
	for b.Loop() {
		for i := range data {
			mem[(head+uint64(i))&uint64(size-1)] = data[i]
		}
		head += uint64(len(data))
		heads[0] = head
		n.Ring.Read = head
		side.collect([]*Merger{n}, heads)
		side.until(1<<63, g.apply)
		g.update()
		for range 2 {
			g.tracker.forgetExited()
		}
		if len(g.tracker.byPID) != 1 {
			b.Fatalf("%d processes", len(g.tracker.byPID))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/process")
}

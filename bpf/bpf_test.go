package bpf

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/unwind"
)

// What is given out never overlaps, what was given back stays out of reach for
// the grace, and in the end all is one piece again.
func TestExtents(t *testing.T) {
	const size, grace = 1000, time.Second
	rnd := rand.New(rand.NewSource(1))
	e := newExtents(size, grace)
	now := time.Unix(0, 0)
	var out []extent
	free := make([]time.Time, size) // since when
	for range 5000 {
		now = now.Add(100 * time.Millisecond)
		if n := uint32(1 + rnd.Intn(60)); rnd.Intn(2) == 0 {
			first, ok := e.take(n, now)
			if !ok {
				continue
			}
			for i := first; i < first+n; i++ {
				if now.Before(free[i]) {
					t.Fatalf("element %d is handed out at %v, in use or in its grace until %v", i, now, free[i])
				}
				free[i] = now.Add(time.Hour * 1000)
			}
			out = append(out, extent{first, n})
		} else if len(out) > 0 {
			i := rnd.Intn(len(out))
			e.give(out[i].first, out[i].n, now)
			for j := out[i].first; j < out[i].first+out[i].n; j++ {
				free[j] = now.Add(grace)
			}
			out = slices.Delete(out, i, i+1)
		}
	}
	for _, x := range out {
		e.give(x.first, x.n, now)
	}
	if first, ok := e.take(size, now.Add(grace)); !ok || first != 0 {
		t.Errorf("after all is given back, take(%d) = %d, %v", size, first, ok)
	}
}

// The layouts that C and Go share.
func TestLayouts(t *testing.T) {
	if a, b := unsafe.Sizeof(unwind.Rule{}), unsafe.Sizeof(unwindRule{}); a != b || a != 16 {
		t.Errorf("a rule has %d bytes in Go, %d in C", a, b)
	}
	if a, b := unsafe.Sizeof(unwind.Page{}), unsafe.Sizeof(unwindPage{}); a != b {
		t.Errorf("a page has %d bytes in Go, %d in C", a, b)
	}
	rule := unwind.Rule{CFA: unwind.CFARBP, RA: unwind.RAReg, FP: unwind.FPAtSP, Flags: unwind.FlagSignal, CFAOff: -5, CFAOff2: 6, RAOff: -7, FPOff: 8}
	c := *(*unwindRule)(unsafe.Pointer(&rule))
	c2 := unwindRule{Cfa: 2, Ra: 2, Fp: 3, Flags: 1, CfaOff: -5, CfaOff2: 6, RaOff: -7, FpOff: 8}
	if c != c2 {
		t.Errorf("a rule in C reads %+v, want %+v", c, c2)
	}
	row := *(*uint32)(unsafe.Pointer(&unwind.Row{Off: 0x1234, Rule: 0x5678}))
	if row != 0x56781234 {
		t.Errorf("a row reads %#x", row)
	}
	if n := unsafe.Sizeof(unwindHead{}); n != HeadSize {
		t.Errorf("a head has %d bytes in C", n)
	}
}

func head(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func TestParseHead(t *testing.T) {
	frames := head(uint32(EndEntry), 10, 3, 2, 0)
	for _, c := range []struct {
		name string
		b    []byte
		want Head
		ok   bool
	}{
		{"frames", append(frames, make([]byte, 16)...), Head{EndEntry, 10, 3, 2, 0, false}, true},
		{"padding behind", append(frames, make([]byte, 20)...), Head{EndEntry, 10, 3, 2, 0, false}, true},
		{"no user stack", head(uint32(EndNoUser), 10, 3, 0, 0), Head{EndNoUser, 10, 3, 0, 0, false}, true},
		{"copy", append(head(uint32(EndNoTable), 10, 3, 0, 8), make([]byte, CopyAhead+8)...), Head{EndNoTable, 10, 3, 0, 8, true}, true},
		{"short head", frames[:19], Head{}, false},
		{"frames missing", append(frames, make([]byte, 15)...), Head{}, false},
		{"too many frames to count in bytes", head(uint32(EndEntry), 1, 1, 1<<29+1, 0), Head{}, false},
		{"stack missing", append(head(uint32(EndNoTable), 1, 1, 0, 8), make([]byte, CopyAhead)...), Head{}, false},
		{"registers missing", head(uint32(EndNoProcess), 1, 1, 0, 0), Head{}, false},
		{"unknown end", head(uint32(NumEnds), 1, 1, 0, 0), Head{}, false},
	} {
		h, ok := ParseHead(c.b)
		if ok != c.ok || ok && h != c.want {
			t.Errorf("%s: %+v, %v", c.name, h, ok)
		}
	}
}

// The kernel's verifier takes all programs, and what is written to the arrays is
// what the kernel has.
func TestLoad(t *testing.T) {
	u, err := Load(Options{Programs: []Program{OnEvent, OnTracepoint, OnProbe}, CPUs: 1, Rows: 1 << 16, PerTask: true})
	if errors.Is(err, unix.EPERM) || errors.Is(err, ErrArch) {
		t.Skipf("CAP_BPF and CAP_PERFMON, or x86-64, are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	defer u.Close()
	rows := make([]unwind.Row, 3001)
	for i := range rows {
		rows[i] = unwind.Row{Off: uint16(i), Rule: uint16(i % 2)}
	}
	table := &unwind.Table{Base: 5, Pages: []unwind.Page{{First: 0, N: 1001}, {First: 1001, N: 2000}}, Rows: rows, Rules: make([]unwind.Rule, 2)}
	var last Table
	for range 10 { // the second begins in the middle of an element
		if last, err = u.AddTable(table, 0); err != nil {
			t.Fatal(err)
		}
	}
	var tab unwindTable
	var page unwindPage
	var pair uint64
	if err := u.coll.Maps["tables"].Lookup(last.Index(), &tab); err != nil || tab.Base != 5 || tab.NumPages != 2 {
		t.Fatalf("table %+v, %v", tab, err)
	}
	if err := u.coll.Maps["pages"].Lookup(tab.Pages+1, &page); err != nil || page.N != 2000 {
		t.Fatalf("page %+v, %v", page, err)
	}
	index := page.First + 1999
	if err := u.coll.Maps["rows"].Lookup(index/2, &pair); err != nil {
		t.Fatal(err)
	}
	if row := uint32(pair >> (32 * (index & 1))); row != 3000 {
		t.Errorf("the last row reads %#x", row)
	}
	var full *FullError
	for range 30 {
		_, err = u.AddTable(table, 0)
	}
	if !errors.As(err, &full) || full.Array != "rows" {
		t.Errorf("beyond what there is room for: %v", err)
	}
	m, err := u.AddMappings([]Mapping{{Start: 0x1000, End: 0x2000, Bias: 0x1000, Table: last.Index()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.SetProcess(1, 2, m); err != nil {
		t.Error(err)
	}
	var p unwindProcess
	if err := u.coll.Maps["processes"].Lookup(uint32(1), &p); err != nil || p.Exec != 2 || p.N != 1 {
		t.Errorf("process %+v, %v", p, err)
	}
	u.RemoveProcess(1)
	if err := u.coll.Maps["processes"].Lookup(uint32(1), &p); err == nil {
		t.Error("a process that was removed is there")
	}
}

// The kernel's verifier takes the programs that make samples, with the walk and
// without, and those of raw tracepoints with all numbers of arguments.
func TestEmitter(t *testing.T) {
	u, err := Load(Options{Programs: []Program{OnTracepoint}, CPUs: 2, Rows: 1 << 16})
	if errors.Is(err, unix.EPERM) || errors.Is(err, ErrArch) {
		t.Skipf("CAP_BPF and CAP_PERFMON, or x86-64, are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	defer u.Close()
	for _, o := range []EmitterOptions{{CPUs: 2}, {CPUs: 2, PerTask: []uint64{1, 2}, Unwinder: u}} {
		e, err := NewEmitter(o)
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		defer e.Close()
		if err := e.AttachRawTracepoint("sched_process_exec", 1, 3); err != nil {
			t.Errorf("raw tracepoint: %v\n%s", err, VerifierLog(err))
		}
		if err := e.AttachRawTracepoint("sched_process_exec", 2, 0); err != nil {
			t.Errorf("raw tracepoint, no arguments: %v\n%s", err, VerifierLog(err))
		}
		if err := e.AttachRawTracepoint("sched_process_exec", 3, 4); err == nil {
			t.Error("a fourth argument of sched_process_exec: the kernel takes it")
		}
		before := openFiles(t)
		for id := range uint16(10) {
			if err := e.AttachRawTracepoint("sched_process_exec", 4+id, 3); err != nil {
				t.Fatal(err)
			}
		}
		if n := openFiles(t) - before; n > 30 {
			t.Errorf("10 more raw tracepoints take %d files; a program, its types and a link each are 30", n)
		}
		if _, err := e.load("on_raw", map[string]uint32{"raw_args": uint32(MaxRawArgs)}); err != nil {
			t.Errorf("%d arguments: %v\n%s", MaxRawArgs, err, VerifierLog(err))
		}
		if err := HaveKprobeMulti(); err != nil {
			t.Logf("functions are not probed here: %v", err)
			continue
		}
		for _, p := range []string{"on_function", "on_return"} {
			if _, err := e.load(p, nil); err != nil {
				t.Errorf("%s: %v\n%s", p, err, VerifierLog(err))
			}
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

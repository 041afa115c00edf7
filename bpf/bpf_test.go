package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"gperf/internal/runtimes"
	"gperf/internal/runtimes/hotspot"
	"gperf/unwind"
)

// TestExtents checks that allocated elements never overlap, that freed elements are not
// allocated again during the grace, and that freeing all elements joins them to one extent.
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

// TestLayouts checks that the programs' structs have the sizes of those in Go that shared.h is made of.
func TestLayouts(t *testing.T) {
	spec, err := loadUnwind()
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uintptr{
		"pages":      unsafe.Sizeof(unwind.Page{}),
		"rules":      unsafe.Sizeof(unwind.Rule{}),
		"runtimes":   unsafe.Sizeof(runtimes.Walk{}),
		"code_heaps": unsafe.Sizeof(hotspot.Heap{}),
	} {
		if n := spec.Maps[name].ValueSize; uintptr(n) != size {
			t.Errorf("an element of %s has %d bytes in C, %d in Go", name, n, size)
		}
	}
	row := *(*uint32)(unsafe.Pointer(&unwind.Row{Off: 0x1234, Rule: 0x5678}))
	if row != 0x56781234 {
		t.Errorf("a row reads %#x", row)
	}
	if n := unsafe.Sizeof(unwindHead{}); int(n) != HeadSize {
		t.Errorf("a head has %d bytes in C", n)
	}
}

// head returns the first words of a head, and zeros for the others.
func head(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, make([]byte, HeadSize-len(b))...)
}

func TestParseHead(t *testing.T) {
	frames := head(uint32(EndEntry), 10, 3, 2, 0)
	for _, c := range []struct {
		name string
		b    []byte
		want Head
		ok   bool
	}{
		{"frames", append(frames, make([]byte, 16)...), Head{End: EndEntry, TGID: 10, Exec: 3, Frames: 2}, true},
		{"padding after the frames", append(frames, make([]byte, 20)...),
			Head{End: EndEntry, TGID: 10, Exec: 3, Frames: 2}, true},
		{"interpreted frames", append(head(uint32(EndEntry), 10, 3, 2, 0, 1, 7), make([]byte, 32)...),
			Head{End: EndEntry, TGID: 10, Exec: 3, Frames: 2, Interpreted: 1, Generation: 7}, true},
		{"interpreted frames missing", append(head(uint32(EndEntry), 10, 3, 2, 0, 1), make([]byte, 31)...), Head{}, false},
		{"no user stack", head(uint32(EndNoUser), 10, 3, 0, 0), Head{End: EndNoUser, TGID: 10, Exec: 3}, true},
		{"copy", append(head(uint32(EndNoTable), 10, 3, 0, 8), make([]byte, CopyAhead+8)...),
			Head{End: EndNoTable, TGID: 10, Exec: 3, Stack: 8, Copy: true}, true},
		{"short head", frames[:HeadSize-1], Head{}, false},
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

// TestLoad checks that the kernel's verifier accepts all programs, and that the kernel's
// arrays contain the data written to them.
func TestLoad(t *testing.T) {
	u, err := Load(Options{Programs: []Program{OnEvent, OnTracepoint, OnProbe}, CPUs: 1, Rows: 1 << 16, PerTask: true})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	defer u.Close()
	rows := make([]unwind.Row, 3001)
	for i := range rows {
		rows[i] = unwind.Row{Off: uint16(i), Rule: uint16(i % 2)}
	}
	table := &unwind.Table{Base: 5, Pages: []unwind.Page{{First: 0, N: 1001}, {First: 1001, N: 2000}}, Rows: rows,
		Rules: make([]unwind.Rule, 2)}
	var last Table
	for range 10 { // the second begins in the middle of an element
		if last, err = u.AddTable(table, 0); err != nil {
			t.Fatal(err)
		}
	}
	var tab unwindTable
	var page unwindPage
	var pair uint64
	if err := u.loader.get("tables").Lookup(last.Index(), &tab); err != nil || tab.Base != 5 || tab.NumPages != 2 {
		t.Fatalf("table %+v, %v", tab, err)
	}
	if err := u.loader.get("pages").Lookup(tab.Pages+1, &page); err != nil || page.N != 2000 {
		t.Fatalf("page %+v, %v", page, err)
	}
	index := page.First + 1999
	if err := u.loader.get("rows").Lookup(index/2, &pair); err != nil {
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
		t.Errorf("more elements than there is space for: %v", err)
	}
	m, err := u.AddMappings([]Mapping{{Start: 0x1000, End: 0x2000, Bias: 0x1000, Table: last.Index()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.SetProcess(1, 2, m, 0, false); err != nil {
		t.Error(err)
	}
	var p unwindProcess
	if err := u.loader.get("processes").Lookup(uint32(1), &p); err != nil || p.Exec != 2 || p.N != 1 {
		t.Errorf("process %+v, %v", p, err)
	}
	u.RemoveProcess(1)
	if err := u.loader.get("processes").Lookup(uint32(1), &p); err == nil {
		t.Error("a removed process still exists")
	}
}

// TestProbesStack checks that the code of the program at probes, which may run twice on a CPU, does not keep
// variables in memory of the CPU. x86-64's JIT adds %gs:offset to r9 for that.
func TestProbesStack(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the instruction is x86-64's")
	}
	u, err := Load(Options{Programs: []Program{OnProbe}, CPUs: 1, Rows: 1 << 16})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	info, err := u.coll.Programs[string(OnProbe)].Info()
	if err != nil {
		t.Fatal(err)
	}
	code, ok := info.JitedInsns()
	if !ok || len(code) == 0 {
		t.Skip("the kernel does not show the program's code")
	}
	if add := []byte{0x65, 0x4c, 0x03, 0x0c, 0x25}; bytes.Contains(code, add) {
		t.Error("the program has a stack in memory of the CPU")
	}
}

// everyWalk is an unwinder with all programs: it is loaded once, because the verifier takes long for it.
var everyWalk = sync.OnceValues(func() (*Unwinder, error) {
	return Load(Options{Programs: []Program{OnTracepoint, OnEvent, OnProbe}, CPUs: 2, Rows: 1 << 16})
})

// anyUnwinder returns everyWalk, for programs that are loaded in addition to it and do not run.
func anyUnwinder(t *testing.T) *Unwinder {
	t.Helper()
	u, err := everyWalk()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	return u
}

// TestSampler checks that the kernel's verifier accepts the programs that make samples, with and without the walk,
// and the programs of raw tracepoints with all numbers of arguments.
func TestSampler(t *testing.T) {
	u := anyUnwinder(t)
	for _, o := range []SamplerOptions{{CPUs: 2}, {CPUs: 2, PerTask: []uint64{1, 2}, Unwinder: u}} {
		if testing.Short() && o.Unwinder != nil { // TestEveryProgram loads programs with the walk
			continue
		}
		e, err := NewSampler(o)
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		defer e.Close()
		exec := func(id uint16, filter *Filter, fetches ...string) *RawTracepoint {
			r := &RawTracepoint{Name: "sched_process_exec", ID: id, Size: 8, Filter: filter}
			for _, f := range fetches {
				r.Values = append(r.Values, Value{f, r.Size})
				r.Size += 64
			}
			return r
		}
		for name, r := range map[string]*RawTracepoint{
			"arguments":    exec(1, nil, "$arg1", "$arg2:s32", "$arg3:x64"),
			"no arguments": exec(2, nil),
			"values": exec(3, nil, `\7:u16`, "+0($arg1):u8", "-8(+16($arg3)):x64", "+u8(+16($arg3)):s32", "+0($arg1):b3@2/32", "$arg2:b1@31/32",
				"+0x10(+0x20(+0x30($arg1))):u8[16]", "+8($arg1):symbol", "+123456789012($arg1):char"),
			"strings": exec(4, nil, "+0(+16($arg3)):string", "+0($arg3):ustring", "+u0($arg3):string", "+8($arg1):string"),
			"a filter of numbers": exec(5, &Filter{Op: "||", Left: &Filter{Op: "!", Left: &Filter{Op: "&&",
				Left: &Filter{Op: ">=", At: 8, Size: 8, Number: 1 << 63}, Right: &Filter{Op: "<", At: 12, Size: 2,
					Signed: true, Number: 1<<64 - 5}}},
				Right: &Filter{Op: "&&", Left: &Filter{Op: "&", At: 8, Size: 1, Number: 3}, Right: &Filter{Op: "==",
					Of: CurrentCPU, Number: 1}}}, "$arg1:x64"),
			"a filter of text": exec(6, &Filter{Op: "||", Left: &Filter{Op: "==", Of: FieldDynamic, At: 8, Text: "/usr/bin/some-program"},
				Right: &Filter{Op: "&&", Left: &Filter{Op: "!=", Of: CurrentComm, Text: "gperf"},
					Right: &Filter{Op: "||", Left: &Filter{Op: "==", Of: FieldText, At: 72, Size: 8, Text: "12345678"},
						Right: &Filter{Op: "==", Of: FieldText, At: 72, Size: 8, Text: "longer than the field"}}}},
				"+0(+16($arg3)):string", "$arg1:x64"),
		} {
			if err := e.AttachRawTracepoint(r); err != nil {
				t.Errorf("%s: %v\n%s", name, err, VerifierLog(err))
			}
		}
		if err := e.AttachRawTracepoint(exec(7, nil, "$arg4")); err == nil {
			t.Error("a fourth argument of sched_process_exec: the kernel accepts it")
		}
		before, more := openFiles(t), 10
		if testing.Short() {
			more = 1
		}
		for id := range more {
			if err := e.AttachRawTracepoint(exec(8+uint16(id), nil, "$arg1")); err != nil {
				t.Fatal(err)
			}
		}
		if n := openFiles(t) - before; n > 3*more {
			t.Errorf("%d more raw tracepoints take %d files, not 3 each: a program, its types and a link", more, n)
		}
		var dynamic [maxDynamic]uint32
		own := map[string]any{"fixed_size": uint32(maxFixed), "own_size": uint32(100),
			"num_dynamic": uint32(maxDynamic), "dynamic_at": dynamic}
		if _, err := e.load(own, nil, "on_raw", "on_record"); err != nil {
			t.Errorf("a tracepoint's own record: %v\n%s", err, VerifierLog(err))
		}
		if _, err := e.load(nil, map[string]asm.Instructions{"misnamed": loadArg(1)}, "on_raw"); err == nil {
			t.Error("a function that the program lacks is replaced")
		}
		if err := HaveKprobeMulti(); err != nil {
			t.Logf("cannot probe functions here: %v", err)
			continue
		}
		for _, p := range []string{"on_function", "on_return"} {
			if _, err := e.load(nil, nil, p); err != nil {
				t.Errorf("%s: %v\n%s", p, err, VerifierLog(err))
			}
		}
	}
}

// TestEveryProgram checks that the verifier accepts all programs that make samples and count, with the walk.
func TestEveryProgram(t *testing.T) {
	u := anyUnwinder(t)
	t.Run("count", func(t *testing.T) {
		p, err := NewCounter(CounterOptions{CPUs: 2, UserStacks: UserByTables, Unwinder: u, PerTask: true,
			Probes: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		defer p.Close()
		for program := range counterPrograms {
			if err := p.Load(CountedEvent{Program: program, KernelFrames: maxKernelFrames}); err != nil {
				t.Errorf("%s: %v\n%s", program, err, VerifierLog(err))
			}
		}
		whole, err := p.load("count_tracepoint", nil) // for kernels without tail calls
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		whole.Close()
	})
	for object, load := range map[string]func() (*ebpf.CollectionSpec, error){"emit": loadEmit, "span": loadSpan,
		"verdict": loadVerdict} {
		t.Run(object, func(t *testing.T) {
			spec, err := load()
			if err != nil {
				t.Fatal(err)
			}
			for _, byPointer := range []bool{false, true} {
				if byPointer && object != "verdict" {
					continue
				}
				loadAll(t, u, spec, byPointer)
			}
		})
	}
}

// loadAll loads all programs of an object whose types this kernel defines.
func loadAll(t *testing.T, u *Unwinder, spec *ebpf.CollectionSpec, byPointer bool) {
	t.Helper()
	e, err := NewSampler(SamplerOptions{CPUs: 2, PerTask: []uint64{1, 2}, Unwinder: u, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if spec.Programs["on_drop"] != nil {
		if _, err := (&layouts{types: e.loader.types}).structOf("x_tables", "xt_table_info"); err != nil {
			t.Skipf("x_tables is not loaded: %v", err)
		}
	}
	staged, err := loadStages(e, stageRead, stageSend)
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	var names []string
	for name, p := range spec.Programs {
		switch {
		case !staged && p.Type == ebpf.RawTracepoint && slices.ContainsFunc(p.Instructions, isTailCall):
			t.Logf("%s: this kernel does not support it", name)
		case p.Type == ebpf.Tracing: // TestDropsAlone loads it, which needs another program to attach it to
		case p.AttachType == ebpf.AttachTraceKprobeMulti && HaveKprobeMulti() != nil,
			p.AttachType == ebpf.AttachTraceKprobeSession && features.HaveBPFLinkKprobeSession() != nil:
			t.Logf("%s: this kernel has no programs of this kind", name)
		default:
			names = append(names, name)
		}
	}
	vars := map[string]any{}
	for name, v := range map[string]any{"fixed_size": uint32(maxFixed), "snap": uint32(MaxSnap),
		"rules_by_pointer": flag(byPointer), "per_cpu_offset": uint64(1), "xt_table_first": flag(!byPointer), "ebt_table_first": flag(!byPointer),
		"cpus": uint32(2), "by_entry": flag(!haveCookies())} {
		if spec.Variables[name] != nil {
			vars[name] = v
		}
	}
	_, own, err := e.loadFrom(spec, vars, nil, names...)
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	own.Close()
}

func isTailCall(ins asm.Instruction) bool {
	return ins.IsBuiltinCall() && ins.Constant == int64(asm.FnTailCall)
}

// socketEvent is an event with the packets of a socket, which is the first argument.
func socketEvent(id uint16) *RawTracepoint {
	return &RawTracepoint{Name: "sock_exceed_buf_limit", ID: id, Size: 264 + 8*int(id),
		Values: []Value{{"$arg2:u64", 256 + 8*int(id)}}, Packet: &Packet{Arg: 1, IsSock: true, At: 8}}
}

// stagedSampler returns a Sampler whose programs run.
func stagedSampler(t *testing.T, o SamplerOptions) *Sampler {
	t.Helper()
	e, err := NewSampler(o)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	t.Cleanup(e.Close)
	if staged, err := loadStages(e, stageRead, stageSend); err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	} else if !staged {
		t.Skip("this kernel does not let programs with functions make tail calls")
	}
	return e
}

// verified returns the number of instructions that the verifier saw for programs.
func verified(t *testing.T, programs []*ebpf.Program) (n uint64) {
	t.Helper()
	for _, p := range programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		one, ok := info.VerifiedInstructions()
		if !ok {
			t.Skip("this kernel does not count verified instructions")
		}
		n += uint64(one)
	}
	return n
}

// TestStagesVerifiedOnce checks that a further event with a packet costs the verifier little, compared with the
// programs that all events share.
func TestStagesVerifiedOnce(t *testing.T) {
	e := stagedSampler(t, SamplerOptions{CPUs: 2, Unwinder: anyUnwinder(t), Follow: true, RawTracepoints: 2})
	shared := verified(t, e.programs)
	for id := range uint16(2) {
		before := len(e.programs)
		if err := e.AttachRawTracepoint(socketEvent(id)); err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		if n := verified(t, e.programs[before:]); n > shared/20 {
			t.Errorf("event %d: the verifier saw %d instructions, and %d for all events", id, n, shared)
		}
	}
}

// TestTracepointsVerifiedOnce checks that counting at a further tracepoint costs the verifier little.
func TestTracepointsVerifiedOnce(t *testing.T) {
	p, err := NewCounter(CounterOptions{CPUs: 2, UserStacks: UserByTables, Unwinder: anyUnwinder(t), PerTask: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	defer p.Close()
	if !haveTailCalls() {
		t.Skip("this kernel does not let programs with functions make tail calls")
	}
	for i := range 2 {
		err := p.Load(CountedEvent{Index: i, Program: OnTracepoint, KernelFrames: maxKernelFrames})
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		shared := verified(t, []*ebpf.Program{p.shared})
		if n := verified(t, []*ebpf.Program{p.programs[i]}); n > shared/10 {
			t.Errorf("event %d: the verifier saw %d instructions, and %d for all events", i, n, shared)
		}
	}
}

// TestStages runs the programs of events in turns, and checks the sample of each. Without one of the stages, samples
// are lost, which is counted.
func TestStages(t *testing.T) {
	e := stagedSampler(t, SamplerOptions{CPUs: 2, RawTracepoints: 3})
	events := map[uint16]*ebpf.Program{}
	for _, ev := range []*RawTracepoint{socketEvent(1), {Name: "sock_exceed_buf_limit", ID: 2, Size: 16,
		Values: []Value{{"$arg2:u64", 8}}}, socketEvent(3)} {
		before := len(e.programs)
		if err := e.AttachRawTracepoint(ev); err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		events[ev.ID] = e.programs[before]
	}
	if err := e.Enable(true); err != nil {
		t.Fatal(err)
	}
	value := uint64(1 << 40)
	run := func(id uint16) {
		t.Helper()
		value++
		if _, err := events[id].Run(&ebpf.RunOptions{Context: [MaxRawArgs]uint64{0, value}}); err != nil {
			t.Fatal(err)
		}
	}
	for range maxLevels + 1 {
		for id := range events {
			if run(id); !hasSample(t, e, id, value) {
				t.Errorf("event %d: no sample", id)
			}
		}
	}
	if n := e.Stats().Missed; n != 0 {
		t.Errorf("%d samples are lost", n)
	}
	for i, stage := range []uint32{stageSend, stageRead} {
		if err := e.loader.get("stages").Delete(stage); err != nil {
			t.Fatal(err)
		}
		for range maxLevels + 1 {
			run(3)
		}
		if n := e.Stats().Missed; int(n) != (i+1)*(maxLevels+1) {
			t.Errorf("without stages: %d samples are lost, want %d", n, (i+1)*(maxLevels+1))
		}
	}
	run(2)
}

// hasSample reports whether the memory of samples of a CPU contains a sample of an event with this value.
func hasSample(t *testing.T, e *Sampler, id uint16, value uint64) bool {
	t.Helper()
	const size = MaxSample + 512 // SAMPLE_SLACK
	var cpus [][]byte
	if err := e.loader.get("shared_samples").Lookup(uint32(0), &cpus); err != nil {
		t.Fatal(err)
	}
	want := binary.LittleEndian.AppendUint64(nil, value)
	return slices.ContainsFunc(cpus, func(b []byte) bool {
		data := b[len(b)-size:]
		return binary.LittleEndian.Uint16(data) == id && bytes.Contains(data, want)
	})
}

// TestVerdictConstants checks that the programs have the constants that are set.
func TestVerdictConstants(t *testing.T) {
	spec, err := loadVerdict()
	if err != nil {
		t.Fatal(err)
	}
	vars, err := (&Verdict{}).constants()
	if err != nil {
		t.Fatal(err)
	}
	for name := range vars {
		if spec.Variables[name] == nil {
			t.Errorf("there is no constant %s", name)
		}
	}
}

// TestVerdictWithoutFirewall checks the errors for kernels without netfilter, and without a part of it that drops.
func TestVerdictWithoutFirewall(t *testing.T) {
	e := &Sampler{loader: newLoader(nil, nil)}
	if err := e.AttachVerdict(&Verdict{}); err == nil || !strings.Contains(err.Error(), "it has no netfilter") {
		t.Errorf("without functions: %v", err)
	}
	var left []string
	v := &Verdict{Functions: map[string][]CodeRange{"nf_hook_slow": {{1, 2}}},
		Left: func(part string, err error) { left = append(left, part) }}
	if err := e.AttachVerdict(v); !errors.Is(err, ErrNoFirewall) || len(left) != len(netfilterParts) {
		t.Errorf("%v, left out: %q", err, left)
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

// TestOffCPU checks that the kernel's verifier accepts the programs that record waits.
func TestOffCPU(t *testing.T) {
	u := anyUnwinder(t)
	code := []Code{{0x1000, 0x2000}}
	for name, o := range map[string]OffCPUOptions{
		"no stacks": {}, "pointers": {UserStacks: UserByFP},
		"tables": {UserStacks: UserByTables, Unwinder: u, PerTask: []uint64{1, 2}, Threshold: 1},
		"wakers": {UserStacks: UserByTables, Unwinder: u, Wakers: true, Interrupts: code, Returns: code, Threshold: 1},
	} {
		o.CPUs = 2
		w, err := LoadOffCPU(o)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, VerifierLog(err))
			continue
		}
		if name == "no stacks" {
			testSleepers(t, w)
		}
		w.Close()
	}
}

// testSleepers finds where a process sleeps that exists, and nothing of one that does not.
func testSleepers(t *testing.T, w *OffCPU) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := uint32(cmd.Process.Pid)
	for range 100 { // until it sleeps in the kernel
		l, err := w.Sleepers([]uint32{pid, 1 << 30})
		if err != nil {
			t.Fatalf("%v\n%s", err, VerifierLog(err))
		}
		if len(l) == 1 && l[0].PID == pid && l[0].TID == pid && len(l[0].Kernel) >= 3*8 && l[0].Head.Copy &&
			l[0].Head.TGID != 0 && l[0].Regs[NumRegs-1] != 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the sleeping process is not found, or has no frames or registers")
}

func TestFetchErrors(t *testing.T) {
	for fetch, want := range map[string]string{
		"%di:u32":                     "not known at a tracepoint",
		"$arg0":                       "there are $arg1 to $arg12",
		"$arg13:u8":                   "there are $arg1 to $arg12",
		"+0($arg1):u7":                "cannot be read",
		"$arg1:string":                "is at an address",
		"$arg1:u8[4]":                 "is at an address",
		"+0($arg1):string[2]":         "no arrays",
		"+0($arg1):b4@30/32":          "these bits",
		"+0($arg1):u64[99]":           "more than 512 bytes",
		"+0(@jiffies)":                "not known",
		`+0(\x)`:                      "not a number",
		"+0xfffffffffffffffff($arg1)": "too large",
	} {
		if _, err := compileFetch([]Value{{Fetch: fetch}}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fetch, err, want)
		}
	}
	for _, f := range []*Filter{{Op: "~", Of: FieldText, Size: 4, Text: "x"}, {Op: "^", Size: 4}, {Op: "==", Size: 3}} {
		if _, err := compileFetch(nil, f); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
}

// TestKprobePlace checks that the place of a kprobe is unambiguous if the offset is known. Several functions may have
// one name: the kernel takes the first, or, since Linux 6.6, refuses.
func TestKprobePlace(t *testing.T) {
	for _, c := range []struct {
		k      Kprobe
		symbol string
		off    uint64
	}{
		{Kprobe{Symbol: "c_start", FromText: 0x1000}, "_text", 0x1000},
		{Kprobe{Symbol: "nf_conntrack_in"}, "nf_conntrack_in", 0}, // of a module
	} {
		if symbol, o := c.k.place(7); symbol != c.symbol || o.Offset != c.off || o.Cookie != 7 {
			t.Errorf("%+v: %s+%#x, cookie %d", c.k, symbol, o.Offset, o.Cookie)
		}
	}
}

// TestTailCalls checks that programs share others where they can: otherwise the tests of that skip.
func TestTailCalls(t *testing.T) {
	anyUnwinder(t)
	if runtime.GOARCH == "amd64" && !haveTailCalls() {
		t.Error("programs with functions cannot make tail calls")
	}
}

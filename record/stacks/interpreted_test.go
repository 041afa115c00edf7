package stacks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/runtimes"
	"gperf/record/names"
)

// words encodes words.
func words(l ...uint64) (b []byte) {
	for _, w := range l {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// testRuntime is a runtime whose native function is at the vaddrs 0x100 to 0x10ff. The functions are one byte
// each.
type testRuntime struct{}

func (testRuntime) String() string                { return "test 1.0" }
func (testRuntime) DSO() string                   { return dso.PythonName }
func (testRuntime) Walk(uint64) (w runtimes.Walk) { return w }
func (testRuntime) In(bias uint64) runtimes.Process {
	return testProcess{bias}
}

// testProcess is the runtime in a process.
type testProcess struct{ bias uint64 }

func (p testProcess) Runs(ip uint64) bool { return ip >= p.bias+0x100 && ip < p.bias+0x1100 }

func (testProcess) Function(mem io.ReaderAt, f runtimes.Interpreted) (*runtimes.Function, error) {
	_, err := mem.ReadAt(make([]byte, 1), int64(f.Code))
	return &runtimes.Function{Name: fmt.Sprintf("f%x", f.Code), Size: 100}, err
}

// testInterpreted returns an interpreted with a process 1: the interpreter's function is at 0x1000 to 0x1fff, and
// the code objects at these addresses are known.
func testInterpreted(codes ...uint64) (*interpreted, *process) {
	file := &mappedFile{runtime: testRuntime{}}
	in := &interpreter{file: file, bias: 0xf00, process: file.runtime.In(0xf00), codes: map[codeID]place{}}
	n := &interpreted{procs: &registry{tracker: newTracker(func(*process) {})}, set: names.New(),
		missing: map[use]uint64{}}
	for _, c := range codes {
		ip, _ := n.set.Add(dso.PythonName, &runtimes.Function{Name: fmt.Sprintf("f%x", c), Size: 100})
		in.codes[codeID{c, 9}] = place{ip, 100}
	}
	p := &process{pid: 1, space: &addrSpace{interpreter: in}}
	p.execSeq = 5
	n.procs.tracker.byPID[1] = p
	return n, p
}

// describe names the words of a stack: words in functions by code object.
func (in *interpreter) describe(stack []byte) string {
	var l []string
	for ; len(stack) >= 8; stack = stack[8:] {
		ip := binary.LittleEndian.Uint64(stack)
		name := fmt.Sprintf("%x", ip)
		for id, at := range in.codes {
			if ip-at.ip < 100 {
				name = fmt.Sprintf("f%x+%d", id.addr, ip-at.ip-1)
			}
		}
		l = append(l, name)
	}
	return strings.Join(l, " ")
}

// TestInsert checks where functions are put into a stack: after the native frames that run them.
func TestInsert(t *testing.T) {
	const check = 9 << 32
	first := func(code uint64) []uint64 { return []uint64{code, check | 20 | 1} }
	inner := func(code uint64) []uint64 { return []uint64{code, check | 10} }
	join := func(l ...[]uint64) (all []uint64) {
		for _, w := range l {
			all = append(all, w...)
		}
		return all
	}
	for _, c := range []struct {
		name   string
		frames []uint64
		calls  []uint64
		end    bpf.End
		want   string
	}{
		{"one each", []uint64{0x1800, 0x5000, 0x1801, 0x6000}, join(first(1), first(2)), bpf.EndEntry,
			"1800 f1+20 5000 1801 f2+20 6000"},
		{"several", []uint64{0x4000, 0x1801, 0x6000}, join(inner(1), inner(2), first(3)), bpf.EndEntry,
			"4000 1801 f1+10 f2+10 f3+20 6000"},
		{"the innermost runs none yet", []uint64{0x1000, 0x5000, 0x1801, 0x6000}, first(2), bpf.EndEntry,
			"1000 5000 1801 f2+20 6000"},
		{"the innermost is not named", []uint64{0x5000, 0x1801, 0x6000}, join(first(1), first(2)), bpf.EndEntry,
			"5000 f1+20 1801 f2+20 6000"},
		{"an incomplete stack", []uint64{0x1800, 0x5000}, join(first(1), first(2)), bpf.EndUnreadable,
			"1800 f1+20 5000 f2+20"},
		{"a return address after the function", []uint64{0x5000, 0x2000, 0x2001}, first(1), bpf.EndEntry,
			"5000 2000 f1+20 2001"},
		{"no native frame", []uint64{0x5000}, join(inner(1), first(2)), bpf.EndEntry, "5000 f1+10 f2+20"},
		{"the last without a native frame", []uint64{0x1800}, inner(1), bpf.EndEntry, "1800 f1+10"},
		{"an unknown object", []uint64{0x1800}, join(first(0xdead0), first(2)), bpf.EndEntry, "1800 f2+20"},
		{"none", []uint64{0x1800}, nil, bpf.EndEntry, "1800"},
	} {
		n, p := testInterpreted(1, 2, 3)
		head := bpf.Head{End: c.end, Exec: 5, Frames: uint32(len(c.frames)), Interpreted: uint32(len(c.calls) / 2)}
		got := p.space.interpreter.describe(n.insert(1, 100, &head, words(append(c.frames, c.calls...)...)))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// switchedProcess is a process with several stacks of functions. The first 16 bytes of the native function run
// before the list contains the function.
type switchedProcess struct{ testProcess }

func (p switchedProcess) Entering(ip uint64) bool { return ip-p.bias-0x100 < 16 }

// TestInsertSwitched checks that functions are put after the innermost native frames, if outer ones may run functions
// that are not in the list.
func TestInsertSwitched(t *testing.T) {
	const first = 9<<32 | 20 | 1
	for _, c := range []struct {
		name   string
		frames []uint64
		calls  []uint64
		want   string
	}{
		{"callers of others", []uint64{0x1800, 0x5000, 0x1801, 0x6000, 0x1802, 0x1803}, []uint64{1, first, 2, first},
			"1800 f1+20 5000 1801 f2+20 6000 1802 1803"},
		{"the innermost runs none yet", []uint64{0x1004, 0x5000, 0x1801, 0x6000, 0x1802}, []uint64{1, first},
			"1004 5000 1801 f1+20 6000 1802"},
		{"the innermost begins to run", []uint64{0x1004, 0x5000, 0x1801}, []uint64{1, first, 2, first},
			"1004 f1+20 5000 1801 f2+20"},
		{"the innermost is not named", []uint64{0x5000, 0x1801, 0x6000}, []uint64{1, first, 2, first},
			"5000 f1+20 1801 f2+20 6000"},
	} {
		n, p := testInterpreted(1, 2)
		p.space.interpreter.process = switchedProcess{testProcess{0xf00}}
		head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: uint32(len(c.frames))}
		head.Interpreted = uint32(len(c.calls) / 2)
		got := p.space.interpreter.describe(n.insert(1, 100, &head, words(append(c.frames, c.calls...)...)))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// boundRuntime is a runtime with native frames: frames for which BPF read a value run the value's function, and
// frames in generated code run two functions with the code objects 1 and 2.
type boundRuntime struct {
	testProcess
	binds *int
}

func (b boundRuntime) Bind(_ io.ReaderAt, f runtimes.NativeFrame) (runtimes.Bound, error) {
	*b.binds++
	if f.Has {
		return runtimes.Bound{Functions: []runtimes.Interpreted{f.Passed}, Replaces: f.Generated}, nil
	}
	if f.IP < 0x8000 || f.IP >= 0x8800 {
		return runtimes.Bound{}, errors.New("no function")
	}
	return runtimes.Bound{Functions: []runtimes.Interpreted{{Code: 1, Check: 9}, {Code: 2, Check: 9, Off: 6}},
		Replaces: true}, nil
}

// TestBind checks where the functions of native frames are put into a stack. Generated code is at 0x8000 to 0x8fff.
func TestBind(t *testing.T) {
	const check = 9 << 32
	for _, c := range []struct {
		name   string
		frames []uint64
		passed []uint64
		want   string
	}{
		{"a frame in a file", []uint64{0x5000, 0x1801, 0x6000}, []uint64{3 | 1<<48, check | 20}, "5000 1801 f3+20 6000"},
		{"generated code", []uint64{0x8000, 0x8801, 0x6000}, []uint64{3 | 1<<48, check}, "f1+0 f2+6 f3+0 6000"},
		{"the return address after generated code", []uint64{0x5000, 0x8000}, nil, "5000 8000"},
		{"an unknown function", []uint64{0x8800}, []uint64{0xdead0, check}, "8800"},
		{"no function", []uint64{0x8900, 0x8800}, nil, "8900 f1+0 f2+6"},
		{"wrong numbers", []uint64{0x5000, 0x8000}, []uint64{3 | 1<<48, check, 3, check, 3 | 9<<48, check}, "5000 8000"},
	} {
		n, p := testInterpreted(1, 2, 3)
		binds := 0
		p.space.interpreter.process = boundRuntime{binds: &binds}
		p.space.insert(mapping{start: 0x8000, end: 0x9000, file: &mappedFile{state: fileMade}})
		head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: uint32(len(c.frames)),
			Interpreted: uint32(len(c.passed) / 2)}
		for range 2 {
			if !n.applies(1, &head) {
				t.Error("does not apply")
			}
			got := p.space.interpreter.describe(n.insert(1, 100, &head, words(append(c.frames, c.passed...)...)))
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			if binds > len(c.frames) {
				t.Errorf("%s: %d calls of Bind", c.name, binds)
			}
		}
	}
}

// TestBindWalked puts functions into a stack that was walked in Go, unless the process now runs another program.
func TestBindWalked(t *testing.T) {
	n, p := testInterpreted(1, 2)
	p.space.interpreter.process = boundRuntime{binds: new(int)}
	p.space.insert(mapping{start: 0x8000, end: 0x9000, file: &mappedFile{state: fileMade}})
	stack := words(0x5000, 0x8101, 0x6000)
	for space, want := range map[*addrSpace]string{
		p.space: "5000 f1+0 f2+6 6000", {interpreter: p.space.interpreter}: "", nil: "",
	} {
		if want == "" {
			want = p.space.interpreter.describe(stack)
		}
		u := &unresolvedSample{pid: p.pid, time: 100, space: space}
		if got := p.space.interpreter.describe(n.walked(u, stack)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// madeAgain is a runtime whose functions are read when they are there.
type madeAgain struct {
	testProcess
	there *bool
}

func (m madeAgain) Function(_ io.ReaderAt, f runtimes.Interpreted) (*runtimes.Function, error) {
	if !*m.there {
		return nil, runtimes.ErrChanged
	}
	return &runtimes.Function{Name: fmt.Sprintf("f%x", f.Code), Size: 100}, nil
}

// TestInsertAgain reads a function again that the program freed before the first read.
func TestInsertAgain(t *testing.T) {
	n, p := testInterpreted()
	in, there, woken := p.space.interpreter, false, make(chan bool, 10)
	in.process = madeAgain{testProcess{0xf00}, &there}
	n.wake = func() { woken <- true }
	head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: 1, Interpreted: 1}
	insert := func() int { return len(n.insert(1, 1, &head, words(0x1800, 1, 9<<32|1))) / 8 }
	if insert() != 1 {
		t.Error("a function that is not there")
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("the recorder is not woken")
	}
	there = true
	if insert() != 2 {
		t.Error("the recorder is woken, but the function is not read again")
	}
	if n.count.Named != 1 || n.count.Unnamed != 1 {
		t.Errorf("%+v", n.count)
	}
}

// TestInsertOther checks that the functions of another program are not used for a process.
func TestInsertOther(t *testing.T) {
	n, _ := testInterpreted(1)
	for _, c := range []struct {
		pid  int32
		exec uint32
	}{{2, 5}, {1, 4}} {
		head := bpf.Head{End: bpf.EndEntry, Exec: c.exec, Frames: 1, Interpreted: 1}
		if got := n.insert(c.pid, 1, &head, words(0x1800, 1, 9<<32)); len(got) != 8 {
			t.Errorf("process %d, exec %d: %x", c.pid, c.exec, got)
		}
	}
	if n.count.Unnamed != 2 || n.count.Named != 0 {
		t.Errorf("%+v", n.count)
	}
}

// TestDescribe checks that the recording gets each mapping once, before the first sample that needs it.
func TestDescribe(t *testing.T) {
	n, p := testInterpreted(1)
	insert := func(time uint64) {
		head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: 1, Interpreted: 1}
		n.insert(1, time, &head, words(0x1800, 1, 9<<32|1))
	}
	insert(200)
	insert(100)
	var j Merged
	const idSize = 24
	n.describe(&j, idSize)
	time := binary.LittleEndian.Uint64(j.Records[len(j.Records)-idSize+8:])
	if start := binary.LittleEndian.Uint64(j.Records[16:]); time != 99 || start != dso.FunctionsBase {
		t.Errorf("a mapping at %#x, time %d", start, time)
	}
	size := len(j.Records)
	insert(300)
	n.describe(&j, idSize)
	if len(j.Records) != size {
		t.Error("the mapping again")
	}
	p.mapped = nil // another file
	insert(400)
	n.describe(&j, idSize)
	if len(j.Records) != 2*size {
		t.Error("another file has no mapping")
	}
}

// TestUnreadable reports the memory of a process that may not be read.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root, to become another user")
	}
	n, p := testInterpreted()
	p.pid = 1 // init
	got := make(chan place)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		unix.Syscall(unix.SYS_SETRESUID, 65534, 65534, 65534)
		got <- n.read(1, p.space.interpreter, runtimes.Interpreted{Code: 0x1000, Check: 9})
	}()
	if at := <-got; at.ip != 0 {
		t.Errorf("%+v", at)
	}
	if errors.Is(unix.Kill(1, 0), unix.ESRCH) || !n.count.Denied {
		t.Errorf("not reported as denied: %+v", n.count)
	}
}

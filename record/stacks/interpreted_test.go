package stacks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
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

// testRuntime is a runtime whose functions are 100 bytes each. The functions that BPF passes follow the native frames,
// unless parts is set.
type testRuntime struct {
	parts func(*runtimes.Stack) []runtimes.Part
}

func (testRuntime) String() string                { return "test 1.0" }
func (testRuntime) DSO() string                   { return dso.PythonName }
func (testRuntime) Walk(uint64) (w runtimes.Walk) { return w }
func (r testRuntime) In(uint64) runtimes.Process  { return r }
func (r testRuntime) Frames(s *runtimes.Stack) []runtimes.Part {
	if r.parts != nil {
		return r.parts(s)
	}
	return []runtimes.Part{{Native: s.Native, Functions: s.Interpreted}}
}

func (testRuntime) Function(mem io.ReaderAt, f runtimes.Interpreted) (*runtimes.Function, error) {
	_, err := mem.ReadAt(make([]byte, 1), int64(f.Code))
	return &runtimes.Function{Name: fmt.Sprintf("f%x", f.Code), Size: 100}, err
}

// testInterpreted returns an interpreted with a process 1. The code objects at these addresses are known.
func testInterpreted(codes ...uint64) (*interpreted, *process) {
	file := &mappedFile{runtime: testRuntime{}}
	in := &interpreter{file: file, process: file.runtime.In(0), codes: map[codeID]place{}}
	n := &interpreted{procs: &registry{tracker: newTracker(func(*process) {})}, set: names.New(),
		missing: map[use]uint64{}}
	for _, c := range codes {
		ip, _ := n.set.Add(dso.PythonName, &runtimes.Function{Name: fmt.Sprintf("f%x", c), Size: 100})
		in.codes[codeID{c, 9}] = place{ip: ip, size: 100}
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

// TestInsert checks which frames a stack gets: native ones, and functions that can be named.
func TestInsert(t *testing.T) {
	native := words(0x1800, 0x5000, 0x6000)
	f := func(code uint64, off uint32) runtimes.Interpreted {
		return runtimes.Interpreted{Code: code, Check: 9, Off: off}
	}
	after := func(native []byte, l ...runtimes.Interpreted) runtimes.Part {
		return runtimes.Part{Native: native, Functions: l}
	}
	inPlace := func(native []byte, l ...runtimes.Interpreted) runtimes.Part {
		return runtimes.Part{Native: native, Functions: l, Replaces: true}
	}
	failed := runtimes.Part{Native: native[:8], Partial: true, Err: unix.EPERM}
	partial := runtimes.Part{Native: native[8:], Partial: true, Functions: []runtimes.Interpreted{f(1, 0)}}
	type parts = []runtimes.Part
	for _, c := range []struct {
		name           string
		parts          parts
		want           string
		named, unnamed uint64
		retry          bool
	}{
		{"none", nil, "1800 5000 6000", 0, 0, false},
		{"functions after native frames", parts{after(native[:8], f(1, 20)), after(native[8:], f(2, 10), f(3, 0))},
			"1800 f1+20 5000 6000 f2+10 f3+0", 3, 0, false},
		{"before all", parts{after(nil, f(1, 20)), after(native)}, "f1+20 1800 5000 6000", 1, 0, false},
		{"an unknown function", parts{after(native[:16], f(0xdead0, 0), f(2, 20)), after(native[16:])},
			"1800 5000 f2+20 6000", 1, 1, true},
		{"in the place of a native frame", parts{inPlace(native[:16], f(1, 0), f(2, 6)), after(native[16:])},
			"1800 f1+0 f2+6 6000", 2, 0, false},
		{"an unknown one in the place of a native frame",
			parts{after(native[:8], f(1, 0)), inPlace(native[8:16], f(0xdead0, 0)), after(native[16:])},
			"1800 f1+0 5000 6000", 1, 1, true},
		{"none in the place of a native frame", parts{inPlace(native[:8]), after(native[8:])},
			"1800 5000 6000", 0, 0, false},
		{"a native frame that cannot be read", parts{failed, partial}, "1800 5000 6000 f1+0", 1, 1, true},
		{"a native frame that can be read in part", parts{after(native[:8]), partial},
			"1800 5000 6000 f1+0", 1, 0, true},
	} {
		n, p := testInterpreted(1, 2, 3)
		head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: 3, Interpreted: 1, Generation: 7}
		p.space.interpreter.process = testRuntime{func(s *runtimes.Stack) []runtimes.Part {
			passed := []runtimes.Interpreted{{Code: 3, Check: 9, Off: 20, Native: 1}}
			if string(s.Native) != string(native) || !slices.Equal(s.Interpreted, passed) || !s.Complete ||
				s.Generation != 7 || s.Mem != p {
				t.Errorf("%s: %+v", c.name, s)
			}
			return c.parts
		}}
		got := n.insert(1, 100, &head, native, words(3|1<<48, 9<<32|20))
		if text := p.space.interpreter.describe(got); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		retry := !p.space.interpreter.retry.failed.IsZero()
		if n.count.Named != c.named || n.count.Unnamed != c.unnamed || retry != c.retry {
			t.Errorf("%s: %+v, retry %t", c.name, n.count, retry)
		}
		if c.name == "a native frame that cannot be read" && !n.count.Denied {
			t.Errorf("%s: not reported as denied: %+v", c.name, n.count)
		}
	}
}

// partialRuntime is a runtime whose functions can be read in part only, at first.
type partialRuntime struct {
	testRuntime
	reads, partial int
	fails          bool // the second read fails
}

func (r *partialRuntime) Function(io.ReaderAt, runtimes.Interpreted) (*runtimes.Function, error) {
	f := &runtimes.Function{Name: "f", Size: 100, Partial: r.reads < r.partial}
	if !f.Partial {
		f.File = "f.js"
	}
	if r.reads++; r.fails && r.reads == 2 {
		return nil, runtimes.ErrChanged
	}
	return f, nil
}

// TestInsertPartial checks that a function of which only a part could be read is read again, but not for ever.
func TestInsertPartial(t *testing.T) {
	for partial, want := range map[int]int{0: 1, 1: 2, 3: 4, 100: maxPartial, -1: 3} {
		n, p := testInterpreted()
		r := &partialRuntime{partial: partial}
		if partial < 0 { // the second read fails, the third finds all
			r.partial, r.fails = 1, true
		}
		in := p.space.interpreter
		in.process = r
		for range 50 {
			if at := n.at(p, runtimes.Interpreted{Code: 1, Check: 9}); at.ip == 0 {
				t.Fatalf("partial %d times: no place", partial)
			}
			in.retry.failed = in.retry.failed.Add(-lastPause)
			in.forgetUnread()
		}
		if r.reads != want {
			t.Errorf("partial %d times: read %d times, want %d", partial, r.reads, want)
		}
	}
}

// TestInsertIncomplete checks that only a stack that BPF walked to the entry point is complete.
func TestInsertIncomplete(t *testing.T) {
	n, p := testInterpreted()
	complete := true
	p.space.interpreter.process = testRuntime{func(s *runtimes.Stack) []runtimes.Part {
		complete = s.Complete
		return nil
	}}
	n.insert(1, 100, &bpf.Head{End: bpf.EndUnreadable, Exec: 5, Frames: 1}, words(0x1800), nil)
	if complete {
		t.Error("complete")
	}
}

// TestGenerated checks which code of a process is generated: code at 0x8000 to 0x8fff.
func TestGenerated(t *testing.T) {
	p := &process{space: &addrSpace{}}
	p.space.insert(mapping{start: 0x7000, end: 0x8000, file: &mappedFile{state: fileReady}})
	p.space.insert(mapping{start: 0x8000, end: 0x9000, file: &mappedFile{state: fileMade}})
	for ip, want := range map[uint64]bool{0x5000: false, 0x7fff: false, 0x8000: true, 0x8fff: true, 0x9000: false} {
		if p.Generated(ip) != want || p.BeginsFiber(ip) {
			t.Errorf("%#x: generated %v, want %v; begins fibers: %v", ip, !want, want, p.BeginsFiber(ip))
		}
	}
}

// TestInsertOthers reads functions that are not in the stack.
func TestInsertOthers(t *testing.T) {
	n, p := testInterpreted()
	there := true
	p.space.interpreter.process = madeAgain{testRuntime{func(s *runtimes.Stack) []runtimes.Part {
		others := []runtimes.Interpreted{{Code: 1, Check: 9}, {Code: 2, Check: 9}}
		return []runtimes.Part{{Native: s.Native, Others: others}}
	}}, &there}
	got := n.insert(1, 100, &bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: 1}, words(0x1800), nil)
	if text := p.space.interpreter.describe(got); text != "1800" || n.set.Len() != 2 || n.count.Named != 0 {
		t.Errorf("%s, %d functions, %+v", text, n.set.Len(), n.count)
	}
}

// TestInsertWalked puts functions into a stack that was walked in Go, unless the process now runs another program.
func TestInsertWalked(t *testing.T) {
	n, p := testInterpreted(1, 2)
	p.space.interpreter.process = testRuntime{func(s *runtimes.Stack) []runtimes.Part {
		if len(s.Interpreted) > 0 || s.Generation != 7 {
			t.Errorf("%+v", s)
		}
		functions := []runtimes.Interpreted{{Code: 1, Check: 9}, {Code: 2, Check: 9, Off: 6}}
		return []runtimes.Part{{Native: s.Native[:16], Functions: functions, Replaces: true}, {Native: s.Native[16:]}}
	}}
	stack := words(0x5000, 0x8101, 0x6000)
	for space, want := range map[*addrSpace]string{
		p.space: "5000 f1+0 f2+6 6000", {interpreter: p.space.interpreter}: "", nil: "",
	} {
		if want == "" {
			want = p.space.interpreter.describe(stack)
		}
		u := &unresolvedSample{pid: p.pid, time: 100, space: space, head: bpf.Head{Generation: 7}}
		if got := p.space.interpreter.describe(n.walked(u, stack)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// madeAgain is a runtime whose functions are read when they are there.
type madeAgain struct {
	testRuntime
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
	in.process = madeAgain{testRuntime{}, &there}
	n.wake = func() { woken <- true }
	head := bpf.Head{End: bpf.EndEntry, Exec: 5, Frames: 1, Interpreted: 1}
	insert := func() int { return len(n.insert(1, 1, &head, words(0x1800), words(1, 9<<32|1))) / 8 }
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
		if got := n.insert(c.pid, 1, &head, words(0x1800), words(1, 9<<32)); len(got) != 8 {
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
		n.insert(1, time, &head, words(0x1800), words(1, 9<<32|1))
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
		got <- n.read(p, runtimes.Interpreted{Code: 0x1000, Check: 9}, place{})
	}()
	if at := <-got; at.ip != 0 {
		t.Errorf("%+v", at)
	}
	if errors.Is(unix.Kill(1, 0), unix.ESRCH) || !n.count.Denied {
		t.Errorf("not reported as denied: %+v", n.count)
	}
}

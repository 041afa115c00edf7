package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// testMemory is the memory of a process without memory. Generated code is at 0x8000 to 0x8fff, and fibers begin at
// 0x7000 to 0x7fff.
type testMemory struct{ memory }

func (testMemory) Generated(ip uint64) bool   { return ip>>12 == 8 }
func (testMemory) BeginsFiber(ip uint64) bool { return ip>>12 == 7 }

// testStack returns a complete stack with native frames, and with interpreted frames of two words each.
func testStack(native, interpreted []uint64) *Stack {
	encode := func(l []uint64) (b []byte) {
		for _, w := range l {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	s := &Stack{Mem: testMemory{}, Native: encode(native), Complete: true}
	s.Decode(encode(interpreted))
	return s
}

// describe names the frames of a stack. Native frames that functions replace are in brackets.
func describe(parts []Part) string {
	var l []string
	for _, p := range parts {
		for b := p.Native; len(b) > 0; b = b[8:] {
			format := "%x"
			if p.Replaces && len(b) == 8 {
				format = "[%x]"
			}
			l = append(l, fmt.Sprintf(format, binary.LittleEndian.Uint64(b)))
		}
		for _, f := range p.Functions {
			l = append(l, fmt.Sprintf("f%x+%d", f.Code, f.Off))
		}
	}
	return strings.Join(l, " ")
}

// Interpreted frames.
const testCheck = 9 << 32

func first(code uint64) []uint64 { return []uint64{code, testCheck | 20 | 1} }
func inner(code uint64) []uint64 { return []uint64{code, testCheck | 10} }

// testList is a list whose native function is at 0x1000 to 0x1fff.
var testList = frameList{bias: 0xf00, runs: ranges{{0x100, 0x1100}}}

// TestFrameList checks where functions are put into a stack: after the native frames that run them.
func TestFrameList(t *testing.T) {
	for _, c := range []struct {
		name    string
		frames  []uint64
		calls   []uint64
		partial bool
		want    string
	}{
		{"one each", []uint64{0x1800, 0x5000, 0x1801, 0x6000}, slices.Concat(first(1), first(2)), false,
			"1800 f1+20 5000 1801 f2+20 6000"},
		{"several", []uint64{0x4000, 0x1801, 0x6000}, slices.Concat(inner(1), inner(2), first(3)), false,
			"4000 1801 f1+10 f2+10 f3+20 6000"},
		{"the innermost runs none yet", []uint64{0x1000, 0x5000, 0x1801, 0x6000}, first(2), false,
			"1000 5000 1801 f2+20 6000"},
		{"the innermost two run none", []uint64{0x1000, 0x1801, 0x1802}, first(2), false, "1000 1801 1802 f2+20"},
		{"the innermost is not named", []uint64{0x5000, 0x1801, 0x6000}, slices.Concat(first(1), first(2)), false,
			"5000 f1+20 1801 f2+20 6000"},
		{"the innermost two are not named", []uint64{0x5000, 0x1801},
			slices.Concat(first(1), inner(2), first(3), first(4)), false, "5000 f1+20 f2+10 f3+20 1801 f4+20"},
		{"an incomplete stack", []uint64{0x1800, 0x5000}, slices.Concat(first(1), first(2)), true,
			"1800 f1+20 5000 f2+20"},
		{"a return address after the function", []uint64{0x5000, 0x2000, 0x2001}, first(1), false,
			"5000 2000 f1+20 2001"},
		{"no native frame", []uint64{0x5000}, slices.Concat(inner(1), first(2)), false, "5000 f1+10 f2+20"},
		{"the last without a native frame", []uint64{0x1800}, inner(1), false, "1800 f1+10"},
		{"another list in a fiber", []uint64{0x1800, 0x7fff}, slices.Concat(first(1), first(2)), false,
			"f1+20 1800 f2+20 7fff"},
		{"none", []uint64{0x1800}, nil, false, ""},
		{"no frame", nil, first(1), false, "f1+20"},
	} {
		s := testStack(c.frames, c.calls)
		s.Complete = !c.partial
		for range 2 {
			if got := describe(testList.Frames(s)); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// TestFrameListSwitched checks that functions are put after the innermost native frames, if outer ones may run
// functions that are not in the list. The first 16 bytes of the native function run before the list contains the
// function.
func TestFrameListSwitched(t *testing.T) {
	l := testList
	l.enter = &Range{0x100, 0x110}
	for _, c := range []struct {
		name   string
		frames []uint64
		calls  []uint64
		want   string
	}{
		{"callers of others", []uint64{0x1800, 0x5000, 0x1801, 0x6000, 0x1802, 0x1803},
			slices.Concat(first(1), first(2)), "1800 f1+20 5000 1801 f2+20 6000 1802 1803"},
		{"the innermost runs none yet", []uint64{0x1004, 0x5000, 0x1801, 0x6000, 0x1802}, first(1),
			"1004 5000 1801 f1+20 6000 1802"},
		{"the innermost begins to run", []uint64{0x1004, 0x5000, 0x1801}, slices.Concat(first(1), first(2)),
			"1004 f1+20 5000 1801 f2+20"},
		{"the innermost is not named", []uint64{0x5000, 0x1801, 0x6000}, slices.Concat(first(1), first(2)),
			"5000 f1+20 1801 f2+20 6000"},
	} {
		if got := describe(l.Frames(testStack(c.frames, c.calls))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestFrameListResumed checks that functions of the native stack that resumed a fiber follow the fiber's frames.
func TestFrameListResumed(t *testing.T) {
	l := testList
	l.resumed = true
	calls := slices.Concat(first(1), first(2))
	for last, want := range map[uint64]string{
		0x6000: "f1+20 1800 f2+20 6000", 0x7000: "f1+20 1800 f2+20 7000", 0x7001: "1800 f1+20 7001 f2+20",
	} {
		if got := describe(l.Frames(testStack([]uint64{0x1800, last}, calls))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got, want := describe(l.Frames(testStack([]uint64{0x7001}, calls))), "7001 f1+20 f2+20"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// testBinder is a runtime with native frames: frames for which BPF read a value run the value's function, and
// frames in generated code run two functions with the code objects 1 and 2, up to 0x87ff.
type testBinder struct {
	binds int
	stale bool
	last  nativeFrame
}

func (b *testBinder) Bind(_ io.ReaderAt, f nativeFrame) (Part, error) {
	b.binds++
	b.last = f
	if f.has {
		return Part{Functions: []Interpreted{f.passed}, Replaces: f.generated}, nil
	}
	if f.ip >= 0x8800 {
		return Part{Replaces: true}, errNoFunction
	}
	functions, others := []Interpreted{{Code: 1}, {Code: 2, Off: 6}}, []Interpreted{{Code: 3}}
	return Part{Functions: functions, Others: others, Replaces: true}, nil
}

var errNoFunction = errors.New("no function")

func (b *testBinder) Stale(io.ReaderAt) (bool, time.Duration) { return b.stale, -1 }

func (b *testBinder) Function(io.ReaderAt, Interpreted) (*Function, error) { return nil, ErrChanged }

// TestNativeFrames checks where the functions of native frames are put into a stack.
func TestNativeFrames(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []uint64
		passed []uint64
		want   string
	}{
		{"a frame in a file", []uint64{0x5000, 0x1801, 0x6000}, []uint64{3 | 1<<48, testCheck | 20},
			"5000 1801 f3+20 6000"},
		{"generated code", []uint64{0x8000, 0x8801, 0x6000}, []uint64{3 | 1<<48, testCheck},
			"[8000] f1+0 f2+6 [8801] f3+0 6000"},
		{"the return address after generated code", []uint64{0x5000, 0x8000}, nil, "5000 8000"},
		{"the end of generated code", []uint64{0x5000, 0x9000}, nil, "5000 9000"},
		{"an unknown function", []uint64{0x8800}, []uint64{0xdead0, testCheck}, "[8800] fdead0+0"},
		{"no function", []uint64{0x8900, 0x8800}, nil, "8900 [8800] f1+0 f2+6"},
		{"wrong numbers", []uint64{0x5000, 0x8000}, []uint64{3 | 1<<48, testCheck, 3, testCheck, 3 | 9<<48, testCheck},
			"5000 8000"},
	} {
		b := &testBinder{}
		n := &nativeFrames{binder: b}
		for range 2 {
			if got := describe(n.Frames(testStack(c.frames, c.passed))); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			if b.binds > len(c.frames) {
				t.Errorf("%s: %d calls of Bind", c.name, b.binds)
			}
		}
	}
}

// TestNativeFramesKept checks how long the functions of native frames are kept, and that Others and errors are returned
// once.
func TestNativeFramesKept(t *testing.T) {
	b := &testBinder{}
	n := &nativeFrames{binder: b}
	s := testStack([]uint64{0x8000, 0x8900}, nil)
	for _, c := range []struct {
		name         string
		stale, retry bool
		generation   uint32
		good, bad    bool // bound
	}{
		{name: "first", good: true, bad: true}, {name: "again"}, {name: "retry", retry: true, bad: true},
		{name: "stale", stale: true, good: true, bad: true},
		{name: "another generation", generation: 1, good: true, bad: true},
	} {
		before := b.binds
		b.stale, s.Retry, s.Generation = c.stale, c.retry, c.generation
		parts := n.Frames(s)
		binds := 0
		for _, bound := range []bool{c.good, c.bad} {
			if bound {
				binds++
			}
		}
		if b.binds != before+binds || binds > 0 && b.last.generation != c.generation {
			t.Errorf("%s: %d calls of Bind, want %d, the last for %+v", c.name, b.binds-before, binds, b.last)
		}
		if len(parts[0].Functions) != 2 || len(parts[0].Others) == 1 != c.good || parts[0].Partial {
			t.Errorf("%s: %+v", c.name, parts[0])
		}
		if parts[1].Functions != nil || parts[1].Partial != c.bad || errors.Is(parts[1].Err, errNoFunction) != c.bad {
			t.Errorf("%s: %+v", c.name, parts[1])
		}
	}
}

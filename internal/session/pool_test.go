package session

import (
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

var nextID int // of frameIn

// frameIn returns a frame with a symbol, nil for none, of a mapping of a DSO.
func frameIn(start uint64, name string, id byte, off uint64, sym *symbolize.Symbol) *Frame {
	d := &DSO{Name: name}
	if id > 0 {
		d.BuildID = dso.NewBuildID([]byte{id, 2, 3, 4})
	}
	ip := start + off
	f := NamedFrame(0, ip, false, &Map{Start: start, End: start + 1<<20, DSO: d}, nil)
	own := &Frame{ID: nextID, IP: ip, Map: f.Map}
	nextID++
	own.once.Do(func() {
		if own.sym, own.why = sym, symbolize.NoFile; sym != nil {
			own.off, own.why = off-sym.Start, symbolize.Found
		}
	})
	return own
}

// TestPoolFrames: which frames of several recordings are the same.
func TestPoolFrames(t *testing.T) {
	p := NewPool(PoolOptions{})
	frame := func(f *Frame) *Frame { return p.Frame(f) }
	a := &symbolize.Symbol{Start: 0x100, End: 0x200, Name: "a"}
	b := &symbolize.Symbol{Start: 0x100, End: 0x180, Name: "b"}
	first := frame(frameIn(1<<40, "/lib/x.so", 1, 0x110, a))
	if again := frame(frameIn(1<<41, "/lib/x.so", 1, 0x110, a)); again != first {
		t.Error("another place of a DSO makes another frame")
	}
	if moved := frame(frameIn(1<<40, "/opt/x.so", 1, 0x110, a)); moved != first {
		t.Error("another path of the same build ID makes another frame")
	}
	if other := frame(frameIn(1<<40, "/lib/x.so", 1, 0x111, a)); other == first || other.Sym() != first.Sym() {
		t.Error("another address of a function is not another frame with the same symbol")
	}
	rebuilt := frame(frameIn(1<<40, "/lib/x.so", 2, 0x150, b))
	moved := frame(frameIn(1<<40, "/lib/x.so", 2, 0x310, &symbolize.Symbol{Start: 0x300, End: 0x380, Name: "a"}))
	if moved.Sym() != first.Sym() {
		t.Error("a function of another build has another symbol")
	}
	if s, o := rebuilt.Sym(), first.Sym(); s == o || s.Start < o.End && o.Start < s.End {
		t.Errorf("other functions of two builds overlap: %+v and %+v", s, o)
	}
	unnamed := frame(frameIn(1<<40, "/lib/y.so", 3, 0x123, nil))
	if again := frame(frameIn(1<<42, "/lib/y.so", 3, 0x123, nil)); again != unnamed || unnamed.IP != 0x123 {
		t.Errorf("an address without a symbol is %#x, and another frame in another mapping", unnamed.IP)
	}
	if frame(first) != first {
		t.Error("a frame of the pool is another one in it")
	}
}

// TestPoolChains: the keys of equal chains are equal.
func TestPoolChains(t *testing.T) {
	p := NewPool(PoolOptions{})
	chain := func(offs ...uint64) Chain {
		var list []*Frame
		for _, off := range offs {
			f := frameIn(1<<40, "/lib/x.so", 1, off, nil)
			f.ID = int(off)
			list = append(list, f)
		}
		return p.Chain(NewChain(nil, list))
	}
	a, b, c := chain(1, 2), chain(1, 2), chain(2, 1)
	if a.Key() != b.Key() || a.Key() == c.Key() {
		t.Errorf("keys: %v, %v and %v", a.Key(), b.Key(), c.Key())
	}
	if empty := p.Chain(Chain{}); empty.Len() != 0 {
		t.Errorf("an empty chain is %+v", empty)
	}
}

// withClock is a recording of a host, whose clock and time of day were these at one moment.
func withClock(host string, id int32, wall, clock time.Duration) *format.File {
	name := append([]byte{64, 0, 0, 0}, make([]byte, 64)...)
	copy(name[4:], host)
	s := format.ClockDataSection(id, uint64(wall), uint64(clock))
	return &format.File{Order: format.LittleEndian, Sections: map[format.Feature][]byte{
		format.FeatureHostname: name, s.Feature: s.Data}}
}

// TestOrigins: which recordings are of one boot.
func TestOrigins(t *testing.T) {
	const monotonic, realtime, perf = 1, 0, -1
	day := 20000 * 24 * time.Hour
	var o Origins
	text := uint64(1)
	boot := func(host string, id int32, wall, clock time.Duration) string {
		from := o.of(withClock(host, id, day+wall, clock), "x.data", text)
		if from.Host != host || from.File != "x.data" {
			t.Errorf("%+v", from)
		}
		return from.Part("boot")
	}
	first := boot("a", monotonic, time.Hour, time.Hour)
	if first != "2024-10-04T00:00:00Z" {
		t.Errorf("booted at %s", first)
	}
	text = 2
	if again := boot("a", monotonic, time.Hour, time.Hour+time.Second); again == first {
		t.Error("a kernel at another address is of the same boot")
	}
	text = 1
	for what, test := range map[string]struct {
		got  string
		same bool
	}{
		"an hour later":           {boot("a", monotonic, 2*time.Hour, 2*time.Hour+time.Millisecond), true},
		"a clock that drifts":     {boot("a", perf, 240*time.Hour, 240*time.Hour+30*time.Second), true},
		"booted again":            {boot("a", monotonic, 3*time.Hour, time.Minute), false},
		"another host":            {boot("b", monotonic, time.Hour, time.Hour+time.Second), false},
		"a clock that is no boot": {boot("a", realtime, time.Hour, time.Hour), false},
	} {
		if (test.got == first) != test.same {
			t.Errorf("%s: booted at %s", what, test.got)
		}
	}
	if got := boot("a", realtime, time.Hour, time.Hour); got != UnknownOrigin {
		t.Errorf("a clock that is the time of day: booted at %s", got)
	}
}

package annotate

import (
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/testutil/recording"
	"gperf/report/table"
	"gperf/symbolize"
)

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]Place{
		"main":                       {name: "main"},
		"f+0x4bc":                    {name: "f", off: 0x4bc, hasOff: true},
		"f+0x4bc/0x900":              {name: "f", off: 0x4bc, hasOff: true},
		"operator+":                  {name: "operator+"},
		"ns::operator+(int, A)+0x10": {name: "ns::operator+(int, A)", off: 0x10, hasOff: true},
		"0xffffffff82043b0c":         {name: "0xffffffff82043b0c", addr: 0xffffffff82043b0c, hasAddr: true},
		"ffffffff82043b0c":           {name: "ffffffff82043b0c", addr: 0xffffffff82043b0c, hasAddr: true},
		"feed":                       {name: "feed", addr: 0xfeed, hasAddr: true}, // or a function
		"add":                        {name: "add"},
	} {
		want.text = text
		if got, err := ParsePlace(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestSourcesPath(t *testing.T) {
	for _, c := range []struct {
		Sources
		file, want string
	}{
		{Sources{}, "/build/net/ipv4/udp.c", "/build/net/ipv4/udp.c"},
		{Sources{Prefix: "/src"}, "/build/net/ipv4/udp.c", "/src/build/net/ipv4/udp.c"},
		{Sources{Prefix: "/src", Strip: 1}, "/build/net/ipv4/udp.c", "/src/net/ipv4/udp.c"},
		{Sources{Prefix: "/src", Strip: 9}, "/build/net/ipv4/udp.c", "/src/udp.c"},
		{Sources{Prefix: "/src", Strip: 1}, "net/ipv4/udp.c", "net/ipv4/udp.c"},
	} {
		if got := c.path(c.file); got != c.want {
			t.Errorf("%+v: %s is %s, want %s", c.Sources, c.file, got, c.want)
		}
	}
}

type stack = table.Tally[subject, Stat]

// TestCount: a sample counts once for an address and once for a function, even if
// it holds them several times.
func TestCount(t *testing.T) {
	m := &session.Map{Start: 0x1000, End: 0x9000, DSO: &session.DSO{Name: "/bin/x"}}
	f := &symbolize.Symbol{Start: 0x2000, End: 0x3000, Name: "f"}
	g := &symbolize.Symbol{Start: 0x3000, End: 0x4000, Name: "g"}
	id := 0
	frame := func(s *symbolize.Symbol, off uint64) *session.Frame {
		id++
		return session.NamedFrame(id, s.Start+off, true, m, s)
	}
	leaf, caller, again := frame(f, 0x10), frame(g, 0x20), frame(f, 0x30)
	caller.Return, again.Return = true, true
	stack := func(period uint64, chain ...*session.Frame) *stack {
		kernel := session.NewChain(chain, nil)
		return &stack{Of: &subject{fields: [maxFields]*session.Frame{caller}},
			StackKey: session.StackKey{Leaf: leaf, Chain: kernel.Key()}, Sum: Stat{2, period}}
	}
	for _, callersToo := range []bool{false, true} {
		c := newCounter(session.New(session.Options{File: &format.File{}}), &Options{Callers: callersToo})
		c.events = []*event{{name: "e"}}
		c.stacks.List = append(c.stacks.List, stack(10, leaf, caller, again, again), stack(1, leaf))
		c.assign()
		if len(c.functions) != 2 || c.samples != 4 || c.events[0].total != (Stat{4, 11}) {
			t.Fatalf("%d functions, %d samples, %+v", len(c.functions), c.samples, c.events[0].total)
		}
		inF, inG := c.functions[0], c.functions[1]
		if inF.total != (Stat{4, 11}) || inG.total != (Stat{4, 11}) || inF.calls != 2 || inG.calls != 2 {
			t.Errorf("f has %+v, g %+v; they called %d and %d", inF.total, inG.total, inF.calls, inG.calls)
		}
		want := map[spot]Stat{{0x10, false}: {4, 11}}
		if callersToo {
			want[spot{0x30, true}] = Stat{2, 10}
		}
		if len(inF.at) != len(want) {
			t.Errorf("callers %v: f has samples at %d addresses", callersToo, len(inF.at))
		}
		for s, stat := range want {
			if at := inF.at[s]; at == nil || *at != stat {
				t.Errorf("callers %v: f+%#x has %v, want %v", callersToo, s.off, at, stat)
			}
		}
	}
}

// TestCallers: the code that is shown of a caller is its call, and of where a
// process was interrupted, or of a function that a field names, its own.
func TestCallers(t *testing.T) {
	m := &session.Map{Start: 0x1000, End: 0x9000, DSO: &session.DSO{Name: "/bin/x"}}
	f := &symbolize.Symbol{Start: 0x2000, End: 0x3000, Name: "f"}
	frame := func(id int, kernel bool) *session.Frame {
		return session.NamedFrame(id, f.Start+uint64(id)*0x10, kernel, m, f)
	}
	st := &stack{Of: &subject{fields: [maxFields]*session.Frame{frame(0, true), frame(2, true)}},
		StackKey: session.StackKey{Leaf: frame(1, true)}, Sum: Stat{1, 1}}
	chain := session.NewChain([]*session.Frame{st.Leaf, frame(3, true)},
		[]*session.Frame{frame(4, false), frame(5, false)})
	chain.Kernel.At(1).Return, chain.User.At(1).Return = true, true
	st.Chain = chain.Key()
	c := newCounter(session.New(session.Options{File: &format.File{}}), &Options{Callers: true})
	c.events, c.stacks.List = []*event{{name: "e"}}, []*stack{st}
	c.assign()
	got := map[spot]bool{}
	for _, fn := range c.functions {
		for s := range fn.at {
			got[s] = true
		}
	}
	want := map[spot]bool{{0, false}: true, {0x10, false}: true, {0x20, true}: true, {0x30, true}: true,
		{0x40, false}: true, {0x50, true}: true}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestMisspeltDSO: a DSO without samples is reported with the DSOs that have some.
func TestMisspeltDSO(t *testing.T) {
	for dso, want := range map[string]string{"thraeds": "[{--dsos thraeds [threads]}]", "threads": "[]"} {
		s := recording.Open(t, "threads.data", time.Time{})
		Text(io.Discard, s, Options{DSOs: []string{dso}}) // the program is not on this machine
		if got := fmt.Sprint(s.Misses); got != want {
			t.Errorf("%s: %s, want %s", dso, got, want)
		}
	}
}

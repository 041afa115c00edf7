package table

import (
	"slices"
	"testing"

	"gperf/internal/session"
	"gperf/report/key"
	"gperf/symbolize"
)

// TestAddStacks: an entry has the number of its samples, and the command and the fields are the outermost callers.
func TestAddStacks(t *testing.T) {
	f := session.NamedFrame(0, 0x10, false, nil, &symbolize.Symbol{Start: 0x10, End: 0x20, Name: "main"})
	clock, none := Event{Name: "cpu-clock", Unit: "nanoseconds"}, key.GroupOf(nil, 0)
	drops := key.GroupOf([]key.Value{{Key: "reason", Text: "NO_SOCKET"}}, 1)
	main := session.NewChain(nil, []*session.Frame{f})
	stack := func(event Event, group *key.Group, samples, weight uint64, idle bool) Stack {
		return Stack{Event: event, Comm: "p", Group: group, StackKey: session.StackKey{Chain: main.Key()},
			Sum: Sum{Weight: weight, Samples: samples}, Idle: idle}
	}
	var l Loader
	l.AddStacks(Recording{Baseline: true}, slices.Values([]Stack{stack(clock, none, 2, 20, false)}))
	l.AddStacks(Recording{}, slices.Values([]Stack{stack(clock, none, 3, 30, false), stack(clock, none, 5, 50, true),
		stack(Event{Name: "drop"}, drops, 7, 7, false)}))
	tab := l.Table()
	if r := tab.Recordings; len(r) != 2 || r[0].Samples != 1 || r[1].Start != 1 || r[1].Samples != 3 {
		t.Fatalf("recordings %+v", r)
	}
	for _, c := range []struct {
		name   string
		filter Filter
		want   Sum
	}{
		{"all", Filter{}, Sum{100, 10}},
		{"without idle CPUs", Filter{NoIdle: true}, Sum{50, 5}},
		{"the baseline", Filter{Recordings: []bool{true, false}}, Sum{20, 2}},
		{"by field", Filter{Event: 1, Groups: []bool{true}}, Sum{7, 7}},
	} {
		if got := tab.Count(c.filter).All(); got != c.want || tab.Sum(c.filter) != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	var names []string
	for b := tab.Count(Filter{Event: 1}).Callees().Next(); len(b) > 0; b = b[0].Next() {
		fn := tab.Functions[b[0].Function]
		if fn.Label != (fn.Name != "main") {
			t.Errorf("%+v", fn)
		}
		names = append(names, fn.Name)
	}
	if !slices.Equal(names, []string{"reason=NO_SOCKET", "p", "main"}) {
		t.Errorf("the stack of a drop is %q", names)
	}
}

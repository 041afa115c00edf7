package table

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
)

// open returns a new session of a recording in testdata.
func open(t testing.TB, path string) *session.Session {
	t.Helper()
	return Open(t, "../../testdata/"+path)
}

// Open returns a new session of a recording.
func Open(t testing.TB, path string) *session.Session {
	t.Helper()
	s := TryOpen(t, path)
	if s == nil {
		t.Fatalf("%s is no recording", path)
	}
	return s
}

// TryOpen is Open, but returns nil for what is no recording.
func TryOpen(t testing.TB, path string) *session.Session {
	t.Helper()
	fd, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	st, err := fd.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		return nil
	}
	id, ref, addr := session.RecordedKernel(f)
	return session.New(session.Options{File: f, Symbols: symbolize.New(symbolize.Options{
		Locator:  &dso.Locator{Tree: dso.Tree{Root: "/nowhere"}},
		Kallsyms: "../../testdata/kallsyms", KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})})
}

func load(t testing.TB, paths ...string) *Table {
	t.Helper()
	var l Loader
	for _, path := range paths {
		if _, err := l.Add(Source{Path: path, Session: open(t, path)}); err != nil {
			t.Fatal(err)
		}
	}
	return l.Table()
}

// naive counts the samples of a recording by function, sample by sample.
func naive(t *testing.T, path string) (self, total map[string]uint64) {
	self, total = map[string]uint64{}, map[string]uint64{}
	s := open(t, path)
	_, err := s.Walk(session.WalkOptions{Names: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			s, seen, innermost := &b.Samples[i], map[string]bool{}, true
			count := func(f *session.Frame) {
				names := []string{}
				for _, fn := range f.Functions(true) {
					names = append(names, fn.Name)
				}
				if len(names) == 0 {
					names = append(names, "["+f.Map.DSO.ShortName()+"]")
				}
				for _, name := range names {
					if innermost {
						self[name] += s.Period
					}
					if innermost = false; !seen[name] {
						total[name] += s.Period
					}
					seen[name] = true
				}
			}
			for j := range s.Chain.Len() {
				f := s.Chain.Frame(j)
				count(f)
			}
			if s.Chain.Len() == 0 {
				count(s.Leaf)
			}
		}
		b.Release()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return self, total
}

// functionSum is the samples of a function.
type functionSum struct {
	function    int32 // index in Table.Functions
	self, total Sum   // in recursion, a sample counts once
}

// byFunction returns the functions with samples, the largest own weight first.
func byFunction(c *Tree) []functionSum {
	sums := make([]functionSum, len(c.table.Functions))
	for i := 1; i < len(c.table.Nodes); i++ {
		s := &sums[c.table.FunctionOf(int32(i))]
		s.self.Add(c.Self[i])
		if c.table.outer[i] {
			s.total.Add(c.Total[i])
		}
	}
	for i := range sums {
		sums[i].function = int32(i)
	}
	sums = slices.DeleteFunc(sums, func(s functionSum) bool { return s.total.Samples == 0 })
	slices.SortStableFunc(sums, func(a, b functionSum) int {
		return cmp.Or(compare(b.self, a.self), compare(b.total, a.total))
	})
	return sums
}

func TestByFunctionAgreesWithCountingEachSample(t *testing.T) {
	table := load(t, "two.data")
	gotSelf, gotTotal := map[string]uint64{}, map[string]uint64{}
	for event := range table.Events {
		for _, s := range byFunction(table.Count(Filter{Event: event})) {
			gotSelf[table.Functions[s.function].Name] += s.self.Weight
			gotTotal[table.Functions[s.function].Name] += s.total.Weight
		}
	}
	self, total := naive(t, "two.data")
	for name, n := range total {
		if gotSelf[name] != self[name] || gotTotal[name] != n {
			t.Errorf("%s: self %d, total %d; want %d, %d", name, gotSelf[name], gotTotal[name], self[name], n)
		}
	}
	if len(gotTotal) != len(total) || len(total) < 5 {
		t.Errorf("%d functions, want %d", len(gotTotal), len(total))
	}
}

// recursion contains the stacks main-f-g-f (3 samples), main-f (2) and main-g (1), one sample each ns, and main-g for
// an idle CPU.
func recursion() *Table {
	t := &Table{Recordings: []Recording{{Samples: 7, First: 1, Last: 7}}, Events: []Event{{Name: "cycles"}},
		Threads: []Thread{{PID: 1, TID: 1, Comm: "a"}, {PID: 2, TID: 2, Comm: "b"}}, DSOs: []DSO{{"p", "p"}},
		Functions: []Function{{Name: "main"}, {Name: "f"}, {Name: "g"}},
		Frames: []Frame{{Function: 0}, {Function: 1, File: "f.c", Line: 3}, {Function: 2},
			{Function: 1, File: "f.c", Line: 4}},
		Nodes: []Node{{-1, -1}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {1, 2}}, Stacks: []int32{4, 2, 5},
		Columns: Columns{Time: []uint64{1, 2, 3, 4, 5, 6, 7}, Event: make([]uint16, 7),
			Thread: []int32{0, 0, 1, 0, 0, 1, 0}, CPU: []int16{0, 1, 0, 0, 0, 0, 0}, Stack: []int32{0, 0, 0, 1, 1, 2,
				2},
			Weight: []uint64{1, 1, 1, 1, 1, 1, 1}, Group: make([]int32, 7), Flags: []Flags{6: Idle}}}
	t.index()
	return t
}

func TestRecursionCountsOnce(t *testing.T) {
	table := recursion()
	c := table.Count(Filter{NoIdle: true})
	want := []functionSum{
		{1, Sum{5, 5}, Sum{5, 5}}, {2, Sum{1, 1}, Sum{4, 4}}, {0, Sum{}, Sum{6, 6}},
	}
	if got := byFunction(c); !slices.Equal(got, want) {
		t.Errorf("by function: %v, want %v", got, want)
	}
}

// text writes the entries of a tree, one per line, with total and self samples.
func text(t *Table, b *Branch) (s string) {
	for _, next := range b.Next() {
		s += t.Functions[next.Function].Name + ":" + string(rune('0'+next.Total.Samples)) + "/" +
			string(rune('0'+next.Self.Samples))
		if below := text(t, next); below != "" {
			s += "(" + below + ")"
		}
		s += " "
	}
	return s
}

func TestTrees(t *testing.T) {
	table := recursion()
	c := table.Count(Filter{NoIdle: true})
	for _, test := range []struct {
		name string
		tree *Branch
		want string
	}{
		{"callees", c.Callees(), "main:6/0(f:5/2(g:3/0(f:3/3 ) ) g:1/1 ) "},
		{"callers", c.CallersOfSampled(0, 1, 2), "f:5/0(g:3/0(f:3/0(main:3/3 ) ) main:2/2 ) g:1/0(main:1/1 ) "},
		{"callees of g", c.CalleesOf(2), "f:3/3 "},
		{"callers of g", c.CallersOf(2), "f:3/0(main:3/3 ) main:1/1 "},
		{"callers of f", c.CallersOf(1), "main:5/5 "},
	} {
		if got := text(table, test.tree); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if got, want := c.CallersOfSampled(0, 1, 2).Next()[0].HasNext(), true; got != want {
		t.Errorf("HasNext = %v", got)
	}
	if c.CalleesOf(2).Total != (Sum{4, 4}) {
		t.Errorf("total of g: %v", c.CalleesOf(2).Total)
	}
}

func TestFilters(t *testing.T) {
	table := recursion()
	for _, test := range []struct {
		name   string
		filter Filter
		want   uint64
	}{
		{"all", Filter{}, 7},
		{"no idle", Filter{NoIdle: true}, 6},
		{"time", Filter{From: 2, To: 3}, 2},
		{"thread", Filter{Threads: table.ThreadsWhere(func(th *Thread) bool { return th.TID == 2 })}, 2},
		{"CPU", Filter{CPUs: []bool{false, true}}, 1},
		{"focus", Filter{Focus: table.FunctionsWhere(func(f *Function) bool { return f.Name == "g" })}, 5},
		{"group", Filter{Groups: noSocket(table)}, 0},
		{"recording", Filter{Recordings: []bool{false}}, 0},
	} {
		if got := table.Count(test.filter).All().Samples; got != test.want {
			t.Errorf("%s: %d samples, want %d", test.name, got, test.want)
		}
	}
}

func TestBuckets(t *testing.T) {
	table := recursion()
	of := func(tid int32) Filter {
		return Filter{Threads: table.ThreadsWhere(func(th *Thread) bool { return th.TID == tid })}
	}
	for _, test := range []struct {
		name     string
		filter   Filter
		from, to uint64
		want     []uint64 // samples
	}{
		{"thread 1", of(1), 1, 6, []uint64{2, 2}}, {"thread 2", of(2), 1, 6, []uint64{1, 1}},
		{"CPU 0", Filter{CPUs: []bool{true}}, 1, 7, []uint64{6}},
		{"CPU 1", Filter{CPUs: []bool{false, true}}, 1, 7, []uint64{1}},
		{"before the samples", Filter{}, 0, 0, []uint64{0}}, {"nothing", Filter{From: 5}, 1, 4, []uint64{0, 0}},
	} {
		var got []uint64
		for _, s := range table.Buckets(test.filter, test.from, test.to, len(test.want)) {
			got = append(got, s.Samples)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// noSocket returns a filter's list of the groups with this reason.
func noSocket(t *Table) []bool {
	return where(t.Groups, func(g *Group) bool { return g.text("reason") == "NO_SOCKET" })
}

func TestGroupsOfDrops(t *testing.T) {
	table := load(t, "drops.data")
	event := slices.IndexFunc(table.Events, func(e Event) bool { return e.Kind == Drop })
	if event < 0 {
		t.Fatalf("no event of drops: %+v", table.Events)
	}
	f := Filter{Event: event, Groups: noSocket(table)}
	if n := table.Count(f).All().Samples; n == 0 {
		t.Errorf("no drops with reason NO_SOCKET; groups: %v", table.Groups)
	}
}

// Functions of a table that is made while samples arrive have their names, and it does not change afterwards.
func TestTableWhileLoading(t *testing.T) {
	var l Loader
	for _, path := range []string{"drops.data", "two.data"} {
		if _, err := l.Add(Source{Path: path, Session: open(t, path)}); err != nil {
			t.Fatal(err)
		}
		if path == "two.data" {
			continue
		}
		first := l.Table()
		defer func(n int) {
			if first.Len() != n || len(first.Recordings) != 1 || len(first.outer) != len(first.Nodes) {
				t.Errorf("the first table changed: %d samples, %d before", first.Len(), n)
			}
		}(first.Len())
	}
	if both := l.Table(); len(both.Recordings) != 2 || both.Recordings[1].Start != both.Recordings[0].Samples {
		t.Errorf("recordings: %+v", both.Recordings)
	}
}

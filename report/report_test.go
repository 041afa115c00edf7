package report

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/session"
	"gperf/symbolize"
)

// world makes frames for synthetic stacks.
type world struct {
	ids  int
	maps map[string]*session.Map
}

// frame makes a frame of "dso:symbol", or of an address in no DSO for "?".
func (w *world) frame(name string, ip uint64) *session.Frame {
	id := w.ids
	w.ids++
	dso, name, _ := strings.Cut(name, ":")
	if dso == "?" {
		return session.NamedFrame(id, ip, false, nil, nil)
	}
	if w.maps == nil {
		w.maps = map[string]*session.Map{}
	}
	if w.maps[dso] == nil {
		w.maps[dso] = &session.Map{Start: 0x1000, End: 1 << 63, DSO: &session.DSO{Name: dso}}
	}
	var sym *symbolize.Symbol
	if name != "" {
		sym = &symbolize.Symbol{Start: ip, End: ip + 16, Name: name, Raw: name}
	}
	return session.NamedFrame(id, ip, dso == "[kernel.kallsyms]", w.maps[dso], sym)
}

// sampled is stacks as the counter would make them of samples of one thread.
func sampled(event int, comm string, n uint64, kernel, user []*session.Frame) *stack {
	chain := session.NewChain(kernel, user)
	st := &stack{Of: &subject{event: event, comm: comm, commID: int32(len(comm)), level: '.'},
		StackKey: session.StackKey{Chain: chain.Key()}, Sum: stackSum{
			&session.Thread{PID: 7, TID: 7, Comm: comm}, Sum{Samples: n, Period: 10 * n}}}
	if len(kernel) > 0 {
		st.Leaf, st.Of.level = kernel[0], 'k'
	} else {
		st.Leaf = user[0]
	}
	return st
}

// printedText reports stacks of events with callchains.
func printedText(t *testing.T, opts Options, stacks ...*stack) string {
	t.Helper()
	const sampleType = format.SampleCallchain | format.SampleCPU
	return textOf(t, &format.File{Attrs: []format.Attr{{Name: "cycles", SampleType: sampleType},
		{Name: "faults", SampleType: sampleType}}}, opts, stacks...)
}

func textOf(t *testing.T, f *format.File, opts Options, stacks ...*stack) string {
	t.Helper()
	if opts.MaxStack == 0 {
		opts.MaxStack = 127
	}
	if err := opts.adapt(f); err != nil {
		t.Fatal(err)
	}
	l, err := newLayouts(f, &opts)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	hists := newFolding(f, l, &opts, newTraces(f, nil, false), noRank, nil, stacks).hists()
	if err := write(&b, l, &opts, hists, 3); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func program() []*stack {
	var w world
	main := w.frame("/bin/prog:main", 0x100)
	walk := w.frame("/bin/prog:walk", 0x200)
	leaf := w.frame("/bin/prog:leaf", 0x300)
	read := w.frame("[kernel.kallsyms]:read", 0xffffffff81000000)
	lost := w.frame("?", 0x4242)
	return []*stack{
		sampled(0, "prog", 60, nil, []*session.Frame{leaf, walk, walk, walk, main}),
		sampled(0, "prog", 30, []*session.Frame{read}, []*session.Frame{walk, main}),
		sampled(0, "prog", 10, nil, []*session.Frame{leaf, lost}),
		sampled(1, "other", 1, nil, []*session.Frame{w.frame("/lib/a.so:", 0x5042)}),
	}
}

// TestText: recursion counts once for a caller, an address without a symbol is
// that within its file for the sampled instruction, each event gets a block.
func TestText(t *testing.T) {
	const head = `# To display the perf.data header info, please use --header/--header-only options.
#
#
# Total Lost Samples: 3
#
# Samples: 100  of event 'cycles'
# Event count (approx.): 1000
#
`
	const second = `

# Samples: 1  of event 'faults'
# Event count (approx.): 10
#
`
	for _, test := range []struct {
		name string
		opts Options
		want string
	}{
		{"children", Options{}, head + `# Children      Self  Command  Shared Object      Symbol                
# ........  ........  .......  .................  ......................
#
    90.00%     0.00%  prog     prog               [.] main
    90.00%     0.00%  prog     prog               [.] walk
    70.00%    70.00%  prog     prog               [.] leaf
    30.00%    30.00%  prog     [kernel.kallsyms]  [k] read
    10.00%     0.00%  prog     [unknown]          [.] 0x0000000000004242
` + second + `# Children      Self  Command  Shared Object     Symbol                
# ........  ........  .......  ................  ......................
#
   100.00%   100.00%  other    a.so              [.] 0x0000000000004042
   100.00%     0.00%  other    a.so              [.] 0x0000000000005042


`},
		{"no children", Options{NoChildren: true, Samples: true, Sort: "dso"}, head + `# Overhead       Samples  Shared Object    
# ........  ............  .................
#
    70.00%            70  prog             
    30.00%            30  [kernel.kallsyms]
` + second + `# Overhead       Samples  Shared Object   
# ........  ............  ................
#
   100.00%             1  a.so            


`},
		{"caller", Options{Sort: "comm", Graph: DefaultCallGraph}, head + `# Children      Self  Command
# ........  ........  .......
#
   100.00%   100.00%  prog   
            |          
            |--90.00%--main
            |          walk
            |          |          
            |          |--60.00%--walk
            |          |          walk
            |          |          leaf
            |          |          
            |           --30.00%--read
            |          
             --10.00%--0x4242
                       leaf

` + second + `# Children      Self  Command
# ........  ........  .......
#
   100.00%   100.00%  other  
            |
            ---0x5042



`},
		{"callee, fractal, limited", Options{NoChildren: true, Sort: "comm", Graph: CallGraph{Mode: GraphFractal, Percent: 20}, Separator: ","}, head + `# Overhead,Command
 100.00%,prog   
            |          
            |--70.00%--leaf
            |          |          
            |          |--85.71%--walk
            |          |          walk
            |          |          walk
            |          |          main
            |           --14.29%--[...]
            |          
             --30.00%--read
                       walk
                       main

` + second + `# Overhead,Command
 100.00%,other  
            |
            ---0x5042



`},
		{"flat", Options{NoChildren: true, PercentLimit: 50, Graph: CallGraph{Mode: GraphFlat, Value: valueCount}}, head + `# Overhead  Command  Shared Object      Symbol  
# ........  .......  .................  ........
#
    70.00%  prog     prog               [.] leaf
           60
                leaf
                walk
                walk
                walk
                main

           10
                leaf
                0x4242

` + second + `# Overhead  Command  Shared Object     Symbol                
# ........  .......  ................  ......................
#
   100.00%  other    a.so              [.] 0x0000000000004042
           1
                0x5042



`},
		{"elided", Options{NoChildren: true, Sort: "comm,dso",
			Filter: Filter{Filter: session.Filter{Comms: []string{"prog"}}}},
			strings.Replace(head, "#\n#\n", "#\n# comm: prog\n#\n", 1) + `# Overhead  Shared Object    
# ........  .................
#
    70.00%  prog             
    30.00%  [kernel.kallsyms]
` + second + `# Overhead  Shared Object   
# ........  ................
#
   100.00%  a.so            


`},
		{"fields", Options{Fields: "period,sym", Sort: "sym", NoChildren: true}, head + `#       Period  Symbol  
# ............  ........
#
           700  [.] leaf
           300  [k] read
` + second + `#       Period  Symbol                
# ............  ......................
#
            10  [.] 0x0000000000004042


`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := printedText(t, test.opts, program()...); got != test.want+tip {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want+tip)
			}
		})
	}
}

// TestFiltered checks that totals include the samples that a filter drops.
func TestFiltered(t *testing.T) {
	stacks := program()[:2]
	stacks[0].Of.filtered = true
	one := Filter{Filter: session.Filter{TIDs: []int32{1}}}
	got := printedText(t, Options{NoChildren: true, Sort: "sym", Filter: one}, stacks...)
	if !strings.Contains(got, "# Samples: 90  of") || !strings.Contains(got, "    33.33%  [k] read\n") ||
		strings.Contains(got, "leaf") {
		t.Errorf("got:\n%s", got)
	}
}

// TestOrder: a tree that is read from left to right is a stable sort wherever
// the comparison is consistent.
func TestOrder(t *testing.T) {
	type item struct{ key, n int }
	for range 50 {
		items := make([]item, rand.Intn(500))
		for i := range items {
			items[i] = item{rand.Intn(100), i}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b item) int { return a.key - b.key })
		if got := order(items, func(there, new item) bool { return new.key < there.key }); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestCallGraphSet(t *testing.T) {
	for _, test := range []struct {
		arg  string
		want CallGraph
		err  string
	}{
		{arg: "", want: DefaultCallGraph},
		{arg: "none", want: CallGraph{Percent: 0.5}},
		{arg: "graph,5,3,callee,function,count", want: CallGraph{Mode: GraphTree, Percent: 5, Limit: 3, Order: Callee,
			Value: valueCount}},
		{arg: "fract,caller,period", want: CallGraph{Mode: GraphFractal, Percent: 0.5, Order: Caller,
			Value: valuePeriod}},
		{arg: "folded,0", want: CallGraph{Mode: GraphFolded}},
		{arg: "srcline", err: "cannot be merged by srcline"},
		{arg: "grap,x", err: `"x" is not graph`},
		{arg: "graph,-1", err: `"-1" is not graph`},
	} {
		var got CallGraph
		err := got.Set(test.arg)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: got error %v, want %q", test.arg, err, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.arg, got, err, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 ", 999: "999 ", 1000: "1000 ", 1001: "1K", 83715: "83K",
		999999: "999K", 1_234_567: "1M", 5_000_000_000: "5G", 7_000_000_000_000: "7000G"} {
		if got := string(appendShort(nil, n)); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestUnknownKey(t *testing.T) {
	f := &format.File{Attrs: []format.Attr{{Name: "cycles"}}}
	for _, opts := range []Options{{Sort: "comm,nosuch"}, {Fields: "nosuch"}, {Sort: "+nosuch"}} {
		_, err := newLayouts(f, &opts)
		if err == nil || !strings.Contains(err.Error(), `"nosuch"`) {
			t.Errorf("%+v: got error %v", opts, err)
		}
	}
}

// noRank leaves the order of equal branches to their addresses.
func noRank(string) int32 { return 0 }

// TestUnresolvedFirst: --hide-unresolved leaves out callers without symbols, also if they are all callers.
func TestUnresolvedFirst(t *testing.T) {
	w := &world{}
	st := sampled(0, "prog", 3, nil, []*session.Frame{w.frame("prog:", 0x1000), w.frame("prog:", 0x1010)})
	st.Leaf = w.frame("prog:sampled", 0x2000)
	for _, order := range []Order{Caller, Callee} {
		graph := DefaultCallGraph
		graph.Order = order
		alike(t, printedText(t, Options{Resolved: true, Graph: graph}, st), "sampled")
	}
}

// TestFillers: entries and graphs are the same for any number of CPUs.
func TestFillers(t *testing.T) {
	w := &world{}
	functions := make([]*session.Frame, 60)
	for i := range functions {
		functions[i] = w.frame(fmt.Sprintf("prog:f%d", i), uint64(0x1000+0x100*i))
	}
	var stacks []*stack
	for i := range 2200 {
		user := []*session.Frame{functions[i%7], functions[7+i%11], functions[18+i%13], functions[31+i%29]}
		stacks = append(stacks, sampled(0, []string{"a", "b", "c"}[i%3], uint64(1+i%5), nil, user))
	}
	print := func(cpus int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cpus))
		return printedText(t, Options{Graph: DefaultCallGraph}, stacks...)
	}
	if one, several := print(1), print(4); one != several || len(one) < 1000 {
		t.Errorf("%d bytes on one CPU, %d others on four", len(one), len(several))
	}
}

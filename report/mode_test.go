package report

import (
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// alike checks lines that a report must contain, blanks at the ends aside.
func alike(t *testing.T, got, want string) {
	t.Helper()
	for line := range strings.SplitSeq(got, "\n") {
		got = strings.Replace(got, line+"\n", strings.TrimRight(line, " ")+"\n", 1)
	}
	if !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwhich lacks:\n%s", got, want)
	}
}

// TestBranches: branches are distinguished by source, target and cycles; a DSO of
// sources without symbols gets no more room than an address.
func TestBranches(t *testing.T) {
	var w world
	loop, head, far := w.frame("/bin/prog:loop", 0x100), w.frame("/bin/prog:head", 0x200),
		w.frame("/usr/lib/a-library-of-a-very-long-name.so:", 0x9042)
	user := func(from, to *session.Frame, flags, n uint64) *stack {
		st := sampled(0, "prog", n, nil, []*session.Frame{to})
		st.Sum.Period = n
		st.Of.extra = &extra{from: from, to: to, flags: flags}
		return st
	}
	stacks := []*stack{
		user(loop, head, 5<<4|branchPredicted, 6),
		user(loop, head, 5<<4|branchMispredicted, 1),
		user(loop, head, 0, 1),
		user(far, w.frame("?", 0xffffffff81000000), 0, 2),
	}
	f := &format.File{Attrs: []format.Attr{{Name: "cycles", SampleType: format.SampleBranchStack}},
		Sections: map[format.Feature][]byte{}}
	alike(t, textOf(t, f, Options{Mode: ModeBranches}, stacks...), `# Overhead  Command  Source Shared Object  Source Symbol           Target Symbol           Basic Block Cycles
# ........  .......  ....................  ......................  ......................  ..................
#
    70.00%  prog     prog                  [.] loop                [.] head                5
    20.00%  prog     a-library-of-a-very-  [.] 0x0000000000008042  [H] 0xffffffff81000000  -
    10.00%  prog     prog                  [.] loop                [.] head                -
`)
	alike(t, textOf(t, f, Options{Mode: ModeBranches, Sort: "mispredict,in_tx,dso_to"}, stacks...), `    60.00%  N                    .                      prog
    20.00%  N/A                  .                      [unknown]
    10.00%  Y                    .                      prog
    10.00%  N/A                  .                      prog
`)
	alike(t, textOf(t, f, Options{Mode: ModeBranches, Sort: "symbol_to"}, stacks...), `# Overhead  Target Symbol
# ........  ......................
#
    80.00%  [.] head
    20.00%  [H] 0xffffffff81000000
`)
}

// groupSection is a GROUP_DESC section with one group.
func groupSection(name string, leader, members uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1)
	b = binary.LittleEndian.AppendUint32(b, 64)
	b = append(b, append([]byte(name), make([]byte, 64-len(name))...)...)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, leader), members)
}

// TestGroups checks that entries of only one event are shown for all events, that an
// event without samples gets no column, and that the second event breaks ties.
func TestGroups(t *testing.T) {
	var w world
	a, b, c := w.frame("/bin/prog:a", 0x100), w.frame("/bin/prog:b", 0x200), w.frame("/bin/prog:c", 0x300)
	stacks := []*stack{
		sampled(0, "prog", 5, nil, []*session.Frame{a}),
		sampled(0, "prog", 5, nil, []*session.Frame{b}),
		sampled(2, "prog", 3, nil, []*session.Frame{b}),
		sampled(2, "prog", 1, nil, []*session.Frame{c}),
	}
	f := &format.File{Order: format.LittleEndian,
		Attrs:    []format.Attr{{Name: "cycles"}, {Name: "dummy"}, {Name: "faults"}},
		Sections: map[format.Feature][]byte{format.FeatureGroupDesc: groupSection("{anon_group}", 0, 3)}}
	const columns = `# Event count (approx.): 140
#
#         Overhead  Symbol
# ................  ......
#
    50.00%  75.00%  [.] b
    50.00%   0.00%  [.] a
     0.00%  25.00%  [.] c
`
	alike(t, textOf(t, f, Options{Sort: "sym"}, stacks...),
		"# Samples: 14  of events 'anon group { cycles, faults }'\n"+columns)
	alike(t, textOf(t, f, Options{Sort: "sym", Groups: GroupsApart}, stacks...), "# Samples: 10  of events 'cycles'\n")
	alike(t, textOf(t, f, Options{Sort: "sym", Groups: GroupsApart}, stacks...), "# Samples: 4  of event 'faults'\n")
	delete(f.Sections, format.FeatureGroupDesc)
	alike(t, textOf(t, f, Options{Sort: "sym", Groups: GroupsTogether}, stacks...),
		"# Samples: 14  of events 'cycles, faults'\n"+columns)
}

// TestMemoryMode: accesses count by weights, which the histogram gets as
// periods.
func TestMemoryMode(t *testing.T) {
	var w world
	leaf, data := w.frame("/bin/prog:leaf", 0x100), w.frame("//anon:", 0x7f0000001000)
	access := func(weight, addr uint64, n uint64) *stack {
		st := sampled(0, "prog", n, nil, []*session.Frame{leaf})
		st.Sum.Period = weight * n
		const l1Hit, noSnoop, tlbHit = 1<<3 | 1<<1, 1 << 1, 1<<4 | 1<<3 | 1<<1
		st.Of.extra = &extra{weight: weight, addr: addr, data: data, level: '.',
			source: l1Hit<<5 | noSnoop<<19 | 1<<25 | tlbHit<<26, dataPage: 4096}
		return st
	}
	f := &format.File{Attrs: []format.Attr{{Name: "loads"}}, Sections: map[format.Feature][]byte{}}
	got := textOf(t, f, Options{Mode: ModeMemory,
		Sort: "weight,mem,snoop,tlb,locked,blocked,symbol_daddr,dso_daddr,data_page_size"}, access(7, 0x1000, 2),
		access(6, 0x2000, 1))
	alike(t, got, `# Samples: 3  of event 'loads'
# Total weight : 20
# Sort order   : weight,mem,snoop,tlb,locked,blocked,symbol_daddr,dso_daddr,data_page_size
#
`)
	alike(t, got, `    70.00%  14            L1 hit                                   None          L1 or L2 hit            Yes      N/A        [.] 0x0000000000001000  anon         4K
    30.00%  6             L1 hit                                   None          L1 or L2 hit            Yes      N/A        [.] 0x0000000000002000  anon         4K
`)
}

// TestModeErrors: keys and modes that the samples lack are refused.
func TestModeErrors(t *testing.T) {
	f := &format.File{Attrs: []format.Attr{{Name: "cycles"}}, Sections: map[format.Feature][]byte{}}
	if err := (&Options{Mode: ModeBranches}).adapt(f); err != errNoBranches {
		t.Errorf("got error %v, want %v", err, errNoBranches)
	}
	for sort, want := range map[string]string{"mispredict": "only for branches",
		"comm,mem": "only for memory accesses"} {
		if _, err := newLayouts(f, &Options{Sort: sort}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", sort, err, want)
		}
	}
}

// TestChooseMode checks that recordings of branches are counted by branch.
func TestChooseMode(t *testing.T) {
	for _, test := range []struct {
		recorded   bool
		sampleType format.SampleType
		opts       Options
		want       Mode
	}{
		{true, format.SampleBranchStack, Options{}, ModeBranches},
		{true, format.SampleBranchStack, Options{Branches: BranchesOff}, ModeSamples},
		{true, format.SampleBranchStack, Options{Mode: ModeMemory}, ModeMemory},
		{true, format.SampleBranchStack | format.SampleStackUser, Options{}, ModeSamples},
		{false, format.SampleBranchStack, Options{}, ModeSamples},
		{false, format.SampleBranchStack, Options{Mode: ModeBranches}, ModeBranches},
	} {
		if test.opts.chooseMode(test.recorded, test.sampleType); test.opts.Mode != test.want {
			t.Errorf("%+v: got mode %v", test, test.opts.Mode)
		}
	}
}

// TestLoneTrace: perf compares texts to make them, and so makes no room for the
// only one.
func TestLoneTrace(t *testing.T) {
	h := Hist{Total: Stat{Sum: Sum{Samples: 1}}, traces: &traces{formats: nil}}
	h.traces.formats = append(h.traces.formats, nil)
	if h.madeTraces() {
		t.Error("an event without a format has no texts")
	}
}

// TestKernelAddresses: the kernel's addresses are printed as they are, addresses of
// its modules as offsets.
func TestKernelAddresses(t *testing.T) {
	for name, want := range map[string]uint64{"[kernel.kallsyms]": 0xffffffffc0001042, "[mod]": 0x1042} {
		m := &session.Map{Start: 0xffffffffc0000000, End: 0xffffffffc0010000, DSO: &session.DSO{Name: name}}
		if got := m.SampledAddr(0xffffffffc0001042); got != want {
			t.Errorf("%s: got %#x, want %#x", name, got, want)
		}
	}
}

// TestGroupTooBig: a damaged list of groups does not make rows of thousands of
// columns.
func TestGroupTooBig(t *testing.T) {
	f := &format.File{Order: format.LittleEndian, Attrs: make([]format.Attr, maxGroup+1),
		Sections: map[format.Feature][]byte{format.FeatureGroupDesc: groupSection("{anon_group}", 0, maxGroup+1)}}
	if groups := eventGroups(f, &Options{}); len(groups) != 0 {
		t.Errorf("got %v", groups)
	}
	f.Sections[format.FeatureGroupDesc] = groupSection("{anon_group}", 1, maxGroup)
	if groups := eventGroups(f, &Options{}); len(groups) != 1 || groups[1].Members != maxGroup {
		t.Errorf("got %v", groups)
	}
}

// TestLongNames: a name is shown whole, however long; other rows do not become
// as long for its sake.
func TestLongNames(t *testing.T) {
	var w world
	long := strings.Repeat("x", 5000)
	got := printedText(t, Options{NoChildren: true, Sort: "dso,comm"},
		sampled(0, "a", 1, nil, []*session.Frame{w.frame("/"+long+":f", 1)}),
		sampled(0, "b", 1, nil, []*session.Frame{w.frame("/y:f", 1)}))
	if !strings.Contains(got, "  "+long+"  a") || !strings.Contains(got, "  y"+strings.Repeat(" ", maxPad-1)+"  b") {
		t.Errorf("got:\n%s", got)
	}
}

// TestTransactions: flags, and the code of an abort.
func TestTransactions(t *testing.T) {
	for transaction, want := range map[uint64]string{0: "", 1 << 1: "TX NEITHER ", 1<<1 | 1<<2: "TX SYNC ",
		1<<0 | 1<<3 | 1<<5 | 0x2a<<32: "EL ASYNC CON :2a"} {
		if got := string(appendTransaction(nil, &Entry{extra: &extra{transaction: transaction}})); got != want {
			t.Errorf("%#x: got %q, want %q", transaction, got, want)
		}
	}
}

// TestCgroupsAndTimes: samples of one entry are at most key.UsualQuantum apart.
func TestCgroupsAndTimes(t *testing.T) {
	var w world
	at := func(time, cgroup uint64, path string, ip uint64) *stack {
		st := sampled(0, "prog", 1, nil, []*session.Frame{w.frame("/bin/prog:main", ip)})
		st.Of.extra = &extra{time: time - time%key.UsualQuantum, cgroup: cgroup, path: path}
		return st
	}
	stacks := []*stack{at(1e9, 1, "/sys", 0x100), at(1e9+99e6, 1, "/sys", 0x108), at(1e9+100e6, 2, "", 0x100),
		at(2e9, 0, "", 0x100)}
	alike(t, printedText(t, Options{NoChildren: true, Sort: "time,cgroup"}, stacks...), `# Overhead  Time          Cgroup
# ........  ............  .......
#
    50.00%  1.000000      /sys
    25.00%  1.100000      unknown
    25.00%  2.000000      N/A
`)
	alike(t, printedText(t, Options{NoChildren: true, Sort: "addr"}, stacks...), `    75.00%  0x100
    25.00%  0x108
`)
}

// TestContainers: the cgroups of a container, or of a pod, are one entry.
func TestContainers(t *testing.T) {
	var w world
	at := func(cgroup uint64, container, pod string) *stack {
		st := sampled(0, "prog", 1, nil, []*session.Frame{w.frame("/bin/prog:main", 0x100)})
		st.Of.extra = &extra{cgroup: cgroup, container: container, pod: pod}
		return st
	}
	stacks := []*stack{at(1, "4f1dc80f9ae5", "8d8fd5cf"), at(2, "4f1dc80f9ae5", "8d8fd5cf"),
		at(3, "b00000000000", "8d8fd5cf"), at(0, key.Missing, key.Missing)}
	alike(t, printedText(t, Options{NoChildren: true, Sort: "container"}, stacks...), `# Overhead  Container
# ........  ............
#
    50.00%  4f1dc80f9ae5
    25.00%  N/A
    25.00%  b00000000000
`)
	alike(t, printedText(t, Options{NoChildren: true, Sort: "pod"}, stacks...), `    75.00%  8d8fd5cf
    25.00%  N/A
`)
}

// TestParent: the first function that matches, from where the callchain begins.
func TestParent(t *testing.T) {
	var w world
	leaf, read, vfs := w.frame("[kernel.kallsyms]:copy", 0x10), w.frame("[kernel.kallsyms]:sys_read", 0x20),
		w.frame("[kernel.kallsyms]:vfs_read", 0x30)
	main := w.frame("/bin/prog:main", 0x100)
	stacks := []*stack{
		sampled(0, "prog", 3, []*session.Frame{leaf, vfs, read}, []*session.Frame{main}),
		sampled(0, "prog", 1, nil, []*session.Frame{main}),
	}
	alike(t, printedText(t, Options{NoChildren: true, Sort: "parent"}, stacks...), `# Overhead  Parent symbol
# ........  .............
#
    75.00%  sys_read
    25.00%  [other]
`)
	reads := Parents{Match: regexp.MustCompile("_read|main")}
	alike(t, printedText(t, Options{NoChildren: true, Sort: "parent", Parents: reads}, stacks...), `    75.00%  vfs_read
    25.00%  main
`)
}

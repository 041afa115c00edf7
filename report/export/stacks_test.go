package export

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/testutil/recording"
	"gperf/report"
	"gperf/report/table"
	"gperf/symbolize"
)

// open returns one of the project's recordings. Names come from the recording's list of the
// kernel's, and from no file.
func open(t testing.TB, name string) *session.Session {
	t.Helper()
	return recording.Open(t, name, time.Time{})
}

// counted counts the stacks of recordings.
func counted(t testing.TB, c *StackSet, names ...string) *StackSet {
	t.Helper()
	c.MaxStack = 1024
	for _, name := range names {
		if _, err := c.Add(open(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// frame makes a frame of "dso:symbol".
func frame(name string, ip uint64) *session.Frame {
	dso, name, _ := strings.Cut(name, ":")
	m := &session.Map{Start: 0x1000, End: 1 << 63, DSO: &session.DSO{Name: dso}}
	var sym *symbolize.Symbol
	if name != "" {
		sym = &symbolize.Symbol{Start: ip, End: ip + 16, Name: name, Raw: name}
	}
	return session.NamedFrame(int(ip), ip, dso == "[kernel.kallsyms]", m, sym)
}

// stackKey returns the key of a callchain.
func stackKey(kernel []*session.Frame, user ...*session.Frame) session.StackKey {
	chain := session.NewChain(kernel, user)
	return session.StackKey{Chain: chain.Key()}
}

// subjectOf returns the subject of a stack without labels.
func subjectOf(event int32, comm string, idle bool) *subject {
	return &subject{event: event, comm: comm, idle: idle, group: &noFields, fields: &noFields}
}

func pprofOf(t *testing.T, c *StackSet) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	if err := c.Pprof(&b); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var threadStacks = StackSet{Processes: true, Threads: true, CPUs: true}

// reportTotals returns the sums of periods that Text prints for each event.
func reportTotals(t *testing.T, name string) map[string]int64 {
	t.Helper()
	var b strings.Builder
	if _, err := report.Text(&b, open(t, name), report.Options{MaxStack: 1024}); err != nil {
		t.Fatal(err)
	}
	totals := map[string]int64{}
	for _, m := range regexp.MustCompile(`of event '(.*)'\n# Event count \(approx\.\): (\d+)`).FindAllStringSubmatch(
		b.String(), -1) {
		totals[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
	}
	return totals
}

func TestPprofEqualsReport(t *testing.T) {
	want := reportTotals(t, "two.data")
	maps.Copy(want, reportTotals(t, "drops.data"))
	c := threadStacks
	p := pprofOf(t, counted(t, &c, "two.data", "drops.data"))
	got := map[string]int64{}
	for _, s := range p.Sample {
		for i, v := range s.Value {
			got[p.SampleType[i].Type] += v
		}
	}
	want["cpu"] = want["cpu-clock"]
	delete(want, "cpu-clock")
	if delete(got, "samples"); !maps.Equal(got, want) {
		t.Errorf("totals %v, want report's %v", got, want)
	}
}

// TestPprofOfTwo: the metadata of a profile of two recordings.
func TestPprofOfTwo(t *testing.T) {
	c := threadStacks
	p := pprofOf(t, counted(t, &c, "two.data"))
	var types []string
	for _, v := range p.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	if want := []string{"samples/count", "cpu/nanoseconds", "sched:sched_switch/count"}; !slices.Equal(types, want) ||
		p.DefaultSampleType != "cpu" {
		t.Errorf("sample types %v, usually %s; want %v", types, p.DefaultSampleType, want)
	}
	if p.PeriodType.Type != "cpu" || p.Period != 500_000 || p.DurationNanos < 90e6 || p.DurationNanos > 110e6 {
		t.Errorf("period %d of %v, %d ns; want 500000 of cpu, some 100 ms", p.Period, p.PeriodType,
			p.DurationNanos)
	}
	const command = "gperf record -g -F 2000 -e cpu-clock,sched:sched_switch -o two.data -- " +
		"./drops -n 3000 -rate 30000"
	if !slices.Contains(p.Comments, "cmdline: "+command) {
		t.Errorf("no command line in %q", p.Comments)
	}
	s := p.Sample[0]
	if comm, pid, tid := s.Label["comm"], s.NumLabel["pid"],
		s.NumLabel["tid"]; !slices.Equal(comm, []string{"drops"}) || !slices.Equal(pid, []int64{15247}) ||
		len(tid) != 1 || len(s.NumLabel["cpu"]) != 0 {
		t.Errorf("labels %v %v; the recording has no CPUs", s.Label, s.NumLabel)
	}
	main, kernel := p.Mapping[0], p.Mapping[1]
	if main.File != "/tmp/gperf-example/drops" || main.HasFunctions || kernel.File != "[kernel.kallsyms]" ||
		!kernel.HasFunctions || len(kernel.BuildID) != 40 {
		t.Errorf("mappings %v; want drops, without functions, and the kernel", p.Mapping)
	}
	for _, l := range p.Location {
		if l.Mapping == nil || l.Address < l.Mapping.Start || l.Address >= l.Mapping.Limit {
			t.Errorf("location %#x lies outside of its mapping %v", l.Address, l.Mapping)
		}
	}
}

// TestPprofTwice: a recording counted twice yields twice the values of the same
// samples.
func TestPprofOfDifference(t *testing.T) {
	values := func(old, new string) (l []int64) {
		var c StackSet
		if _, err := c.AddBaseline(open(t, old)); err != nil {
			t.Fatal(err)
		}
		sums := map[string]int64{}
		for _, s := range pprofOf(t, counted(t, &c, new)).Sample {
			for i, v := range s.Value {
				if v < 0 != s.DiffBaseSample() && v != 0 {
					t.Errorf("value %d, of the baseline: %t", v, s.DiffBaseSample())
				}
				sums[fmt.Sprint(i, s.Label["comm"], s.Location)] += v
			}
		}
		return slices.Collect(maps.Values(sums))
	}
	differs := func(v int64) bool { return v != 0 }
	if l := values("two.data", "two.data"); slices.ContainsFunc(l, differs) {
		t.Errorf("a recording differs from itself: %d", l)
	}
	// The baseline is scaled, so the values add up to 0, up to rounding.
	sum := int64(0)
	l := values("two.data", "threads.data")
	for _, v := range l {
		sum += v
	}
	if !slices.ContainsFunc(l, differs) || sum < -int64(len(l)) || sum > int64(len(l)) {
		t.Errorf("different recordings: %d, in all %d", l, sum)
	}
}

func TestPprofTwice(t *testing.T) {
	c, d := threadStacks, threadStacks
	one, two := pprofOf(t, counted(t, &c, "drops.data")), pprofOf(t, counted(t, &d, "drops.data", "drops.data"))
	one.Scale(2)
	one.DurationNanos *= 2
	two.Comments = one.Comments
	if got, want := two.String(), one.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothingToWrite(t *testing.T) {
	var b bytes.Buffer
	for name, write := range map[string]func(*StackSet) error{
		"pprof": func(c *StackSet) error { return c.Pprof(&b) },
		"svg":   func(c *StackSet) error { return c.SVG(&b) },
	} {
		if err := write(new(StackSet)); err != ErrNoSamples || b.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, b.Len())
		}
	}
}

func talliesOf(list ...tally) (l table.Tallies[subject, stackSum]) {
	for i := range list {
		l.List = append(l.List, &list[i])
	}
	return l
}

// TestTable checks recursion, samples without a callchain, a leaf with several callers, events without periods, and
// that heavier frames come first.
func TestTable(t *testing.T) {
	a, b, k, none := frame("prog:a", 0x10), frame("prog:b", 0x40), frame("[kernel.kallsyms]:k", 0x70),
		frame("/lib/x.so:", 0x100)
	c := &StackSet{MaxStack: 3, events: []stackEvent{{name: "cycles"}, {name: "faults", samples: 5, total: 60},
		{name: "counted"}}, tallies: talliesOf(
		tally{Of: subjectOf(2, "p", false), Sum: stackSum{samples: 7}},
		tally{Of: subjectOf(1, "p", false), Sum: stackSum{samples: 1, period: 10},
			StackKey: stackKey([]*session.Frame{k}, a, a, b)}, // b is one too many
		tally{Of: subjectOf(1, "p", false), Sum: stackSum{samples: 3, period: 30}, StackKey: stackKey(nil, a, a)},
		tally{Of: subjectOf(1, "q", true), Sum: stackSum{samples: 1, period: 20},
			StackKey: session.StackKey{Leaf: none}})}
	c.tallies.List[0].Of.chained = true
	tab := c.Table()
	var got []string
	for i, e := range tab.Events {
		got = append(got, e.Name)
		got = append(got, branches(tab, tab.Count(table.Filter{Event: i}).Callees(), " ")...)
	}
	want := []string{"faults", " 60/0/5", "  p 40/0/4", "   a 40/0/4", "    a 40/30/4", "     k 10/10/1",
		"  q 20/0/1", "   [x.so] 20/20/1", "counted", " 7/0/7", "  p 7/7/7"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := tab.Count(table.Filter{NoIdle: true}).All(); n != (table.Sum{Weight: 40, Samples: 4}) {
		t.Errorf("without idle CPUs: %+v", n)
	}
}

// branches lists the entries of a call tree: the function, total, self and samples.
func branches(t *table.Table, b *table.Branch, indent string) []string {
	name := ""
	if b.Function >= 0 {
		name = t.Functions[b.Function].Name + " "
	}
	list := []string{fmt.Sprintf("%s%s%d/%d/%d", indent, name, b.Total.Weight, b.Self.Weight, b.Total.Samples)}
	for _, next := range b.Next() {
		list = append(list, branches(t, next, indent+" ")...)
	}
	return list
}

// TestTableOfDifferences: the baseline is a recording of its own, and a file of both has one name.
func TestTableOfDifferences(t *testing.T) {
	var c StackSet
	if _, err := c.AddBaseline(open(t, "two.data")); err != nil {
		t.Fatal(err)
	}
	tab := counted(t, &c, "two.data").Table()
	if len(tab.Recordings) != 2 || !tab.Recordings[0].Baseline || tab.Recordings[1].Baseline {
		t.Fatalf("recordings %+v", tab.Recordings)
	}
	for i, e := range tab.Events {
		old := tab.Count(table.Filter{Event: i, Recordings: []bool{true, false}})
		now := tab.Count(table.Filter{Event: i, Recordings: []bool{false, true}})
		if !slices.Equal(old.Self, now.Self) || now.All().Samples == 0 {
			t.Errorf("%s: a recording differs from itself: %+v, %+v", e.Name, old.All(), now.All())
		}
	}
}

// TestFolderThread compares the first frame with stackcollapse-perf.pl's for a command
// and two ids.
func TestFolderThread(t *testing.T) {
	for _, test := range []struct {
		comm     string
		pid, tid int32
		want     string
	}{
		{"java", 24636, 25607, "java-24636/25607"},
		{"swapper", 0, 0, "swapper-?/0"},
		{"V8 Worker", 12, 13, "V8_Worker-12/13"},
		{"job 7 x", 12, 13, "job-?/7"},
		{"job 7/8 x", 12, 13, "job-7/8"},
		{"a", 12, 13, "a_-12/13"},
		{" x", 12, 13, ""},
	} {
		f := folder{FoldedOptions: FoldedOptions{TID: true, Tidy: true}}
		of := &subject{comm: test.comm, pid: test.pid, tid: test.tid}
		if got := f.thread(&tally{Of: of}); got != test.want {
			t.Errorf("%s %d/%d: %q, want %q", test.comm, test.pid, test.tid, got, test.want)
		}
	}
}

// TestBy: keys are callers of all functions in folded stacks and flame graphs, and labels of a
// profile, where fields with few values are labels, too.
func TestBy(t *testing.T) {
	c := counted(t, &StackSet{By: []string{"reason", "skbaddr"}, Fields: true}, "drops.data")
	var b strings.Builder
	if err := c.Folded(&b, FoldedOptions{}); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^reason=NO_SOCKET;skbaddr=0x[0-9a-f]+;drops;.*;sk_skb_reason_drop 3$`)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 2+1 || !want.MatchString(lines[0]) {
		t.Errorf("folded: %q", lines)
	}
	tab := c.Table()
	first := tab.Count(table.Filter{}).Callees().Next()[0]
	if name := tab.Functions[first.Function].Name; name != "reason=NO_SOCKET" || first.Total.Samples != 5 {
		t.Errorf("the first frame is %s with %+v", name, first.Total)
	}
	p := pprofOf(t, c)
	for _, s := range p.Sample {
		if !s.HasLabel("reason", "NO_SOCKET") || !s.HasLabel("location", "__udp4_lib_rcv+0x4bc") ||
			!s.HasLabel("protocol", "IPv4") || s.Label["skbaddr"] == nil || s.Label["len"] != nil {
			t.Errorf("labels %v, %v", s.Label, s.NumLabel)
		}
	}
	if len(p.Sample) != 2 {
		t.Errorf("%d samples", len(p.Sample))
	}
}

// TestTooManyFields: an event whose fields take too many values keeps samples without labels, which
// are counted.
func TestTooManyFields(t *testing.T) {
	known := map[string]bool{}
	for i := range maxGroups {
		known[strconv.Itoa(i)] = true
	}
	c := StackSet{Fields: true}
	c.init()
	c.fieldGroups[0] = known
	p := pprofOf(t, counted(t, &c, "drops.data"))
	if n := c.Unlabeled()["skb:kfree_skb"]; n != 5 || len(p.Sample) != 1 || p.Sample[0].Label["reason"] != nil {
		t.Errorf("%d samples without labels; %v", n, p.Sample)
	}
}

// TestEventsOfDifference: of one recording, events that differ in modifiers stay apart; events of two recordings are
// one if their names are equal, and else if they differ in modifiers only.
func TestEventsOfDifference(t *testing.T) {
	set := &StackSet{bases: []facts{{}}}
	for _, c := range []struct {
		names string
		want  []int32
	}{
		{"cycles:u cycles:k", []int32{0, 1}}, // the baseline
		{"cycles:k cycles:u", []int32{1, 0}},
		{"cycles", []int32{0}},
		{"cycles cycles:u", []int32{1, 0}},
		{"cycles:k cycles cycles:u", []int32{1, 2, 0}},
	} {
		var own []stackEvent
		for name := range strings.FieldsSeq(c.names) {
			own = append(own, stackEvent{name: name, typ: format.TypeHardware})
		}
		if got := set.indexes(own); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.names, got, c.want)
		}
	}
}

// TestFoldedWeights: tracepoints count samples, as perf script does not print periods; spans and
// clocks weigh by time.
func TestFoldedWeights(t *testing.T) {
	for _, c := range []struct {
		name  string
		event stackEvent
		want  string
	}{
		{"tracepoint", stackEvent{name: "skb:kfree_skb", tracepoint: true, unit: "count"}, ";a 3\n"},
		{"span", stackEvent{name: "span:syscalls", tracepoint: true, unit: "nanoseconds"}, ";a 1000\n"},
		{"weight", stackEvent{name: "kmem:kmalloc", tracepoint: true, field: "bytes_req", unit: "bytes"}, ";a 1000\n"},
		{"clock", stackEvent{name: "cpu-clock", unit: "nanoseconds"}, ";a 1000\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := &StackSet{MaxStack: 9, Weight: c.event.field, events: []stackEvent{c.event}, tallies: talliesOf(
				tally{Of: subjectOf(0, "p", false), StackKey: stackKey(nil, frame("prog:a", 0x10)),
					Sum: stackSum{samples: 3, period: 1000}})}
			set.tallies.List[0].Of.chained = true
			var b strings.Builder
			if err := set.Folded(&b, FoldedOptions{}); err != nil || !strings.HasSuffix(b.String(), c.want) {
				t.Errorf("%q, %v; want %q", b.String(), err, c.want)
			}
		})
	}
}

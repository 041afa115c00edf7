package spans

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// tree returns the text of the spans, each given as name, start and end in ns, in the order of ends.
func tree(opts TreeOptions, list ...span) string {
	var b strings.Builder
	t := treeWriter{Writer: &b, TreeOptions: opts, name: func(p *span) string { return p.event.name }}
	t.write(nest(list))
	return b.String()
}

func made(name string, start, end uint64) span {
	return span{event: &spanEvent{name: name}, start: start, duration: end - start}
}

func TestTree(t *testing.T) {
	calls := []span{made("copy", 1100, 1400), made("alloc", 1500, 1600), made("route", 1500, 1700),
		made("send", 1000, 4042), made("close", 5000, 5100)}
	for _, test := range []struct {
		name string
		opts TreeOptions
		want string
	}{
		{"all", TreeOptions{}, `
    3.042 us     2.542 us |  send() {
    0.300 us     0.300 us |    copy();
    0.200 us     0.100 us |    route() {
    0.100 us     0.100 us |      alloc();
                          |    }
                          |  }
    0.100 us     0.100 us |  close();
`},
		{"max-depth", TreeOptions{MaxDepth: 2}, `
    3.042 us     2.542 us |  send() {
    0.300 us     0.300 us |    copy();
    0.200 us     0.100 us |    route();
                          |  }
    0.100 us     0.100 us |  close();
`},
		{"min", TreeOptions{Min: 250}, `
    3.042 us     2.542 us |  send() {
    0.300 us     0.300 us |    copy();
                          |  }
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := "\n" + tree(test.opts, calls...); got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
}

// TestTreeEdges: equal times, spans that follow each other at once, and those that only overlap.
func TestTreeEdges(t *testing.T) {
	for _, test := range []struct {
		name string
		list []span
		want string // the names, with one blank per level
	}{
		{"equal", []span{made("inner", 5, 9), made("outer", 5, 9)}, "outer\n inner\n"},
		{"adjacent", []span{made("a", 1, 5), made("b", 5, 9)}, "a\nb\n"},
		{"overlap", []span{made("a", 1, 5), made("b", 3, 9), made("c", 6, 10)}, "a\nb\nc\n"},
		{"empty", []span{made("a", 3, 3), made("b", 1, 5)}, "b\n a\n"},
		{"damaged", []span{{event: &spanEvent{name: "a"}, start: 1 << 63, duration: 1<<64 - 1}, made("b", 1, 5)}, "b\na\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			var list func(nodes []*node, indent string)
			list = func(nodes []*node, indent string) {
				for _, n := range nodes {
					got.WriteString(indent + n.span.event.name + "\n")
					list(n.children, indent+" ")
				}
			}
			list(nest(test.list), "")
			if got.String() != test.want {
				t.Errorf("got\n%swant\n%s", got.String(), test.want)
			}
		})
	}
}

// TestPercentiles compares percentiles with the percentiles of the sorted durations.
func TestPercentiles(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	var d durations
	var all []uint64
	for range 10_000 {
		ns := uint64(random.ExpFloat64() * 5e5)
		all = append(all, ns)
		d.add((&span{duration: ns, failed: ns%2 == 0}).all())
	}
	slices.Sort(all)
	for _, n := range []uint64{1, 50, 95, 99, 100} {
		want := all[uint64(len(all))*n/100-1]
		if got := d.Percentile(n); got < want || float64(got) > float64(want)*1.01 {
			t.Errorf("%d %%: %d, want %d", n, got, want)
		}
	}
	counts, first, last := d.Powers()
	var sum uint64
	for i, n := range counts {
		for _, ns := range all {
			if n > 0 && max(ns, 1)>>i == 1 {
				n--
			}
		}
		if n != 0 || counts[i] > 0 && (i < first || i > last) {
			t.Errorf("power %d: %d too many of %d; %d to %d", i, n, counts[i], first, last)
		}
		sum += counts[i]
	}
	if sum != d.N() || d.min != all[0] || d.Longest() != all[len(all)-1] {
		t.Errorf("%d of %d in powers, from %d to %d", sum, d.N(), d.min, d.Longest())
	}
}

// TestHistograms: buckets of a histogram count as the spans in them.
func TestHistograms(t *testing.T) {
	var d, all durations
	sum := thread{byName: map[string]*durations{}}
	for _, b := range []bucket{{3, 1, 30, 9, 11}, {1, 1, 1000, 1000, 1000}} {
		d.add((&span{bucket: &b}).all())
		sum.add("comm", "call", b)
	}
	for _, ns := range []uint64{9, 10, 11, 1000} {
		all.add((&span{duration: ns, failed: ns >= 11}).all())
	}
	if d.N() != all.N() || d.failed != all.failed || d.total != all.total || d.min != all.min ||
		d.Longest() != all.Longest() {
		t.Errorf("%+v, want %+v", d, all)
	}
	if sum.calls != d.N() || sum.total != d.total || sum.byName["call"].N() != d.N() {
		t.Errorf("a thread has %+v, want %+v", sum, d)
	}
	if got, want := d.Percentile(75), uint64(11); got != want {
		t.Errorf("75 %%: %d, want %d", got, want)
	}
	if got, _, _ := d.Powers(); got[3] != 3 || got[9] != 1 {
		t.Errorf("powers: %v", got)
	}
}

func TestErrors(t *testing.T) {
	for ret, want := range map[int64]bool{0: false, -1: true, -4095: true, -4096: false, 3: false} {
		if isError(ret) != want {
			t.Errorf("%d: %v", ret, !want)
		}
	}
}

// TestRows: numbers are at the right, keys at the left, the largest total is first.
func TestRows(t *testing.T) {
	rows := map[string]*row{"a": {values: []string{"openat"}}, "b": {values: []string{"read"}}}
	for _, ns := range []uint64{1_000, 2_000, 3_000} {
		rows["a"].add((&span{duration: ns, failed: ns == 1_000}).all())
	}
	rows["b"].add((&span{duration: 12_340_000}).all())
	var b strings.Builder
	writeRows(&b, []string{"syscall"}, rows, 12_346_000)
	const want = `# calls  errors    total   share      avg      p50      p95      p99      max  syscall
      1       0  12.3 ms  99.95%  12.3 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms  read
      3       1  6.00 us   0.05%  2.00 us  2.01 us  3.00 us  3.00 us  3.00 us  openat
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestStoodStill: a call that ran for long without a sample of a clock, though its thread has others.
func TestStoodStill(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name     string
		interval uint64
		sums     bool
		length   uint64
		ran      []ran
		want     string
	}{
		{"still", ms, false, 10 * ms, []ran{{time: 50 * ms}},
			"running, without a sample: a virtual CPU may have stood still"},
		{"short", ms, false, 3 * ms, []ran{{time: 50 * ms}}, "running"},
		{"no clock", 0, false, 10 * ms, []ran{{time: 50 * ms}}, "running"},
		{"another thread's", ms, false, 10 * ms, nil, "running"},
		{"short waits count as running", ms, true, 10 * ms, []ran{{time: 50 * ms}}, "running"},
		{"sampled", ms, false, 10 * ms, []ran{{time: 5 * ms}}, "running: f"},
	} {
		did := &activity{threads: map[int32]*done{1: {ran: c.ran}}, names: []string{"f"},
			index: map[string]int32{"f": 0}, within: map[within]bool{}, interval: c.interval, sums: c.sums}
		p := newParts()
		p.addTime(did, 1, 0, c.length, follow{}, "")
		if got := ranText(did, p.hottest()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

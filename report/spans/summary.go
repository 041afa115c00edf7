package spans

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// thread is the calls of a thread.
type thread struct {
	tid    int32
	comm   string // the last one
	order  int    // of the first call
	calls  uint64
	total  uint64 // ns
	byName map[string]*durations
}

// Summary writes for each thread the number and durations of system calls or other spans, as perf trace -s does:
// threads and calls by total time. Percentiles are at most 1 % too long.
func Summary(w io.Writer, s *session.Session, keep Keep, _ key.Options) (format.Skipped, error) {
	d, err := newDecoder(s.File)
	if err != nil {
		return format.Skipped{}, err
	}
	threads := map[int32]*thread{}
	var all durations
	skipped, err := d.walk(s, keep, func(one *session.Sample, p *span) {
		t := threads[one.TID]
		if t == nil {
			t = &thread{tid: one.TID, order: len(threads), byName: map[string]*durations{}}
			threads[one.TID] = t
		}
		t.add(one.Comm, d.name(p), p.all())
		all.add(p.all())
	})
	if err != nil {
		return skipped, err
	}
	list := slices.SortedFunc(maps.Values(threads), func(a, b *thread) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.order, b.order))
	})
	head := "syscall"
	if slices.ContainsFunc(d.events, func(e *spanEvent) bool { return e != nil && e.id == nil }) {
		head = "span"
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %d calls, %d errors, %s ms\n", all.N(), all.failed, millis(all.total))
	for _, t := range list {
		t.write(out, head)
	}
	return skipped, out.Flush()
}

func (t *thread) add(comm, name string, b bucket) {
	t.comm = comm
	t.calls += b.count
	t.total += b.total
	d := t.byName[name]
	if d == nil {
		d = &durations{}
		t.byName[name] = d
	}
	d.add(b)
}

func (t *thread) write(w io.Writer, head string) {
	fmt.Fprintf(w, "\n %s (%d), %d calls, %s ms\n\n", t.comm, t.tid, t.calls, millis(t.total))
	var names []string
	width := len(head)
	for name := range t.byName {
		names = append(names, name)
		width = max(width, len(name))
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.byName[b].total, t.byName[a].total), cmp.Compare(a, b))
	})
	const unit = "(msec)"
	fmt.Fprintf(w, "   %-*s %8s %7s %10s %9s %9s %9s %9s %9s\n", width, head, "calls", "errors", "total", "min",
		"avg", "p95", "p99", "max")
	fmt.Fprintf(w, "   %-*s %8s %7s %10s %9s %9s %9s %9s %9s\n", width, "", "", "", unit, unit, unit, unit, unit, unit)
	dashes := func(n int) string { return strings.Repeat("-", n) }
	fmt.Fprintf(w, "   %s %s %s %s", dashes(width), dashes(8), dashes(7), dashes(10))
	fmt.Fprintln(w, strings.Repeat(" "+dashes(9), 5))
	for _, name := range names {
		d := t.byName[name]
		fmt.Fprintf(w, "   %-*s %8d %7d %10s %9s %9s %9s %9s %9s\n", width, name, d.N(), d.failed, millis(d.total),
			millis(d.min), millis(d.total/d.N()), millis(d.Percentile(95)), millis(d.Percentile(99)),
			millis(d.Longest()))
	}
}

// millis returns a duration in milliseconds with three digits.
func millis(ns uint64) string {
	ns = (ns + 500) / 1000
	return fmt.Sprintf("%d.%03d", ns/1000, ns%1000)
}

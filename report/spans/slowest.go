package spans

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// done is what a thread did for a while, and did not at other times. Times are in ns.
type done struct {
	tid        int32
	start, end uint64
	what       string
}

// slow is a span, and what it is of.
type slow struct {
	span
	name, task string
	tid        int32
	chosen     bool   // by filters
	inside     sumsOf // what its thread did in it
	calls      sumsOf // spans of other events in it
}

// sumsOf are times in ns by what they are of.
type sumsOf map[string]uint64

// Slowest returns a function that writes the n longest spans of a recording that an expression of --filter selects,
// each with what its thread did in it: waits by kind, function and who ended them, if waits were recorded; for the rest
// it ran, mostly in the function that most samples of a clock show. Histograms have no single spans.
func Slowest(n int, where string) func(io.Writer, *session.Session, Keep, key.Options) (format.Skipped, error) {
	return func(w io.Writer, s *session.Session, keep Keep, _ key.Options) (format.Skipped, error) {
		d, err := newDecoder(s.File)
		if err != nil {
			return format.Skipped{}, err
		}
		l := slowest{spansOf: d, n: n, keep: keep}
		if where != "" {
			if l.filter, err = key.NewFilter(s.File, s.Symbols, where, s.Origin); err == nil {
				err = key.FirstImpossible(l.filter.Impossible())
			}
			if err != nil {
				return format.Skipped{}, fmt.Errorf("--filter: %w", err)
			}
		}
		skipped, err := s.Walk(session.WalkOptions{Names: true, KeepChains: true}, func(b *session.Batch) error {
			for i := range b.Samples {
				l.add(s, &b.Samples[i])
			}
			b.Release()
			return nil
		})
		if err == nil && l.all.N() == 0 && l.buckets {
			err = errNoStarts
		}
		if err != nil {
			return skipped, err
		}
		out := bufio.NewWriter(w)
		l.removeSums()
		l.write(out, session.HasWaits(s.File))
		return skipped, out.Flush()
	}
}

// slowest finds the longest spans.
type slowest struct {
	spansOf *decoder
	n       int
	keep    Keep
	filter  *key.Filter // nil: all
	all     durations
	spans   []slow
	did     []done // waits
	ran     []done // samples of clocks
	buckets bool
	end     session.EndOfWaits
	sums    bool // there were sums of waits
}

// add takes a sample.
func (l *slowest) add(s *session.Session, one *session.Sample) {
	a := &s.File.Attrs[one.Event]
	switch {
	case session.IsWait(a):
		l.end.Add(one)
		l.did = append(l.did, done{one.TID, one.Time - min(one.Period, one.Time), one.Time, waitText(one)})
		return
	case session.SamplesCPU(a) && one.Leaf != nil:
		l.ran = append(l.ran, done{one.TID, one.Time, one.Time, one.Leaf.Symbol()})
		return
	}
	p, ok := l.spansOf.decode(one)
	if ok && p.bucket != nil {
		l.buckets = true
		return
	}
	if !ok || p.event.start == nil {
		return
	}
	chosen := (l.keep == nil || l.keep(one)) && (l.filter == nil || l.filter.Match(one))
	if chosen {
		l.all.add(p.all())
	} else if !l.spansOf.several() {
		return
	}
	l.spans = append(l.spans, slow{span: p, name: l.spansOf.name(&p), tid: one.TID,
		task: fmt.Sprintf("%s/%d", one.Comm, one.TID), chosen: chosen})
	if !l.spansOf.several() && len(l.spans) > maxSpans+l.n {
		l.sort()
		l.spans = l.spans[:l.n]
	}
}

// maxSpans limits the spans in memory, if others cannot be in them.
const maxSpans = 10_000

// several reports whether there are several events of spans, so that one can be in another.
func (d *decoder) several() bool {
	n := 0
	for _, e := range d.events {
		if e != nil {
			n++
		}
	}
	return n > 1
}

// sort puts the longest spans that were chosen first.
func (l *slowest) sort() {
	slices.SortStableFunc(l.spans, func(a, b slow) int {
		if a.chosen != b.chosen {
			return map[bool]int{true: -1, false: 1}[a.chosen]
		}
		return cmp.Compare(b.duration, a.duration)
	})
}

// waitText returns what a wait is for.
func waitText(s *session.Sample) string {
	what := cmp.Or(s.WaitKind(), "wait")
	if name := s.WaitsIn(); name != "" {
		what += ": " + name
	}
	if s.Waker != nil && s.Waker.TID != 0 {
		what += ", " + s.Waker.Text()
	}
	return what
}

// explain adds what a span's thread did in it.
func (l *slowest) explain(p *slow) {
	p.inside, p.calls = sumsOf{}, sumsOf{}
	end, waited := p.start+p.duration, uint64(0)
	for _, d := range l.did {
		if d.tid == p.tid && d.start < end && d.end > p.start {
			n := min(d.end, end) - max(d.start, p.start)
			p.inside[d.what] += n
			waited += n
		}
	}
	functions := sumsOf{}
	for _, d := range l.ran {
		if d.tid == p.tid && d.start >= p.start && d.start < end {
			functions[d.what]++
		}
	}
	ran := "running"
	if names := session.MostFrequent(functions); len(names) > 0 {
		ran += ": " + names[0]
	}
	p.inside[ran] += p.duration - min(waited, p.duration)
	for i := range l.spans {
		if in := &l.spans[i]; in.tid == p.tid && in.event != p.event && in.start >= p.start &&
			in.start+in.duration <= end {
			p.calls[in.name] += in.duration
		}
	}
}

// removeSums removes the sums of short waits, and waits that did not end: no span ended in these.
func (l *slowest) removeSums() {
	n := len(l.did)
	l.did = slices.DeleteFunc(l.did, func(d done) bool { return l.end.Has(d.end) })
	l.sums = n > len(l.did)
}

func (l *slowest) write(w io.Writer, waits bool) {
	l.sort()
	n := int(min(uint64(l.n), l.all.N()))
	fmt.Fprintf(w, "# the %d longest of %d calls: %s; p50 %s, p99 %s\n", n, l.all.N(), text.Duration(l.all.total),
		text.Duration(l.all.Percentile(50)), text.Duration(l.all.Percentile(99)))
	switch {
	case !waits:
		fmt.Fprintf(w, "# what they waited for is not recorded: add --off-cpu --off-cpu-thresh 0 -g\n")
	case l.sums:
		fmt.Fprintf(w, "# waits shorter than --off-cpu-thresh, if it was not 0, count as running\n")
	}
	for i := range l.spans[:n] {
		p := &l.spans[i]
		l.explain(p)
		fmt.Fprintf(w, "\n%8s  %s  %s  %d.%06d\n", text.Duration(p.duration), p.name, p.task, p.start/1e9,
			p.start%1e9/1e3)
		for _, what := range session.MostFrequent(p.inside) {
			if share := 100 * float64(p.inside[what]) / float64(max(p.duration, 1)); share >= leastShare {
				fmt.Fprintf(w, "    %8s  %5.1f%%  %s\n", text.Duration(p.inside[what]), share, what)
			}
		}
		for _, what := range session.MostFrequent(p.calls)[:min(leastCalls, len(p.calls))] {
			fmt.Fprintf(w, "    %8s  of it in %s\n", text.Duration(p.calls[what]), what)
		}
	}
}

const (
	leastShare = 0.1 // of a span's time, in percent, that is worth a line
	leastCalls = 3   // spans inside a span that are listed
)

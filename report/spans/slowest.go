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
	"gperf/internal/text"
	"gperf/report/key"
)

// call is a span of a thread.
type call struct {
	span
	name, task string
	pid, tid   int32  // when it ended
	function   string // if a goroutine called it, which shares its thread with others
}

// calls are the spans of a recording, and what its threads did.
type calls struct {
	spansOf *decoder
	most    int // of the longest spans, 0 for all
	keep    Keep
	filter  *key.Filter // nil: all
	all     durations   // of the chosen spans
	chosen  []*call
	did     *activity
	waits   bool // waits were recorded
	buckets bool
}

// report makes a list of spans, which write writes after all samples have been read. where is an expression of --filter
// that selects the spans, and most is how many of the longest are needed, 0 for all. Histograms have no single spans.
func report(where string, most int, write func(io.Writer, *calls)) func(io.Writer, *session.Session, Keep,
	key.Options) (format.Skipped, error) {
	return func(w io.Writer, s *session.Session, keep Keep, _ key.Options) (format.Skipped, error) {
		d, err := newDecoder(s.File)
		if err != nil {
			return format.Skipped{}, err
		}
		l := calls{spansOf: d, most: most, keep: keep, did: newActivity(s), waits: session.HasWaits(s.File)}
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
				if !l.did.add(s, &b.Samples[i]) {
					l.add(&b.Samples[i])
				}
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
		l.sort()
		l.did.sort()
		out := bufio.NewWriter(w)
		write(out, &l)
		return skipped, out.Flush()
	}
}

// add takes a sample.
func (l *calls) add(one *session.Sample) {
	p, ok := l.spansOf.decode(one)
	if ok && p.bucket != nil {
		l.buckets = true
		return
	}
	if !ok || p.event.start == nil {
		return
	}
	chosen := (l.keep == nil || l.keep(one)) && (l.filter == nil || l.filter.Match(one))
	if !chosen && !l.spansOf.several() {
		return
	}
	c := &call{span: p, name: l.spansOf.name(&p), pid: one.PID, tid: one.TID, function: goroutineIn(one)}
	if l.spansOf.several() { // others can be in it
		d := l.did.of(c.tid)
		d.calls = append(d.calls, c)
	}
	if !chosen {
		return
	}
	c.task = fmt.Sprintf("%s/%d", one.Comm, one.TID)
	l.all.add(p.all())
	if l.chosen = append(l.chosen, c); l.most > 0 && len(l.chosen) > maxSpans+l.most {
		l.sort()
		l.chosen = l.chosen[:l.most]
	}
}

// goroutineIn returns the function of a sample of a goroutine, "" for other samples.
func goroutineIn(s *session.Sample) string {
	n := s.User.Len()
	if n == 0 || s.Leaf.Kernel || !strings.HasPrefix(s.User.At(n-1).Symbol(), "runtime.goexit") {
		return ""
	}
	return s.Leaf.Symbol()
}

// maxSpans limits the spans in memory that are not needed.
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

// sort puts the longest spans first.
func (l *calls) sort() {
	slices.SortStableFunc(l.chosen, func(a, b *call) int { return cmp.Compare(b.duration, a.duration) })
}

// writeMissing says what was not recorded.
func (l *calls) writeMissing(w io.Writer) {
	if slices.ContainsFunc(l.chosen, func(c *call) bool { return c.function != "" && l.did.goroutineOf(c) == nil }) {
		fmt.Fprintln(w, "# goroutines share threads: a part may be of another call of the function at the time; "+
			"record --goroutines prevents that")
	}
	switch {
	case !l.waits:
		fmt.Fprintf(w, "# what they waited for is not recorded: add --off-cpu --off-cpu-thresh 0 -g\n")
	case l.did.sums:
		fmt.Fprintf(w, "# waits shorter than --off-cpu-thresh, if it was not 0, count as running\n")
	}
}

// Slowest returns a function that writes the n longest spans of a recording that an expression of --filter selects,
// each with what its thread did in it: waits by kind, function and who ended them, if waits were recorded; for the rest
// it ran, mostly in the function that most samples of a clock show.
func Slowest(n int, where string) func(io.Writer, *session.Session, Keep, key.Options) (format.Skipped, error) {
	return report(where, n, func(w io.Writer, l *calls) {
		longest := l.chosen[:min(n, len(l.chosen))]
		fmt.Fprintf(w, "# the %d longest of %d calls: %s; p50 %s, p99 %s\n", len(longest), l.all.N(),
			text.Duration(l.all.total), text.Duration(l.all.Percentile(50)), text.Duration(l.all.Percentile(99)))
		l.writeMissing(w)
		for _, c := range longest {
			fmt.Fprintf(w, "\n%8s  %s  %s  %d.%06d\n", text.Duration(c.duration), c.name, c.task, c.start/1e9,
				c.start%1e9/1e3)
			p := newParts()
			p.add(l.did, c)
			p.writeSlow(w, l.did)
		}
	})
}

// writeSlow writes the parts of one call, the longest first.
func (p *parts) writeSlow(w io.Writer, did *activity) {
	for _, l := range p.lines(did) {
		if share := 100 * float64(l.ns) / float64(max(p.total, 1)); share >= leastShare {
			fmt.Fprintf(w, "    %8s  %5.1f%%  %s\n", text.Duration(l.ns), share, l.text)
			l.writeWaker(w, did, "")
		}
	}
	for _, what := range session.MostFrequent(p.inside)[:min(leastCalls, len(p.inside))] {
		fmt.Fprintf(w, "    %8s  of it in %s\n", text.Duration(p.inside[what]), what)
	}
	for _, what := range slices.Sorted(maps.Keys(p.incidents)) {
		flows := p.incidents[what]
		for _, flow := range session.MostFrequent(flows)[:min(leastCalls, len(flows))] {
			fmt.Fprintf(w, "    %7dx  meanwhile: %s %s\n", flows[flow], what, flow)
		}
	}
}

const (
	leastShare = 0.1 // of a span's time, in percent, that is worth a line
	leastCalls = 3   // spans inside a span that are listed
	leastWaker = 10  // of a wait, in percent, that what its waker did is worth a line
)

// line is a part of calls: waits, or where they ran.
type line struct {
	ns    uint64
	text  string
	comm  string // of the thread that ended the waits
	waker *parts // what it did, nil if that is not known
}

// lines returns the parts, the longest first. Time without waits is one part, with the hottest function.
func (p *parts) lines(did *activity) (list []line) {
	for what, ns := range p.waits {
		l := line{ns: ns, text: p.text(did, what)}
		if k, ok := p.who(did, what); ok {
			l.comm, l.waker = did.comms[k.by], p.wakers[k]
		}
		list = append(list, l)
	}
	list = append(list, line{ns: p.running(), text: ranText(did, p.hottest())})
	slices.SortFunc(list, func(a, b line) int { return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.text, b.text)) })
	return list
}

// writeWaker writes what the waker did while a thread waited for it, and what its waker did.
func (l *line) writeWaker(w io.Writer, did *activity, indent string) {
	if l.waker == nil {
		return
	}
	for _, by := range l.waker.lines(did) {
		if by.ns*100 >= l.waker.total*leastWaker && by.ns > 0 {
			fmt.Fprintf(w, "    %8s          %s%s: %s\n", text.Duration(by.ns), indent, l.comm, by.text)
			by.writeWaker(w, did, indent+"  ")
		}
	}
}

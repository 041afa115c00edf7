package report

import "gperf/internal/session"

// Live counts the samples of a recording that may still be made, one interval after another.
type Live struct {
	session *session.Session
	opts    Options
	layouts *layouts
	traces  *traces
	counter *counter // of the current interval
}

// NewLive prepares counting. Entries count only own samples. Errors include KeyError.
func NewLive(s *session.Session, opts Options) (*Live, error) {
	l := &Live{session: s, opts: opts}
	l.opts.live, l.opts.NoChildren = true, true
	var err error
	if l.layouts, err = l.opts.layoutsOf(s.File); err != nil {
		return nil, err
	}
	l.traces = newTraces(s.File, s.Symbols, opts.RawTrace)
	l.next()
	return l, nil
}

// next begins an interval.
func (l *Live) next() {
	l.counter = newCounter(l.session.File, nil, l.layouts, &l.opts, l.traces)
	l.counter.session = l.session
}

// Count counts a sample of the current interval.
func (l *Live) Count(s *session.Sample) { l.counter.countSample(s) }

// Stacks returns the number of distinct stacks in the current interval.
func (l *Live) Stacks() int { return len(l.counter.stacks.List) }

// Histograms returns the histogram of each event with samples in the current interval, and
// begins the next one. Call it between two batches of the walk.
func (l *Live) Histograms() []*Hist {
	c := l.counter
	c.nameThreads()
	if l.opts.Inline && l.opts.Graph.Mode != GraphNone {
		session.LookUpCalls(c.shownFrames())
	}
	l.next()
	hists := c.fold(l.session).hists()
	c.correctCounts(hists)
	return hists
}

// AppendGraph appends the call graph below an entry, as the report draws it, in lines.
func (h *Hist) AppendGraph(b []byte, e *Entry) []byte {
	if !h.chains {
		return b
	}
	d := h.drawing()
	return d.append(b, e, e.shown(h.opts))
}

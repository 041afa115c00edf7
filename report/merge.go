package report

import (
	"errors"
	"io"
	"iter"

	"gperf/format"
	"gperf/internal/session"
)

// Merge reports several recordings as one. Memory is bounded by the distinct stacks of all of them, and by the
// recordings that are counted at the moment.
//
// Describe all recordings, Count each of them, and Add the results in the same order; then write the report.
type Merge struct {
	opts    Options
	union   union
	layouts *layouts
	traces  *traces
	pool    *session.Pool

	total *counter // of the stacks of all recordings
	lost  uint64
	ranks map[string]int32
}

// NewMerge prepares a report of several recordings.
func NewMerge(opts Options) *Merge {
	return &Merge{opts: opts, pool: session.NewPool(session.PoolOptions{}), ranks: map[string]int32{}}
}

// Describe adds a recording's events, and returns the events' numbers in the report, which Count needs. The error means
// that the recording cannot be merged with those before it.
func (m *Merge) Describe(f *format.File) (events []int, err error) { return m.union.add(f) }

// SetMaxStack sets Options.MaxStack, before Begin.
func (m *Merge) SetMaxStack(n int) { m.opts.MaxStack = n }

// Begin ends the descriptions. Errors are the same as Text's.
func (m *Merge) Begin() (err error) {
	f := m.union.file
	if m.layouts, err = m.opts.layoutsOf(f); err != nil {
		return err
	}
	// Source lines are looked up in the recordings, before the files are closed.
	uses := m.layouts.uses()
	m.pool.Lines = m.opts.wantsChains() && (m.opts.Inline || m.opts.Graph.ByAddress) ||
		uses&(usesSrcline|usesSrcfile) != 0
	m.pool.Functions = !m.pool.Lines && !m.opts.Verbose && uses&(usesAddress|usesPlace|usesBranch|usesData) == 0 &&
		!m.opts.Graph.ByAddress && !m.opts.Graph.Branches
	m.traces = newTraces(f, nil, m.opts.RawTrace)
	m.traces.env.Symbol = m.pool.Symbol
	m.total = newCounter(f, nil, m.layouts, &m.opts, m.traces)
	return nil
}

// Counted is the samples of one recording.
type Counted struct {
	counter *counter
	lost    uint64
}

// errChanged: a recording contains other events than when it was described.
var errChanged = errors.New("the file was changed while it was read")

// Count counts the samples of a recording with these events. Several goroutines may count different recordings. The
// result counts the skipped parts of the file.
func (m *Merge) Count(s *session.Session, events []int) (*Counted, format.Skipped, error) {
	if len(events) != len(s.File.Attrs) {
		return nil, format.Skipped{}, errChanged
	}
	opts := m.opts
	opts.Inline = false // Add looks up the inlined calls of new frames only
	c := newCounter(s.File, events, m.layouts, &opts, m.traces)
	skipped, err := c.walk(s)
	if err != nil {
		return nil, skipped, err
	}
	return &Counted{c, s.Lost.Samples}, skipped, nil
}

// Add adds a recording's samples. It uses the recording's session for the last time.
func (m *Merge) Add(c *Counted) {
	m.pool.Begin(c.counter.allFrames())
	in := merging{m, c.counter, c.counter.session.Origin, map[*subject]*subject{}, map[*history]*history{}}
	for _, st := range c.counter.stacks.List {
		in.add(st)
	}
	m.lost += c.lost
	m.total.samples += c.counter.samples
	m.total.serial += c.counter.serial
	for event, n := range c.counter.branched {
		m.total.branched[event] += n
	}
}

// allFrames yields the frames of stacks, some several times.
func (c *counter) allFrames() iter.Seq[*session.Frame] {
	return func(yield func(*session.Frame) bool) {
		for _, st := range c.stacks.List {
			if !yield(st.Leaf) {
				return
			}
			for i, chain := 0, st.Chain.Chain(); i < chain.Len(); i++ {
				if !yield(chain.Frame(i)) {
					return
				}
			}
			if st.Of.history == nil {
				continue
			}
			for _, f := range st.Of.history.frames {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// merging adds the stacks of one recording.
type merging struct {
	to      *Merge
	counter *counter
	origin  session.Origin
	// subjects and histories are those of the total, by the recording's.
	subjects  map[*subject]*subject
	histories map[*history]*history
}

func (m *merging) add(st *stack) {
	chain := m.to.pool.Chain(st.Chain.Chain())
	for i := range chain.Len() {
		m.to.rank(chain.Frame(i))
	}
	k, sum := session.StackKey{Chain: chain.Key(), Leaf: m.to.frame(st.Leaf)}, st.Sum
	sum.thread = m.to.pool.Thread(sum.thread)
	m.to.total.add(m.subject(st.Of, sum.thread), k, &sum)
}

// history returns the total's history for one of the recording.
func (m *merging) history(h *history) *history {
	own := m.histories[h]
	if own == nil {
		own = &history{hops: h.hops}
		for _, f := range h.frames {
			own.frames = append(own.frames, m.to.frame(f))
		}
		own.id = own.identity()
		own = m.to.total.sameHistory(own)
		m.histories[h] = own
	}
	return own
}

// subject returns the total's subject for a recording's. th is the pool's thread of a stack of it.
func (m *merging) subject(is *subject, th *session.Thread) *subject {
	own := m.subjects[is]
	if own != nil {
		return own
	}
	of, l := *is, m.to.layouts.byEvent[is.event]
	of.commID = m.to.total.comms.numberOf(of.comm)
	if of.raw != nil {
		of.raw = m.to.withCode(m.counter.session, of.event, of.raw)
	}
	if x := of.extra; x != nil {
		x.from, x.to, x.data = m.to.frame(x.from), m.to.frame(x.to), m.to.frame(x.data)
		x.origin = &m.origin
	}
	if of.history != nil {
		of.history = m.history(of.history)
	}
	k := subjectKey{event: int32(of.event), comm: of.commID, level: of.level, filtered: of.filtered,
		history: of.history}
	if l.uses&(usesPID|usesTID) != 0 {
		k.pid = th.PID
	}
	m.to.total.addUsed(&k, l, th.TID, of.cpu, of.raw, of.extra)
	own = m.to.total.subject(k, of)
	m.subjects[is] = own
	return own
}

// frame returns the pool's frame, and ranks the DSO.
func (m *Merge) frame(f *session.Frame) *session.Frame {
	own := m.pool.Frame(f)
	m.rank(own)
	return own
}

func (m *Merge) rank(f *session.Frame) {
	if f != nil && f.Map != nil && m.ranks[f.Map.DSO.Name] == 0 {
		m.ranks[f.Map.DSO.Name] = int32(len(m.ranks) + 1)
	}
}

// withCode replaces the addresses of kernel code in a tracepoint's data by numbers that are the same for all boots.
func (m *Merge) withCode(s *session.Session, event int, raw []byte) []byte {
	t := m.traces.formats[event]
	if t == nil {
		return raw
	}
	order := m.traces.env.Order
	for _, fd := range t.CodeFields() {
		if fd.Size != 8 || fd.Dynamic || fd.Offset > len(raw)-8 {
			continue
		}
		at := raw[fd.Offset:]
		if ip := order.Uint64(at); ip != 0 {
			order.PutUint64(at, m.pool.Code(s, ip))
		}
	}
	return raw
}

// hists makes the histograms of all recordings.
func (m *Merge) hists() []*Hist {
	m.layouts.dropLatency(&m.opts, m.total.samples, m.total.serial)
	rank := func(name string) int32 { return m.ranks[name] }
	size := func(f *session.Frame) uint64 { return f.Map.End - f.Map.Start }
	return newFolding(m.union.file, m.layouts, &m.opts, m.traces, rank, size, m.total.stacks.List).hists()
}

// Text writes the report, as the function Text does. Errors include ErrNoSamples.
func (m *Merge) Text(w io.Writer) error {
	hists := m.hists()
	m.total.correctCounts(hists)
	return write(w, m.layouts, &m.opts, hists, m.lost)
}

// CSV writes the table, as the function CSV does. The options come from Options.ForCSV.
func (m *Merge) CSV(w io.Writer) error { return writeCSV(w, m.hists(), &m.opts) }

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
	origin := c.counter.session.Origin
	m.pool.Begin(c.counter.allFrames())
	for _, st := range c.counter.stacks {
		m.add(c, st, &origin)
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
		for _, st := range c.stacks {
			if !yield(st.leaf) {
				return
			}
			for i := range st.frames.Len() {
				if !yield(st.frames.Frame(i)) {
					return
				}
			}
		}
	}
}

func (m *Merge) add(c *Counted, st *stack, origin *session.Origin) {
	st.leaf = m.frame(st.leaf)
	st.frames, st.thread, st.commID = m.pool.Chain(st.frames), m.pool.Thread(st.thread), m.total.comms.numberOf(st.comm)
	for i := range st.frames.Len() {
		m.rank(st.frames.Frame(i))
	}
	if st.raw != nil {
		st.raw = m.withCode(c.counter.session, st.event, st.raw)
	}
	if x := st.extra; x != nil {
		x.from, x.to, x.data = m.frame(x.from), m.frame(x.to), m.frame(x.data)
		x.origin = origin
	}
	k := m.key(st)
	if same := m.total.byKey[k]; same != nil {
		same.Stat.add(&st.Stat)
		return
	}
	m.total.byKey[k] = st
	m.total.stacks = append(m.total.stacks, st)
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

// key returns the key of a stack with frames of the pool.
func (m *Merge) key(st *stack) stackKey {
	l := m.layouts.byEvent[st.event]
	k := stackKey{event: int32(st.event), comm: st.commID, level: st.level, filtered: st.filtered, leaf: st.leaf,
		chain: st.frames.Key()}
	if st.hopsID != "" {
		k.history = m.total.known.numberOf(st.hopsID)
	}
	if l.uses&(usesPID|usesTID) != 0 {
		k.pid = st.thread.PID
	}
	m.total.addUsed(&k, l, st.thread.TID, st.cpu, st.raw, st.extra)
	return k
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
	return newHists(m.union.file, m.layouts, &m.opts, m.traces, rank, size, m.total.stacks)
}

// Text writes the report, as the function Text does. Errors include ErrNoSamples.
func (m *Merge) Text(w io.Writer) error {
	hists := m.hists()
	m.total.correctCounts(hists)
	return write(w, m.layouts, &m.opts, hists, m.lost)
}

// CSV writes the table, as the function CSV does. The options come from Options.ForCSV.
func (m *Merge) CSV(w io.Writer) error { return writeCSV(w, m.hists(), &m.opts) }

package annotate

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"

	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/report/table"
	"gperf/symbolize"
)

// Stat is a sum of samples.
type Stat struct{ Samples, Period uint64 }

func (s *Stat) add(t Stat) {
	s.Samples += t.Samples
	s.Period += t.Period
}

// counter counts samples by function and address.
type counter struct {
	opts      *Options
	bytes     binary.ByteOrder
	session   *session.Session
	events    []*event
	subjects  map[subject]*subject
	stacks    table.Tallies[subject, Stat]
	samples   uint64
	index     map[functionKey]*function
	functions []*function    // in the order in which they were met
	touches   []touch        // of the current stack
	others    map[string]int // stacks by a DSO that Options.DSOs lacks
}

// event is an event of the recording.
type event struct {
	index  int
	name   string
	fields []*tracepoint.Field // that hold code addresses
	total  Stat
}

// functionKey distinguishes functions.
type functionKey struct {
	event  int
	dso    *session.DSO
	kernel bool
	start  uint64
}

// function is one in which samples of an event were taken. All code of a DSO that
// without a name is one, which begins at 0.
type function struct {
	event  *event
	frame  *session.Frame // of an address in it
	dso    *session.DSO   // nil: of an unknown one
	kernel bool
	start  uint64 // of the function: the offset in the file, of the kernel the ip
	at     map[spot]*Stat
	ips    map[uint64]uint64 // offsets of the ips with samples
	total  Stat
	kinds  kinds
	calls  uint64 // samples with it in the callchain, counted or not
}

// spot is an address in a function.
type spot struct {
	off    uint64
	caller bool // it is a return address
}

// kinds are the kinds of a sample's addresses.
type kinds uint8

const (
	sampled kinds = 1 << iota
	fields
	callers
)

// touch is the part of a sample that concerns one function.
type touch struct {
	fn   *function
	spot spot
	kind kinds
}

// maxFields is how many code addresses of a tracepoint's fields count: real
// tracepoints contain up to two.
const maxFields = 4

// subject distinguishes samples besides the sampled address and the callchain.
type subject struct {
	event  int
	fields [maxFields]*session.Frame // code addresses
}

func newCounter(s *session.Session, opts *Options) *counter {
	f := s.File
	c := &counter{opts: opts, session: s, index: map[functionKey]*function{},
		subjects: map[subject]*subject{}, others: map[string]int{}}
	if f.Tracing != nil {
		c.bytes = f.Tracing.Env().Order
	}
	for i := range f.Attrs {
		e := &event{index: i, name: f.EventName(i)}
		if t := f.Tracepoint(i); t != nil {
			e.fields = t.CodeFields()
			e.fields = e.fields[:min(len(e.fields), maxFields)]
		}
		c.events = append(c.events, e)
	}
	return c
}

func (c *counter) count(b *session.Batch) error {
	for i := range b.Samples {
		s := &b.Samples[i]
		of := c.subject(s)
		st, _ := c.stacks.At(of, uint32(of.event), session.StackKey{Chain: s.Chain.Key(), Leaf: s.Leaf})
		st.Sum.add(Stat{1, s.Period})
	}
	b.Release()
	return nil
}

func (c *counter) subject(s *session.Sample) *subject {
	k := subject{event: s.Event}
	for i, fd := range c.events[s.Event].fields {
		if ip, ok := fd.Uint(s.Raw, c.bytes); ok && ip != 0 {
			k.fields[i] = c.session.Resolve(s, ip)
		}
	}
	of := c.subjects[k]
	if of == nil {
		own := k
		of, c.subjects[k] = &own, &own
	}
	return of
}

// assign assigns the counts to the functions.
func (c *counter) assign() {
	for _, st := range c.stacks.List {
		e := c.events[st.Of.event]
		c.samples += st.Sum.Samples
		e.total.add(st.Sum)
		c.touches = c.touches[:0]
		c.touch(e, st.Leaf, sampled, false)
		for _, f := range st.Of.fields {
			c.touch(e, f, fields, f != nil && (f.Sym() == nil ||
				f.Off() > 0)) // the start of a function is no return address
		}
		chain := st.Chain.Chain()
		for i := range chain.Len() {
			if f := chain.Frame(i); f != st.Leaf {
				c.touch(e, f, callers, f.Return)
			}
		}
		c.spread(st.Sum)
	}
}

// touch adds frame f, which may be nil, to the current stack's functions. caller
// says that the address is a return address.
func (c *counter) touch(e *event, f *session.Frame, kind kinds, caller bool) {
	if f == nil || f.Map == nil {
		return
	}
	if c.opts.DSOs != nil && !slices.Contains(c.opts.DSOs, f.DSO()) &&
		!slices.Contains(c.opts.DSOs, filepath.Base(f.DSO())) {
		c.others[f.Map.DSO.ShortName()]++
		return
	}
	fn := c.function(e, f)
	c.touches = append(c.touches, touch{fn, spot{f.MapOff() - fn.start, caller}, kind})
}

// misses returns the DSOs of samples if Options.DSOs has none of them.
func (c *counter) misses() []session.Miss {
	if len(c.functions) > 0 || len(c.others) == 0 {
		return nil
	}
	return []session.Miss{{Flag: "--dsos " + strings.Join(c.opts.DSOs, ","), Have: session.MostFrequent(c.others)}}
}

// function returns the function of the event's that f is in.
func (c *counter) function(e *event, f *session.Frame) *function {
	k := functionKey{event: e.index, dso: f.Map.DSO, kernel: f.Kernel}
	if f.Sym() != nil {
		k.start = f.MapOff() - f.Off()
	}
	fn := c.index[k]
	if fn == nil {
		fn = &function{event: e, frame: f, dso: f.Map.DSO, kernel: f.Kernel, start: k.start, at: map[spot]*Stat{},
			ips: map[uint64]uint64{}}
		c.index[k] = fn
		c.functions = append(c.functions, fn)
	}
	fn.ips[f.IP] = f.MapOff() - fn.start
	return fn
}

// spread counts the current stack once for each of its addresses and once for
// each of its functions, even if they occur several times.
func (c *counter) spread(st Stat) {
	for i, t := range c.touches {
		before := c.touches[:i]
		if t.kind == callers && !slices.ContainsFunc(before, func(b touch) bool {
			return b.fn == t.fn && b.kind == callers
		}) {
			t.fn.calls += st.Samples
		}
		if !c.counts(t.kind) {
			continue
		}
		t.fn.kinds |= t.kind
		if slices.ContainsFunc(before, func(b touch) bool {
			return b.fn == t.fn && b.spot == t.spot && c.counts(b.kind)
		}) {
			continue
		}
		at := t.fn.at[t.spot]
		if at == nil {
			at = new(Stat)
			t.fn.at[t.spot] = at
		}
		at.add(st)
		if !slices.ContainsFunc(before, func(b touch) bool { return b.fn == t.fn && c.counts(b.kind) }) {
			t.fn.total.add(st)
		}
	}
}

// counts reports whether addresses of that kind count.
func (c *counter) counts(k kinds) bool {
	return k != callers || c.opts.Callers || c.opts.Place.mayBeAddress()
}

// symbol is the function's, nil for none.
func (fn *function) symbol() *symbolize.Symbol { return fn.frame.Sym() }

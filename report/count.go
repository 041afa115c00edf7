package report

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/report/table"
)

// counter counts samples with equal keys as one stack.
type counter struct {
	layouts *layouts
	layout  *layout // of the current event
	opts    *Options
	traces  *traces
	comms   ids
	raws    ids
	extras  ids
	history *history // of the current sample, one of histories
	file    *format.File
	events  []int  // of the report, by the numbers of the file; nil: the same
	chains  []bool // by event of the file: samples contain callchains
	stackSet
	// unnamed are the commIDs of threads whose samples came before the names.
	unnamed map[*session.Thread]int32
	buf     []byte

	session         *session.Session
	extra           extra    // of the current sample
	last            *subject // of the sample before, with lastKey
	lastKey         subjectKey
	derived         derivedValues
	sockets         []format.CPUPlace // by CPU
	lineSize        uint64            // of caches, in bytes
	branched        []uint64          // by event of the report: samples with branches
	samples, serial uint64            // all, and those taken while one thread ran
	threads         threadCounts
}

// subjectKey distinguishes subjects.
type subjectKey struct {
	event     int32
	comm, raw int32
	tid, pid  int32
	cpu       int32
	level     byte
	filtered  bool
	extra     int32
	history   *history // of stackSet.histories
}

// subject is the values of samples that keys read, besides the stack. Stacks have few subjects.
type subject struct {
	number   uint32
	event    int
	comm     string
	commID   int32
	cpu      int32
	level    byte   // of the first address: k, . or as perf marks guests
	filtered bool   // counts only in the totals
	raw      []byte // of the first sample
	extra    *extra
	history  *history // replaces the callchain; nil: callchains without branches

	key  entryKey // set by histBuilder, as hash
	hash pairHash
}

// stack is the samples with the same subject, sampled frame and callchain, whose key is empty if keys do not use it.
// Equal callchains of several processes make several stacks.
type stack = table.Tally[subject, stackSum]

// stackSum is the sum of the samples of a stack.
type stackSum struct {
	thread *session.Thread // of the first sample
	Sum
}

// stackSet is different stacks.
type stackSet struct {
	stacks    table.Tallies[subject, stackSum]
	subjects  map[subjectKey]*subject
	histories map[string]*history // of subjects, by history.id
}

// add adds the samples of a stack of a subject of the set.
func (s *stackSet) add(of *subject, k session.StackKey, sum *stackSum) {
	st, added := s.stacks.At(of, of.number, k)
	if added {
		st.Sum = *sum
		return
	}
	st.Sum.add(&sum.Sum)
}

// subject returns the subject with a key: of, unless the set has one.
func (s *stackSet) subject(k subjectKey, of subject) *subject {
	known := s.subjects[k]
	if known == nil {
		of.number = uint32(len(s.subjects))
		known = &of
		s.subjects[k] = known
	}
	return known
}

// sameHistory returns the history of the set that is equal to one.
func (s *stackSet) sameHistory(h *history) *history {
	is := s.histories[string(h.id)]
	if is == nil {
		is = h
		s.histories[string(h.id)] = is
	}
	return is
}

// ids numbers strings from 1 on; 0 means none.
type ids map[string]int32

func (m ids) number(b []byte) int32 {
	id, ok := m[string(b)]
	if !ok {
		id = int32(len(m) + 1)
		m[string(b)] = id
	}
	return id
}

func (m ids) numberOf(s string) int32 {
	id, ok := m[s]
	if !ok {
		id = int32(len(m) + 1)
		m[strings.Clone(s)] = id
	}
	return id
}

// newCounter returns a counter of a recording's samples. events are the numbers of the recording's events in the
// report, nil if they are the same.
func newCounter(f *format.File, events []int, l *layouts, opts *Options, t *traces) *counter {
	c := &counter{
		file:     f,
		events:   events,
		layouts:  l,
		opts:     opts,
		traces:   t,
		comms:    ids{},
		raws:     ids{},
		extras:   ids{},
		branched: make([]uint64, len(l.byEvent)),
		stackSet: stackSet{subjects: map[subjectKey]*subject{}, histories: map[string]*history{}},
		unnamed:  map[*session.Thread]int32{},
		derived:  derivedValues{},
		lineSize: key.LineSize(f),
	}
	if topology, ok := f.CPUTopology(); ok {
		c.sockets = topology.CPUs
	}
	for i := range f.Attrs {
		chains := opts.hasChains(&f.Attrs[i])
		c.chains = append(c.chains, chains && (opts.wantsChains() || l.byEvent[c.event(i)].uses&usesParent != 0))
	}
	return c
}

// event returns the number in the report of an event of the file.
func (c *counter) event(own int) int {
	if c.events == nil {
		return own
	}
	return c.events[own]
}

// wantsChains reports whether the report uses callchains.
func (o *Options) wantsChains() bool { return !o.NoChildren || o.Graph.Mode != GraphNone }

func (c *counter) count(b *session.Batch) error {
	c.threads.add(b.Records)
	for i := range b.Samples {
		c.countSample(&b.Samples[i])
	}
	b.Release()
	return nil
}

// countSample counts a sample, or the branches in it.
func (c *counter) countSample(s *session.Sample) {
	if c.opts.Resolved && s.Leaf.Sym() == nil {
		return
	}
	c.layout = c.layouts.byEvent[c.event(s.Event)]
	c.samples++
	if s.Parallelism == 1 {
		c.serial++
	}
	if c.layout.uses&usesExtra != 0 {
		c.extra = c.newExtra(s)
	}
	c.history = nil
	if a := &c.file.Attrs[s.Event]; c.chains[s.Event] && c.opts.Graph.hasHistory(a) {
		c.history = c.sameHistory(c.newHistory(s))
	}
	switch c.opts.Mode {
	case ModeBranches:
		c.addBranches(s)
	case ModeMemory:
		c.countAt(s, s.Leaf, max(s.Weight, 1))
	default:
		c.countAt(s, s.Leaf, s.Period)
	}
}

// countAt counts a sample, or one of the branches, at leaf.
func (c *counter) countAt(s *session.Sample, leaf *session.Frame, period uint64) {
	k := session.StackKey{Leaf: leaf}
	if c.history == nil && c.chains[s.Event] {
		k.Chain = s.Chain.Key()
	}
	c.add(c.subjectOf(s), k, &stackSum{s.Thread,
		Sum{Samples: 1, Period: period, Latency: period * latencyUnit / uint64(s.Parallelism)}})
}

// subjectOf returns the subject of a sample.
func (c *counter) subjectOf(s *session.Sample) *subject {
	k := subjectKey{event: int32(c.event(s.Event)), comm: c.commID(s), level: level(s.Misc),
		filtered: !c.opts.Filter.Selects(s), history: c.history}
	if c.layout.uses&usesPID != 0 {
		k.pid = s.Thread.PID
	}
	c.addUsed(&k, c.layout, s.TID, c.cpu(s), s.Raw, &c.extra)
	if c.last != nil && k == c.lastKey {
		return c.last
	}
	c.lastKey, c.last = k, c.subjects[k]
	if c.last != nil {
		return c.last
	}
	of := subject{event: int(k.event), comm: s.Comm, commID: k.comm, cpu: c.cpu(s), level: k.level,
		filtered: k.filtered, history: k.history}
	if c.layout.uses&usesExtra != 0 {
		x := c.extra
		of.extra = &x
	}
	if c.layout.uses&usesRaw != 0 {
		of.raw = bytes.Clone(s.Raw) // s.Raw would keep the file's buffer alive
	}
	c.last = c.subject(k, of)
	return c.last
}

// addUsed adds the values to a key that the layout uses.
func (c *counter) addUsed(k *subjectKey, l *layout, tid, cpu int32, raw []byte, x *extra) {
	if l.uses&usesTID != 0 {
		k.tid = tid
	}
	if l.uses&usesCPU != 0 {
		k.cpu = cpu
	}
	if l.uses&usesRaw != 0 {
		if c.buf = l.appendRaw(c.buf[:0], int(k.event), raw, c.traces); len(c.buf) > 0 {
			k.raw = c.raws.number(c.buf)
		}
	}
	if l.uses&usesExtra != 0 {
		c.buf = l.appendIdentity(c.buf[:0], x, frameID)
		k.extra = c.extras.number(c.buf)
	}
}

// commID numbers the commands of samples, from 1 on. A thread without a name may get one
// later, which then applies to the thread's earlier samples: such threads get numbers from -1 down.
func (c *counter) commID(s *session.Sample) int32 {
	if s.Named {
		return c.comms.numberOf(s.Comm)
	}
	id, ok := c.unnamed[s.Thread]
	if !ok {
		id = -int32(len(c.unnamed) + 1)
		c.unnamed[s.Thread] = id
	}
	return id
}

// nameThreads gives the samples of threads without a name the thread's later name, as perf does.
func (c *counter) nameThreads() {
	threads := map[int32]*session.Thread{}
	for th, id := range c.unnamed {
		threads[id] = th
	}
	for _, of := range c.subjects {
		if of.commID < 0 {
			of.comm = threads[of.commID].FirstComm
			of.commID = c.comms.numberOf(of.comm)
		}
	}
}

// shownFrames yields the frames of callchains with names, which may get inlined calls that are shown.
func (c *counter) shownFrames() iter.Seq[*session.Frame] {
	return func(yield func(*session.Frame) bool) {
		for f := range framesOf(c.stacks.List, c.opts) {
			if f.Sym() != nil && !yield(f) {
				return
			}
		}
	}
}

// cpu is where the sample was taken, -1 if that was not recorded.
func (c *counter) cpu(s *session.Sample) int32 {
	if c.file.Attrs[s.Event].SampleType&format.SampleCPU == 0 {
		return -1
	}
	return int32(s.CPU)
}

// level is the letter that perf shows before a symbol.
func level(m format.Misc) byte {
	switch m & format.MiscCPUModeMask {
	case format.MiscKernel:
		return 'k'
	case format.MiscUser:
		return '.'
	case format.MiscGuestKernel:
		return 'g'
	case format.MiscGuestUser:
		return 'u'
	}
	return 'H'
}

// Selects reports whether the filter selects a sample, whose frames are resolved.
func (f *Filter) Selects(s *session.Sample) bool {
	return f.Match(s) && f.Where.Matches(s.Leaf)
}

// Misses returns why the filter selected none of the samples that it was asked about; nothing if it selected one.
func (f *Filter) Misses() []session.Miss { return slices.Concat(f.Filter.Misses(), f.Where.Misses()) }

func frameID(_ *SortKey, f *session.Frame) uint64 { return uint64(f.ID) }

// newExtra returns the fields of a sample that keys read, besides the stack.
func (c *counter) newExtra(s *session.Sample) extra {
	a := &c.file.Attrs[s.Event]
	x := extra{
		addr:        s.Addr,
		phys:        s.PhysAddr,
		source:      s.DataSrc,
		time:        s.Time - s.Time%cmp.Or(c.opts.TimeQuantum, key.UsualQuantum),
		cgroup:      s.Sample.Cgroup,
		path:        s.Cgroup,
		container:   key.Container(s),
		pod:         key.Pod(s),
		unit:        key.Unit(s),
		transaction: s.Transaction,
		socket:      -1,
		parallelism: uint64(s.Parallelism),
		dataPage:    s.DataPageSize,
		codePage:    s.CodePageSize,
		level:       level(s.Misc),
		origin:      &c.session.Origin,
		is32:        s.Is32Bit(),
	}
	if cpu := c.cpu(s); cpu >= 0 && int(cpu) < len(c.sockets) {
		x.socket = int64(c.sockets[cpu].Package)
	}
	if c.layout.uses&usesData != 0 {
		x.data, x.code = s.ResolveData(), c.session.Resolve(s, s.IP)
		x.line = newCacheLine(s, x.data, c.lineSize)
	}
	if c.layout.derived != nil {
		x.derived = c.derived.keys(c.layout, c.session).Of(s)
	}
	x.weight, x.ins, x.stage = s.Weights(a)
	if len(s.Namespaces) > format.NamespaceCgroup {
		x.namespace = s.Namespaces[format.NamespaceCgroup]
	}
	return x
}

// derivedValues reads the derived keys of a recording, by layout.
type derivedValues map[*layout]*key.Keys

func (d derivedValues) keys(l *layout, s *session.Session) *key.Keys {
	k := d[l]
	if k == nil {
		k = key.NewDerived(s.File, s.Symbols, l.derived)
		d[l] = k
	}
	return k
}

// addBranches counts the sample's branches, each with a period of 1.
func (c *counter) addBranches(s *session.Sample) {
	branches := s.Branch(&c.file.Attrs[s.Event])
	for i := range branches.Len() {
		x := &c.extra
		x.from, x.to, x.flags = c.session.Resolve(s, branches.From(i)), c.session.Resolve(s, branches.To(i)),
			branches.Flags(i)
		if c.opts.Resolved && (x.from.Sym() == nil || x.to.Sym() == nil) {
			continue
		}
		c.countAt(s, x.to, 1)
	}
	if branches.Len() > 0 {
		c.branched[c.event(s.Event)]++
	}
}

// correctCounts corrects the histograms' sample counts in branch mode, which counts branches.
func (c *counter) correctCounts(hists []*Hist) {
	if c.opts.Mode != ModeBranches {
		return
	}
	for _, h := range hists {
		h.Total.Samples = c.branched[h.event]
		for _, m := range h.members {
			m.Total.Samples = c.branched[m.event]
		}
	}
}

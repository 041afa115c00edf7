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
	known   ids      // callchains with branches
	history *history // of the current sample
	file    *format.File
	events  []int  // of the report, by the numbers of the file; nil: the same
	chains  []bool // by event of the file: samples contain callchains
	byKey   map[stackKey]*stack
	stacks  []*stack // in the order of first samples
	// unnamed are the commIDs of threads whose samples came before the names.
	unnamed map[*session.Thread]int32
	buf     []byte

	session         *session.Session
	extra           extra // of the current sample
	derived         derivedValues
	sockets         []format.CPUPlace // by CPU
	lineSize        uint64            // of caches, in bytes
	branched        []uint64          // by event of the report: samples with branches
	samples, serial uint64            // all, and those taken while one thread ran
	threads         threadCounts
}

// stackKey distinguishes stacks. Equal ones may have several keys, as their
// callchains may.
type stackKey struct {
	event     int32
	comm, raw int32
	tid, pid  int32
	cpu       int32
	level     byte
	filtered  bool
	extra     int32
	leaf      *session.Frame
	chain     session.ChainKey
	history   int32 // with branches in callchains, in place of chain
}

// stack is a set of samples with equal keys.
type stack struct {
	event    int
	comm     string
	commID   int32
	thread   *session.Thread // of the first sample
	cpu      int32
	level    byte // of the first address: k, . or as perf marks guests
	filtered bool // counts only in the totals
	leaf     *session.Frame
	frames   session.Chain // empty if keys do not use it
	raw      []byte        // of the first sample
	chain    []*place      // of frames, in the call graph's order
	extra    *extra
	hops     []*hop // of frames, and then of chain; nil: callchains without branches
	hopsID   string // equal for equal hops
	Stat
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
		known:    ids{},
		branched: make([]uint64, len(l.byEvent)),
		byKey:    map[stackKey]*stack{},
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
		c.history = c.newHistory(s)
	}
	switch c.opts.Mode {
	case ModeBranches:
		c.addBranches(s)
	case ModeMemory:
		c.add(s, s.Leaf, max(s.Weight, 1))
	default:
		c.add(s, s.Leaf, s.Period)
	}
}

// add counts a sample, or one of the branches, at leaf.
func (c *counter) add(s *session.Sample, leaf *session.Frame, period uint64) {
	k := c.key(s, leaf)
	st := c.byKey[k]
	if st == nil {
		st = c.newStack(k, s)
		c.byKey[k] = st
		c.stacks = append(c.stacks, st)
	}
	st.Samples++
	st.Period += period
	st.Latency += period * latencyUnit / uint64(s.Parallelism)
}

func (c *counter) key(s *session.Sample, leaf *session.Frame) stackKey {
	k := stackKey{event: int32(c.event(s.Event)), comm: c.commID(s), level: level(s.Misc), leaf: leaf,
		filtered: !c.opts.Filter.Selects(s)}
	if c.layout.uses&usesPID != 0 {
		k.pid = s.Thread.PID
	}
	c.addUsed(&k, c.layout, s.TID, c.cpu(s), s.Raw, &c.extra)
	switch {
	case c.history != nil:
		k.history = c.known.number(c.history.id)
	case c.chains[s.Event]:
		k.chain = s.Chain.Key()
	}
	return k
}

// addUsed adds the values to a key that the layout uses.
func (c *counter) addUsed(k *stackKey, l *layout, tid, cpu int32, raw []byte, x *extra) {
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

// nameThreads gives the stacks of threads without a name the thread's later name, as perf does.
func (c *counter) nameThreads() {
	for _, st := range c.stacks {
		if st.commID < 0 {
			st.comm = st.thread.FirstComm
			st.commID = c.comms.numberOf(st.comm)
		}
	}
}

func (c *counter) newStack(k stackKey, s *session.Sample) *stack {
	st := &stack{event: int(k.event), comm: s.Comm, commID: k.comm, thread: s.Thread, cpu: c.cpu(s),
		level: k.level, filtered: k.filtered, leaf: k.leaf}
	if c.layout.uses&usesExtra != 0 {
		x := c.extra
		st.extra = &x
	}
	switch {
	case c.history != nil:
		st.frames, st.hops, st.hopsID = session.Chain{User: c.history.frames}, c.history.hops, string(c.history.id)
	case c.chains[s.Event]:
		st.frames = s.Chain
	}
	if c.layout.uses&usesRaw != 0 {
		st.raw = bytes.Clone(s.Raw) // s.Raw would keep the file's buffer alive
	}
	return st
}

// shownFrames yields the frames of callchains with names, which may get
// inlined calls that are shown.
func (c *counter) shownFrames() iter.Seq[*session.Frame] {
	return func(yield func(*session.Frame) bool) {
		for _, st := range c.stacks {
			if st.filtered {
				continue
			}
			for _, f := range framesOf(st, c.opts) {
				if f.Sym() != nil && !yield(f) {
					return
				}
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
		c.add(s, x.to, 1)
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

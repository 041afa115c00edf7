package spans

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/key"
)

// activity is what threads did while they were recorded: waits, and where samples of clocks were taken.
type activity struct {
	threads    map[int32]*done // by TID
	goroutines map[goroutine]*done
	names      []string // of waits, functions, and who ended waits
	index      map[string]int32
	comms      map[int32]string // of those who ended waits, by names
	end        session.EndOfWaits
	sums       bool // there were sums of waits
	within     map[within]bool
	// interval is how often a clock samples a thread that runs, in ns; 0 without a clock.
	interval uint64

	incidents []incident // sort puts them in the order of time
	ends      *key.Keys  // of the packets of incidents
	reasons   *key.Keys  // why they were dropped; nil: no event says it
	ofPackets []bool     // by event: incidents
	texts     map[*key.Group]int32
}

// goroutine identifies a goroutine by its number.
type goroutine struct {
	pid    int32
	number uint64
}

// goroutineOf returns the waits of the goroutine of a call, nil if they are not known.
func (c *activity) goroutineOf(of *call) *done {
	if of.goroutine == 0 {
		return nil
	}
	return c.goroutines[goroutine{of.pid, of.goroutine}]
}

// incident is an event of a packet that may have made threads wait: it was dropped, sent again or refused.
type incident struct {
	time       uint64 // ns
	what, flow int32  // the event's name, and whose packet it was: indexes in activity.names
}

// isIncident reports whether an event is one of packets that were dropped, sent again or refused.
func isIncident(t *tracepoint.Format) bool {
	switch {
	case t == nil:
		return false
	case t.Field("reason") != nil && (t.System == "skb" || t.System == "packet"):
		return true
	}
	return t.System == "tcp" && (strings.HasPrefix(t.Name, "tcp_retransmit_") || strings.HasSuffix(t.Name, "_reset"))
}

// within asks whether a stack contains a function.
type within struct {
	stack    session.StackKey
	function string
}

// isWithin reports whether what a thread did was in a function, "" for any.
func (c *activity) isWithin(stack session.StackKey, function string) bool {
	if function == "" {
		return true
	}
	k := within{stack, function}
	is, known := c.within[k]
	if !known {
		for f := range stack.Stack(math.MaxInt) {
			is = is || f.Symbol() == function
		}
		c.within[k] = is
	}
	return is
}

// done is what a thread did. sort puts it in the order of time.
type done struct {
	waits []wait
	ran   []ran
	calls []*call // spans
}

// wait is a wait, with times in ns. what, and by, who ended it, are indexes in activity.names, as in ran.
type wait struct {
	start, end uint64
	waitKey
	tid   int32 // of the thread, for a goroutine of that on which it ran before
	waker int32 // TID of the thread for which it waited, 0 for none
	// packets means that it waited for the network, or for one of several files.
	packets bool
	stack   session.StackKey
}

// waitKey is what a wait is for, and who ended it.
type waitKey struct{ what, by int32 }

// ran is a sample of a clock.
type ran struct {
	time  uint64
	what  int32
	stack session.StackKey
}

func newActivity(s *session.Session) *activity {
	c := &activity{threads: map[int32]*done{}, goroutines: map[goroutine]*done{}, index: map[string]int32{},
		comms: map[int32]string{}, within: map[within]bool{}, texts: map[*key.Group]int32{},
		ends: key.NewDerived(s.File, s.Symbols, []string{"src", "dst"})}
	c.reasons, _ = key.New(s.File, s.Symbols, key.Options{Words: []string{"reason"}})
	for i := range s.File.Attrs {
		c.ofPackets = append(c.ofPackets, isIncident(s.File.Tracepoint(i)))
		if a := &s.File.Attrs[i]; a.IsClock() {
			c.interval = max(c.interval, intervalOf(a))
		}
	}
	return c
}

// intervalOf returns how often a clock samples, in ns.
func intervalOf(a *format.Attr) uint64 {
	if a.Flags&format.FlagFreq != 0 {
		return uint64(time.Second) / max(a.SamplePeriod, 1)
	}
	return a.SamplePeriod
}

// stands reports whether the CPU probably stood still while a thread ran for some ns, as no sample shows it.
func (c *activity) stands(d *done, ns uint64) bool {
	return c.interval > 0 && len(d.ran) > 0 && !c.sums && ns/mostMissed > c.interval
}

// mostMissed is how many samples in a row may be missing although a thread ran.
const mostMissed = 4

// of returns what a thread did.
func (c *activity) of(tid int32) *done { return of(c.threads, tid) }

// of returns the element of a thread or goroutine.
func of[K comparable](all map[K]*done, k K) *done {
	d := all[k]
	if d == nil {
		d = &done{}
		all[k] = d
	}
	return d
}

// knows reports whether anything is known about a thread.
func (c *activity) knows(tid int32) bool {
	d := c.threads[tid]
	return tid != 0 && d != nil && len(d.waits)+len(d.ran) > 0
}

// add takes a sample. It reports whether it is a wait, or of a clock.
func (c *activity) add(s *session.Session, one *session.Sample) bool {
	a := &s.File.Attrs[one.Event]
	d := c.of(one.TID)
	switch {
	case session.IsWait(a):
		w := c.wait(one)
		if session.IsGoroutineWait(a) {
			d = of(c.goroutines, goroutine{one.PID, one.Addr})
			w.waker = 0 // the waker's thread does something for other goroutines, too
		}
		c.end.Add(one)
		d.waits = append(d.waits, w)
	case session.SamplesCPU(a) && one.Leaf != nil:
		d.ran = append(d.ran, ran{one.Time, c.number(one.RunsIn()), one.StackKey()})
	case c.ofPackets[one.Event]:
		c.addIncident(s.File.Tracepoint(one.Event).Name, one)
	default:
		return false
	}
	return true
}

// addIncident adds the sample of an incident.
func (c *activity) addIncident(what string, s *session.Sample) {
	i := incident{time: s.Time, what: c.number(what)}
	if c.reasons != nil {
		i.what = c.text(c.reasons.Of(s), func(g *key.Group) string {
			if reason := g.Value("reason").Text; reason != key.Missing {
				return what + " " + reason
			}
			return what
		})
	}
	i.flow = c.text(c.ends.Of(s), func(g *key.Group) string {
		end := func(name string) string { return strings.TrimPrefix(g.Value(name).Text, "tcp ") }
		return end("src") + " > " + end("dst")
	})
	c.incidents = append(c.incidents, i)
}

// text returns the number of a text that is made once for each group.
func (c *activity) text(g *key.Group, of func(*key.Group) string) int32 {
	n, known := c.texts[g]
	if !known {
		n = c.number(of(g))
		c.texts[g] = n
	}
	return n
}

// wait returns the wait of a sample.
func (c *activity) wait(s *session.Sample) wait {
	kind := s.WaitKind()
	what, by := waitText(s, kind)
	w := wait{start: s.Time - min(s.Period, s.Time), end: s.Time, tid: s.TID,
		waitKey: waitKey{c.number(what), c.number(by)},
		packets: kind == session.WaitNetwork || kind == session.WaitPoll, stack: s.StackKey()}
	if by != "" && !s.Waker.HadCPU {
		w.waker = s.Waker.TID
		c.comms[w.by] = s.Waker.Comm
	}
	return w
}

func (c *activity) number(name string) int32 { return intern.Index(c.index, &c.names, name) }

// all returns what all threads and goroutines did.
func (c *activity) all() iter.Seq[*done] {
	return func(yield func(*done) bool) {
		for _, list := range []iter.Seq[*done]{maps.Values(c.threads), maps.Values(c.goroutines)} {
			for d := range list {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// sort comes after all samples. It removes the sums of short waits, and waits that did not end: no span ended in these.
func (c *activity) sort() {
	slices.SortStableFunc(c.incidents, func(a, b incident) int { return cmp.Compare(a.time, b.time) })
	for d := range c.all() {
		n := len(d.waits)
		d.waits = slices.DeleteFunc(d.waits, func(w wait) bool { return c.end.Has(w.end) })
		c.sums = c.sums || n > len(d.waits)
		slices.SortFunc(d.waits, func(a, b wait) int { return cmp.Compare(a.end, b.end) })
		slices.SortFunc(d.ran, func(a, b ran) int { return cmp.Compare(a.time, b.time) })
		slices.SortStableFunc(d.calls, func(a, b *call) int { return cmp.Compare(a.start, b.start) })
	}
}

// parts is what threads did in calls. Times are in ns, all of them together.
type parts struct {
	calls, total uint64
	waits        map[int32]uint64   // by what, activity.names; or elsewhere
	by           map[waitKey]uint64 // who ended them
	wakers       map[waitKey]*parts // what those who ended them did during the waits
	ran          map[int32]uint64   // by function, activity.names; of calls without a sample, by noFunction
	inside       map[string]uint64  // spans of other events
	// incidents are those of packets while a call waited for the network, of which some were perhaps the call's:
	// their number by flow, by the event's name.
	incidents map[string]map[string]uint64
}

// elsewhere is what a goroutine did while its thread did something for others.
const elsewhere = "the goroutine waited, or ran on another thread"

// noFunction is the key of parts.ran for calls that no sample of a clock hit.
const noFunction = -1

// stoodStill is the key of parts.ran for time in which clocks would have sampled a CPU that ran.
const stoodStill = -2

func newParts() *parts {
	return &parts{waits: map[int32]uint64{}, by: map[waitKey]uint64{}, wakers: map[waitKey]*parts{},
		ran: map[int32]uint64{}, inside: map[string]uint64{}, incidents: map[string]map[string]uint64{}}
}

// add adds what a thread, or a goroutine, did in a call.
func (p *parts) add(c *activity, of *call) {
	end := of.start + of.duration
	p.calls++
	p.total += of.duration
	chain := follow{mostWakers, of.duration / leastWait}
	if g := c.goroutineOf(of); g != nil {
		p.addGoroutine(c, g, of, chain)
	} else {
		p.addTime(c, of.tid, of.start, end, chain, of.function)
	}
	l := c.of(of.tid).calls
	for _, in := range l[sort.Search(len(l), func(i int) bool { return l[i].start >= of.start }):] {
		if in.start >= end {
			break
		}
		if in.event != of.event && in.start+in.duration <= end {
			p.inside[in.name] += in.duration
		}
	}
	p.addIncidents(c, of)
}

// leastNetwork is how much of a call it must have waited for the network, in percent, for incidents to matter.
const leastNetwork = 10

// addIncidents adds the incidents in a call that waited for the network.
func (p *parts) addIncidents(c *activity, of *call) {
	end, waited := of.start+of.duration, uint64(0)
	at := func(time uint64) int {
		return sort.Search(len(c.incidents), func(i int) bool { return c.incidents[i].time >= time })
	}
	in := c.incidents[at(of.start):at(end)]
	if len(in) == 0 {
		return
	}
	d := c.goroutineOf(of)
	if d == nil {
		d = c.of(of.tid)
	}
	for _, w := range d.overlapping(of.start, end) {
		if w.packets {
			waited += min(w.end, end) - max(w.start, of.start)
		}
	}
	if waited*100 < of.duration*leastNetwork {
		return
	}
	for _, i := range in {
		what := c.names[i.what]
		if p.incidents[what] == nil {
			p.incidents[what] = map[string]uint64{}
		}
		p.incidents[what][c.names[i.flow]]++
	}
}

// overlapping returns the waits of which a part is between two times, in ns.
func (d *done) overlapping(start, end uint64) []wait {
	l := d.waits[sort.Search(len(d.waits), func(i int) bool { return d.waits[i].end > start }):]
	n := slices.IndexFunc(l, func(w wait) bool { return w.start >= end })
	if n < 0 {
		n = len(l)
	}
	return l[:n]
}

// follow limits a chain of threads of which each waits for the next one: there are at most so many, and waits of at
// least so many ns.
type follow struct {
	wakers int
	least  uint64
}

// The limits of a call: leastWait is a part of its duration.
const mostWakers, leastWait = 5, 20

// addGoroutine adds what a goroutine did in a call: between its waits it ran, on the thread of the next wait. In the
// time of a thread that is outside of the call's function, the thread ran other goroutines.
func (p *parts) addGoroutine(c *activity, g *done, of *call, chain follow) {
	end, reached := of.start+of.duration, of.start
	for _, w := range g.overlapping(of.start, end) {
		from, to := max(w.start, reached), min(w.end, end)
		if from >= to {
			continue
		}
		if from > reached {
			p.addTime(c, w.tid, reached, from, chain, of.function)
		}
		p.addWait(c, &w, from, to, chain)
		reached = to
	}
	if reached < end {
		p.addTime(c, of.tid, reached, end, chain, of.function)
	}
}

// addWait adds a part of a wait, in ns, and what those did for which it waited.
func (p *parts) addWait(c *activity, w *wait, from, to uint64, chain follow) {
	p.waits[w.what] += to - from
	p.by[w.waitKey] += to - from
	if chain.wakers == 0 || to-from < max(chain.least, 1) || !c.knows(w.waker) {
		return
	}
	of := p.wakers[w.waitKey]
	if of == nil {
		of = newParts()
		p.wakers[w.waitKey] = of
	}
	of.calls++
	of.total += to - from
	of.addTime(c, w.waker, from, to, follow{chain.wakers - 1, chain.least}, "")
}

// addTime adds what a thread did from start to end, in ns, and what those did for which it waited. The time without
// waits is divided among the functions of the samples. In a damaged file, waits of a thread may overlap: the first
// counts. If function is not "", what the thread did outside of it was for others.
func (p *parts) addTime(c *activity, tid int32, start, end uint64, chain follow, function string) {
	d, left, reached := c.of(tid), end-start, start
	for _, w := range d.overlapping(start, end) {
		from, to := max(w.start, reached), min(w.end, end)
		if from >= to {
			continue
		}
		reached = to
		left -= to - from
		if !c.isWithin(w.stack, function) {
			p.waits[c.number(elsewhere)] += to - from
			continue
		}
		p.addWait(c, &w, from, to, chain)
	}
	from := sort.Search(len(d.ran), func(i int) bool { return d.ran[i].time >= start })
	to := sort.Search(len(d.ran), func(i int) bool { return d.ran[i].time >= end })
	for i, r := range d.ran[from:to] { // the parts sum up to left
		n := uint64(to - from)
		ns := left*uint64(i+1)/n - left*uint64(i)/n
		if c.isWithin(r.stack, function) {
			p.ran[r.what] += ns
		} else {
			p.waits[c.number(elsewhere)] += ns
		}
	}
	switch {
	case from < to:
	case c.stands(d, left):
		p.ran[stoodStill] += left
	default:
		p.ran[noFunction] += left
	}
}

// running returns the time without waits.
func (p *parts) running() (ns uint64) {
	for _, n := range p.ran {
		ns += n
	}
	return ns
}

// hottest returns the function with most of the time without waits.
func (p *parts) hottest() int32 {
	hottest := int32(noFunction)
	for function, ns := range p.ran {
		if most := p.ran[hottest]; ns > most || ns == most && function < hottest {
			hottest = function
		}
	}
	return hottest
}

// who returns who ended most of the waits for something, if that is known.
func (p *parts) who(c *activity, what int32) (most waitKey, ok bool) {
	for k, ns := range p.by {
		if k.what == what && c.names[k.by] != "" && (!ok || ns > p.by[most] || ns == p.by[most] && k.by < most.by) {
			most, ok = k, true
		}
	}
	return most, ok
}

// text returns what a wait is for, and who ended most of such waits.
func (p *parts) text(c *activity, what int32) string {
	if k, ok := p.who(c, what); ok {
		return c.names[what] + ", " + c.names[k.by]
	}
	return c.names[what]
}

// ranText returns in words that threads ran in a function.
func ranText(c *activity, function int32) string {
	switch function {
	case noFunction:
		return "running"
	case stoodStill:
		return "running, without a sample: a virtual CPU may have stood still"
	}
	return "running: " + c.names[function]
}

// waitText returns what a wait of a kind is for, and who ended it, "" for an interrupt.
func waitText(s *session.Sample, kind string) (what, by string) {
	what = cmp.Or(kind, "wait")
	if name := s.WaitsIn(); name != "" {
		what += ": " + name
	}
	if s.Waker != nil && s.Waker.TID != 0 {
		by = s.Waker.Text()
		if name := s.Waker.RanIn(); name != "" {
			by += " in " + name
		}
	}
	return what, by
}

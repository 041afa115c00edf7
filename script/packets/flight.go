package packets

import (
	"cmp"
	"maps"
	"slices"
)

// flight is a packet between its first sample and its end.
type flight struct {
	number      uint64
	skb         uint64 // of the first sample
	first, last uint64 // times in ns
	hops        []hop
	omitted     int      // number of hops after those, which are not kept
	skbs        []uint64 // not freed: a followed packet can have several, its clones
	size        int      // memory, in bytes

	// The last state on the way to or from a device.
	received bool
	sentOn   string // the device, "" if not sent
	sock     string // since then
	reader   string // process that reads it since then
	verdict  string // of the firewall, for the drop that follows
}

// hop is a sample of a flight.
type hop struct {
	Packet
	since uint64 // time since the previous hop, in ns
	end   end    // of one of several sk_buffs
}

// end is how a packet ended: text such as "DROPPED at f+0x4 (NO_SOCKET)", and its group in the summary.
type end struct{ text, group string }

// unended returns the end of a packet without a sample of its end: the kernel frees a packet that a process has
// read from TCP without an event.
func (f *flight) unended() end {
	switch {
	case f.verdict != "":
		return end{"DROPPED" + f.verdict, "DROPPED"}
	case f.reader != "":
		return end{"DELIVERED to " + f.reader, "DELIVERED"}
	}
	return end{group: "no end recorded"}
}

// add adds a sample. It returns the end of its sk_buff, if it has one.
func (f *flight) add(p *Packet, time uint64) end {
	h := hop{Packet: *p}
	h.Bytes = nil // they belong to the sample
	if len(f.hops) == 0 {
		f.first, f.skb = time, p.SKB
	} else if time > f.last {
		h.since = time - f.last
	}
	f.last = max(f.last, time)
	f.note(p)
	if h.Kind.Ends() {
		h.end = f.endOf(p)
		f.skbs = slices.DeleteFunc(f.skbs, func(skb uint64) bool { return skb == p.SKB })
	} else if !slices.Contains(f.skbs, p.SKB) && len(f.skbs) < maxSKBs {
		f.skbs = append(f.skbs, p.SKB)
	}
	if len(f.hops) < maxHops {
		f.hops = append(f.hops, h)
		f.size += hopSize + len(p.Flow) + len(p.Verdict) + len(p.Sock)
	} else {
		f.omitted++
	}
	return h.end
}

const (
	maxHops = 1000
	maxSKBs = 100
	hopSize = 400 // of a hop, about, in bytes
)

// note keeps the state that decides how the packet ends.
func (f *flight) note(p *Packet) {
	switch p.Kind {
	case Received:
		f.received, f.sentOn, f.sock, f.reader = true, "", "", ""
	case Queued:
		f.received, f.sentOn, f.reader = false, "", ""
	case Sent:
		f.received, f.sentOn, f.sock, f.reader = false, cmp.Or(p.Dev, "a device"), "", ""
	case Delivered:
		f.reader = p.Reader
	}
	if p.Sock != "" {
		f.sock = p.Sock
	}
	if p.Verdict != "" {
		f.verdict = " by " + p.Verdict
	}
}

// endOf returns the end that a sample reports.
func (f *flight) endOf(p *Packet) end {
	at := ""
	if p.Location != "" {
		at = " at " + p.Location
	}
	if p.Kind == Dropped && p.Verdict == "" {
		at += f.verdict
	}
	switch {
	case p.Kind == Dropped && p.Reason != "":
		return end{"DROPPED" + at + " (" + p.Reason + ")", "DROPPED (" + p.Reason + ")"}
	case p.Kind == Dropped:
		return end{"DROPPED" + at, "DROPPED"}
	case f.sentOn != "":
		return end{"SENT on " + f.sentOn, "SENT"}
	case f.reader != "":
		return end{"DELIVERED to " + f.reader, "DELIVERED"}
	case f.sock != "" && (f.received || receives(p.Location)):
		return end{"DELIVERED to " + f.sock, "DELIVERED"}
	}
	return end{"CONSUMED" + at, "CONSUMED"}
}

// continues reports whether a sample of the same sk_buff can be of the same packet. The kernel frees some
// packets without an event, such as those that TCP received, and uses the address again. A packet is received
// from a device once, and does not pass its first hop again; without events that report ends, it passes no hop
// again.
func (f *flight) continues(p *Packet, endless bool) bool {
	if f.number != 0 {
		return true
	}
	hops := f.hops
	if !endless && p.Kind != Received {
		hops = hops[:1]
	}
	return !slices.ContainsFunc(hops, func(h hop) bool {
		return h.Hop == p.Hop && h.Dev == p.Dev && h.NetNS == p.NetNS
	})
}

// key identifies a flight: the number of a followed packet, or the address of its sk_buff.
type key struct{ number, skb uint64 }

// flights joins samples to flights.
type flights struct {
	// single makes each sample that is not of a followed packet a flight: there is one event, whose
	// samples are of different packets. endless says that no event reports that an sk_buff is freed, drops that one
	// reports drops, after the firewall's verdicts.
	single, endless, drops bool

	all     map[key]*flight
	size    int    // of all, in bytes
	checked uint64 // time when idle flights were looked for, in ns
	done    func(*flight, end)
}

const (
	// maxIdle is the time after which a packet without samples is given up, in ns. Packets
	// wait in sockets for processes that read slowly.
	maxIdle = 10e9
	// maxSize limits the memory of the flights, in bytes.
	maxSize = 64 << 20
)

func newFlights(events []*event, done func(*flight, end)) *flights {
	l := &flights{all: map[key]*flight{}, done: done, endless: true}
	n := 0
	for _, e := range events {
		if e == nil {
			continue
		}
		n++
		l.single = e.fn == nil
		l.endless = l.endless && !e.kind.Ends()
		l.drops = l.drops || e.kind == Dropped && e.verdict == nil && e.location != nil
	}
	l.single = l.single && n == 1
	return l
}

// add adds a sample to its flight.
func (l *flights) add(p *Packet, time uint64) {
	if p.Verdict != "" && p.SKB != 0 && l.drops {
		p.Kind = Passed
	}
	k := key{number: p.Number}
	if p.Number == 0 {
		k.skb = p.SKB
	}
	f := l.all[k]
	if f != nil && !f.continues(p, l.endless) {
		l.end(k, f, f.unended())
		f = nil
	}
	if f == nil {
		f = &flight{number: p.Number, size: hopSize}
		l.all[k] = f
		l.size += f.size
	}
	l.size -= f.size
	e := f.add(p, time)
	l.size += f.size
	switch {
	case p.Kind.Ends() && len(f.skbs) == 0:
		l.end(k, f, e)
	case p.Number == 0 && l.single:
		l.end(k, f, f.unended())
	case l.size > maxSize:
		l.endOldest()
	case time > l.checked+1e9:
		l.endIdle(time)
	}
}

func (l *flights) end(k key, f *flight, e end) {
	delete(l.all, k)
	l.size -= f.size
	l.done(f, e)
}

// endIdle ends the flights without recent samples.
func (l *flights) endIdle(now uint64) {
	l.checked = now
	for _, k := range l.oldest() {
		if f := l.all[k]; f.last+maxIdle < now {
			l.end(k, f, f.unended())
		}
	}
}

// endOldest halves the memory of the flights.
func (l *flights) endOldest() {
	for _, k := range l.oldest() {
		if l.size < maxSize/2 {
			return
		}
		l.end(k, l.all[k], l.all[k].unended())
	}
}

// endAll ends all flights, those with the oldest samples first.
func (l *flights) endAll() {
	for _, k := range l.oldest() {
		l.end(k, l.all[k], l.all[k].unended())
	}
}

// oldest returns the keys of all flights in the order of their last samples.
func (l *flights) oldest() []key {
	return slices.SortedFunc(maps.Keys(l.all), func(a, b key) int {
		return cmp.Or(cmp.Compare(l.all[a].last, l.all[b].last), cmp.Compare(a.number, b.number),
			cmp.Compare(a.skb, b.skb))
	})
}

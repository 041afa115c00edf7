package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/record/event"
	"gperf/record/probe/kernel"
	"gperf/record/programs"
)

// Packets selects packets, of the events that have them. The zero value selects all.
type Packets struct {
	// None leaves the packets out that Run adds to samples of skb:kfree_skb otherwise.
	None bool
	bpf.PacketSelection
	Snap int // number of bytes of each packet to record, from its first header on
}

// Chosen reports whether packets are asked for.
func (p *Packets) Chosen() bool {
	return p.Filter != nil || p.Netns != 0 || p.Device != "" || p.Snap > 0
}

// ErrNoPacket means that packets are asked for, but no event has one.
var ErrNoPacket = errors.New("no event has a packet")

// PacketError is a notice: samples have no packets.
type PacketError struct {
	Event string
	Err   error
}

func (e *PacketError) Error() string {
	return fmt.Sprintf("%s: cannot record packets: %v", e.Event, e.Err)
}
func (e *PacketError) Unwrap() error { return e.Err }

// plainEvents are events as they were before they got packets that may be left out.
type plainEvents map[*kernel.Raw]event.Event

// addPackets adds packets to the samples of tracepoints: of all that have one, if packets are
// selected, else of drops.
func addPackets(o *plan) (plainEvents, error) {
	p := &o.Packets
	if p.None || o.Count || !p.Chosen() && (!o.each() || o.ringsForBPF() != nil) {
		return nil, nil
	}
	plain := plainEvents{}
	n := 0
	o.Events = slices.Clone(o.Events)
	at := packetEvents(o)
	for i, with := range event.WithPackets(pick(o.Events, at), o.Tracefs) {
		ev := &o.Events[at[i]]
		switch {
		case !with.HasPacket() && !p.Chosen() && ev.Tracepoint == event.Drops:
			if err := kernel.HaveTypes(); err != nil {
				o.notice(&PacketError{ev.Name, err})
			}
			continue
		case !with.HasPacket(), !p.Chosen() && programs.CheckFilter(&with) != nil:
			continue
		case !simple(o.Events, at[i]):
			return nil, &programs.SamplerError{Event: ev.Name, Err: ErrConditional}
		}
		raw, packet := *with.Raw, *with.Raw.Packet
		packet.Snap = p.Snap
		raw.Packet, with.Raw = &packet, &raw
		if ev.Raw == nil && !p.Chosen() {
			plain[with.Raw] = *ev
		}
		*ev = with
		n++
	}
	if p.Chosen() && n == 0 {
		return nil, cmp.Or(kernel.HaveTypes(), ErrNoPacket)
	}
	return plain, nil
}

// packetEvents returns the indexes of the events that get packets if they can have one: all if packets are selected,
// else those with a packet, and drops without other settings.
func packetEvents(o *plan) (at []int) {
	for i := range o.Events {
		ev := &o.Events[i]
		if o.Packets.Chosen() || ev.HasPacket() || ev.Tracepoint == event.Drops && simple(o.Events, i) {
			at = append(at, i)
		}
	}
	return at
}

// pick returns the events with these indexes.
func pick(events []event.Event, at []int) (l []event.Event) {
	for _, i := range at {
		l = append(l, events[i])
	}
	return l
}

// restore replaces events by the plain ones, if recording them failed because BPF programs could not be
// loaded, or because too few files may be open for them. It returns the notice of that; nil otherwise.
func (p plainEvents) restore(events []event.Event, err error) *PacketError {
	var why *programs.SamplerError
	if len(p) == 0 || !errors.As(err, &why) && !noFiles(err) {
		return nil
	}
	if why != nil {
		err = why.Err
	}
	e := &PacketError{Err: err}
	for i := range events {
		if ev, ok := p[events[i].Raw]; ok {
			events[i], e.Event = ev, ev.Name
		}
	}
	clear(p)
	return e
}

// noFiles reports whether the process, or the machine, has too many open files.
func noFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// omitDrops removes the optional events of packets that BPF programs drop, if there are no such programs.
func omitDrops(o *plan) {
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(ev event.Event) bool {
		if ev.Raw == nil || ev.Raw.Drops == nil || !ev.Raw.Drops.Optional {
			return false
		}
		n, err := programs.Droppers(&ev)
		if n == 0 || err != nil {
			o.verbose(fmt.Sprintf("%s is left out: %v", ev.Name, cmp.Or(err, programs.ErrNoDroppers)))
			return true
		}
		return false
	})
}

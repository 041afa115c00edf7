package event

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/packet"
	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// Drops is the tracepoint of dropped packets.
const Drops = "skb/kfree_skb"

// WithPackets returns events with the packets of their tracepoints. It returns an event as it is if it has a
// packet already, and if it gets none: it is not a tracepoint, none of the tracepoint's arguments is an
// sk_buff or a socket, or the kernel does not describe them.
func WithPackets(events []Event, fs *tracefs.FS) []Event {
	with := slices.Clone(events)
	var plain []*Event // without a description of their arguments
	var tracepoints []string
	for i := range with {
		if ev := &with[i]; ev.Raw == nil && ev.Tracepoint != "" && ev.Probe == nil {
			plain, tracepoints = append(plain, ev), append(tracepoints, ev.Tracepoint)
		}
	}
	if len(plain) > 0 {
		raws, err := findOwn(fs, tracepoints)
		for i := range plain {
			if err == nil && raws[i] != nil && raws[i].PacketArg().Arg > 0 {
				plain[i].Raw, plain[i].Tracepoint, plain[i].Config = raws[i], "", 0
			}
		}
	}
	for i := range with {
		if raw := with[i].Raw; raw != nil && raw.Packet == nil {
			with[i].Raw, _ = raw.WithPacket()
		}
	}
	return with
}

// HasPacket reports whether the event's samples have a packet.
func (e *Event) HasPacket() bool { return e.Raw != nil && e.Raw.Packet != nil }

// existing returns the events of the tracepoints, SYSTEM:NAME, that the kernel knows.
func existing(names []string, fs *tracefs.FS) (events []Event, err error) {
	for _, name := range names {
		system, name, _ := strings.Cut(name, ":")
		found, err := fs.Find(system, name)
		if err != nil {
			return nil, err
		}
		for i := range found {
			events = append(events, tracepointEvent(&found[i]))
		}
	}
	return events, nil
}

// PacketDrops is the name of the events of lost packets together.
const PacketDrops = "packet:drops"

// lossEvents are the tracepoints where packets get lost: dropped, not received by a full socket, refused by
// an XDP program's action, sent again, or answered by a reset.
var lossEvents = []string{
	"skb:kfree_skb", "udp:udp_fail_queue_rcv_skb", "sock:sock_rcvqueue_full", "sock:sock_exceed_buf_limit",
	"tcp:tcp_retransmit_skb", "tcp:tcp_retransmit_synack", "tcp:tcp_send_reset", "tcp:tcp_receive_reset",
	"tcp:tcp_bad_csum", "xdp:xdp_exception", "xdp:xdp_redirect_err", "xdp:xdp_redirect_map_err",
	"net:net_dev_xmit_timeout",
}

// Events of packets that BPF programs drop. The kernel has no tracepoint for them.
const (
	XDPDrop = "xdp:drop"
	TCDrop  = "tc:drop"
)

// programDrops returns the event of XDPDrop or TCDrop.
func (w *words) programDrops() ([]Event, error) {
	if w.modified || w.terms != nil {
		return nil, w.spec.bad("it supports neither modifiers nor terms")
	}
	raw := kernel.NewDrops(kernel.Drops{XDP: w.name == XDPDrop})
	if w.args != "" {
		var err error
		if raw, err = raw.WithFields(w.args); err != nil {
			return nil, w.spec.bad(err.Error())
		}
	}
	return []Event{{Name: w.name, Type: format.TypeTracepoint, Raw: raw}}, nil
}

// packetDrops returns the events of PacketDrops that this kernel has, with the packets of those that have one,
// XDPDrop and, on kernels with kprobes, NetfilterDrop.
func (w *words) packetDrops(at *Resolver) (events []Event, err error) {
	if w.modified || w.terms != nil {
		return nil, w.spec.bad("it supports neither modifiers nor terms")
	}
	if events, err = existing(lossEvents, at.Tracefs); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, w.spec.bad("this kernel has none of its tracepoints")
	}
	events = WithPackets(events, at.Tracefs)
	xdp := kernel.NewDrops(kernel.Drops{XDP: true, Optional: true})
	events = append(events, Event{Name: XDPDrop, Type: format.TypeTracepoint, Raw: xdp})
	if at.HaveKprobes() == nil {
		events = append(events, netfilterEvent(packet.Default, true))
	}
	return events, nil
}

// packetProbe matches a kprobe with the flow of its packet among the arguments. Without it, names of fields
// such as dev can name the function's parameters.
var packetProbe = regexp.MustCompile(`^kprobe:(\S+)\s+((?:.*\s)?flow(?:\s.*)?)$`)

// packetProbes returns the events of kernel functions with the packet of their parameter struct sk_buff *. The
// function may be a glob.
func (w *words) packetProbes(at *Resolver) (events []Event, err error) {
	m := packetProbe.FindStringSubmatch(string(w.spec))
	shown, err := packet.Words(m[2])
	if err != nil {
		return nil, w.spec.bad(err.Error())
	}
	if err := at.HaveKprobes(); err != nil {
		return nil, err
	}
	functions, err := (&kernel.Symbols{Tracefs: at.Tracefs, Root: at.Root}).PacketFunctions()
	if err != nil {
		return nil, err
	}
	for i := range functions {
		f := &functions[i]
		if ok, err := path.Match(m[1], f.Name); err != nil {
			return nil, w.spec.bad(tracefs.ErrGlob.Error())
		} else if ok {
			ev := hops("probe:"+f.Name, shown)
			ev.Function = f
			events = append(events, ev)
		}
	}
	if len(events) == 0 {
		return nil, w.spec.bad("the kernel has no function " + m[1] + " with a parameter struct sk_buff *")
	}
	return events, nil
}

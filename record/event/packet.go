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

// WithPacket returns the event with the packet of its tracepoint. ok is false if it has none: it is not
// a tracepoint, none of the tracepoint's arguments is an sk_buff or a socket, or the kernel does not
// describe them. An event that has a packet already stays as it is.
func (e *Event) WithPacket(fs *tracefs.FS) (with Event, ok bool) {
	with = *e
	raw := e.Raw
	if raw == nil {
		if e.Tracepoint == "" || e.Probe != nil {
			return with, false
		}
		system, name, _ := strings.Cut(e.Tracepoint, "/")
		found, err := kernel.FindRaw(name)
		if err != nil || len(found) == 0 || found[0].PacketArg().Arg == 0 {
			return with, false
		}
		text, err := fs.Read("events/" + e.Tracepoint + "/format")
		if err != nil {
			return with, false
		}
		raw = found[0]
		raw.Own = &kernel.Own{System: system, Format: text}
	}
	if raw.Packet != nil {
		return with, true
	}
	if with.Raw, ok = raw.WithPacket(); ok {
		with.Tracepoint, with.Config = "", 0
	}
	return with, ok
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
		return nil, w.bad("it supports neither modifiers nor terms")
	}
	raw := kernel.NewDrops(kernel.Drops{XDP: w.name == XDPDrop})
	if w.args != "" {
		var err error
		if raw, err = raw.WithFields(w.args); err != nil {
			return nil, w.bad(err.Error())
		}
	}
	return []Event{{Name: w.name, Type: format.TypeTracepoint, Raw: raw}}, nil
}

// packetDrops returns the events of PacketDrops that this kernel has, with the packets of those that have one,
// XDPDrop and, on kernels with kprobes, NetfilterDrop.
func (w *words) packetDrops(at *Resolver) (events []Event, err error) {
	if w.modified || w.terms != nil {
		return nil, w.bad("it supports neither modifiers nor terms")
	}
	for _, name := range lossEvents {
		system, name, _ := strings.Cut(name, ":")
		found, err := at.Tracefs.Find(system, name)
		if err != nil {
			return nil, err
		}
		for _, tp := range found {
			ev := Event{Name: tp.System + ":" + tp.Name, Type: format.TypeTracepoint, Config: tp.ID,
				Tracepoint: tp.System + "/" + tp.Name}
			with, _ := ev.WithPacket(at.Tracefs)
			events = append(events, with)
		}
	}
	if len(events) == 0 {
		return nil, w.bad("this kernel has none of its tracepoints")
	}
	xdp := kernel.NewDrops(kernel.Drops{XDP: true, Optional: true})
	events = append(events, Event{Name: XDPDrop, Type: format.TypeTracepoint, Raw: xdp})
	if at.HaveKprobes() == nil {
		events = append(events, netfilterEvent(packet.Default, true))
	}
	return events, nil
}

// packetProbe matches a kprobe with the flow of its packet among the arguments. Without it, names of fields
// such as dev can be those of the function's parameters.
var packetProbe = regexp.MustCompile(`^kprobe:(\S+)\s+((?:.*\s)?flow(?:\s.*)?)$`)

// packetProbes returns the events of kernel functions with the packet of their parameter struct sk_buff *. The function
// may be a glob.
func (w *words) packetProbes(at *Resolver) (events []Event, err error) {
	m := packetProbe.FindStringSubmatch(w.spec)
	shown := strings.Fields(m[2])
	for _, name := range shown {
		if all := packet.Names(); !slices.Contains(all, name) {
			return nil, w.bad("next to flow, arguments are fields of the packet: " + strings.Join(all, ", "))
		}
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
			return nil, w.bad(tracefs.ErrGlob.Error())
		} else if ok {
			ev := hops("probe:"+f.Name, shown)
			ev.Function = f
			events = append(events, ev)
		}
	}
	if len(events) == 0 {
		return nil, w.bad("the kernel has no function " + m[1] + " with a parameter struct sk_buff *")
	}
	return events, nil
}

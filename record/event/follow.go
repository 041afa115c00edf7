package event

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"gperf/format"
	"gperf/record/probe/kernel"
)

// Hop is the event of packets that are followed: one passes a function of the kernel. Its arguments are the
// addresses of the function and of the sk_buff.
func Hop() Event {
	return hops("packet:hop", followedFields)
}

// hops returns an event of functions that packets pass, whose samples are printed with these fields.
func hops(name string, shown []string) Event {
	raw := &kernel.Raw{Name: name[strings.IndexByte(name, ':')+1:], Args: []kernel.RawArg{
		{Name: "func", Type: "u64", Size: 8, Shown: kernel.AsFunction},
		{Name: "skbaddr", Type: "u64", Size: 8, Shown: kernel.AsAddress},
	}}
	raw.Packet = &kernel.Packet{PacketArg: kernel.PacketArg{Arg: 2}, Shown: shown}
	return Event{Name: name, Type: format.TypeTracepoint, Raw: raw, Hops: true}
}

// followedFields are the fields that samples of followed packets are printed with.
var followedFields = []string{"packet", "flow", "dev", "len", "netns"}

// followedPoints are the tracepoints that packets pass, in the order of a packet's way. Kernels lack some of them.
var followedPoints = []string{"net:net_dev_queue", "qdisc:qdisc_enqueue", "qdisc:qdisc_dequeue",
	"net:net_dev_start_xmit", "net:net_dev_xmit", "net:netif_receive_skb", "skb:skb_copy_datagram_iovec",
	"skb:consume_skb", "skb:kfree_skb"}

// frequent are those that most packets pass.
var frequent = followedPoints[:6]

// FollowedPoints returns the events of the tracepoints that packets pass, with the packet.
func FollowedPoints(at *Resolver) ([]Event, error) {
	events, err := existing(followedPoints, at.Tracefs)
	if err != nil {
		return nil, err
	}
	events = WithPackets(events, at.Tracefs)
	for i := range events {
		if !events[i].HasPacket() {
			return nil, cmp.Or(kernel.HaveTypes(), errUndescribed)
		}
		if slices.Contains(frequent, events[i].Name) {
			events[i].Raw = events[i].Raw.WithoutOwn()
		}
		events[i].Raw.Packet.Shown = followedFields
	}
	return events, nil
}

// errUndescribed: the kernel lists a tracepoint, but does not describe its arguments.
var errUndescribed = errors.New("the kernel's BTF does not describe all tracepoints that packets pass")

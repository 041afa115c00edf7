package programs

import (
	"slices"
	"strings"

	"gperf/bpf"
	"gperf/record/event"
	"gperf/record/probe/kernel"
)

// Following says how packets are followed.
type Following struct {
	Hops   []bpf.Hop
	AtOnce bool // the kernel runs a program at many functions at once
	// Refused gets the errors of functions that the kernel refuses.
	Refused func(functions int, errs []error)
}

// copying are functions that copy the fields of an sk_buff, the second parameter, to a copy or clone,
// the first parameter. Others may be inlined into them.
var copying = strings.Fields("skb_copy_header __copy_skb_header ip_copy_metadata ip6_copy_metadata")

// ending are functions after which the sk_buff is used again without being freed: NAPI's cache, or GRO. The last
// one frees it, but another packet may get the buffer.
var ending = strings.Fields("napi_skb_cache_put __kfree_skb_defer napi_skb_free_stolen_head napi_reuse_skb " +
	"kfree_skb_partial")

// freeing are parts of the names of functions that run while an sk_buff is freed.
var freeing = []string{"free", "release", "destruct", "orphan"}

// hopOf returns the place of a function.
func hopOf(f *kernel.PacketFunction) bpf.Hop {
	return bpf.Hop{Kprobe: bpf.Kprobe{Symbol: f.Name, FromText: f.FromText}, Address: f.Addr, SKB: f.SKB, Sock: f.Sock}
}

// Hop returns how the programs see a function: required functions are always needed to follow packets.
func Hop(f *kernel.PacketFunction) (h bpf.Hop, required bool) {
	h = hopOf(f)
	switch {
	case slices.Contains(copying, f.Name):
		h.Kind |= bpf.HopCopies
		required = true
	case slices.Contains(ending, f.Name):
		h.Kind |= bpf.HopEnds
		required = true
	}
	if strings.HasSuffix(f.Name, "wfree") || slices.ContainsFunc(freeing, func(part string) bool {
		return strings.Contains(f.Name, part)
	}) {
		h.Kind |= bpf.HopKnownOnly
	}
	return h, required
}

// IsMain reports whether a function is one of the main ones of a packet's way: the functions that are recorded if
// each function needs a separate probe.
func IsMain(name string) bool { return slices.Contains(mainFunctions, name) }

var mainFunctions = strings.Fields(`
	udp_send_skb udp_v6_send_skb __tcp_transmit_skb __ip_queue_xmit ip_send_skb __ip_local_out __ip6_local_out
	ip6_xmit ip_output ip_mc_output ip6_output ip_finish_output2 ip6_finish_output2 ip_do_fragment neigh_resolve_output
	arp_xmit udp_tunnel_xmit_skb iptunnel_xmit __dev_queue_xmit dev_queue_xmit sch_direct_xmit dev_hard_start_xmit
	loopback_xmit veth_xmit vxlan_xmit br_dev_xmit vlan_dev_hard_start_xmit macvlan_start_xmit tun_net_xmit

	napi_gro_receive netif_rx enqueue_to_backlog __netif_receive_skb ip_rcv ip_rcv_core ip_rcv_finish
	ip_local_deliver ip_local_deliver_finish ipv6_rcv ip6_rcv_finish ip6_input arp_rcv arp_process
	br_handle_frame_finish br_pass_frame_up br_forward br_flood br_dev_queue_push_xmit vxlan_rcv ip_defrag

	ip_forward ip_forward_finish ip6_forward
	nf_hook_slow nf_conntrack_in nf_nat_inet_fn nf_nat_packet
	tcf_classify cls_bpf_classify

	tcp_v4_rcv tcp_v6_rcv tcp_v4_do_rcv tcp_v6_do_rcv tcp_rcv_established tcp_data_queue tcp_queue_rcv
	udp_rcv udpv6_rcv udp_queue_rcv_skb udpv6_queue_rcv_skb udp_queue_rcv_one_skb __udp_enqueue_schedule_skb
	icmp_rcv icmpv6_rcv raw_rcv ping_rcv sock_queue_rcv_skb sock_queue_rcv_skb_reason packet_rcv tpacket_rcv
	skb_copy_datagram_iter skb_consume_udp
	icmp_send __icmp_send`)

// Numbers of packets that a tracepoint keeps for a later one, see bpf.Passage.
const (
	keptQueue = 1 + iota
	keptXmit
)

// passages describe how tracepoints use packets, by name.
var passages = map[string]bpf.Passage{
	"net_dev_queue":           {KeepAs: keptQueue, Point: bpf.AtQueue},
	"qdisc_enqueue":           {KeptAs: keptQueue},
	"net_dev_start_xmit":      {KeepAs: keptXmit, DeviceArg: 2, Point: bpf.AtOther},
	"net_dev_xmit":            {KeptAs: keptXmit, DeviceArg: 3},
	"netif_receive_skb":       {Point: bpf.AtReceive},
	"skb_copy_datagram_iovec": {Point: bpf.AtDeliver},
	"kfree_skb":               {Ends: true, Point: bpf.AtEnd},
	"consume_skb":             {Ends: true, Point: bpf.AtEnd},
}

// passage returns how an event's tracepoint uses packets. If there are several events, the last one ends packets.
func (f *Following) passage(ev *event.Event, events []*event.Event) bpf.Passage {
	p, ok := passages[ev.Raw.Name]
	if !ok {
		p.Point = bpf.AtOther
	}
	if len(f.Hops) > 0 {
		p.Point = bpf.AtNone
	}
	i := slices.Index(events, ev)
	if slices.ContainsFunc(events[i+1:], func(later *event.Event) bool {
		return later.Raw.Packet != nil && later.Raw.Name == ev.Raw.Name
	}) {
		p.Ends = false
	}
	return p
}

// attachHops attaches the program that makes samples where followed packets pass.
func (a *attachments) attachHops(ev *event.Event, t *bpf.RawTracepoint) error {
	f := a.opts.Follow
	if ev.Function != nil {
		if _, err := bpf.AttachHops(a.bpf, t, []bpf.Hop{hopOf(ev.Function)}, false); err != nil {
			return &SamplerError{ev.Name, err}
		}
		return nil
	}
	refused, err := bpf.AttachHops(a.bpf, t, f.Hops, f.AtOnce)
	if err != nil {
		return &SamplerError{ev.Name, err}
	}
	if len(refused) > 0 {
		f.Refused(len(f.Hops), refused)
	}
	return nil
}

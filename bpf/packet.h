/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The packet of an sk_buff or an xdp_buff: device and namespace, headers, and the headers of the packet in a
 * tunnel. Headers are read from the linear part of the buffer: fields in pages stay 0.
 */
#ifndef PACKET_H
#define PACKET_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	char name[16];
	int ifindex;
	unsigned short hard_header_len; /* 0: packets begin with the network header */
	possible_net_t nd_net;
};

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__u32 skc_daddr, skc_rcv_saddr;
	__u16 skc_dport, skc_num;
	__u16 skc_family;
	unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct socket {
	struct file *file;
};

struct sock_cgroup_data {
	struct cgroup *cgroup; /* from 5.15 on */
};

struct sock_cgroup_data___val {
	__u64 val; /* before: the address, with flags in the lower bits */
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
	__u16 sk_protocol; /* a bit field before 5.6 */
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len, data_len;
	__u8 cloned : 1, fclone : 2;
	__u32 mark;
	__u16 protocol; /* big-endian */
	__u16 vlan_tci;
	__u16 network_header, mac_header;
	unsigned int tail; /* from head */
	unsigned char *head, *data;
};

struct xdp_rxq_info {
	struct net_device *dev;
};

struct xdp_buff {
	void *data, *data_end, *data_hard_start;
	struct xdp_rxq_info *rxq;
	__u32 frame_sz; /* from data_hard_start on */
	__u32 flags;    /* from 5.18 on */
};

struct skb_shared_info {
	unsigned int xdp_frags_size; /* from 5.18 on */
};

#pragma clang attribute pop

#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021AD 0x88a8
#define ETH_P_TEB 0x6558
#define ETH_LEN 14

#define PROTO_HOPOPTS 0
#define PROTO_ICMP 1
#define PROTO_IPIP 4
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_IPV6 41
#define PROTO_ROUTING 43
#define PROTO_FRAGMENT 44
#define PROTO_GRE 47
#define PROTO_ICMPV6 58
#define PROTO_DSTOPTS 60
#define PROTO_SCTP 132

#define PORT_VXLAN 4789
#define PORT_VXLAN_LINUX 8472
#define PORT_GENEVE 6081

#define NO_HEADER 0xffff /* a position that is not set */
#define LINK_MAX 32      /* maximum distance between the link layer's header and the network's */
#define FIRST_NS 0xeffffff0 /* inode numbers of namespaces, even of the initial ones, are higher (PROC_DYNAMIC_FIRST) */

#define AF_INET 2
#define AF_INET6 10
#define TCP_TIME_WAIT 6     /* states of small sockets, */
#define TCP_NEW_SYN_RECV 12 /* which lack most fields */

static inline_always __u16 swap16(__u16 v) { return __builtin_bswap16(v); }
static inline_always __u32 swap32(__u32 v) { return __builtin_bswap32(v); }

/* The readable headers: positions from the start of the buffer. */
struct linear {
	void *head;
	__u32 at, end;
	__u16 type; /* of the packet's protocol; 0: no headers */
};

#define SKB_MAX 512 /* an sk_buff takes some 240 bytes */

/* A copy of an sk_buff: reading each field separately would take longer. */
struct skb_copy {
	__u8 bytes[SKB_MAX];
};

#define copied_field(copy, field)                                                                  \
	(*(typeof(((struct sk_buff *)0)->field) *)((copy)->bytes +                                 \
						   field_offset(((struct sk_buff *)0)->field)))

static inline_always void copy_skb(struct skb_copy *to, __u64 skb)
{
	__u64 size = type_size(struct sk_buff);

	bpf_probe_read_kernel(to->bytes, size > SKB_MAX ? SKB_MAX : size, (void *)skb);
}

/* take reads n bytes at the current position: 0 if the linear part contains fewer. */
static inline_always int take(struct linear *s, void *to, __u32 n)
{
	return s->at + n <= s->end && !bpf_probe_read_kernel(to, n, s->head + s->at);
}

static inline_always void read_tcp(struct linear *s, struct headers *h)
{
	struct {
		__u16 sport, dport;
		__u32 seq, ack;
		__u8 off, flags;
	} __attribute__((packed)) tcp;

	if (!take(s, &tcp, sizeof(tcp)))
		return;
	h->sport = swap16(tcp.sport);
	h->dport = swap16(tcp.dport);
	h->seq = swap32(tcp.seq);
	h->ack = swap32(tcp.ack);
	h->tcp_flags = tcp.flags;
}

/* read_transport reads the header of h->proto. */
static inline_always void read_transport(struct linear *s, struct headers *h)
{
	__u16 ports[2];
	__u8 icmp[2];

	switch (h->proto) {
	case PROTO_TCP:
		read_tcp(s, h);
		break;
	case PROTO_UDP:
	case PROTO_SCTP:
		if (!take(s, ports, sizeof(ports)))
			break;
		h->sport = swap16(ports[0]);
		h->dport = swap16(ports[1]);
		break;
	case PROTO_ICMP:
	case PROTO_ICMPV6:
		if (!take(s, icmp, sizeof(icmp)))
			break;
		h->type = icmp[0];
		h->code = icmp[1];
	}
}

struct ipv4 {
	__u8 version, tos;
	__u16 len, id, frag;
	__u8 ttl, proto;
	__u16 sum;
	__u32 saddr, daddr;
};

static inline_always int read_ipv4(struct linear *s, struct headers *h)
{
	struct ipv4 ip;

	if (!take(s, &ip, sizeof(ip)) || ip.version >> 4 != 4)
		return 0;
	*(__u32 *)h->saddr = ip.saddr;
	*(__u32 *)h->daddr = ip.daddr;
	h->proto = ip.proto;
	h->fragment = (swap16(ip.frag) & 0x1fff) != 0;
	s->at += (ip.version & 15) * 4;
	return 1;
}

struct ipv6 {
	__u8 version, rest[3];
	__u16 len;
	__u8 next, hops;
	__u8 saddr[16], daddr[16];
};

#define MAX_EXTENSIONS 4

static inline_always int read_ipv6(struct linear *s, struct headers *h)
{
	struct ipv6 ip;

	if (!take(s, &ip, sizeof(ip)) || ip.version >> 4 != 6)
		return 0;
	__builtin_memcpy(h->saddr, ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(h->daddr, ip.daddr, sizeof(ip.daddr));
	h->proto = ip.next;
	s->at += sizeof(ip);
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u8 ext[4];

		if (h->proto != PROTO_HOPOPTS && h->proto != PROTO_ROUTING && h->proto != PROTO_DSTOPTS &&
		    h->proto != PROTO_FRAGMENT)
			break;
		if (!take(s, ext, sizeof(ext)))
			break;
		if (h->proto == PROTO_FRAGMENT) {
			h->fragment = ((ext[2] << 8 | ext[3]) & 0xfff8) != 0;
			s->at += 8;
		} else {
			s->at += 8 + ext[1] * 8;
		}
		h->proto = ext[0];
		if (h->fragment)
			break;
	}
	return 1;
}

struct arp {
	__u16 hardware, proto;
	__u8 hardware_len, proto_len;
	__u16 op;
	__u8 sender[6], saddr[4], target[6], daddr[4];
};

static inline_always int read_arp(struct linear *s, struct headers *h)
{
	struct arp arp;

	if (!take(s, &arp, sizeof(arp)))
		return 0;
	h->type = swap16(arp.op);
	__builtin_memcpy(h->saddr, arp.saddr, sizeof(arp.saddr));
	__builtin_memcpy(h->daddr, arp.daddr, sizeof(arp.daddr));
	return 1;
}

/* read_headers reads the headers of a network packet of h->ethertype, which becomes 0 if it is none. */
static inline_always void read_headers(struct linear *s, struct headers *h)
{
	int ok = 0;

	if (h->ethertype == ETH_P_IP)
		ok = read_ipv4(s, h);
	else if (h->ethertype == ETH_P_IPV6)
		ok = read_ipv6(s, h);
	else if (h->ethertype == ETH_P_ARP)
		ok = read_arp(s, h);
	else
		return;
	if (!ok)
		h->ethertype = 0;
	else if (h->ethertype != ETH_P_ARP && !h->fragment)
		read_transport(s, h);
}

/* skip_vlans moves to the network header after VLAN tags, and returns the header's type. */
static inline_always __u16 skip_vlans(struct linear *s, __u16 type, __u16 *vlan)
{
	for (int i = 0; i < 2; i++) {
		__u16 tag[2];

		if ((type != ETH_P_8021Q && type != ETH_P_8021AD) || !take(s, tag, sizeof(tag)))
			break;
		if (!*vlan)
			*vlan = swap16(tag[0]) & 0xfff;
		type = swap16(tag[1]);
		s->at += sizeof(tag);
	}
	return type;
}

/* enter_ethernet moves to the header after an Ethernet header, and returns the type of that header. */
static inline_always __u16 enter_ethernet(struct linear *s, __u32 mac)
{
	__u16 type;

	s->at = mac + ETH_LEN - 2;
	type = take(s, &type, sizeof(type)) ? swap16(type) : 0;
	s->at += 2;
	return type;
}

/*
 * enter_udp_tunnel moves to the packet in a VXLAN or GENEVE packet; s is at the UDP header. It returns the
 * packet's type.
 */
static inline_always __u16 enter_udp_tunnel(struct linear *s, struct headers *in)
{
	__u32 tunnel[2];
	__u16 type = ETH_P_TEB;

	s->at += 8;
	if (!take(s, tunnel, sizeof(tunnel)))
		return 0;
	s->at += sizeof(tunnel);
	in->tunnel_id = swap32(tunnel[1]) >> 8;
	if (in->tunnel == TUNNEL_GENEVE) {
		type = swap32(tunnel[0]) & 0xffff;
		s->at += (swap32(tunnel[0]) >> 24 & 0x3f) * 4; /* the options */
	}
	return type;
}

/* enter_gre moves to the packet in a GRE packet, and returns the type of the inner packet. */
static inline_always __u16 enter_gre(struct linear *s, struct headers *in)
{
	__u16 gre[2], flags;
	__u32 key;

	if (!take(s, gre, sizeof(gre)))
		return 0;
	flags = swap16(gre[0]);
	s->at += sizeof(gre);
	if (flags & 0x8000) /* a checksum */
		s->at += 4;
	if (flags & 0x2000) {
		if (take(s, &key, sizeof(key)))
			in->tunnel_id = swap32(key);
		s->at += 4;
	}
	if (flags & 0x1000) /* a sequence number */
		s->at += 4;
	return swap16(gre[1]);
}

/* enter_tunnel moves to the packet in a tunnel's packet, whose transport header s is at: 0 if it is none. */
static inline_always __u16 enter_tunnel(struct linear *s, struct headers *out, struct headers *in)
{
	__u16 type = 0;

	switch (out->proto) {
	case PROTO_UDP:
		in->tunnel = out->dport == PORT_GENEVE ? TUNNEL_GENEVE : TUNNEL_VXLAN;
		if (out->dport == PORT_VXLAN || out->dport == PORT_VXLAN_LINUX || out->dport == PORT_GENEVE)
			type = enter_udp_tunnel(s, in);
		break;
	case PROTO_IPIP:
		in->tunnel = TUNNEL_IPIP;
		type = ETH_P_IP;
		break;
	case PROTO_IPV6:
		in->tunnel = TUNNEL_IPIP;
		type = ETH_P_IPV6;
		break;
	case PROTO_GRE:
		in->tunnel = TUNNEL_GRE;
		type = enter_gre(s, in);
	}
	if (type == ETH_P_TEB)
		type = enter_ethernet(s, s->at);
	if (!type)
		in->tunnel = TUNNEL_NONE;
	return type;
}

static inline_always void read_all_headers(struct linear *s, struct packet *p, __u16 type)
{
	__u16 vlan = p->vlan;

	p->outer.ethertype = skip_vlans(s, type, &vlan);
	p->vlan = vlan;
	read_headers(s, &p->outer);
	if (!p->outer.ethertype || p->outer.ethertype == ETH_P_ARP || p->outer.fragment)
		return;
	p->inner.ethertype = enter_tunnel(s, &p->outer, &p->inner);
	if (!p->inner.ethertype)
		return;
	vlan = 0;
	p->inner.ethertype = skip_vlans(s, p->inner.ethertype, &vlan);
	read_headers(s, &p->inner);
}

/* is_full reports whether a socket contains all fields of struct sock. */
static inline_always int is_full(struct sock *sk)
{
	__u8 state = read_field(sk, __sk_common.skc_state);

	return state && state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

/* read_sock_flow reads the addresses of a packet without headers, which the socket sends. */
static inline_always void read_sock_flow(struct sock *sk, struct headers *h)
{
	__u16 family = read_field(sk, __sk_common.skc_family);

	if (family == AF_INET) {
		h->ethertype = ETH_P_IP;
		*(__u32 *)h->saddr = read_field(sk, __sk_common.skc_rcv_saddr);
		*(__u32 *)h->daddr = read_field(sk, __sk_common.skc_daddr);
	} else if (family == AF_INET6) {
		h->ethertype = ETH_P_IPV6;
		bpf_probe_read_kernel(h->saddr, sizeof(h->saddr), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(h->daddr, sizeof(h->daddr), &sk->__sk_common.skc_v6_daddr);
	} else {
		return;
	}
	h->sport = read_field(sk, __sk_common.skc_num);
	h->dport = swap16(read_field(sk, __sk_common.skc_dport));
	h->proto = read_field(sk, sk_protocol);
}

static inline_always __u64 cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup;

	if (field_exists(((struct sock_cgroup_data *)0)->cgroup))
		cgroup = read_field(sk, sk_cgrp_data.cgroup);
	else
		cgroup = (void *)(read_field((struct sock_cgroup_data___val *)&sk->sk_cgrp_data, val) & ~3ULL);
	return read_field(read_field(cgroup, kn), id);
}

static inline_always __u32 netns_of(struct net *net)
{
	__u32 inum = read_field(net, ns.inum);

	return inum >= FIRST_NS ? inum : 0;
}

static inline_always void read_sock(struct sock *sk, struct packet *p)
{
	if (!p->netns)
		p->netns = netns_of(read_field(sk, __sk_common.skc_net.net));
	if (!is_full(sk))
		return;
	p->sock = read_field(read_field(read_field(read_field(sk, sk_socket), file), f_inode), i_ino);
	p->cgroup = cgroup_of(sk);
}

/*
 * read_device reads the device. While a packet is in a socket's queue, this field of the
 * sk_buff is used for other purposes: then it leads to no namespace.
 */
static inline_always void read_device(struct net_device *dev, struct packet *p)
{
	if (!dev)
		return;
	p->netns = netns_of(read_field(dev, nd_net.net));
	if (!p->netns)
		return;
	p->ifindex = read_field(dev, ifindex);
	bpf_probe_read_kernel(p->dev, sizeof(p->dev), &dev->name);
}

/* begins_with_ip reports whether a header of the IP version of this type is at this position. */
static inline_always int begins_with_ip(struct linear *s, __u32 at, __u16 type)
{
	__u8 first = 0;

	s->at = at;
	if (!take(s, &first, sizeof(first)))
		return 0;
	return (type == ETH_P_IP && first >> 4 == 4) || (type == ETH_P_IPV6 && first >> 4 == 6);
}

/*
 * The position of the network header from head. The sk_buff's own position is not set yet where a driver passes a
 * packet on whose data begin with the network header: then the field is the position of the link layer's header,
 * or an older one. Until the sender makes the header, the position is NO_HEADER.
 */
static inline_always __u32 network_at(struct skb_copy *skb, struct linear *s, __u32 mac, __u32 data, __u16 type)
{
	__u32 at = copied_field(skb, network_header);

	if (!type)
		return NO_HEADER;
	if (!at || (mac != NO_HEADER && (at < mac || (at == mac && !begins_with_ip(s, at, type)))))
		return data;
	return at;
}

/* locate_packet finds the headers of the packet of skb, for filters; p is zero. describe_packet adds the rest. */
static inline_always void locate_packet(struct skb_copy *skb, struct packet *p, struct linear *first)
{
	__u16 type = swap16(copied_field(skb, protocol));
	__u32 mac = copied_field(skb, mac_header), data, at;
	struct sock *sk = copied_field(skb, sk);
	struct linear s;

	s.head = copied_field(skb, head);
	data = (void *)copied_field(skb, data) - s.head;
	s.end = copied_field(skb, tail);
	at = network_at(skb, &s, mac, data, type);
	p->len = copied_field(skb, len);
	p->network = mac == NO_HEADER || at < mac + ETH_LEN || at > mac + LINK_MAX;
	first->head = s.head;
	first->end = s.end;
	first->at = at == NO_HEADER ? s.end : p->network ? at : mac;
	first->type = at == NO_HEADER ? 0 : type;
	p->wire_len = p->len + (at == NO_HEADER ? 0 : data - first->at);
	if (at == NO_HEADER && sk && is_full(sk)) {
		p->from_sock = p->network = 1;
		read_sock_flow(sk, &p->outer);
	}
}

static inline_always void describe_packet(struct skb_copy *skb, struct packet *p, struct linear *first)
{
	struct sock *sk = copied_field(skb, sk);
	struct linear s = *first;
	__u16 type = s.type;

	p->mark = copied_field(skb, mark);
	p->vlan = copied_field(skb, vlan_tci) & 0xfff;
	read_device(copied_field(skb, dev), p);
	if (sk)
		read_sock(sk, p);
	if (!type)
		return;
	if (!p->network) /* network_header may be after VLAN tags already, when protocol is not */
		type = enter_ethernet(&s, s.at);
	read_all_headers(&s, p, type);
}

/* read_sock_packet reads the data that a socket contains about its packets. */
static inline_always void read_sock_packet(struct sock *sk, struct packet *p)
{
	if (!sk)
		return;
	read_sock(sk, p);
	if (is_full(sk)) {
		p->from_sock = p->network = 1;
		read_sock_flow(sk, &p->outer);
	}
}

#define XDP_FLAGS_HAS_FRAGS 1 /* an xdp_buff with data in pages */
#define CACHE_LINE 64ULL      /* SMP_CACHE_BYTES of x86-64 and arm64 */

/*
 * xdp_frags returns the bytes of a packet outside of its linear part. The number of these bytes is at the end of
 * the frame.
 */
static inline_always __u32 xdp_frags(struct xdp_buff *xdp)
{
	void *end;
	__u32 size;

	if (!field_exists(((struct skb_shared_info *)0)->xdp_frags_size))
		return 0;
	if (!(read_field(xdp, flags) & XDP_FLAGS_HAS_FRAGS))
		return 0;
	size = (type_size(struct skb_shared_info) + CACHE_LINE - 1) & ~(CACHE_LINE - 1);
	end = read_field(xdp, data_hard_start) + read_field(xdp, frame_sz);
	return read_field((struct skb_shared_info *)(end - size), xdp_frags_size);
}

/* read_xdp reads the packet of xdp into p, which is zero; first is where the headers begin. */
static inline_always void read_xdp(struct xdp_buff *xdp, struct packet *p, struct linear *first)
{
	struct net_device *dev = read_field(read_field(xdp, rxq), dev);
	__u16 type = 0;
	__u8 version = 0;
	struct linear s;

	s.head = read_field(xdp, data);
	s.at = s.type = 0;
	s.end = read_field(xdp, data_end) - s.head;
	*first = s;
	p->len = p->wire_len = s.end + xdp_frags(xdp);
	read_device(dev, p);
	p->network = !read_field(dev, hard_header_len);
	if (p->network) {
		take(&s, &version, sizeof(version));
		type = version >> 4 == 4 ? ETH_P_IP : version >> 4 == 6 ? ETH_P_IPV6 : 0;
	} else {
		s.at = ETH_LEN - sizeof(type);
		take(&s, &type, sizeof(type));
		type = swap16(type);
		s.at = ETH_LEN;
	}
	read_all_headers(&s, p, type);
}

#define MADE_IPV4 40 /* bytes of headers made of a socket's addresses: TCP's header is 20 bytes long */
#define MADE_IPV6 60

/*
 * make_headers makes the network and transport headers of a packet that has none yet, for filters, and returns the
 * headers' number of bytes.
 */
static inline_always __u64 make_headers(struct packet *p, __u8 *to)
{
	struct headers *h = &p->outer;
	__u8 *ports = to + 20;
	__u64 n = MADE_IPV4;

	__builtin_memset(to, 0, MADE_IPV6);
	if (h->ethertype == ETH_P_IP) {
		to[0] = 0x45;
		to[9] = h->proto;
		__builtin_memcpy(to + 12, h->saddr, 4);
		__builtin_memcpy(to + 16, h->daddr, 4);
	} else if (h->ethertype == ETH_P_IPV6) {
		to[0] = 0x60;
		to[6] = h->proto;
		__builtin_memcpy(to + 8, h->saddr, 16);
		__builtin_memcpy(to + 24, h->daddr, 16);
		ports = to + 40;
		n = MADE_IPV6;
	} else {
		return 0;
	}
	ports[0] = h->sport >> 8;
	ports[1] = h->sport;
	ports[2] = h->dport >> 8;
	ports[3] = h->dport;
	return n;
}

#endif

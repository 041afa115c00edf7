package pcapfilter

import (
	"encoding/binary"

	"golang.org/x/net/bpf"
)

// headers is the positions of the headers that a primitive reads, in bytes. The words "vlan",
// "mpls" and "pppoes" move them for the rest of the expression.
type headers struct {
	cursor  *cursor // records errors
	link    linkHeader
	typ     uint32 // position of the link header's type field
	payload uint32 // position of the network header
	labels  int    // number of MPLS labels before the payload
}

type linkHeader uint8

const (
	linkEthernet linkHeader = iota
	linkNone
	linkPPP
)

func newHeaders(c *cursor, link LinkType) headers {
	if link == Raw {
		return headers{cursor: c, link: linkNone}
	}
	return headers{cursor: c, link: linkEthernet, typ: 12, payload: 14}
}

// etherType selects packets whose payload is of a protocol. Types up to 1500 are LLC SAPs.
func (h *headers) etherType(typ uint32, t token) *cond {
	switch {
	case h.labels > 0:
		return h.labeled(typ, t)
	case h.link == linkNone:
		switch typ {
		case etherIPv4:
			return equal(0, 1, 0x40, 0xf0)
		case etherIPv6:
			return equal(0, 1, 0x60, 0xf0)
		}
		return always(false)
	case h.link == linkPPP:
		return equal(h.typ, 2, pppType(typ), 0xffff)
	case typ > maxLength:
		return equal(h.typ, 2, typ, 0xffff)
	}
	isLength := not(test(field(h.typ, 2), bpf.JumpGreaterThan, maxLength))
	switch typ {
	case sapIP, sapNetBEUI, sapISO: // the source and destination SAP
		return and(isLength, equal(h.payload, 2, typ<<8|typ, 0xffff))
	}
	return and(isLength, equal(h.payload, 1, typ, 0xff))
}

// labeled selects packets by the IP version after the last MPLS label: a label contains no type.
func (h *headers) labeled(typ uint32, t token) *cond {
	version := map[uint32]uint32{etherIPv4: 0x40, etherIPv6: 0x60}[typ]
	if version == 0 {
		return h.cursor.fail(t, "only IPv4 and IPv6 are recognized after an MPLS label")
	}
	return and(equal(h.payload-2, 1, 1, 1), equal(h.payload, 1, version, 0xf0))
}

// pppType returns PPP's number of an EtherType.
func pppType(typ uint32) uint32 {
	switch typ {
	case etherIPv4:
		return 0x0021
	case etherIPv6:
		return 0x0057
	case etherMPLS:
		return 0x0281
	case sapISO:
		return 0x0023
	case sapSTP:
		return 0x0031
	case 0x6003: // DECnet
		return 0x0027
	}
	return typ
}

// needEthernet records an error unless the link header is Ethernet's.
func (h *headers) needEthernet(t token) bool {
	switch h.link {
	case linkNone:
		h.cursor.fail(t, "%q needs a link-level header, which these packets do not have", t.text)
	case linkPPP:
		h.cursor.fail(t, `%q needs an Ethernet header, not PPP's after "pppoes"`, t.text)
	}
	return h.link == linkEthernet
}

func (h *headers) vlan(t token) *cond {
	if !h.needEthernet(t) {
		return always(false)
	}
	if h.labels > 0 {
		return h.cursor.fail(t, `no VLAN tag can follow "mpls"`)
	}
	c := or(or(h.etherType(etherVLAN, t), h.etherType(etherQinQ, t)), h.etherType(etherOldQinQ, t))
	if id, ok := h.cursor.optionalNumber(0xfff, "VLAN"); ok {
		c = and(c, equal(h.payload, 2, id, 0xfff))
	}
	h.typ += 4
	h.payload += 4
	return c
}

func (h *headers) mpls(t token) *cond {
	if h.link == linkNone {
		h.needEthernet(t)
		return always(false)
	}
	var c *cond
	if h.labels > 0 {
		c = equal(h.payload-2, 1, 0, 1) // it is not the last label
	} else {
		c = h.etherType(etherMPLS, t)
	}
	if label, ok := h.cursor.optionalNumber(0xfffff, "MPLS label"); ok {
		c = and(c, equal(h.payload, 4, label<<12, 0xfffff000))
	}
	h.payload += 4
	h.labels++
	return c
}

func (h *headers) pppoed(t token) *cond {
	if !h.needEthernet(t) {
		return always(false)
	}
	return h.etherType(etherPPPoED, t)
}

func (h *headers) pppoes(t token) *cond {
	if !h.needEthernet(t) {
		return always(false)
	}
	c := h.etherType(etherPPPoES, t)
	if session, ok := h.cursor.optionalNumber(0xffff, "PPPoE session"); ok {
		c = and(c, equal(h.payload, 4, session, 0xffff))
	}
	h.link, h.typ, h.payload = linkPPP, h.payload+6, h.payload+8
	return c
}

// byDirection joins the conditions of the source and the destination.
func byDirection(dir direction, src, dst *cond) *cond {
	switch dir {
	case source:
		return src
	case destination:
		return dst
	case both:
		return and(src, dst)
	}
	return or(src, dst)
}

func (h *headers) ipv4Net(q qualifiers, addr, mask uint32, t token) *cond {
	of := func(typ, src, dst uint32) *cond {
		at := func(off uint32) *cond {
			return and(h.etherType(typ, t), equal(h.payload+off, 4, addr, mask))
		}
		return byDirection(q.dir, at(src), at(dst))
	}
	switch q.proto {
	case "ip":
		return of(etherIPv4, 12, 16)
	case "arp":
		return of(etherARP, 14, 24)
	case "rarp":
		return of(etherRARP, 14, 24)
	case "":
		c := of(etherIPv4, 12, 16)
		if h.labels == 0 {
			c = or(or(c, of(etherARP, 14, 24)), of(etherRARP, 14, 24))
		}
		return c
	}
	return h.cursor.fail(t, "an IPv4 address cannot follow %q", q.proto)
}

func (h *headers) ipv6Net(dir direction, addr []byte, bits uint32, t token) *cond {
	at := func(off uint32) *cond {
		c := h.etherType(etherIPv6, t)
		for i := uint32(0); i < 4 && 32*i < bits; i++ {
			mask := uint32(uint64(0xffffffff) << (32 - min(32, bits-32*i)))
			c = and(c, equal(h.payload+off+4*i, 4, binary.BigEndian.Uint32(addr[4*i:]), mask))
		}
		return c
	}
	return byDirection(dir, at(8), at(24))
}

func (h *headers) etherHost(dir direction, addr []byte, t token) *cond {
	if !h.needEthernet(t) {
		return always(false)
	}
	at := func(off uint32) *cond {
		return and(equal(off+2, 4, binary.BigEndian.Uint32(addr[2:]), 0xffffffff),
			equal(off, 2, uint32(binary.BigEndian.Uint16(addr)), 0xffff))
	}
	return byDirection(dir, at(6), at(0))
}

// cast compiles "broadcast" or "multicast" after a protocol or none.
func (h *headers) cast(word, proto string, t token) *cond {
	payload := h.payload
	switch {
	case proto == "" || proto == "ether":
		if !h.needEthernet(t) {
			return always(false)
		}
		if word == "broadcast" {
			return h.etherHost(destination, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, t)
		}
		return test(field(0, 1), bpf.JumpBitsSet, 1)
	case word == "multicast" && proto == "ip":
		return and(h.etherType(etherIPv4, t), test(field(payload+16, 1), bpf.JumpGreaterOrEqual, 224))
	case word == "multicast" && proto == "ip6":
		return and(h.etherType(etherIPv6, t), equal(payload+24, 1, 0xff, 0xff))
	case proto == "ip":
		return h.cursor.fail(t, `"ip broadcast" needs the network's mask, which packets do not have`)
	}
	return h.cursor.fail(t, "%q cannot follow %q", word, proto)
}

// protocol selects the packets of a keyword of protocols.
func (h *headers) protocol(name string, t token) *cond {
	proto := protocols[name]
	if proto.etherType != 0 {
		return h.etherType(proto.etherType, t)
	}
	switch {
	case !proto.ipv6:
		return h.ipv4Proto(proto.number, t)
	case !proto.ipv4:
		return h.ipv6Proto(proto.number, t)
	}
	return or(h.ipv4Proto(proto.number, t), h.ipv6Proto(proto.number, t))
}

func (h *headers) ipv4Proto(number uint32, t token) *cond {
	return and(h.etherType(etherIPv4, t), equal(h.payload+9, 1, number, 0xff))
}

// ipv6Proto selects IPv6 packets with a protocol in the first header, or after a fragment
// header.
func (h *headers) ipv6Proto(number uint32, t token) *cond {
	next := h.payload + 6
	return and(h.etherType(etherIPv6, t), or(equal(next, 1, number, 0xff),
		and(equal(next, 1, protoFragment, 0xff), equal(h.payload+40, 1, number, 0xff))))
}

// protoNumber compiles a number after "proto".
func (h *headers) protoNumber(q qualifiers, n uint32, t token) *cond {
	if q.proto == "ether" {
		switch {
		case n == etherAppleTalk || n == etherAARP || n == sapIPX:
			return h.cursor.fail(t, "AppleTalk and IPX are not supported")
		case n > 0xffff:
			return h.cursor.fail(t, "EtherType %#x is larger than 0xffff", n)
		}
		return h.etherType(n, t)
	}
	if n > 255 {
		return h.cursor.fail(t, "protocol %d is larger than 255", n)
	}
	switch q.proto {
	case "":
		return or(h.ipv4Proto(n, t), h.ipv6Proto(n, t))
	case "ip":
		return h.ipv4Proto(n, t)
	case "ip6":
		return h.ipv6Proto(n, t)
	}
	return h.cursor.fail(t, "%q carries no other protocol with a number", q.proto)
}

// portRange is ports and the number of the only protocol that uses them, or 0.
type portRange struct{ first, last, proto uint32 }

// ports compiles ports: IPv6's before IPv4's, SCTP's first, as libpcap does.
func (h *headers) ports(q qualifiers, r portRange, t token) *cond {
	if r.last > 0xffff {
		return h.cursor.fail(t, "port %d is larger than 65535", r.last)
	}
	protos := []uint32{protoSCTP, protoTCP, protoUDP}
	if q.proto != "" {
		n := protocols[q.proto].number
		if n != protoSCTP && n != protoTCP && n != protoUDP {
			return h.cursor.fail(t, `%q has no ports: write "tcp port", "udp port" or "sctp port"`, q.proto)
		}
		if r.proto != 0 && r.proto != n {
			return h.cursor.fail(t, "%s is not a port of %s", t.text, q.proto)
		}
		r.proto = n
	}
	if r.proto != 0 {
		protos = []uint32{r.proto}
	}
	payload := h.payload
	v4, v6 := always(false), always(false)
	for _, proto := range protos {
		v6 = or(v6, and(equal(payload+6, 1, proto, 0xff), byDirection(q.dir,
			inRange(func() []bpf.Instruction { return field(payload+40, 2) }, r),
			inRange(func() []bpf.Instruction { return field(payload+42, 2) }, r))))
		v4 = or(v4, and(and(equal(payload+9, 1, proto, 0xff), h.firstFragment()), byDirection(q.dir,
			inRange(func() []bpf.Instruction { return h.transport(0, 2) }, r),
			inRange(func() []bpf.Instruction { return h.transport(2, 2) }, r))))
	}
	return or(and(h.etherType(etherIPv6, t), v6), and(h.etherType(etherIPv4, t), v4))
}

// inRange tests the number that code loads.
func inRange(load func() []bpf.Instruction, r portRange) *cond {
	if r.first == r.last {
		return test(load(), bpf.JumpEqual, r.first)
	}
	return and(test(load(), bpf.JumpGreaterOrEqual, r.first), not(test(load(), bpf.JumpGreaterThan, r.last)))
}

// firstFragment selects IPv4 packets that contain a transport header.
func (h *headers) firstFragment() *cond {
	return not(test(field(h.payload+6, 2), bpf.JumpBitsSet, 0x1fff))
}

// transport loads bytes of the header after IPv4's.
func (h *headers) transport(off uint32, size int) []bpf.Instruction {
	return []bpf.Instruction{bpf.LoadMemShift{Off: h.payload},
		bpf.LoadIndirect{Off: h.payload + off, Size: size}}
}

func atMost(n uint32) *cond {
	return not(test([]bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtLen}}, bpf.JumpGreaterThan, n))
}

func atLeast(n uint32) *cond {
	return test([]bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtLen}}, bpf.JumpGreaterOrEqual, n)
}

package packet

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// headers are the headers of one packet: struct headers.
type headers []byte

// Ethertypes, from include/uapi/linux/if_ether.h.
const (
	ethIPv4 = 0x0800
	ethARP  = 0x0806
	ethIPv6 = 0x86dd
)

// IP protocols, from include/uapi/linux/in.h.
const (
	icmp   = 1
	tcp    = 6
	udp    = 17
	icmpv6 = 58
	sctp   = 132
)

var protocols = map[byte]string{icmp: "icmp", 2: "igmp", 4: "ipip", tcp: "tcp", udp: "udp", 41: "ipv6", 47: "gre",
	50: "esp", 51: "ah", icmpv6: "icmp6", 89: "ospf", 103: "pim", 112: "vrrp", sctp: "sctp"}

//bpf:enum tunnel TUNNEL_ tunnel
const (
	tunnelNone = iota
	tunnelVXLAN
	tunnelGeneve
	tunnelIPIP
	tunnelGRE
)

var tunnels = []string{tunnelVXLAN: "vxlan", tunnelGeneve: "geneve", tunnelIPIP: "ipip", tunnelGRE: "gre"}

func (h headers) u16(at int) uint16 { return binary.NativeEndian.Uint16(h[at:]) }
func (h headers) u32(at int) uint32 { return binary.NativeEndian.Uint32(h[at:]) }

// AppendFlow appends the text of the packet in raw, which must be Size bytes: protocol, addresses, and ports, and
// then the packet in the tunnel: "tcp 10.0.0.7:443 > 10.0.0.9:51044". The flow of all packets of a connection in
// one direction is the same.
func AppendFlow(b, raw []byte) []byte {
	outer, inner := headers(raw[atOuter:atInner]), headers(raw[atInner:Size])
	b = outer.append(b, raw[atFromSock] != 0)
	if t := inner[atTunnel]; t != tunnelNone && int(t) < len(tunnels) {
		b = append(append(b, ' '), tunnels[t]...)
		if id := inner.u32(atTunnelID); id > 0 {
			b = strconv.AppendUint(append(b, ' '), uint64(id), 10)
		}
		b = append(inner.append(append(b, " { "...), false), " }"...)
	}
	return b
}

// AppendSource and AppendDestination append the packet's addresses, nothing if there are none.
func AppendSource(b, raw []byte) []byte { return headers(raw[atOuter:atInner]).appendAddr(b, atSaddr) }
func AppendDestination(b, raw []byte) []byte {
	return headers(raw[atOuter:atInner]).appendAddr(b, atDaddr)
}

// Netns returns the inode number of the packet's network namespace, 0 if it is unknown.
func Netns(raw []byte) uint32 { return binary.NativeEndian.Uint32(raw[atNetns:]) }

// Socket returns the inode number of the packet's socket, 0 if there is none.
func Socket(raw []byte) uint64 { return binary.NativeEndian.Uint64(raw[atSock:]) }

// append appends the text of the headers. made means that they are made of a socket's addresses, without the rest.
func (h headers) append(b []byte, made bool) []byte {
	switch t := h.u16(atEthertype); t {
	case 0:
		return append(b, "unknown"...)
	case ethARP:
		return h.appendARP(b)
	case ethIPv4, ethIPv6:
	default:
		return strconv.AppendUint(append(b, "ethertype 0x"...), uint64(t), 16)
	}
	proto := h[atProto]
	if name, ok := protocols[proto]; ok {
		b = append(b, name...)
	} else {
		b = strconv.AppendUint(append(b, "proto "...), uint64(proto), 10)
	}
	ports := (proto == tcp || proto == udp || proto == sctp) && h[atFragment] == 0
	b = h.appendEnd(append(b, ' '), atSaddr, atSport, ports)
	b = h.appendEnd(append(b, " > "...), atDaddr, atDport, ports)
	switch {
	case h[atFragment] != 0:
		b = append(b, " fragment"...)
	case made:
	case proto == icmp:
		b = appendICMP(b, icmpTypes, h[atType], h[atCode])
	case proto == icmpv6:
		b = appendICMP(b, icmpv6Types, h[atType], h[atCode])
	}
	return b
}

func (h headers) addr(at int) netip.Addr {
	if h.u16(atEthertype) == ethIPv6 {
		return netip.AddrFrom16([16]byte(h[at : at+16]))
	}
	return netip.AddrFrom4([4]byte(h[at : at+4]))
}

func (h headers) appendAddr(b []byte, at int) []byte {
	switch h.u16(atEthertype) {
	case ethIPv4, ethIPv6, ethARP:
		return h.addr(at).AppendTo(b)
	}
	return b
}

// appendEnd appends one end of a flow.
func (h headers) appendEnd(b []byte, addr, port int, ports bool) []byte {
	if !ports {
		return h.addr(addr).AppendTo(b)
	}
	return netip.AddrPortFrom(h.addr(addr), h.u16(port)).AppendTo(b)
}

func (h headers) appendARP(b []byte) []byte {
	switch h[atType] {
	case 1:
		b = h.addr(atDaddr).AppendTo(append(b, "arp who-has "...))
		return h.addr(atSaddr).AppendTo(append(b, " from "...))
	case 2:
		return append(h.addr(atSaddr).AppendTo(append(b, "arp "...)), " is-at"...)
	}
	return strconv.AppendUint(append(b, "arp operation "...), uint64(h[atType]), 10)
}

// Types of ICMP messages, from RFC 792 and RFC 4443.
var (
	icmpTypes = map[byte]string{0: "echo reply", 3: "unreachable", 4: "source quench", 5: "redirect", 8: "echo request",
		9: "router advertisement", 10: "router solicitation", 11: "time exceeded", 12: "parameter problem",
		13: "timestamp", 14: "timestamp reply"}
	icmpv6Types = map[byte]string{1: "unreachable", 2: "packet too big", 3: "time exceeded", 4: "parameter problem",
		128: "echo request", 129: "echo reply", 130: "listener query", 131: "listener report", 132: "listener done",
		133: "router solicitation", 134: "router advertisement", 135: "neighbor solicitation",
		136: "neighbor advertisement", 137: "redirect", 143: "listener report v2"}
)

func appendICMP(b []byte, names map[byte]string, typ, code byte) []byte {
	if name, ok := names[typ]; ok {
		b = append(append(b, ' '), name...)
	} else {
		b = strconv.AppendUint(append(b, " type "...), uint64(typ), 10)
	}
	if code != 0 {
		b = strconv.AppendUint(append(b, " code "...), uint64(code), 10)
	}
	return b
}

// Ends returns the protocol and the ends of a flow that AppendFlow made, "udp", "10.0.0.7:53" and "10.0.0.9:51044" of
// the outermost packet; nothing if the flow has no ends.
func Ends(flow string) (proto, source, destination string) {
	words := strings.Fields(flow)
	i := slices.Index(words, ">")
	if i < 2 || i+1 == len(words) {
		return "", "", ""
	}
	return strings.Join(words[:i-1], " "), words[i-1], words[i+1]
}

// Addr returns the address of an end of a flow, without its port.
func Addr(end string) string {
	if a, err := netip.ParseAddrPort(end); err == nil {
		return a.Addr().String()
	}
	return end
}

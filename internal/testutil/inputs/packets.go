// This file makes network packets for tests of filters: packets of common protocols, with few different addresses
// and ports, and damaged ones.

package inputs

import (
	"encoding/binary"
	"math/rand"
	"net/netip"
)

// Packet is the first bytes of a packet. Len is the packet's length on the network, in bytes.
type Packet struct {
	Data []byte
	Len  int
}

// EthernetPackets returns n packets that begin with an EthernetPackets header, always the same for a seed.
func EthernetPackets(n int, seed int64) []Packet {
	g := generator{rand.New(rand.NewSource(seed))}
	return g.packets(n, g.frame)
}

// RawPackets returns n packets that begin with an IPv4 or IPv6 header.
func RawPackets(n int, seed int64) []Packet {
	g := generator{rand.New(rand.NewSource(seed))}
	return g.packets(n, func() []byte {
		_, b := g.network()
		return b
	})
}

type generator struct{ *rand.Rand }

// packets returns packets of which a quarter is truncated, and some are random.
func (g generator) packets(n int, make func() []byte) (l []Packet) {
	for range n {
		b := make()
		if g.Intn(12) == 0 {
			b = g.bytes(g.Intn(200))
		}
		p := Packet{b, len(b)}
		switch g.Intn(8) {
		case 0: // the recorder wrote less than the packet's length
			p.Data = b[:g.Intn(len(b)+1)]
		case 1: // the packet ends early
			p.Data = b[:g.Intn(min(len(b), 80)+1)]
			p.Len = len(p.Data)
		}
		l = append(l, p)
	}
	return l
}

func (g generator) bytes(n int) []byte {
	b := make([]byte, n)
	g.Read(b)
	return b
}

func pick[T any](g generator, l ...T) T { return l[g.Intn(len(l))] }

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func (g generator) mac() []byte {
	return pick(g, []byte{0, 0x11, 0x22, 0x33, 0x44, 0x55}, []byte{0, 0x11, 0x22, 0x33, 0x44, 0x66},
		[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{0x01, 0, 0x5e, 0, 0, 1}, []byte{0x33, 0x33, 0, 0, 0, 1})
}

func (g generator) frame() []byte {
	b := join(g.mac(), g.mac())
	typ, payload := g.network()
	switch g.Intn(20) {
	case 0:
		typ, payload = pick(g, 0x806, 0x8035), g.arp()
	case 1, 2, 3:
		for range 1 + g.Intn(2) {
			payload = join(u16(g.Intn(8)<<13|pick(g, 5, 7, 100)), u16(typ), payload)
			typ = pick(g, 0x8100, 0x8100, 0x88a8, 0x9100)
		}
	case 4, 5:
		for last := range 1 + g.Intn(2) {
			label := pick(g, 5, 7, 1000)<<12 | 64
			if last == 0 {
				label |= 1 << 8
			}
			payload = join(binary.BigEndian.AppendUint32(nil, uint32(label)), payload)
		}
		typ = 0x8847
	case 6, 7:
		proto := map[int]int{0x800: 0x21, 0x86dd: 0x57}[typ]
		typ, payload = 0x8864, join([]byte{0x11, 0}, u16(pick(g, 3, 4)), u16(len(payload)+2), u16(proto), payload)
	case 8:
		sap := pick[byte](g, 0x42, 0xf0, 0xfe, 0x06)
		typ, payload = pick(g, 38, 1500, 1501), join([]byte{sap, sap, 3}, g.bytes(35))
	case 9:
		typ, payload = pick(g, 0x8863, 0x6003, 0x9000), g.bytes(50)
	}
	return join(b, u16(typ), payload)
}

func (g generator) ipv4Addr() []byte {
	return pick(g, []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}, []byte{10, 1, 2, 3}, []byte{192, 168, 1, 1},
		[]byte{224, 0, 0, 5}, []byte{255, 255, 255, 255}, []byte{0, 0, 0, 10})
}

func (g generator) ipv6Addr() []byte {
	a := netip.MustParseAddr(pick(g, "fe80::1", "2001:db8::1", "2001:db8:1::2", "ff02::1", "::1"))
	return a.AsSlice()
}

func (g generator) arp() []byte {
	return join([]byte{0, 1, 8, 0, 6, 4, 0, pick[byte](g, 1, 2)}, g.mac(), g.ipv4Addr(), g.mac(), g.ipv4Addr())
}

// network returns an IPv4 or IPv6 packet and the EtherType.
func (g generator) network() (int, []byte) {
	if g.Intn(5) < 2 {
		return 0x86dd, g.ipv6()
	}
	return 0x800, g.ipv4(2)
}

// ipv4 returns a packet that may contain others, to a depth.
func (g generator) ipv4(depth int) []byte {
	proto, payload := g.transport(false, depth)
	options := make([]byte, 4*pick(g, 0, 0, 0, 1, 10))
	fragment := pick(g, 0, 0, 0, 0x4000, 0x2000, 0x2001, 0x00b9)
	size := 20 + len(options) + len(payload)
	return join([]byte{0x45 + byte(len(options)/4), pick[byte](g, 0, 0x10)}, u16(size), g.bytes(2), u16(fragment),
		[]byte{pick[byte](g, 1, 64, 255), byte(proto)}, g.bytes(2), g.ipv4Addr(), g.ipv4Addr(), options, payload)
}

func (g generator) ipv6() []byte {
	proto, payload := g.transport(true, 1)
	if g.Intn(5) == 0 {
		payload = join([]byte{byte(proto), 0}, u16(pick(g, 0, 1, 185<<3)), g.bytes(4), payload)
		proto = 44
	}
	return join([]byte{0x60, 0, 0, 0}, u16(len(payload)), []byte{byte(proto), 64}, g.ipv6Addr(), g.ipv6Addr(), payload)
}

func (g generator) ports() []byte {
	ports := []int{22, 53, 80, 443, 8080, 12345, 65535, 0}
	return join(u16(pick(g, ports...)), u16(pick(g, ports...)))
}

// transport returns a packet and the IP protocol.
func (g generator) transport(ipv6 bool, depth int) (int, []byte) {
	data := g.bytes(g.Intn(60))
	switch g.Intn(10) {
	case 0, 1, 2, 3:
		flags := pick[byte](g, 0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0xc2)
		return 6, join(g.ports(), g.bytes(8), []byte{0x50, flags}, g.bytes(6), data)
	case 4, 5:
		return 17, join(g.ports(), u16(8+len(data)), g.bytes(2), data)
	case 6:
		return 132, join(g.ports(), g.bytes(8), data)
	case 7:
		if ipv6 {
			return 58, join([]byte{pick[byte](g, 1, 128, 129, 134, 135), 0}, g.bytes(6), data)
		}
		return 1, join([]byte{pick[byte](g, 0, 3, 8, 11), pick[byte](g, 0, 1)}, g.bytes(6), data)
	case 8:
		if depth > 0 {
			return 47, join([]byte{0, 0}, u16(0x800), g.ipv4(depth-1))
		}
	}
	return pick(g, 2, 9, 50, 51, 89, 103, 112, 255), data
}

// Pcap returns a file in the format of libpcap with packets. linkType is a DLT: 1 for
// Ethernet, 12 for raw.
func Pcap(packets []Packet, linkType uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, linkType)
	for i, p := range packets {
		b = le.AppendUint32(b, uint32(i)) // the time in seconds identifies a packet in tcpdump's output
		b = le.AppendUint32(b, 0)
		b = le.AppendUint32(b, uint32(len(p.Data)))
		b = le.AppendUint32(b, uint32(p.Len))
		b = append(b, p.Data...)
	}
	return b
}

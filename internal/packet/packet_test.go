package packet

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// raw encodes a packet as bpf/packet.h's struct packet.
func raw(outer, inner headers) []byte {
	b := make([]byte, Size)
	copy(b[atOuter:atInner], outer)
	copy(b[atInner:], inner)
	return b
}

// encode encodes the headers of a packet between two ends.
func encode(proto byte, from, to string, change func(h headers)) headers {
	h := make(headers, atInner-atOuter)
	a, b := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	le := binary.NativeEndian
	le.PutUint16(h[atEthertype:], ethIPv4)
	if a.Addr().Is6() {
		le.PutUint16(h[atEthertype:], ethIPv6)
	}
	h[atProto] = proto
	copy(h[atSaddr:], a.Addr().AsSlice())
	copy(h[atDaddr:], b.Addr().AsSlice())
	le.PutUint16(h[atSport:], a.Port())
	le.PutUint16(h[atDport:], b.Port())
	if change != nil {
		change(h)
	}
	return h
}

func TestAppendFlow(t *testing.T) {
	const a, b, a6, b6 = "10.0.0.7:443", "10.0.0.9:51044", "[fe80::1]:53", "[::ffff:10.0.0.9]:9999"
	le := binary.NativeEndian
	in := encode(tcp, "172.16.0.1:1", "172.16.0.2:2", func(h headers) {
		h[atTunnel] = 1
		le.PutUint32(h[atTunnelID:], 7)
	})
	ethertype := func(n uint16) func(headers) { return func(h headers) { le.PutUint16(h[atEthertype:], n) } }
	for name, c := range map[string]struct {
		outer, inner headers
		want         string
	}{
		"tcp":  {encode(tcp, a, b, nil), nil, "tcp 10.0.0.7:443 > 10.0.0.9:51044"},
		"udp6": {encode(udp, a6, b6, nil), nil, "udp [fe80::1]:53 > [::ffff:10.0.0.9]:9999"},
		"icmp": {encode(icmp, a, b, func(h headers) { h[atType] = 8 }),
			nil, "icmp 10.0.0.7 > 10.0.0.9 echo request"},
		"icmp code": {encode(icmp, a, b, func(h headers) { h[atType], h[atCode] = 3, 1 }),
			nil, "icmp 10.0.0.7 > 10.0.0.9 unreachable code 1"},
		"icmp type": {encode(icmp, a, b, func(h headers) { h[atType] = 99 }),
			nil, "icmp 10.0.0.7 > 10.0.0.9 type 99"},
		"fragment": {encode(udp, a, b, func(h headers) { h[atFragment] = 1 }),
			nil, "udp 10.0.0.7 > 10.0.0.9 fragment"},
		"esp":      {encode(50, a, b, nil), nil, "esp 10.0.0.7 > 10.0.0.9"},
		"protocol": {encode(200, a, b, nil), nil, "proto 200 10.0.0.7 > 10.0.0.9"},
		"vxlan": {encode(udp, a, b, nil), in,
			"udp 10.0.0.7:443 > 10.0.0.9:51044 vxlan 7 { tcp 172.16.0.1:1 > 172.16.0.2:2 }"},
		"no tunnel": {encode(udp, a, b, nil), encode(tcp, a, b, nil), "udp 10.0.0.7:443 > 10.0.0.9:51044"},
		"wrong tunnel": {encode(udp, a, b, nil), encode(tcp, a, b, func(h headers) { h[atTunnel] = 200 }),
			"udp 10.0.0.7:443 > 10.0.0.9:51044"},
		"arp request": {encode(0, a, b, func(h headers) { ethertype(ethARP)(h); h[atType] = 1 }),
			nil, "arp who-has 10.0.0.9 from 10.0.0.7"},
		"arp reply": {encode(0, a, b, func(h headers) { ethertype(ethARP)(h); h[atType] = 2 }),
			nil, "arp 10.0.0.7 is-at"},
		"arp other": {encode(0, a, b, func(h headers) { ethertype(ethARP)(h); h[atType] = 9 }),
			nil, "arp operation 9"},
		"ethertype":      {encode(0, a, b, ethertype(0x88cc)), nil, "ethertype 0x88cc"},
		"not readable":   {encode(0, a, b, ethertype(0)), nil, "unknown"},
		"nothing at all": {nil, nil, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(AppendFlow(nil, raw(c.outer, c.inner))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	p := raw(encode(tcp, a6, b6, nil), nil)
	if got := string(AppendDestination(append(AppendSource(nil, p), ' '), p)); got != "fe80::1 ::ffff:10.0.0.9" {
		t.Errorf("addresses %s", got)
	}
}

// Fields lie within the packet, and outside of the hidden part.
func TestNumbers(t *testing.T) {
	for _, f := range Numbers {
		if f.At+f.Size > Hidden {
			t.Errorf("%s: bytes %d to %d, of %d", f.Name, f.At, f.At+f.Size, Hidden)
		}
	}
}

func FuzzAppendFlow(f *testing.F) {
	f.Add(raw(encode(tcp, "10.0.0.7:443", "10.0.0.9:51044", nil), nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < Size {
			return
		}
		if text := AppendFlow(nil, b[:Size]); len(text) == 0 || len(text) > 300 {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	})
}

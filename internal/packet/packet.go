// Package packet names the fields that the BPF programs read of a packet (bpf/packet.h), finds them in the raw data
// of samples, and formats flows.
package packet

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Size is the size of a packet in raw data.
const Size = int(unsafe.Sizeof(layout{}))

// char is a character of a text in C.
type char byte

// layout is the packet in the raw data of a sample.
//
//bpf:struct packet
type layout struct {
	ID               uint64 // of a followed packet; 0 for others
	Cgroup           uint64 // of the socket
	Sock             uint64 // inode of the socket
	Len, Mark, Netns uint32
	Ifindex          int32
	Dev              [16]char
	VLAN             uint16 // identifier of the outer VLAN; 0: none
	Network          uint8  // the first bytes begin with the network header, not with Ethernet's
	FromSock         uint8  // the headers are not made yet: addresses are the socket's
	WireLen          uint32 // from the first header on, in bytes
	Outer, Inner     headersLayout
}

//bpf:struct headers
type headersLayout struct {
	Sport, Dport    uint16
	Proto, TCPFlags uint8
	Ethertype       uint16 // 0: the header cannot be read
	Seq, Ack        uint32
	Type, Code      uint8     // of ICMP and ARP: type is the operation
	Fragment        uint8     // a later fragment: without the header of proto
	Tunnel          uint8     // the tunnel that contains these headers: enum tunnel
	TunnelID        uint32    // the tunnel's network: VNI, or key
	Saddr, Daddr    [16]uint8 // IPv4 addresses: the first 4 bytes
}

// Positions in layout.
const (
	atID       = int(unsafe.Offsetof(layout{}.ID))
	atCgroup   = int(unsafe.Offsetof(layout{}.Cgroup))
	atSock     = int(unsafe.Offsetof(layout{}.Sock))
	atLen      = int(unsafe.Offsetof(layout{}.Len))
	atMark     = int(unsafe.Offsetof(layout{}.Mark))
	atNetns    = int(unsafe.Offsetof(layout{}.Netns))
	atIfindex  = int(unsafe.Offsetof(layout{}.Ifindex))
	atDev      = int(unsafe.Offsetof(layout{}.Dev))
	atVLAN     = int(unsafe.Offsetof(layout{}.VLAN))
	atNetwork  = int(unsafe.Offsetof(layout{}.Network))
	atFromSock = int(unsafe.Offsetof(layout{}.FromSock))
	atWireLen  = int(unsafe.Offsetof(layout{}.WireLen))
	atOuter    = int(unsafe.Offsetof(layout{}.Outer))
	atInner    = int(unsafe.Offsetof(layout{}.Inner))
)

// Positions in headersLayout.
const (
	atSport     = int(unsafe.Offsetof(headersLayout{}.Sport))
	atDport     = int(unsafe.Offsetof(headersLayout{}.Dport))
	atProto     = int(unsafe.Offsetof(headersLayout{}.Proto))
	atTCPFlags  = int(unsafe.Offsetof(headersLayout{}.TCPFlags))
	atEthertype = int(unsafe.Offsetof(headersLayout{}.Ethertype))
	atSeq       = int(unsafe.Offsetof(headersLayout{}.Seq))
	atAck       = int(unsafe.Offsetof(headersLayout{}.Ack))
	atType      = int(unsafe.Offsetof(headersLayout{}.Type))
	atCode      = int(unsafe.Offsetof(headersLayout{}.Code))
	atFragment  = int(unsafe.Offsetof(headersLayout{}.Fragment))
	atTunnel    = int(unsafe.Offsetof(headersLayout{}.Tunnel))
	atTunnelID  = int(unsafe.Offsetof(headersLayout{}.TunnelID))
	atSaddr     = int(unsafe.Offsetof(headersLayout{}.Saddr))
	atDaddr     = int(unsafe.Offsetof(headersLayout{}.Daddr))
)

// Hidden is the position of the part of a packet that is in no field. These bytes are free once the texts are made.
const Hidden = atOuter + atType

// Field is a field of an event with a packet.
type Field struct {
	Name, Type string // in C: Name includes the length of an array
	At, Size   int    // in a packet's raw data, in bytes
	Signed     bool
	Verb       string // of printf
	Flags      string // names of the bits, for __print_flags
}

const tcpFlags = `{0x1,"FIN"},{0x2,"SYN"},{0x4,"RST"},{0x8,"PSH"},{0x10,"ACK"},{0x20,"URG"},{0x40,"ECE"},{0x80,"CWR"}`

// Numbers are the fields in a packet's raw data, included in all events with a packet.
var Numbers = []Field{
	{"packet", "u64", atID, 8, false, "%lu", ""},
	{"cgroup", "u64", atCgroup, 8, false, "%lu", ""},
	{"sock", "u64", atSock, 8, false, "%lu", ""},
	{"len", "u32", atLen, 4, false, "%u", ""},
	{"mark", "u32", atMark, 4, false, "0x%x", ""},
	{"netns", "u32", atNetns, 4, false, "%u", ""},
	{"ifindex", "s32", atIfindex, 4, true, "%d", ""},
	{"dev[16]", "char", atDev, 16, true, "%s", ""},
	{"vlan", "u16", atVLAN, 2, false, "%u", ""},
	{"bytes_at", "u8", atNetwork, 1, false, "%u", ""},
	{"wire_len", "u32", atWireLen, 4, false, "%u", ""},
	{"sport", "u16", atOuter + atSport, 2, false, "%u", ""},
	{"dport", "u16", atOuter + atDport, 2, false, "%u", ""},
	{"proto", "u8", atOuter + atProto, 1, false, "%u", ""},
	{"tcpflags", "u8", atOuter + atTCPFlags, 1, false, "%s", tcpFlags},
	{"seq", "u32", atOuter + atSeq, 4, false, "%u", ""},
	{"ack", "u32", atOuter + atAck, 4, false, "%u", ""},
}

// texts are the names of the fields that gperf makes of a packet's raw data, and adds to an event on request.
var texts = []string{"flow", "saddr", "daddr", "sk"}

// Bytes is the name of the field with a packet's first bytes.
const Bytes = "bytes"

// Default are the fields that events with a packet are printed with.
var Default = []string{"flow", "tcpflags", "dev", "len", "netns"}

// SocketDefault are those that events with a socket, but without a packet, are printed with.
var SocketDefault = []string{"flow", "netns"}

// Expr returns the field's expression in a print format.
func (f *Field) Expr() string {
	if f.Flags != "" {
		return "__print_flags(REC->" + f.BaseName() + `, "|", ` + f.Flags + ")"
	}
	return "REC->" + f.BaseName()
}

// BaseName returns the field's name, without the length of an array.
func (f *Field) BaseName() string {
	for i := range f.Name {
		if f.Name[i] == '[' {
			return f.Name[:i]
		}
	}
	return f.Name
}

// Names returns the names of all fields that may be requested.
func Names() (l []string) {
	for i := range Numbers {
		l = append(l, Numbers[i].BaseName())
	}
	return append(l, texts...)
}

// Words splits words, "flow saddr", into names of fields. The error names a wrong one, and those that exist.
func Words(words string) ([]string, error) {
	l, all := strings.Fields(words), Names()
	for _, name := range l {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("a packet has no field %s; it has %s", name, strings.Join(all, ", "))
		}
	}
	return l, nil
}

// IsNumber reports whether a field is one of Numbers.
func IsNumber(name string) bool {
	return slices.ContainsFunc(Numbers, func(f Field) bool { return f.BaseName() == name })
}

// IsText reports whether gperf makes the text of a field, which may contain blanks.
func IsText(name string) bool {
	return slices.Contains(texts, name) || name == VerdictText || name == RuleText
}

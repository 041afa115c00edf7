// Package packet names the fields that the BPF programs read of a packet (bpf/packet.h), finds them in the raw data
// of samples, and formats flows.
package packet

import (
	"fmt"
	"slices"
	"strings"
)

// Size is the size of a packet in raw data: bpf/packet.h's struct packet.
const Size = 176

// Positions in bpf/packet.h's struct packet.
const (
	atID       = 0
	atCgroup   = 8
	atSock     = 16
	atLen      = 24
	atMark     = 28
	atNetns    = 32
	atIfindex  = 36
	atDev      = 40
	atVLAN     = 56
	atNetwork  = 58
	atFromSock = 59
	atWireLen  = 60
	atOuter    = 64
	atInner    = 120
)

// Positions in struct headers.
const (
	atSport     = 0
	atDport     = 2
	atProto     = 4
	atTCPFlags  = 5
	atEthertype = 6
	atSeq       = 8
	atAck       = 12
	atType      = 16
	atCode      = 17
	atFragment  = 18
	atTunnel    = 19
	atTunnelID  = 20
	atSaddr     = 24
	atDaddr     = 40
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

// Texts are the names of the fields that gperf makes of a packet's raw data, and adds to an event on request.
var Texts = []string{"flow", "saddr", "daddr", "sk"}

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
	return append(l, Texts...)
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
	return slices.Contains(Texts, name) || name == VerdictText || name == RuleText
}

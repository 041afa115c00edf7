package kernel

import (
	"gperf/internal/packet"
	"gperf/record/tracefs"
)

// Drops are the packets that BPF programs drop. There is no tracepoint for drops: the arguments are as in package
// bpf's Drops.
type Drops struct {
	XDP bool // drops of XDP programs, not of tc
	// Optional means that the recording goes on if no program can be watched.
	Optional bool
}

// dropPacketArg is the number of the argument with the packet.
const dropPacketArg = 4

// Return values of programs: enum xdp_action of include/uapi/linux/bpf.h, and TC_ACT_SHOT of pkt_cls.h.
var (
	xdpActions = []EnumValue{{"XDP_ABORTED", 0}, {"XDP_DROP", 1}}
	tcActions  = []EnumValue{{"TC_ACT_SHOT", 2}}
)

// NewDrops describes the event of dropped packets.
func NewDrops(d Drops) *Raw {
	reason := RawArg{Name: "reason", Type: "u32", Size: 4, Shown: AsEnum, Values: tcActions}
	if d.XDP {
		reason.Values = xdpActions
	}
	return &Raw{Name: "drop", Drops: &d,
		Args:   []RawArg{reason, {Name: "prog_id", Type: "u32", Size: 4}},
		Packet: &Packet{PacketArg: PacketArg{Arg: dropPacketArg}, Shown: packet.Default}}
}

// program adds the name of the program that drops packets.
func (l *Layout) program() {
	l.place(tracefs.FormatField{Type: "__data_loc char[]", Name: "prog", Size: 4}, "+0($arg3):string")
	l.show("prog", "=", "%s", "__get_str(prog)")
}

// WithFields returns the drops with the packet's fields of words: "flow saddr".
func (r *Raw) WithFields(words string) (*Raw, error) {
	shown, err := packet.Words(words)
	if err != nil {
		return nil, err
	}
	with := *r
	with.Packet = &Packet{PacketArg: r.Packet.PacketArg, Shown: shown}
	return &with, nil
}

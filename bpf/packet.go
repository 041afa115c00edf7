package bpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	classic "golang.org/x/net/bpf"
)

// Packet is the packet in a raw tracepoint's samples, as package packet describes it.
type Packet struct {
	Arg     int  // number of the argument that is a struct sk_buff *, from 1
	IsSock  bool // it is a struct sock *: the packet contains the known data of the socket
	At      int  // position in the raw data
	BytesAt int  // position of the __data_loc of the packet's first bytes
	Snap    int  // maximum number of these bytes; 0: none
}

// PacketSelection selects the packets to sample. The zero value selects all.
type PacketSelection struct {
	Filter *PacketFilter // nil: all
	Netns  uint32        // inode number of a network namespace; 0: all
	Device string        // name of a network device; "": all
}

// PacketFilter is a filter of packets in classic BPF: for packets that begin with an Ethernet
// header, and for those that begin with an IP header. nil selects none of these.
type PacketFilter struct{ Ethernet, Network []classic.Instruction }

// MaxSnap is the maximum of Packet.Snap.
//
//bpf:define MaxSnap MAX_SNAP
const MaxSnap = 2048

// setVars sets the constants of the programs of an event with a packet.
func (p *Packet) setVars(vars map[string]any) error {
	if p.Snap > MaxSnap {
		return fmt.Errorf("%d bytes of a packet are more than %d", p.Snap, MaxSnap)
	}
	vars["packet_at"], vars["bytes_at"], vars["snap"] = uint32(p.At), uint32(p.BytesAt), uint32(p.Snap)
	return nil
}

// setVars sets the constants of the programs that select packets.
func (s *PacketSelection) setVars(vars map[string]any) error {
	var device [16]byte
	if len(s.Device) >= len(device) {
		return fmt.Errorf("device %s: names have at most %d bytes", s.Device, len(device)-1)
	}
	copy(device[:], s.Device)
	vars["filtered"], vars["only_netns"], vars["only_dev"] = flag(s.Filter != nil), s.Netns, device
	return nil
}

// functions returns the bodies of the programs' functions that apply the filter: none for nil.
func (f *PacketFilter) functions() (bodies map[string]asm.Instructions, err error) {
	bodies = map[string]asm.Instructions{}
	if f == nil {
		return bodies, nil
	}
	for name, filter := range map[string][]classic.Instruction{"ethernet_filter": f.Ethernet,
		"network_filter": f.Network} {
		if filter == nil {
			filter = []classic.Instruction{classic.RetConstant{Val: 0}}
		}
		if bodies[name], err = compileClassic(name, filter); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

// loadArg returns a function that returns an argument, from 1.
func loadArg(n int) asm.Instructions {
	return asm.Instructions{asm.LoadMem(asm.R0, asm.R1, int16(8*(n-1)), asm.DWord), asm.Return()}
}

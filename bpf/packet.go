package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
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
	Select  PacketSelection
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

// setVars sets the constants of the program on_packet.
func (p *Packet) setVars(vars map[string]any) error {
	var device [16]byte
	if len(p.Select.Device) >= len(device) {
		return fmt.Errorf("device %s: names have at most %d bytes", p.Select.Device, len(device)-1)
	}
	if p.Snap > MaxSnap {
		return fmt.Errorf("%d bytes of a packet are more than %d", p.Snap, MaxSnap)
	}
	copy(device[:], p.Select.Device)
	vars["packet_at"], vars["bytes_at"], vars["snap"] = uint32(p.At), uint32(p.BytesAt), uint32(p.Snap)
	vars["filtered"], vars["only_netns"], vars["only_dev"] = flag(p.Select.Filter != nil), p.Select.Netns, device
	return nil
}

// compile compiles the functions of a program that depend on the packet's argument and the filter.
func (p *Packet) compile(program *ebpf.ProgramSpec) (err error) {
	program.Instructions, err = replaceFunction(program.Instructions, "packet_arg", loadArg(p.Arg))
	if err != nil {
		return err
	}
	return p.Select.Filter.compile(program)
}

// compile compiles the functions of a program that apply the filter; nil: none.
func (f *PacketFilter) compile(program *ebpf.ProgramSpec) error {
	if f == nil {
		return nil
	}
	for name, filter := range map[string][]classic.Instruction{"ethernet_filter": f.Ethernet,
		"network_filter": f.Network} {
		if filter == nil {
			filter = []classic.Instruction{classic.RetConstant{Val: 0}}
		}
		body, err := compileClassic(name, filter)
		if err == nil {
			program.Instructions, err = replaceFunction(program.Instructions, name, body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadArg returns a function that returns an argument, from 1.
func loadArg(n int) asm.Instructions {
	return asm.Instructions{asm.LoadMem(asm.R0, asm.R1, int16(8*(n-1)), asm.DWord), asm.Return()}
}

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Packet is the packet in a raw tracepoint's samples, as package packet describes it.
type Packet struct {
	Arg     int // number of the argument that is a struct sk_buff *, from 1
	At      int // position in the raw data
	BytesAt int // position of the __data_loc of the packet's first bytes
	Snap    int // maximum number of these bytes; 0: none
	// Only packets of this namespace (inode number) and device are sampled, if these are not zero.
	Netns  uint32
	Device string
}

// MaxSnap is the maximum of Packet.Snap: emit.bpf.c's MAX_SNAP.
const MaxSnap = 2048

// setVars sets the constants of the program on_packet.
func (p *Packet) setVars(vars map[string]any) error {
	var device [16]byte
	if len(p.Device) >= len(device) {
		return fmt.Errorf("device %s: names have at most %d bytes", p.Device, len(device)-1)
	}
	if p.Snap > MaxSnap {
		return fmt.Errorf("%d bytes of a packet are more than %d", p.Snap, MaxSnap)
	}
	copy(device[:], p.Device)
	vars["packet_at"], vars["bytes_at"], vars["snap"] = uint32(p.At), uint32(p.BytesAt), uint32(p.Snap)
	vars["filtered"], vars["only_netns"], vars["only_dev"] = uint32(0), p.Netns, device
	return nil
}

// compile compiles the functions of a program that depend on the packet.
func (p *Packet) compile(program *ebpf.ProgramSpec) (err error) {
	program.Instructions, err = replaceFunction(program.Instructions, "packet_arg",
		asm.Instructions{asm.LoadMem(asm.R0, asm.R1, int16(8*(p.Arg-1)), asm.DWord), asm.Return()})
	return err
}

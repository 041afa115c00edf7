// Dropper attaches a BPF program to the ingress of a network device until its standard input ends. The program
// drops IPv4 packets with some UDP ports of destination. Dropper prints a line when it is attached.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/bits"
	"net"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// Fields of struct xdp_md and struct __sk_buff of include/uapi/linux/bpf.h.
const (
	xdpData, xdpEnd = 0, 4
	skbData, skbEnd = 76, 80
)

// Positions in a frame with IPv4 and UDP, without options.
const (
	atType, atProto, atPort = 12, 23, 36
	size                    = 42
)

const xdpHasFrags = 1 << 5 // BPF_F_XDP_HAS_FRAGS

// Return values.
const (
	xdpAborted, xdpDrop, xdpPass = 0, 1, 2
	tcNext, tcShot               = -1, 2
)

func main() {
	log.SetFlags(0)
	name := flag.String("name", "drop_some_packets_of_a_test", "`name` of the program's function")
	drop := flag.Uint("drop", 0, "drop packets to this `port`")
	abort := flag.Uint("abort", 0, "return XDP_ABORTED for packets to this `port`")
	generic := flag.Bool("generic", false, "attach to the kernel's generic XDP, not to the driver's")
	tc := flag.Bool("tc", false, "attach to tcx, not to XDP")
	frags := flag.Bool("frags", false, "load a program for packets of several buffers")
	untyped := flag.Bool("untyped", false, "load the program without BTF")
	flag.Parse()
	dev, err := net.InterfaceByName(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	spec := &ebpf.ProgramSpec{Name: *name, Type: ebpf.XDP, License: "GPL"}
	context := "xdp_md"
	spec.Instructions = filter(xdpData, xdpEnd, xdpPass, map[uint]int32{*abort: xdpAborted, *drop: xdpDrop})
	if *tc {
		spec.Type, context = ebpf.SchedCLS, "__sk_buff"
		spec.Instructions = filter(skbData, skbEnd, tcNext, map[uint]int32{*drop: tcShot})
	}
	if *frags {
		spec.Flags = xdpHasFrags
	}
	if !*untyped {
		spec.Instructions[0] = btf.WithFuncMetadata(spec.Instructions[0].WithSymbol(*name), function(*name, context))
	}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		log.Fatal(err)
	}
	if err := attach(program, dev.Index, *generic); err != nil {
		log.Fatal(err)
	}
	fmt.Println("attached")
	io.Copy(io.Discard, os.Stdin)
}

// attach attaches a program until this process exits.
func attach(p *ebpf.Program, dev int, generic bool) (err error) {
	if p.Type() == ebpf.SchedCLS {
		_, err = link.AttachTCX(link.TCXOptions{Interface: dev, Program: p, Attach: ebpf.AttachTCXIngress})
		return err
	}
	mode := link.XDPDriverMode
	if generic {
		mode = link.XDPGenericMode
	}
	_, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: dev, Flags: mode})
	return err
}

// filter returns a program that returns a value for UDP packets to some ports, and pass for others. data and
// end are positions in its context.
func filter(data, end int16, pass int32, ports map[uint]int32) asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, data, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, end, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, size),
		asm.Mov.Imm(asm.R0, pass),
		asm.JGT.Reg(asm.R4, asm.R3, "exit"),
		asm.LoadMem(asm.R5, asm.R2, atType, asm.Half),
		asm.JNE.Imm(asm.R5, bigEndian(0x0800), "exit"),
		asm.LoadMem(asm.R5, asm.R2, atProto, asm.Byte),
		asm.JNE.Imm(asm.R5, 17, "exit"),
		asm.LoadMem(asm.R5, asm.R2, atPort, asm.Half),
	}
	for port, value := range ports {
		ins = append(ins, asm.Mov.Imm(asm.R0, value), asm.JEq.Imm(asm.R5, bigEndian(port), "exit"))
	}
	return append(ins, asm.Mov.Imm(asm.R0, pass), asm.Return().WithSymbol("exit"))
}

func bigEndian(v uint) int32 { return int32(bits.ReverseBytes16(uint16(v))) }

// function describes int name(struct context *).
func function(name, context string) *btf.Func {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	member := btf.Member{Name: "data", Type: number}
	to := &btf.Pointer{Target: &btf.Struct{Name: context, Size: number.Size, Members: []btf.Member{member}}}
	return &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: number,
		Params: []btf.FuncParam{{Name: "ctx", Type: to}}}}
}

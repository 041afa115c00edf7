package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Passage says what a tracepoint does with the sk_buff of a followed packet.
type Passage struct {
	// Ends means that the sk_buff is freed after the last event of this tracepoint.
	Ends bool
	// KeepAs, if not 0, keeps the packet for the later tracepoint of the same call with this number as KeptAs: at
	// that time another CPU may have freed the sk_buff.
	KeepAs, KeptAs uint32
	DeviceArg      int // number of the argument that is the device, from 1; 0: none
	// Point is where packets are, if they are followed at tracepoints only.
	Point Point
}

// Point is where packets pass.
type Point uint32

//bpf:enum At POINT_ point
const (
	AtNone    Point = iota
	AtQueue         // the packet is to be sent by a device
	AtReceive       // a device received it
	AtDeliver       // a socket's reader reads it
	AtEnd           // it is freed
	AtOther
)

func (p *Passage) setVars(vars map[string]any) {
	vars["ends"], vars["keep_as"], vars["kept_as"] = flag(p.Ends), p.KeepAs, p.KeptAs
	vars["point"] = uint32(p.Point)
}

// Hop is a function of the kernel that packets pass.
type Hop struct {
	Kprobe
	Address uint64 // of the entry
	SKB     int    // number of the parameter that is a struct sk_buff *, from 1 to MaxHopArgs
	Sock    int    // number of the one that is a struct sock *; 0: none
	Kind    HopKind
}

// MaxHopArgs is the number of parameters of a function that programs can read.
const MaxHopArgs = 6

// HopKind describes how a function uses the sk_buff, as a sum.
type HopKind uint64

//bpf:enum Hop HOP_
const (
	HopKnownOnly HopKind = 0x100 // no packet begins to be followed here, such as where the sk_buff is being freed
	HopCopies    HopKind = 0x200 // copies the second parameter to the first one, both are sk_buffs; not sampled
	HopEnds      HopKind = 0x400 // the sk_buff is not freed, but used for another packet
	HopSilent    HopKind = 0x800 // no sample is made
)

// cookie describes a function to the program on_hop.
func (h *Hop) cookie() uint64 { return uint64(h.SKB) | uint64(h.Sock)<<4 | uint64(h.Kind) }

// followMaps are the maps of followed packets. The spec contains the sizes.
var followMaps = []string{"skbs", "heads", "numbers", "kept"}

// AttachFrees ends the following of the sk_buffs and buffers that the kernel frees.
func AttachFrees(e *Sampler) error {
	for _, name := range []string{"kmem_cache_free", "kfree"} {
		progs, err := e.load(nil, nil, "on_free", "on_free_again")
		if err != nil {
			return err
		}
		e.silent = append(e.silent, progs...)
		if err := attachRaw(e, progs, name, name); err != nil {
			return err
		}
	}
	return nil
}

// AttachHops makes samples of followed packets at the entry of functions: t must have a packet, and the arguments
// of t are the function and the sk_buff. atOnce requires HaveKprobeMulti; without it, refused are the errors of
// functions that could not be probed. An error is returned if no function could be probed.
func AttachHops(e *Sampler, t *RawTracepoint, hops []Hop, atOnce bool) (refused []error, err error) {
	byAddress := !atOnce && !haveCookies()
	spec := e.spec.Copy()
	if byAddress {
		m := spec.Maps["hops"]
		m.MaxEntries = uint32(len(hops))
		for i := range hops {
			m.Contents = append(m.Contents, ebpf.MapKV{Key: hops[i].Address, Value: hops[i].cookie()})
		}
	}
	if !atOnce {
		spec.Programs["on_hop"].AttachType = ebpf.AttachNone
	}
	vars, bodies, err := t.program()
	if err != nil {
		return nil, err
	}
	vars["by_address"] = flag(byAddress)
	progs, own, err := e.loadFrom(spec, vars, bodies, "on_hop")
	if err != nil {
		return nil, err
	}
	own.Close()
	if !atOnce {
		return attachEachHop(e, progs[0], hops)
	}
	var o link.KprobeMultiOptions
	for i := range hops {
		o.Addresses = append(o.Addresses, uintptr(hops[i].Address))
		o.Cookies = append(o.Cookies, hops[i].cookie())
	}
	if err := e.attached(link.KprobeMulti(progs[0], o)); err != nil {
		return nil, fmt.Errorf("attaching a BPF program to %d functions: %w", len(hops), err)
	}
	return nil, nil
}

// attachEachHop attaches a program to functions one by one.
func attachEachHop(e *Sampler, p *ebpf.Program, hops []Hop) (refused []error, err error) {
	cookies := haveCookies()
	for i := range hops {
		var cookie uint64
		if cookies {
			cookie = hops[i].cookie()
		}
		symbol, o := hops[i].place(cookie)
		if err := e.attached(link.Kprobe(symbol, p, o)); err != nil {
			refused = append(refused, fmt.Errorf("attaching a BPF program to %s: %w", hops[i].Symbol, err))
		}
	}
	if len(refused) == len(hops) {
		return nil, errors.Join(refused[:min(1, len(refused))]...)
	}
	return refused, nil
}

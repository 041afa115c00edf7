package bpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// loadDropper loads a program that returns a number. typ is the struct that the parameter points to; "": without
// types.
func loadDropper(t *testing.T, kind ebpf.ProgramType, name, typ string, returns int32) *ebpf.Program {
	t.Helper()
	ins := asm.Instructions{asm.Mov.Imm(asm.R0, returns), asm.Return()}
	if typ != "" {
		number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		to := &btf.Struct{Name: typ, Size: 4, Members: []btf.Member{{Name: "data", Type: number}}}
		ins[0] = btf.WithFuncMetadata(ins[0].WithSymbol(name), &btf.Func{Name: name, Linkage: btf.GlobalFunc,
			Type: &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: to}}}}})
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: kind, Instructions: ins, License: "GPL"})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_NET_ADMIN are missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestDropsAlone checks that the verifier accepts the programs at the return of other programs, with the packet, values
// and a filter, and that programs without types are left out. Other tests load programs of these types, too.
func TestDropsAlone(t *testing.T) {
	const name = "drops_all_packets_of_a_test"
	for _, c := range []struct {
		name string
		kind Dropper
		typ  ebpf.ProgramType
		ctx  string
		left bool
	}{
		{"xdp", XDP, ebpf.XDP, "xdp_md", false},
		{"another context", XDP, ebpf.XDP, "drops_test", false},
		{"no types", XDP, ebpf.XDP, "", true},
		{"tc", TC, ebpf.SchedCLS, "__sk_buff", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := loadDropper(t, c.typ, name, c.ctx, 1)
			info, err := p.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			e, err := NewSampler(SamplerOptions{CPUs: 2, Select: PacketSelection{Netns: 1, Device: "lo"}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			d := &Drops{RawTracepoint{ID: 1, Size: 256,
				Values: []Value{{"$arg1:u32", 8}, {"$arg2:u32", 12}, {"+0($arg3):string", 16}},
				Filter: &Filter{Op: "==", Of: FieldDynamic, At: 16, Text: name},
				Packet: &Packet{Arg: 4, At: 24}}, c.kind}
			watched, left, err := d.Attach(e)
			if err != nil {
				t.Fatal(err)
			}
			var own *UnwatchedError
			for _, err := range left {
				var u *UnwatchedError
				if errors.As(err, &u) && u.ID == uint32(id) {
					own = u
				}
			}
			switch {
			case !c.left && own != nil && (errors.Is(own, unix.EPERM) || errors.Is(own, errContext)):
				t.Skipf("this machine does not allow programs at the return of others: %v", own)
			case !c.left && (own != nil || watched == 0):
				t.Errorf("%d watched, %v\n%s", watched, own, VerifierLog(own))
			case c.left && (own == nil || !errors.Is(own, ErrNoTypes)):
				t.Errorf("%d watched, %v; want %v", watched, own, ErrNoTypes)
			}
			if n, err := Droppers(c.kind); err != nil || n != watched+len(left) {
				t.Errorf("%d programs, %v; %d watched, %d left out", n, err, watched, len(left))
			}
		})
	}
}

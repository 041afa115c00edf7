package bpf

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	classic "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"gperf/internal/pcapfilter"
	"gperf/internal/testutil/inputs"
)

// filterProgram is a loaded program that calls packet_filter with the packet in a map.
type filterProgram struct {
	prog   *ebpf.Program
	packet *ebpf.Map
}

// loadFilter loads a program in classic BPF. The program's caller uses 400 bytes of stack.
func loadFilter(t *testing.T, prog []classic.Instruction) filterProgram {
	body, err := compileClassic("filter", prog)
	if err != nil {
		t.Fatal(err)
	}
	packet, err := ebpf.NewMap(
		&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16 + packetFilterBytes, MaxEntries: 1})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packet.Close() })
	ins := asm.Instructions{
		asm.StoreImm(asm.RFP, -400, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, packet.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -400),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord),
		asm.LoadMem(asm.R3, asm.R0, 8, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Add.Imm(asm.R1, 16),
		asm.Call.Label("packet_filter"),
		asm.Return().WithSymbol("exit"),
	}
	body[0] = body[0].WithSymbol("packet_filter")
	spec := &ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: append(ins, body...)}
	p, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF and CAP_PERFMON are missing: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, VerifierLog(err))
	}
	t.Cleanup(func() { p.Close() })
	return filterProgram{p, packet}
}

// selects reports whether the program selects a packet, of which it sees the first bytes.
func (f filterProgram) selects(t *testing.T, p inputs.Packet) bool {
	t.Helper()
	value := make([]byte, 16+packetFilterBytes)
	for i := range value {
		value[i] = 0xa5 // bytes after the packet's end must not matter
	}
	n := copy(value[16:], p.Data)
	binary.NativeEndian.PutUint64(value, uint64(n))
	binary.NativeEndian.PutUint64(value[8:], uint64(p.Len))
	if err := f.packet.Put(uint32(0), value); err != nil {
		t.Fatal(err)
	}
	result, err := f.prog.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return result != 0
}

// vmSelects is the same with the virtual machine of x/net. It knows only the length of the data.
func vmSelects(t *testing.T, prog []classic.Instruction, p inputs.Packet) bool {
	t.Helper()
	prog = slices.Clone(prog)
	for i, ins := range prog {
		if ins == (classic.LoadExtension{Num: classic.ExtLen}) {
			prog[i] = classic.LoadConstant{Dst: classic.RegA, Val: uint32(p.Len)}
		}
	}
	vm, err := classic.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(p.Data[:min(len(p.Data), packetFilterBytes)])
	if err != nil {
		t.Fatal(err)
	}
	return n != 0
}

// compareFilter compares the results for packets, and returns how many are selected.
func compareFilter(t *testing.T, prog []classic.Instruction, l []inputs.Packet) (selected int) {
	t.Helper()
	f := loadFilter(t, prog)
	for i, p := range l {
		got, want := f.selects(t, p), vmSelects(t, prog, p)
		if got != want {
			t.Fatalf("packet %d: selected %v, want %v\n% x\nlength %d of %d\n%v",
				i, got, want, p.Data, len(p.Data), p.Len, prog)
		}
		if got {
			selected++
		}
	}
	t.Logf("%d of %d packets selected, %s", selected, len(l), strings.TrimSpace(f.prog.VerifierLog))
	return selected
}

// TestPacketFilter compares compiled expressions.
func TestPacketFilter(t *testing.T) {
	for _, link := range []struct {
		name    string
		typ     pcapfilter.LinkType
		packets []inputs.Packet
	}{{"ethernet", pcapfilter.Ethernet, inputs.EthernetPackets(300, 3)}, {"raw", pcapfilter.Raw, inputs.RawPackets(300,
		4)}} {
		for _, expr := range []string{
			"", "ip", "ip6", "not tcp", "host 10.0.0.1", "src and dst host 10.0.0.1", "net 10.0.0.0/8", "net 2001:db8::/48",
			"port 80 or 443", "udp portrange 53-443", "tcp port 80 and host 10.0.0.1 or icmp", "ip proto 47 or ip6 proto 58", "ip multicast",
			"less 60", "greater 200", "len % 2 = 0", "len - 20 > 100", "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "icmp[icmptype] = icmp-echo",
			"icmp6[0] >= 128", "ip[ip[8]] & 1 = 1", "ip[(ip[0] & 0xf) << 2 : 2] = 80", "ip6[40:4] > 0x80000000", "ip[2:2] / ip[1] > 1",
			"ip[2:2] % ip[1] = 1", "ip[9] << ip[8] = 12", "ip[12:4] >> ip[9] = 0x0a", "ip[4:4] * ip[10:2] > 0x80000000", "ip[-1] = 1",
			"ip[12:4] = 0xffffffff", "ip[16:4] > 0xfffffff0", "-ip[8] = -64", "ip[200] > 100", "ip[242] > 100", "ip[252:4] > 1", "ip[300] = 1",
			"(ip[8] + (ip[9] + (ip[2:2] + (ip[4:2] + (len + ip[1]))))) & 3 = 1",
		} {
			t.Run(link.name+"/"+expr, func(t *testing.T) {
				prog, err := pcapfilter.Compile(expr, link.typ)
				if err != nil {
					t.Fatal(err)
				}
				compareFilter(t, prog, link.packets)
			})
		}
	}
}

// TestPacketFilterLong checks that the verifier accepts the longest programs.
func TestPacketFilterLong(t *testing.T) {
	for _, c := range []struct{ name, first, more string }{
		{"ports", "port 1", " or 80"},
		{"hosts", "host 1.2.3.4", " or 10.0.0.1"},
		{"negated hosts", "not host 1.2.3.4", " and not host 10.0.0.3"},
		{"flags", "tcp[0:2] = 80", " or tcp[tcp[13]:2] & 7 = 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var prog []classic.Instruction
			for expr := c.first; ; expr += c.more {
				p, err := pcapfilter.Compile(expr, pcapfilter.Ethernet)
				if err != nil {
					break
				}
				prog = p
			}
			if n := compareFilter(t, prog, inputs.EthernetPackets(50, 5)); n == 0 {
				t.Error("no packet is selected")
			}
			t.Log(len(prog), "classic instructions")
		})
	}
}

// TestPacketFilterRandom compares random programs of all instructions of the virtual machine.
func TestPacketFilterRandom(t *testing.T) {
	rnd := rand.New(rand.NewSource(6))
	for range 200 {
		compareFilter(t, randomProgram(rnd), inputs.EthernetPackets(20, rnd.Int63()))
	}
}

func randomProgram(rnd *rand.Rand) []classic.Instruction {
	size := func() int { return []int{1, 2, 4}[rnd.Intn(3)] }
	off := func() uint32 { // most are small
		return []uint32{0, 1, 12, 20, uint32(rnd.Intn(60)), 255, 256, 257, 1 << 20}[rnd.Intn(9)/(1+rnd.Intn(3))]
	}
	val := func() uint32 {
		return []uint32{0, 1, 2, 31, 32, 255, 0x800, 1 << 31, 1<<32 - 1, rnd.Uint32()}[rnd.Intn(10)]
	}
	reg := func() classic.Register { return classic.Register(rnd.Intn(2)) }
	op := func() classic.ALUOp {
		return []classic.ALUOp{classic.ALUOpAdd, classic.ALUOpSub, classic.ALUOpMul, classic.ALUOpDiv,
			classic.ALUOpMod, classic.ALUOpAnd, classic.ALUOpOr, classic.ALUOpXor, classic.ALUOpShiftLeft,
			classic.ALUOpShiftRight}[rnd.Intn(10)]
	}
	n := 5 + rnd.Intn(60)
	var prog []classic.Instruction
	for len(prog) < n {
		skip := func() uint8 { return uint8(rnd.Intn(min(6, n-len(prog)))) }
		test := classic.JumpTest(rnd.Intn(8))
		switch rnd.Intn(14) {
		case 0, 1:
			prog = append(prog, classic.LoadAbsolute{Off: off(), Size: size()})
		case 2:
			prog = append(prog, classic.LoadIndirect{Off: off(), Size: size()})
		case 3:
			prog = append(prog, classic.LoadMemShift{Off: off()})
		case 4:
			prog = append(prog, classic.LoadConstant{Dst: reg(), Val: val()})
		case 5:
			prog = append(prog, classic.LoadScratch{Dst: reg(), N: rnd.Intn(16)})
		case 6:
			prog = append(prog, classic.StoreScratch{Src: reg(), N: rnd.Intn(16)})
		case 7:
			prog = append(prog, classic.LoadExtension{Num: classic.ExtLen})
		case 8:
			o := classic.ALUOpConstant{Op: op(), Val: val()}
			if o.Val == 0 { // the virtual machine refuses to divide by 0
				o.Val = 3
			}
			prog = append(prog, o)
		case 9:
			prog = append(prog, classic.ALUOpX{Op: op()})
		case 10:
			prog = append(prog, classic.TAX{}, classic.LoadAbsolute{Off: uint32(rnd.Intn(20)), Size: 1})
		case 11:
			prog = append(prog, classic.TXA{})
		case 12:
			prog = append(prog, classic.JumpIf{Cond: test, Val: val(), SkipTrue: skip(), SkipFalse: skip()})
		case 13:
			prog = append(prog, []classic.Instruction{classic.JumpIfX{Cond: test, SkipTrue: skip(), SkipFalse: skip()},
				classic.Jump{Skip: uint32(skip())}, classic.RetA{}}[rnd.Intn(3)])
		}
	}
	// Targets after the last instruction are one of these.
	for range 6 {
		prog = append(prog, classic.RetA{})
	}
	return prog
}

// TestPacketFilterBounds checks instructions that the virtual machine lacks or refuses, and loads at the limit.
func TestPacketFilterBounds(t *testing.T) {
	yes, no := classic.RetConstant{Val: 1}, classic.RetConstant{Val: 0}
	full := inputs.Packet{Data: slices.Repeat([]byte{1}, packetFilterBytes), Len: 1500}
	for _, c := range []struct {
		name string
		prog []classic.Instruction
		p    inputs.Packet
		want bool
	}{
		{"negation", []classic.Instruction{classic.LoadConstant{Val: 5}, classic.NegateA{}, classic.JumpIf{Cond: classic.JumpEqual, Val: 1<<32 - 5, SkipFalse: 1}, yes, no}, full, true},
		{"division by a constant 0", []classic.Instruction{classic.ALUOpConstant{Op: classic.ALUOpDiv}, yes}, full, false},
		{"last byte", []classic.Instruction{classic.LoadAbsolute{Off: 255, Size: 1}, yes}, full, true},
		{"last word", []classic.Instruction{classic.LoadAbsolute{Off: 252, Size: 4}, yes}, full, true},
		{"word after the end", []classic.Instruction{classic.LoadAbsolute{Off: 253, Size: 4}, yes}, full, false},
		{"last byte by X", []classic.Instruction{classic.LoadConstant{Dst: classic.RegX, Val: 200}, classic.LoadIndirect{Off: 55, Size: 1}, yes}, full, true},
		{"byte after the end by X", []classic.Instruction{classic.LoadConstant{Dst: classic.RegX, Val: 201}, classic.LoadIndirect{Off: 55, Size: 1}, yes}, full, false},
		{"X without overflow", []classic.Instruction{classic.LoadConstant{Dst: classic.RegX, Val: 1<<32 - 1}, classic.LoadIndirect{Off: 1, Size: 1}, yes}, full, false},
		{"empty packet", []classic.Instruction{classic.LoadAbsolute{Off: 0, Size: 1}, yes}, inputs.Packet{}, false},
		{"length of the wire", []classic.Instruction{classic.LoadExtension{Num: classic.ExtLen}, classic.JumpIf{Cond: classic.JumpEqual, Val: 1500, SkipFalse: 1}, yes, no}, full, true},
		{"unreachable code", []classic.Instruction{classic.Jump{Skip: 1}, classic.TAX{}, yes, no, classic.TXA{}}, full, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := loadFilter(t, c.prog).selects(t, c.p); got != c.want {
				t.Errorf("selected %v, want %v", got, c.want)
			}
		})
	}
}

func TestPacketFilterErrors(t *testing.T) {
	ret := classic.RetConstant{Val: 1}
	for _, c := range []struct {
		name, want string
		prog       []classic.Instruction
	}{
		{"empty", "without a return at instruction 0", nil},
		{"no return", "without a return at instruction 1", []classic.Instruction{classic.TAX{}}},
		{"jump after the end", "without a return at instruction 2", []classic.Instruction{classic.Jump{Skip: 1}, ret}},
		{"conditional jump after the end", "without a return at instruction 3",
			[]classic.Instruction{classic.JumpIf{Cond: classic.JumpEqual, SkipFalse: 2}, ret}},
		{"long jump", "without a return", []classic.Instruction{classic.Jump{Skip: 1<<32 - 1}, ret}},
		{"extension", "unknown extension 4", []classic.Instruction{classic.LoadExtension{Num: classic.ExtType}, ret}},
		{"memory", "the memory has 16 words", []classic.Instruction{classic.LoadScratch{N: 16}, ret}},
		{"negative memory", "the memory has 16 words", []classic.Instruction{classic.StoreScratch{N: -1}, ret}},
		{"size", "a load of 3 bytes", []classic.Instruction{classic.LoadAbsolute{Size: 3}, ret}},
		{"size by X", "a load of 8 bytes", []classic.Instruction{classic.LoadIndirect{Size: 8}, ret}},
		{"operation", "unknown operation", []classic.Instruction{classic.ALUOpX{Op: 0xf0}, ret}},
		{"jump", "unknown jump 99", []classic.Instruction{classic.JumpIf{Cond: 99}, ret}},
		{"raw", "unknown instruction bpf.RawInstruction", []classic.Instruction{classic.RawInstruction{}, ret}},
		{"too long", "too many", append(slices.Repeat([]classic.Instruction{classic.LoadIndirect{Size: 4}}, 5000), ret)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ins, err := compileClassic("filter", c.prog); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d instructions, error %v, want %q", len(ins), err, c.want)
			}
		})
	}
}

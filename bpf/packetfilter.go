package bpf

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"
)

// A filter of packets is a program in classic BPF. This file translates it to the body of a
// function
//
//	static __attribute__((noinline)) __u64 filter(__u8 *data, __u64 caplen, __u64 len)
//
// of the programs that copy packets (emit.bpf.c). It returns nonzero for selected packets.

// packetFilterBytes is the number of bytes that are readable at data. caplen is the number of
// those that belong to the packet.
//
//bpf:define packetFilterBytes FILTER_BYTES
const packetFilterBytes = 256

// Registers of the function. It calls no helpers, so it need not save any.
const (
	regA      = asm.R0 // classic BPF's A and X, in the lower half; the upper half is 0
	regX      = asm.R4
	regPacket = asm.R1
	regCapLen = asm.R2
	regLen    = asm.R3
	regTemp   = asm.R5
)

// scratchWords is the size of classic BPF's memory.
const scratchWords = 16

// classicCode translates a program.
type classicCode struct {
	name      string // of the function, for labels
	prog      []bpf.Instruction
	ins       asm.Instructions
	reachable []bool // by instruction; the verifier refuses unreachable ones
	targets   []bool // of jumps
	rejects   bool   // there is a jump to the label of the end that selects nothing
}

// compileClassic translates a program in classic BPF to the body of the function with this name. As in classic
// BPF, a load after the packet's end and a division by zero return 0. The body uses 64 bytes
// of stack. It returns an error for invalid and for very long programs, and for extensions
// other than the packet's length.
func compileClassic(name string, prog []bpf.Instruction) (asm.Instructions, error) {
	c := classicCode{name: name, prog: prog, reachable: make([]bool, len(prog)), targets: make([]bool, len(prog))}
	c.ins = append(c.ins, asm.Mov.Imm32(regA, 0), asm.Mov.Imm32(regX, 0))
	c.clearScratch()
	if err := c.reach(0); err != nil {
		return nil, err
	}
	for i, ins := range prog {
		if !c.reachable[i] {
			continue
		}
		first := len(c.ins)
		if err := c.translate(i, ins); err != nil {
			return nil, fmt.Errorf("packet filter, instruction %d, %v: %w", i, ins, err)
		}
		if c.targets[i] {
			c.ins[first] = c.ins[first].WithSymbol(c.label(i))
		}
	}
	if c.rejects {
		c.ins = append(c.ins, asm.Mov.Imm32(asm.R0, 0).WithSymbol(c.label(reject)), asm.Return())
	}
	if len(c.ins) > math.MaxInt16 { // the longest jump
		return nil, fmt.Errorf("packet filter: %d instructions are too many", len(c.ins))
	}
	return c.ins, nil
}

// label returns the label of an instruction; -1: the label of the end that selects nothing.
func (c *classicCode) label(i int) string { return c.name + "." + strconv.Itoa(i) }

const reject = -1

// scratchAt returns the stack position of a word of the memory.
func scratchAt(n int) int16 { return int16(4 * (n - scratchWords)) }

// clearScratch writes 0 to the words that the program uses: the verifier refuses to read others.
func (c *classicCode) clearScratch() {
	var used [scratchWords]bool
	for _, ins := range c.prog {
		if load, ok := ins.(bpf.LoadScratch); ok && load.N >= 0 && load.N < scratchWords {
			used[load.N] = true
		}
	}
	for n, ok := range used {
		if ok {
			c.ins = append(c.ins, asm.StoreImm(asm.RFP, scratchAt(n), 0, asm.Word))
		}
	}
}

// reach marks an instruction as reachable. All jumps are forward, so translate reaches the
// instructions in the order of the program.
func (c *classicCode) reach(i int) error {
	if i < 0 || i >= len(c.prog) {
		return fmt.Errorf("packet filter: the program ends without a return at instruction %d", i)
	}
	c.reachable[i] = true
	return nil
}

// jumpTo marks the target of a jump, and returns the label of the target.
func (c *classicCode) jumpTo(i int) (string, error) {
	if err := c.reach(i); err != nil {
		return "", err
	}
	c.targets[i] = true
	return c.label(i), nil
}

func (c *classicCode) reject() string {
	c.rejects = true
	return c.label(reject)
}

func (c *classicCode) add(ins ...asm.Instruction) { c.ins = append(c.ins, ins...) }

// translate adds the code of one instruction, and marks those that follow it.
func (c *classicCode) translate(i int, ins bpf.Instruction) error {
	switch ins := ins.(type) {
	case bpf.RetConstant:
		c.add(asm.Mov.Imm32(asm.R0, int32(ins.Val)), asm.Return())
		return nil
	case bpf.RetA:
		c.add(asm.Return())
		return nil
	case bpf.Jump:
		return c.jump(i + 1 + int(ins.Skip))
	case bpf.JumpIf:
		return c.jumpIf(i+1, ins.Cond, ins.SkipTrue, ins.SkipFalse, func(op asm.JumpOp, label string) asm.Instruction {
			return op.Imm32(regA, int32(ins.Val), label)
		})
	case bpf.JumpIfX:
		return c.jumpIf(i+1, ins.Cond, ins.SkipTrue, ins.SkipFalse, func(op asm.JumpOp, label string) asm.Instruction {
			return op.Reg32(regA, regX, label)
		})
	}
	ends, err := c.straight(i, ins)
	if err != nil || ends {
		return err
	}
	return c.reach(i + 1)
}

// straight adds the code of an instruction that is neither a jump nor a return. It reports
// whether the instruction always rejects the packet.
func (c *classicCode) straight(i int, ins bpf.Instruction) (ends bool, err error) {
	switch ins := ins.(type) {
	case bpf.LoadConstant:
		c.add(asm.Mov.Imm32(register(ins.Dst), int32(ins.Val)))
	case bpf.LoadScratch:
		if ins.N < 0 || ins.N >= scratchWords {
			return false, fmt.Errorf("the memory has %d words", scratchWords)
		}
		c.add(asm.LoadMem(register(ins.Dst), asm.RFP, scratchAt(ins.N), asm.Word))
	case bpf.StoreScratch:
		if ins.N < 0 || ins.N >= scratchWords {
			return false, fmt.Errorf("the memory has %d words", scratchWords)
		}
		c.add(asm.StoreMem(asm.RFP, scratchAt(ins.N), register(ins.Src), asm.Word))
	case bpf.LoadExtension:
		if ins.Num != bpf.ExtLen {
			return false, fmt.Errorf("unknown extension %d", ins.Num)
		}
		c.add(asm.Mov.Reg32(regA, regLen))
	case bpf.LoadAbsolute:
		return c.loadAbsolute(regA, ins.Off, ins.Size)
	case bpf.LoadIndirect:
		return c.loadIndirect(ins.Off, ins.Size)
	case bpf.LoadMemShift:
		ends, err = c.loadAbsolute(regX, ins.Off, 1)
		if !ends {
			c.add(asm.And.Imm32(regX, 0xf), asm.LSh.Imm32(regX, 2))
		}
		return ends, err
	case bpf.ALUOpConstant:
		return c.aluConstant(ins.Op, ins.Val)
	case bpf.ALUOpX:
		return false, c.aluX(i, ins.Op)
	case bpf.NegateA:
		c.add(asm.Neg.Imm32(regA, 0))
	case bpf.TAX:
		c.add(asm.Mov.Reg32(regX, regA))
	case bpf.TXA:
		c.add(asm.Mov.Reg32(regA, regX))
	default:
		return false, fmt.Errorf("unknown instruction %T", ins)
	}
	return false, nil
}

func register(r bpf.Register) asm.Register {
	if r == bpf.RegX {
		return regX
	}
	return regA
}

func (c *classicCode) jump(target int) error {
	label, err := c.jumpTo(target)
	if err == nil {
		c.add(asm.Ja.Label(label))
	}
	return err
}

// classicJumps is the jumps for a test: if it is true, or if it is false. No jump tests that
// bits are not set.
var classicJumps = map[bpf.JumpTest]struct{ yes, no asm.JumpOp }{
	bpf.JumpEqual:          {asm.JEq, asm.JNE},
	bpf.JumpNotEqual:       {asm.JNE, asm.JEq},
	bpf.JumpGreaterThan:    {asm.JGT, asm.JLE},
	bpf.JumpLessOrEqual:    {asm.JLE, asm.JGT},
	bpf.JumpGreaterOrEqual: {asm.JGE, asm.JLT},
	bpf.JumpLessThan:       {asm.JLT, asm.JGE},
	bpf.JumpBitsSet:        {asm.JSet, asm.InvalidJumpOp},
	bpf.JumpBitsNotSet:     {asm.InvalidJumpOp, asm.JSet},
}

// jumpIf adds a conditional jump. next is the instruction after it, from which the targets are
// counted.
func (c *classicCode) jumpIf(next int, test bpf.JumpTest, skipTrue, skipFalse uint8,
	jump func(op asm.JumpOp, label string) asm.Instruction) error {
	ops, ok := classicJumps[test]
	if !ok {
		return fmt.Errorf("unknown jump %d", test)
	}
	yes, no := int(skipTrue), int(skipFalse)
	if ops.yes == asm.InvalidJumpOp || yes == 0 && ops.no != asm.InvalidJumpOp {
		ops.yes, yes, no = ops.no, no, yes
	}
	label, err := c.jumpTo(next + yes)
	if err != nil {
		return err
	}
	c.add(jump(ops.yes, label))
	if no == 0 {
		return c.reach(next)
	}
	return c.jump(next + no)
}

// loadAbsolute loads bytes at a constant position, which are in network order. It compares a
// 32-bit copy of the length, so that the verifier does not narrow the range of the length
// itself: paths that differ in it alone would each be verified to the end.
func (c *classicCode) loadAbsolute(to asm.Register, off uint32, size int) (ends bool, err error) {
	if _, ok := sizes[size]; !ok || size == 8 {
		return false, fmt.Errorf("a load of %d bytes", size)
	}
	if off > packetFilterBytes-uint32(size) {
		c.add(asm.Ja.Label(c.reject()))
		return true, nil
	}
	c.add(asm.Mov.Reg32(regTemp, regCapLen), asm.JLT.Imm(regTemp, int32(off)+int32(size), c.reject()))
	c.load(to, regPacket, int16(off), size)
	return false, nil
}

// loadIndirect loads bytes at X and an offset. The first comparison uses a constant, so that the verifier knows
// the largest position.
func (c *classicCode) loadIndirect(off uint32, size int) (ends bool, err error) {
	if _, ok := sizes[size]; !ok || size == 8 {
		return false, fmt.Errorf("a load of %d bytes", size)
	}
	if off > packetFilterBytes-uint32(size) {
		c.add(asm.Ja.Label(c.reject()))
		return true, nil
	}
	c.add(asm.Mov.Reg32(regTemp, regX),
		asm.Add.Imm(regTemp, int32(off)),
		asm.JGT.Imm(regTemp, packetFilterBytes-int32(size), c.reject()),
		asm.Add.Imm(regTemp, int32(size)),
		asm.JGT.Reg(regTemp, regCapLen, c.reject()),
		asm.Add.Reg(regTemp, regPacket))
	c.load(regA, regTemp, -int16(size), size)
	return false, nil
}

// load loads bytes in network order, without a check.
func (c *classicCode) load(to, from asm.Register, off int16, size int) {
	c.add(asm.LoadMem(to, from, off, sizes[size]))
	if size > 1 {
		c.add(asm.HostTo(asm.BE, to, sizes[size]))
	}
}

var classicALU = map[bpf.ALUOp]asm.ALUOp{
	bpf.ALUOpAdd: asm.Add, bpf.ALUOpSub: asm.Sub, bpf.ALUOpMul: asm.Mul, bpf.ALUOpDiv: asm.Div, bpf.ALUOpMod: asm.Mod,
	bpf.ALUOpAnd: asm.And, bpf.ALUOpOr: asm.Or, bpf.ALUOpXor: asm.Xor,
	bpf.ALUOpShiftLeft: asm.LSh, bpf.ALUOpShiftRight: asm.RSh,
}

func (c *classicCode) aluConstant(op bpf.ALUOp, val uint32) (ends bool, err error) {
	alu, ok := classicALU[op]
	switch {
	case !ok:
		return false, fmt.Errorf("unknown operation %d", op)
	case (alu == asm.Div || alu == asm.Mod) && val == 0:
		c.add(asm.Ja.Label(c.reject()))
		return true, nil
	case (alu == asm.LSh || alu == asm.RSh) && val > 31:
		c.add(asm.Mov.Imm32(regA, 0))
	default:
		c.add(alu.Imm32(regA, int32(val)))
	}
	return false, nil
}

// aluX adds the code of A op X. eBPF's shifts use the lower 5 bits of X only.
func (c *classicCode) aluX(i int, op bpf.ALUOp) error {
	alu, ok := classicALU[op]
	switch {
	case !ok:
		return fmt.Errorf("unknown operation %d", op)
	case alu == asm.Div || alu == asm.Mod:
		c.add(asm.JEq.Imm32(regX, 0, c.reject()), alu.Reg32(regA, regX))
	case alu == asm.LSh || alu == asm.RSh:
		shift := c.label(i) + ".shift"
		c.add(asm.JLE.Imm32(regX, 31, shift), asm.Mov.Imm32(regA, 0), alu.Reg32(regA, regX).WithSymbol(shift))
	default:
		c.add(alu.Reg32(regA, regX))
	}
	return nil
}

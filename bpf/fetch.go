package bpf

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// Each raw tracepoint event uses its own values and filter. This file compiles the code for them, which replaces
// the function fetch of emit.bpf.c.

// Value is a value that a program reads into the raw data of its samples.
type Value struct {
	// Fetch is a fetcharg with a type (Documentation/trace/kprobetrace.rst): "+112($arg1):u32". It begins with an
	// argument or a constant, and ends with a number, a bit-field, an array of numbers, or a string.
	Fetch string
	At    int // position in the raw data; for strings, position of the __data_loc
}

// Filter is an expression over the raw data of samples. Op is "&&", "||" or "!", or a
// comparison: "==", "!=", "<", "<=", ">", ">=", or "&", a common bit.
type Filter struct {
	Op          string
	Left, Right *Filter // the operands; "!" uses Left only

	Of       Operand // operand of a comparison
	At, Size int     // position and size of a field, in bytes
	Signed   bool
	Number   uint64 // number to compare with
	Text     string // text to compare with, by "==" or "!=" only
}

// Operand is the left operand of a comparison.
type Operand uint8

const (
	FieldNumber  Operand = iota
	FieldText            // Size bytes of characters
	FieldDynamic         // a string whose __data_loc is in the field
	CurrentComm          // the name of the current thread
	CurrentCPU
)

// Limits of a sample's raw data, in bytes.
//
//bpf:define MaxSample SAMPLE_SIZE
const (
	MaxSample = 4096 // limit of dynamic data
	maxString = 512  // limit of one string, with the NUL
	maxValue  = 512  // limit of one array
)

// FetchError means that a program cannot read a value.
type FetchError struct{ Fetch, Msg string }

func (e *FetchError) Error() string { return fmt.Sprintf("argument %s: %s", e.Fetch, e.Msg) }

// source locates a value: the last of steps reads it; without steps it is the base itself.
type source struct {
	isArg bool
	base  int64 // the argument's number, starting from 0, or a constant
	steps []step
}

// step reads memory at an offset from an address.
type step struct {
	off  int64
	user bool
}

// valueType defines how a value is read and stored.
type valueType struct {
	str         bool
	user        bool // a string in user memory
	size, count int  // bytes of a number, and the number of array elements
	bits, shift int  // of a bit-field; 0: not a bit-field
}

var (
	fetchStep = regexp.MustCompile(`^([+-])(u?)(0x[0-9a-fA-F]+|[0-9]+)\((.*)\)$`)
	fetchType = regexp.MustCompile(
		`^(?:[usx](8|16|32|64)|(char)|(symbol)|(u?string)|b(\d+)@(\d+)/(8|16|32|64))(?:\[(\d+)\])?$`)
)

func (v *Value) parse() (s source, t valueType, err error) {
	bad := func(msg string) (source, valueType, error) { return s, t, &FetchError{v.Fetch, msg} }
	place, typ := v.Fetch, "u64"
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		place, typ = place[:i], place[i+1:]
	}
	for m := fetchStep.FindStringSubmatch(place); m != nil; m = fetchStep.FindStringSubmatch(place) {
		off, err := strconv.ParseInt(m[1]+m[3], 0, 64)
		if err != nil {
			return bad("the offset is too large")
		}
		s.steps = append([]step{{off, m[2] != ""}}, s.steps...)
		place = m[4]
	}
	if number, ok := strings.CutPrefix(place, "$arg"); ok {
		s.isArg = true
		s.base, err = strconv.ParseInt(number, 10, 8)
		if s.base--; err != nil || s.base < 0 || s.base >= MaxRawArgs {
			return bad(fmt.Sprintf("there are $arg1 to $arg%d", MaxRawArgs))
		}
	} else if number, ok := strings.CutPrefix(place, `\`); ok {
		if s.base, err = strconv.ParseInt(number, 0, 64); err != nil {
			return bad(number + " is not a number")
		}
	} else {
		return bad(place + " is not known at a tracepoint")
	}
	m := fetchType.FindStringSubmatch(typ)
	if m == nil {
		return bad("type " + typ + " cannot be read at a tracepoint")
	}
	number := func(i int) int { n, _ := strconv.Atoi(m[i]); return n }
	t.count = max(1, number(8))
	switch {
	case m[1] != "":
		t.size = number(1) / 8
	case m[2] != "":
		t.size = 1
	case m[3] != "":
		t.size = 8
	case m[4] != "":
		t.str, t.user, t.size = true, m[4] == "ustring" || len(s.steps) > 0 && s.steps[len(s.steps)-1].user, 4
	default:
		t.bits, t.shift, t.size = number(5), number(6), number(7)/8
		if t.bits == 0 || t.bits+t.shift > 8*t.size {
			return bad("these bits are not in " + typ)
		}
	}
	switch {
	case len(s.steps) == 0 && (t.str || m[8] != ""):
		return bad("a " + typ + " is at an address")
	case m[8] != "" && (t.str || t.bits > 0):
		return bad("there are no arrays of these")
	case t.size*t.count > maxValue:
		return bad(fmt.Sprintf("it has more than %d bytes", maxValue))
	}
	return s, t, nil
}

// code is a function's instructions.
type code struct {
	ins    asm.Instructions
	labels int
	label  string // label of the next instruction
}

// Registers of the function: the parameters, and the current address or value. The helpers preserve them.
const (
	regArgs = asm.R6
	regData = asm.R7
	regSize = asm.R8
	reg     = asm.R9
)

// scratch is the stack position for reading a word.
const scratch = -8

func (c *code) add(ins ...asm.Instruction) {
	first := len(c.ins)
	c.ins = append(c.ins, ins...)
	if c.label != "" {
		c.ins[first], c.label = c.ins[first].WithSymbol(c.label), ""
	}
}

func (c *code) newLabel() string {
	c.labels++
	return "fetch." + strconv.Itoa(c.labels)
}

// mark puts a label on the next instruction.
func (c *code) mark(label string) {
	if c.label != "" { // already labelled
		c.add(asm.Mov.Imm(asm.R0, 0))
	}
	c.label = label
}

// compileFetch compiles the function that reads values and applies a filter, which may be
// nil.
func compileFetch(values []Value, filter *Filter) (asm.Instructions, error) {
	var c code
	c.add(asm.Mov.Reg(regArgs, asm.R1), asm.Mov.Reg(regData, asm.R2), asm.Mov.Reg(regSize, asm.R3))
	for i := range values {
		if err := c.value(&values[i]); err != nil {
			return nil, err
		}
	}
	if filter != nil {
		accept, reject := c.newLabel(), c.newLabel()
		if err := c.filter(filter, accept, reject); err != nil {
			return nil, err
		}
		c.mark(reject)
		c.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
		c.mark(accept)
	}
	c.add(asm.Mov.Reg(asm.R0, regSize), asm.Return())
	return c.ins, nil
}

var sizes = map[int]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word, 8: asm.DWord}

// value reads one value. A number that cannot be read becomes 0, a string becomes fault.
func (c *code) value(v *Value) error {
	s, t, err := v.parse()
	if err != nil {
		return err
	}
	c.add(asm.Mov.Imm(asm.R0, 0))
	for at, left := v.At, t.size*t.count; left > 0; {
		n := chunk(left)
		c.add(asm.StoreMem(regData, int16(at), asm.R0, sizes[n]))
		at, left = at+n, left-n
	}
	if s.isArg {
		c.add(asm.LoadMem(reg, regArgs, int16(8*s.base), asm.DWord))
	} else {
		c.add(asm.LoadImm(reg, s.base, asm.DWord))
	}
	done := c.newLabel()
	fail := done
	if t.str {
		c.add(asm.JGT.Imm(regSize, MaxSample, done)) // no space left
		fail = c.newLabel()
	}
	for i, st := range s.steps {
		if i < len(s.steps)-1 {
			c.readWord(st, fail)
			continue
		}
		switch {
		case t.str:
			st.user = t.user
			c.readString(st, v.At, fail)
		case t.bits > 0:
			c.readWord(st, done)
		default:
			c.add(asm.Mov.Reg(asm.R1, regData), asm.Add.Imm(asm.R1, int32(v.At)),
				asm.Mov.Imm(asm.R2, int32(t.size*t.count)))
			c.read(st, asm.FnProbeReadKernel, asm.FnProbeReadUser)
		}
	}
	if t.bits > 0 {
		c.add(asm.LSh.Imm(reg, int32(64-t.shift-t.bits)), asm.RSh.Imm(reg, int32(64-t.bits)))
	}
	if len(s.steps) == 0 || t.bits > 0 {
		c.add(asm.StoreMem(regData, int16(v.At), reg, sizes[t.size]))
	}
	c.mark(done)
	return nil
}

// chunk returns the largest size up to n that one instruction loads or stores, in bytes.
func chunk(n int) int {
	for _, size := range []int{8, 4, 2} {
		if n >= size {
			return size
		}
	}
	return 1
}

// read calls the helper that reads a step's memory; the first two arguments must be set.
func (c *code) read(s step, kernel, user asm.BuiltinFunc) {
	fn := kernel
	if s.user {
		fn = user
	}
	c.add(asm.Mov.Reg(asm.R3, reg))
	if s.off != 0 {
		c.add(asm.LoadImm(asm.R4, s.off, asm.DWord), asm.Add.Reg(asm.R3, asm.R4))
	}
	c.add(fn.Call())
}

// readWord reads a word into reg, or jumps to fail.
func (c *code) readWord(s step, fail string) {
	c.add(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, scratch), asm.Mov.Imm(asm.R2, 8))
	c.read(s, asm.FnProbeReadKernel, asm.FnProbeReadUser)
	c.add(asm.JNE.Imm(asm.R0, 0, fail), asm.LoadMem(reg, asm.RFP, scratch, asm.DWord))
}

// fault is the kernel's text for a string that cannot be read.
const fault = "(fault)\x00"

// readString reads a string to the end of the sample, and writes the __data_loc. The code at fail handles strings
// whose address could not be read.
func (c *code) readString(s step, at int, fail string) {
	toEnd := []asm.Instruction{asm.Mov.Reg(asm.R1, regData), asm.Add.Reg(asm.R1, regSize)}
	c.add(toEnd...)
	c.add(asm.Mov.Imm(asm.R2, maxString))
	c.read(s, asm.FnProbeReadKernelStr, asm.FnProbeReadUserStr)
	good := c.newLabel()
	c.add(asm.JSGT.Imm(asm.R0, 0, good))
	c.mark(fail)
	c.add(toEnd...)
	c.add(asm.LoadImm(asm.R2, int64(binary.LittleEndian.Uint64([]byte(fault))), asm.DWord),
		asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, int32(len(fault))))
	c.mark(good)
	c.add(asm.Mov.Reg(asm.R2, asm.R0), asm.LSh.Imm(asm.R2, 16), asm.Or.Reg(asm.R2, regSize),
		asm.StoreMem(regData, int16(at), asm.R2, asm.Word),
		asm.Add.Reg(regSize, asm.R0), asm.Add.Imm(regSize, 7), asm.And.Imm(regSize, -8))
}

// filter jumps to yes if an expression is true, else to no.
func (c *code) filter(f *Filter, yes, no string) error {
	switch f.Op {
	case "!":
		return c.filter(f.Left, no, yes)
	case "&&", "||":
		right := c.newLabel()
		var err error
		if f.Op == "&&" {
			err = c.filter(f.Left, right, no)
		} else {
			err = c.filter(f.Left, yes, right)
		}
		if err != nil {
			return err
		}
		c.mark(right)
		return c.filter(f.Right, yes, no)
	}
	if f.Of == FieldNumber || f.Of == CurrentCPU {
		return c.compareNumber(f, yes, no)
	}
	switch f.Op {
	case "==":
	case "!=":
		yes, no = no, yes
	default:
		return fmt.Errorf("a BPF program cannot compare text by %s", f.Op)
	}
	c.compareText(f, yes, no)
	return nil
}

var (
	unsignedJumps = map[string]asm.JumpOp{"==": asm.JEq, "!=": asm.JNE, "<": asm.JLT, "<=": asm.JLE, ">": asm.JGT,
		">=": asm.JGE, "&": asm.JSet}
	signedJumps = map[string]asm.JumpOp{"==": asm.JEq, "!=": asm.JNE, "<": asm.JSLT, "<=": asm.JSLE, ">": asm.JSGT,
		">=": asm.JSGE, "&": asm.JSet}
)

func (c *code) compareNumber(f *Filter, yes, no string) error {
	jump, ok := unsignedJumps[f.Op]
	if f.Signed {
		jump = signedJumps[f.Op]
	}
	size := sizes[f.Size]
	if f.Of == CurrentCPU {
		c.add(asm.FnGetSmpProcessorId.Call(), asm.Mov.Reg(asm.R1, asm.R0))
	} else {
		if f.Size != 1 && f.Size != 2 && f.Size != 4 && f.Size != 8 {
			return fmt.Errorf("a field of %d bytes is not a number", f.Size)
		}
		c.add(asm.LoadMem(asm.R1, regData, int16(f.At), size))
	}
	if !ok {
		return fmt.Errorf("a BPF program cannot compare numbers by %s", f.Op)
	}
	number := int64(f.Number)
	if shift := 64 - 8*f.Size; f.Of == FieldNumber && shift > 0 {
		if f.Signed {
			c.add(asm.LSh.Imm(asm.R1, int32(shift)), asm.ArSh.Imm(asm.R1, int32(shift)))
			number = number << shift >> shift
		} else {
			number = int64(uint64(number) << shift >> shift)
		}
	}
	c.add(asm.LoadImm(asm.R2, number, asm.DWord), jump.Reg(asm.R1, asm.R2, yes), asm.Ja.Label(no))
	return nil
}

const commSize = 16 // TASK_COMM_LEN

// compareText jumps to yes if the texts are equal, including the terminating NUL.
func (c *code) compareText(f *Filter, yes, no string) {
	want, size := f.Text+"\x00", f.Size
	switch f.Of {
	case CurrentComm:
		size = commSize
		c.add(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -commSize), asm.Mov.Imm(asm.R2, commSize),
			asm.FnGetCurrentComm.Call(),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -commSize))
	case FieldText:
		c.add(asm.Mov.Reg(asm.R3, regData), asm.Add.Imm(asm.R3, int32(f.At)))
	case FieldDynamic:
		size = maxString
		c.add(asm.LoadMem(asm.R1, regData, int16(f.At), asm.Word), asm.Mov.Reg(asm.R2, asm.R1),
			asm.And.Imm(asm.R2, 0xffff), asm.RSh.Imm(asm.R1, 16),
			asm.JLT.Imm(asm.R1, int32(len(want)), no), asm.JGT.Imm(asm.R2, MaxSample, no),
			asm.Mov.Reg(asm.R3, regData), asm.Add.Reg(asm.R3, asm.R2))
	}
	if len(want) == size+1 && f.Of == FieldText {
		want = want[:size] // it fills the field
	}
	if len(want) > size {
		c.add(asm.Mov.Imm(asm.R1, 0), asm.JNE.Imm(asm.R1, 0, yes), asm.Ja.Label(no))
		return
	}
	for at := 0; at < len(want); {
		n := chunk(len(want) - at)
		var b [8]byte
		copy(b[:n], want[at:])
		c.add(asm.LoadMem(asm.R1, asm.R3, int16(at), sizes[n]),
			asm.LoadImm(asm.R2, int64(binary.LittleEndian.Uint64(b[:])), asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, no))
		at += n
	}
	c.add(asm.Ja.Label(yes))
}

// replaceFunctions replaces the bodies of functions, by name, in a program's instructions. It adds their names to
// replaced.
func replaceFunctions(ins asm.Instructions, bodies map[string]asm.Instructions,
	replaced map[string]bool) asm.Instructions {
	for i := 0; i < len(ins); i++ {
		body := bodies[ins[i].Symbol()]
		if body == nil {
			continue
		}
		replaced[ins[i].Symbol()] = true
		end := i + 1
		for end < len(ins) && ins[end].Symbol() == "" {
			end++
		}
		head := body[0].WithMetadata(ins[i].Metadata)
		ins = slices.Concat(ins[:i], asm.Instructions{head}, body[1:], ins[end:])
	}
	return ins
}

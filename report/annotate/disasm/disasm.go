// Package disasm disassembles x86-64 and arm64 code, in the text of objdump. Package
// symbolize reads the bytes, and names the addresses to which instructions refer.
package disasm

import (
	"debug/elf"
	"fmt"
	"strings"
)

// Syntax is the syntax of x86 instructions; arm64 has only one.
type Syntax uint8

const (
	ATT   Syntax = iota // sources first: mov %rdi,%rdx
	Intel               // destination first: mov rdx, rdi
)

// Kind says whether an instruction branches.
type Kind uint8

const (
	Other Kind = iota
	Call       // and comes back to the next one; system calls too
	Jump       // conditional ones too
)

// Inst is an instruction.
type Inst struct {
	Addr   uint64 // of the first byte
	Bytes  []byte
	Kind   Kind
	HasRef bool
	Ref    uint64 // the address to which it refers: a branch target or data

	op, args string
	refLast  bool // the reference is the last operand; otherwise a comment after the operands
}

// End returns the address after the instruction.
func (in *Inst) End() uint64 { return in.Addr + uint64(len(in.Bytes)) }

// Text returns the instruction as objdump writes it. name returns the symbol of an
// address, "" if unknown.
func (in *Inst) Text(name func(addr uint64) string) string {
	args := in.args
	if in.HasRef {
		ref := fmt.Sprintf("%x", in.Ref)
		if s := name(in.Ref); s != "" {
			ref += " <" + s + ">"
		}
		if in.refLast {
			args += ref
		} else {
			args += "        # " + ref
		}
	}
	return strings.TrimRight(fmt.Sprintf("%-6s %s", in.op, args), " ")
}

// MachineError: the code's machine is not supported.
type MachineError struct{ Machine elf.Machine }

func (e *MachineError) Error() string {
	return fmt.Sprintf("cannot disassemble code of %s, only of x86-64 and arm64",
		strings.TrimPrefix(e.Machine.String(), "EM_"))
}

// decoder reads the first instruction of code, which is not empty. An unknown
// instruction is at least one byte, and the text says that it is unknown.
type decoder func(code []byte, addr uint64, syntax Syntax) Inst

func decoderOf(m elf.Machine) (decoder, error) {
	switch m {
	case elf.EM_X86_64:
		return decodeX86, nil
	case elf.EM_AARCH64:
		return decodeARM64, nil
	}
	return nil, &MachineError{m}
}

// All returns the instructions of code, whose first byte lies at addr. Unknown
// instructions are returned as bytes. The error is a *MachineError.
func All(m elf.Machine, code []byte, addr uint64, syntax Syntax) ([]Inst, error) {
	decode, err := decoderOf(m)
	if err != nil {
		return nil, err
	}
	var list []Inst
	for len(code) > 0 {
		in := decode(code, addr, syntax)
		list = append(list, in)
		code, addr = code[len(in.Bytes):], in.End()
	}
	return list, nil
}

// Skip returns how many bytes of code to drop so that an instruction begins at
// offset at, for code whose function start is unknown. Decoding x86 code from any
// byte synchronizes after a few instructions.
func Skip(m elf.Machine, code []byte, at int) int {
	decode, err := decoderOf(m)
	if err != nil {
		return at
	}
	for skip := range at {
		for i := skip; i <= at; {
			if i == at {
				return skip
			}
			i += len(decode(code[i:], 0, ATT).Bytes)
		}
	}
	return at
}

// asBytes is how code is written that is no instruction.
func asBytes(code []byte) string {
	l := make([]string, len(code))
	for i, b := range code {
		l[i] = fmt.Sprintf("%#02x", b)
	}
	return strings.Join(l, ",")
}

// cut splits a text at the first blank.
func (in *Inst) cut(text string) { in.op, in.args, _ = strings.Cut(text, " ") }

// guarded calls a library that may panic on invalid instructions.
func guarded(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be decoded: %v", p)
		}
	}()
	return decode()
}

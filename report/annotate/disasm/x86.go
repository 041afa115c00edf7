package disasm

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"gperf/internal/x86"
)

func decodeX86(code []byte, addr uint64, syntax Syntax) Inst {
	code = code[:min(x86.MaxLen, len(code))]
	in := Inst{Addr: addr}
	err := guarded(func() error { return in.fromX86(code, syntax) })
	switch {
	case isEndbr(code): // which older processors execute as a nop
		in = Inst{Addr: addr, Bytes: code[:4], op: "endbr64"}
	case err != nil:
		n := max(1, escaped(code).Len)
		in = Inst{Addr: addr, Bytes: code[:n], op: ".byte", args: asBytes(code[:n])}
		if n == 1 {
			in.op, in.args = "(bad)", ""
		}
	}
	return in
}

// escaped returns the encoding of the first instruction of code if it begins with 0F, VEX or
// EVEX. All instructions that x86asm does not know are among these, and the length of one is
// needed to decode the next.
func escaped(code []byte) x86.Encoding {
	if e := x86.Decode(code); e.Escaped && e.Len > 0 {
		return e
	}
	return x86.Encoding{}
}

func isEndbr(code []byte) bool {
	return len(code) >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa
}

func (in *Inst) fromX86(code []byte, syntax Syntax) error {
	inst, err := x86asm.Decode(code, 64)
	if err != nil {
		return err
	}
	e := escaped(code)
	if inst.Op == 0 && e.Len > 0 { // only a prefix, since the instruction after it is unknown
		return errUnknown
	}
	if e.Vector {
		if e.Len == 0 {
			return errTruncated
		}
		mendVEX(&inst, e)
	}
	mendMem(&inst, e.Vector && e.ModRM&0xc7 == 5)
	in.Bytes, in.Kind = code[:inst.Len], kindX86(inst.Op)
	text := textX86(inst, in.Addr, syntax)
	if syntax == ATT && hasZero(inst, e) {
		text = strings.Replace(text, "(", "0x0(", 1)
	}
	for _, arg := range inst.Args {
		switch a := arg.(type) {
		case x86asm.Rel:
			in.HasRef, in.refLast, in.Ref = true, true, in.End()+uint64(int64(a))
			text = text[:strings.LastIndexAny(text, " ,")+1]
		case x86asm.Mem:
			if a.Base == x86asm.RIP {
				in.HasRef, in.Ref = true, in.End()+uint64(a.Disp)
			}
		}
	}
	in.cut(text)
	return nil
}

var (
	errTruncated = errors.New("truncated instruction")
	errUnknown   = errors.New("unknown instruction")
)

// mendVEX corrects x86asm's results for instructions with VEX or EVEX: vzeroupper
// is too long, and the bytes may be decoded as prefixes.
func mendVEX(inst *x86asm.Inst, e x86.Encoding) {
	inst.Len = e.Len
	if e.Prefixed {
		return
	}
	for i := range inst.Prefix {
		if inst.Prefix[i] != 0 {
			inst.Prefix[i] |= x86asm.PrefixImplicit
		}
	}
}

// mendMem corrects the memory operand: x86asm zero-extends displacements of four
// bytes, shows an index although SIB contains none, and with EVEX misses that an
// address is relative to the program counter.
func mendMem(inst *x86asm.Inst, relative bool) {
	for i, arg := range inst.Args {
		m, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		if relative {
			m.Base = x86asm.RIP
		}
		if whole := inst.Opcode>>24 >= 0xa0 && inst.Opcode>>24 <= 0xa3; !whole {
			m.Disp = int64(int32(m.Disp))
		}
		if m.Index == 0 && m.Base != 0 {
			m.Scale = 0
		}
		inst.Args[i] = m
	}
}

// hasZero reports whether the operand in memory contains a displacement of zero, which
// objdump shows: there is none with %rbp and %r13 without, and nops have one to be
// longer.
func hasZero(inst x86asm.Inst, e x86.Encoding) bool {
	for _, arg := range inst.Args {
		if m, ok := arg.(x86asm.Mem); ok && m.Disp == 0 && m.Base != 0 && m.Base != x86asm.RIP {
			return m.Base == x86asm.RBP || m.Base == x86asm.R13 || inst.Op == x86asm.NOP && e.ModRM>>6 != 0
		}
	}
	return false
}

func kindX86(op x86asm.Op) Kind {
	switch op {
	case x86asm.CALL, x86asm.LCALL, x86asm.SYSCALL, x86asm.SYSENTER, x86asm.INT:
		return Call
	case x86asm.JMP, x86asm.LJMP, x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JCXZ, x86asm.JE, x86asm.JECXZ,
		x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO,
		x86asm.JP, x86asm.JRCXZ, x86asm.JS, x86asm.LOOP, x86asm.LOOPE, x86asm.LOOPNE, x86asm.XBEGIN:
		return Jump
	}
	return Other
}

// usual maps x86asm's own mnemonics to objdump's, which since binutils 2.37
// omits a size suffix if only one size is possible.
var usual = map[string]string{"callq": "call", "jmpq": "jmp", "retq": "ret", "leaveq": "leave", "pushq": "push",
	"popq": "pop", "movsxd": "movslq",
	"cdqe": "cltq", "cwde": "cwtl", "cqo": "cqto", "cdq": "cltd"}

// An index without a scale, and a segment without a displacement: objdump writes
// all of them.
var (
	indexed   = regexp.MustCompile(`(\(%[a-z0-9]*,%[a-z0-9]+)\)`)
	segmented = regexp.MustCompile(`(%[fg]s:)(,|$)`)
)

func textX86(inst x86asm.Inst, addr uint64, syntax Syntax) string {
	if syntax == Intel {
		return x86asm.IntelSyntax(inst, addr, nil)
	}
	text := indexed.ReplaceAllString(x86asm.GNUSyntax(inst, addr, nil), "$1,1)")
	text = segmented.ReplaceAllString(text, "${1}0x0$2")
	if text == "data16 nop" {
		return "xchg %ax,%ax"
	}
	op, args, _ := strings.Cut(text, " ")
	if u, ok := usual[op]; ok {
		op = u
	}
	if inst.Op == x86asm.MOV && inst.Opcode>>28 == 0xb && inst.DataSize == 64 {
		op = "movabs"
		if imm, ok := inst.Args[1].(x86asm.Imm); ok && imm < 0 { // which is no number with a sign
			args = strings.Replace(args, fmt.Sprintf("$%#x", int64(imm)), fmt.Sprintf("$%#x", uint64(imm)), 1)
		}
	}
	if args == "" {
		return op
	}
	return op + " " + args
}

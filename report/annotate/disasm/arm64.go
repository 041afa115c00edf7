package disasm

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
)

func decodeARM64(code []byte, addr uint64, _ Syntax) Inst {
	in := Inst{Addr: addr, Bytes: code[:min(4, len(code))]}
	if len(code) < 4 {
		in.op, in.args = ".byte", asBytes(code)
		return in
	}
	word := binary.LittleEndian.Uint32(code)
	in.Kind = kindARM64(word)
	if err := guarded(func() error { return in.fromARM64() }); err != nil {
		in.HasRef, in.refLast = false, false
		in.op, in.args = ".inst", fmt.Sprintf("0x%08x", word)
	}
	return in
}

// kindARM64 recognizes instructions by bits (Arm ARM, "Branches, exception
// generating and system instructions"), those with pointer authentication too.
func kindARM64(word uint32) Kind {
	switch {
	case word>>26 == 0b100101, // bl
		word&0xfffffc1f == 0xd63f0000, // blr
		word&0xfefff800 == 0xd63f0800, // blraa, blrab, blraaz, blrabz
		word&0xffe0001f == 0xd4000001: // svc
		return Call
	case word>>26 == 0b000101, // b
		word&0xff000000 == 0x54000000, // b.cond, bc.cond
		word&0x7c000000 == 0x34000000, // cbz, cbnz, tbz, tbnz
		word&0xfffffc1f == 0xd61f0000, // br
		word&0xfefff800 == 0xd61f0800: // braa, brab, braaz, brabz
		return Jump
	}
	return Other
}

// tight is a comma as arm64asm writes it between brackets, without a blank.
var tight = regexp.MustCompile(`,(\S)`)

func (in *Inst) fromARM64() error {
	inst, err := arm64asm.Decode(in.Bytes)
	if err != nil {
		return err
	}
	in.cut(tight.ReplaceAllString(arm64asm.GNUSyntax(inst), ", $1"))
	for _, arg := range inst.Args {
		if rel, ok := arg.(arm64asm.PCRel); ok {
			base := in.Addr
			if inst.Op == arm64asm.ADRP {
				base &^= 0xfff
			}
			in.HasRef, in.refLast, in.Ref = true, true, base+uint64(rel)
			// It is the last operand, which would be written as a distance.
			in.args = in.args[:strings.LastIndexAny(" "+in.args, " ,")]
		}
	}
	return nil
}

package args

import (
	"slices"
	"strings"
)

// NumInRegisters is the number of integer arguments in registers on all machines.
const NumInRegisters = 6

// InRegister is a parameter in a register at a function's entry.
type InRegister struct {
	Name     string
	Type     *Type
	Register int // number among the registers of integer arguments, from 0
}

// InRegisters returns the parameters of a function that are integers or pointers, and in one of the first
// registers at the entry. DWARF names the register only in optimized code: in other code, where a parameter gets a
// place in memory after the entry, the ABI does.
func (m *Machine) InRegisters(s *Scope, inGo bool) (l []InRegister) {
	regs := m.args
	if inGo {
		regs = m.goArgs
	}
	next, lost := 0, inGo // the next register; it is unknown
	if m.entry > 0 && s.Return.Kind == Struct && s.Return.Size > 16 {
		next++ // the address for the result; on arm64 this is in another register
	}
	for i := range s.Vars {
		v := &s.Vars[i]
		if !v.Param || v.Type.Kind == Float {
			continue
		}
		if at := slices.Index(regs, strings.TrimPrefix(v.Where.Base, "%")); at >= 0 && v.Err == nil && !v.Where.Mem {
			next, lost = at, inGo
		} else if lost {
			continue
		}
		switch v.Type.Kind {
		case Int, Enum, Pointer:
			if next < NumInRegisters && v.Type.Size > 0 && v.Type.Size <= 8 {
				l = append(l, InRegister{v.Name, v.Type, next})
			}
			next++
		default:
			lost = true // the registers of a struct depend on the members
		}
	}
	return l
}

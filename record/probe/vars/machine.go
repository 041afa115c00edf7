package vars

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Machine is what the kernel and the ABI call registers.
type Machine struct {
	dwarf []string // by DWARF's number
	args  []string // that pass the first integer arguments
	ret   []string // that have what a function returns
	goRet []string // the same of Go
	other []string // that the kernel knows besides
	// entry is CFA - sp at a function's first instruction: what a call has pushed.
	entry int64
	sp    string
}

// machines by GOARCH. The numbers are those of the psABIs, the names those of
// regs_query_register_offset in the kernel's arch/*/kernel/ptrace.c.
var machines = map[string]*Machine{
	"amd64": {
		dwarf: strings.Fields("ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15 ip"),
		args:  strings.Fields("di si dx cx r8 r9"),
		ret:   strings.Fields("ax dx"),
		goRet: strings.Fields("ax bx cx"),
		other: strings.Fields("orig_ax cs flags ss"),
		entry: 8, sp: "sp",
	},
	"arm64": {
		dwarf: append(numbered("x", 31), "sp"),
		args:  numbered("x", 8),
		ret:   numbered("x", 2),
		goRet: numbered("x", 3),
		other: strings.Fields("pc pstate"),
		sp:    "sp",
	},
}

func numbered(prefix string, n int) (l []string) {
	for i := range n {
		l = append(l, prefix+strconv.Itoa(i))
	}
	return l
}

// MachineOf returns the machine of a GOARCH, nil if its ABI is not known.
func MachineOf(goarch string) *Machine { return machines[goarch] }

// Registers are the names that the kernel knows.
func (m *Machine) Registers() []string { return slices.Concat(m.dwarf, m.other) }

func (m *Machine) register(n uint64) (string, error) {
	if n >= uint64(len(m.dwarf)) {
		return "", fmt.Errorf("it is in register %d (DWARF), which probes cannot read", n)
	}
	return "%" + m.dwarf[n], nil
}

// Arg is where a program's nth integer argument is at a function's entry, from
// 1 on: its fetcharg, "" where the ABI puts it where the kernel cannot get at it.
func (m *Machine) Arg(n int) string {
	if n <= len(m.args) {
		return "%" + m.args[n-1]
	}
	// Behind the return address, if that is on the stack.
	return fmt.Sprintf("$stack%d", n-len(m.args)-1+int(m.entry/8))
}

// KernelArg is the same for the kernel's functions, in its own word.
func (m *Machine) KernelArg(n int) (string, error) {
	if n > len(m.args) && m.entry == 0 {
		return "", fmt.Errorf("it is on the stack, where the kernel does not read arguments of this machine")
	}
	return fmt.Sprintf("$arg%d", n), nil
}

// Returned is where a function's value is when it returns: its fetcharg.
func (m *Machine) Returned() string { return "%" + m.ret[0] }

// ReturnedStruct is where a struct of integers and pointers is when a function of a
// program returns it: in registers, or, where these are too few, at the address that the
// first one has.
func (m *Machine) ReturnedStruct(t *Type, inGo bool) Where {
	regs := m.ret
	if inGo {
		regs = m.goRet
	}
	words := int(t.Size+7) / 8
	if words > len(regs) {
		return Where{Base: m.Returned(), Mem: true}
	}
	var w Where
	for _, reg := range regs[:words] {
		w.Pieces = append(w.Pieces, Piece{Where: Where{Base: "%" + reg}, Size: 8})
	}
	return w
}

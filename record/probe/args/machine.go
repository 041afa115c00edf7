package args

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Machine holds the names and uses of registers in the kernel and the ABI.
type Machine struct {
	dwarf []string // by DWARF number
	args  []string // of the first integer arguments
	ret   []string // of the return value
	goRet []string // of Go's results
	// goArgs are the registers of Go's first integer arguments.
	goArgs []string
	other  []string // further registers of the kernel
	// entry is CFA - sp at a function's first instruction: the size of the pushed return
	// address.
	entry int64
	sp    string
}

// machines by GOARCH. The numbers are from the psABIs, the names from
// regs_query_register_offset in the kernel's arch/*/kernel/ptrace.c.
var machines = map[string]*Machine{
	"amd64": {
		dwarf: strings.Fields("ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15 ip"),
		args:  strings.Fields("di si dx cx r8 r9"),
		ret:   strings.Fields("ax dx"),
		goRet: strings.Fields("ax bx cx"), goArgs: strings.Fields("ax bx cx di si r8"),
		other: strings.Fields("orig_ax cs flags ss"),
		entry: 8, sp: "sp",
	},
	"arm64": {
		dwarf: append(numbered("x", 31), "sp"),
		args:  numbered("x", 8),
		ret:   numbered("x", 2),
		goRet: numbered("x", 3), goArgs: numbered("x", 6),
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

// MachineOf returns the machine of a GOARCH, nil if the ABI is unknown.
func MachineOf(goarch string) *Machine { return machines[goarch] }

// Registers returns the kernel's names of registers.
func (m *Machine) Registers() []string { return slices.Concat(m.dwarf, m.other) }

func (m *Machine) register(n uint64) (string, error) {
	if n >= uint64(len(m.dwarf)) {
		return "", fmt.Errorf("it is in register %d (DWARF), which probes cannot read", n)
	}
	return "%" + m.dwarf[n], nil
}

// Arg returns the fetcharg of a program's nth integer argument at a function's entry, starting from 1; "" if the
// kernel cannot read the location.
func (m *Machine) Arg(n int) string {
	if n <= len(m.args) {
		return "%" + m.args[n-1]
	}
	// After the return address, if that is on the stack.
	return fmt.Sprintf("$stack%d", n-len(m.args)-1+int(m.entry/8))
}

// KernelArg is Arg for kernel functions, with the kernel's $argN.
func (m *Machine) KernelArg(n int) (string, error) {
	if n > len(m.args) && m.entry == 0 {
		return "", fmt.Errorf("it is on the stack, where the kernel cannot read arguments on this machine")
	}
	return fmt.Sprintf("$arg%d", n), nil
}

// Returned returns the fetcharg of a return value.
func (m *Machine) Returned() string { return "%" + m.ret[0] }

// ReturnedStruct returns the location of a struct of integers and pointers when a user
// function returns it: in registers, or, if these are too few, at the address in the first
// one.
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

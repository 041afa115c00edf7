package args

import (
	"cmp"
	"debug/elf"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// NoteArg is an argument of a USDT probe.
type NoteArg struct {
	Text  string // in assembler syntax, as in the probe's note
	fetch string // the fetcharg, with one of gperf's types; "" if the kernel cannot read it
}

// ParseNote parses the arguments of a USDT probe's note, in a file for machine.
func ParseNote(text string, machine elf.Machine) (l []NoteArg) {
	words := strings.Fields(text)
	if machine == elf.EM_AARCH64 {
		words = Words(text) // brackets may contain spaces
	}
	for _, w := range words {
		fetch, _ := noteFetch(w, machine)
		l = append(l, NoteArg{w, fetch})
	}
	return l
}

// Arg returns the argument under a name; ok is false if the kernel cannot read it.
func (n *NoteArg) Arg(name string) (a Arg, ok bool) {
	if n.fetch == "" {
		return a, false
	}
	place, typ, _ := strings.Cut(n.fetch, ":")
	typ, float := kernelType(typ)
	return Arg{Name: name, Fetch: place + ":" + typ, Float: float}, true
}

var (
	noteWord   = regexp.MustCompile(`^(?:(-?)([1248])(f?)@)?(.+)$`)
	x86Operand = regexp.MustCompile(`^([+-]?(?:0x[0-9a-f]+|[0-9]+))?\(%([a-z0-9]+)\)$`)
	armOperand = regexp.MustCompile(`^\[([a-z0-9]+)(?:, *#?([+-]?[0-9]+))?\]$`)
)

// noteFetch returns the fetcharg of an argument; ok is false if the kernel cannot read it.
func noteFetch(arg string, machine elf.Machine) (fetch string, ok bool) {
	m := noteWord.FindStringSubmatch(arg)
	if m == nil {
		return "", false
	}
	size := 8
	if m[2] != "" {
		size, _ = strconv.Atoi(m[2])
	} else if machine == elf.EM_386 {
		size = 4
	}
	typ := fmt.Sprintf(":u%d", 8*size)
	if m[1] == "-" {
		typ = fmt.Sprintf(":s%d", 8*size)
	}
	operand, register := x86Operand, x86Register
	if machine == elf.EM_AARCH64 {
		operand, register = armOperand, armRegister
	}
	op := m[4]
	if m[3] != "" {
		if size < 4 {
			return "", false
		}
		typ = fmt.Sprintf(":f%d", 8*size)
	}
	if reg, ok := register(strings.TrimPrefix(op, "%")); ok && !strings.HasPrefix(op, "$") {
		return "%" + reg + typ, true
	}
	if n, ok := noteImmediate(op, machine); ok {
		return fmt.Sprintf("\\%d%s", n, typ), true
	}
	if m := operand.FindStringSubmatch(op); m != nil {
		disp, base := m[1], m[2]
		if machine == elf.EM_AARCH64 {
			disp, base = m[2], m[1]
		}
		n, err := strconv.ParseInt(cmp.Or(disp, "0"), 0, 32)
		if reg, ok := register(base); ok && err == nil {
			return fmt.Sprintf("%+d(%%%s)%s", n, reg, typ), true
		}
	}
	return "", false
}

func noteImmediate(op string, machine elf.Machine) (int64, bool) {
	digits, dollar := strings.CutPrefix(op, "$")
	if machine == elf.EM_AARCH64 {
		digits = strings.TrimPrefix(op, "#")
	} else if !dollar {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 0, 64)
	return n, err == nil
}

var x86Numbered = regexp.MustCompile(`^(r(?:8|9|1[0-5]))[dwb]?$`)

// x86Register returns the kernel's name of a register, or of the register whose low part it
// is (regoffset_table in arch/x86/kernel/ptrace.c).
func x86Register(name string) (string, bool) {
	if m := x86Numbered.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	short := name
	if len(name) == 3 && (name[0] == 'r' || name[0] == 'e') {
		short = name[1:]
	}
	switch short {
	case "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip":
		return short, true
	case "al", "bl", "cl", "dl":
		return short[:1] + "x", true
	case "sil", "dil", "bpl", "spl":
		return short[:2], true
	}
	return "", false
}

var armNumbered = regexp.MustCompile(`^[xw]([0-9]|[12][0-9]|30)$`)

// armRegister is x86Register for arm64 (regoffset_table in arch/arm64/kernel/ptrace.c).
func armRegister(name string) (string, bool) {
	if m := armNumbered.FindStringSubmatch(name); m != nil {
		return "x" + m[1], true
	}
	return name, name == "sp"
}

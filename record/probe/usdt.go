package probe

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// Mark is a USDT probe: a probe that the author of a program has put into it with
// <sys/sdt.h>.
type Mark struct {
	Provider, Name string
	Args           string // locations of its arguments, in assembler syntax: "-4@%edi 8@$5"

	vaddr     uint64
	semaphore uint64 // vaddr of the counter of users; 0: none
}

func (m *Mark) String() string { return m.Provider + ":" + m.Name }

// Marks returns the USDT probes of a file of code.
func (f *Finder) Marks(name string) ([]Mark, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.readMarks()
}

// marks returns the file's USDT probes that match a spec.
func (f *file) marks(s *spec) ([]*Probe, error) {
	all, err := f.readMarks()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &FileError{f.path, errors.New("it has no USDT probes (`readelf -n` shows them as stapsdt)")}
	}
	provider, err := markGlob(s, cmp.Or(s.provider, "*"))
	if err != nil {
		return nil, err
	}
	name, err := markGlob(s, s.name)
	if err != nil {
		return nil, err
	}
	var l []*Probe
	providers := map[string]bool{}
	for _, m := range all {
		if !provider.MatchString(m.Provider) || !name.MatchString(m.Name) {
			continue
		}
		p, err := f.markProbe(&m)
		if err != nil {
			return nil, err
		}
		providers[m.Provider] = true
		l = append(l, p)
	}
	if len(l) == 0 {
		return nil, f.noMark(s, all)
	}
	if s.provider == "" && len(providers) > 1 && !strings.ContainsAny(s.name, "*?[") {
		return nil, s.bad(fmt.Sprintf("several providers have this probe: name one (usdt:%s:PROVIDER:%s), or * for all", s.file, s.name))
	}
	return l, nil
}

// noMark returns the error for a spec that matches none of the file's USDT probes.
func (f *file) noMark(s *spec, all []Mark) error {
	e := &FunctionError{File: f.path, Name: strings.TrimPrefix(s.provider+":"+s.name, ":"), USDT: true}
	var names []string
	for _, m := range all {
		name := m.String()
		if s.provider == "" {
			name = m.Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if e.Near = suggest.Names(e.Name, names); len(e.Near) == 0 {
		e.Why = "it has " + few(names)
	}
	return e
}

func markGlob(s *spec, glob string) (*regexp.Regexp, error) {
	re, err := globExpr(glob)
	if err != nil {
		return nil, s.bad(err.Error())
	}
	return re, nil
}

// markArg is an argument of a USDT probe: in assembler syntax, and as fetcharg, "" if the
// kernel cannot read it.
type markArg struct{ text, fetch string }

// markProbe makes the probe, with perf's names: sdt_PROVIDER:NAME, and arg1 … for arguments.
// It omits arguments that the kernel cannot read.
func (f *file) markProbe(m *Mark) (*Probe, error) {
	off, ok := f.code(m.vaddr)
	if !ok {
		return nil, &FileError{f.path, fmt.Errorf("the USDT probe %s is at %#x, outside the code", m, m.vaddr)}
	}
	p := &Probe{Kind: Uprobe, Group: "sdt_" + clean(m.Provider), Event: withSuffix(clean(m.Name), Uprobe), Path: f.path, Off: off}
	if m.semaphore != 0 {
		if p.Semaphore, ok = f.OffOfVaddr(m.semaphore); !ok {
			return nil, &FileError{f.path, fmt.Errorf("the semaphore of the USDT probe %s is at %#x, which is not in the file", m, m.semaphore)}
		}
	}
	for i, a := range markArgs(m.Args, f.Machine) {
		fetch, ok := markFetch(a, f.Machine)
		if ok {
			place, typ, _ := strings.Cut(fetch, ":")
			typ, float := kernelType(typ)
			p.Args = append(p.Args, Arg{Name: "arg" + strconv.Itoa(i+1), Fetch: place + ":" + typ, Float: float})
		}
		p.markArgs = append(p.markArgs, markArg{a, fetch})
	}
	return p, nil
}

// unreadable reports the arguments of USDT probes that the kernel cannot read, nil if it can
// read all.
func unreadable(s *spec, marks []*Probe) error {
	var of []string
	first := ""
	for _, p := range marks {
		for i, a := range p.markArgs {
			if a.fetch == "" {
				of = append(of, p.Event)
				first = cmp.Or(first, fmt.Sprintf("arg%d of %s, %s", i+1, p.Event, a.text))
			}
		}
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: the kernel cannot read an argument: %s", s.text, first)
	}
	return fmt.Errorf("%s: the kernel cannot read %d arguments of %d probes, the first: %s", s.text, len(of), len(slices.Compact(of)), first)
}

// readMarks reads the notes of <sys/sdt.h>.
func (f *file) readMarks() ([]Mark, error) {
	s := f.Section(".note.stapsdt")
	if s == nil {
		return nil, nil
	}
	b, err := f.Data(s)
	if err != nil {
		return nil, &FileError{f.path, err}
	}
	// Tools such as prelink move sections without changing the notes: the difference of the
	// section's address is the offset to add.
	word, moved := 4, uint64(0)
	if f.Is64 {
		word = 8
	}
	base := f.Section(".stapsdt.base")
	var l []Mark
	for desc := range stapNotes(b) {
		m, noted, ok := decodeMark(desc, word)
		if !ok {
			continue
		}
		if base != nil {
			moved = base.Addr - noted
		}
		m.vaddr += moved
		if m.semaphore != 0 {
			m.semaphore += moved
		}
		l = append(l, m)
	}
	return l, nil
}

// stapNotes yields the descriptors of SystemTap's notes.
func stapNotes(b []byte) func(yield func([]byte) bool) {
	const (
		header  = 12
		stapSDT = 3
	)
	pad := func(n uint64) uint64 { return (n + 3) &^ 3 }
	return func(yield func([]byte) bool) {
		for len(b) >= header {
			namesz, descsz := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
			typ := binary.LittleEndian.Uint32(b[8:])
			desc := header + pad(namesz)
			if desc > uint64(len(b)) || descsz > uint64(len(b))-desc {
				return
			}
			if typ == stapSDT && string(b[header:header+namesz]) == "stapsdt\x00" && !yield(b[desc:desc+descsz]) {
				return
			}
			b = b[min(desc+pad(descsz), uint64(len(b))):]
		}
	}
}

// decodeMark decodes a descriptor: three addresses of word bytes and three strings.
func decodeMark(desc []byte, word int) (m Mark, base uint64, ok bool) {
	if len(desc) < 3*word {
		return m, 0, false
	}
	var addr [3]uint64
	for i := range addr {
		if word == 8 {
			addr[i] = binary.LittleEndian.Uint64(desc[8*i:])
		} else {
			addr[i] = uint64(binary.LittleEndian.Uint32(desc[4*i:]))
		}
	}
	text := strings.Split(string(desc[3*word:]), "\x00")
	if len(text) < 3 || text[0] == "" || text[1] == "" {
		return m, 0, false
	}
	return Mark{Provider: text[0], Name: text[1], Args: text[2], vaddr: addr[0], semaphore: addr[2]}, addr[1], true
}

// markArgs splits the arguments of a note; on Arm they have spaces within brackets.
func markArgs(s string, machine elf.Machine) []string {
	if machine == elf.EM_AARCH64 {
		return fields(s)
	}
	return strings.Fields(s)
}

var (
	markWord   = regexp.MustCompile(`^(?:(-?)([1248])(f?)@)?(.+)$`)
	x86Operand = regexp.MustCompile(`^([+-]?(?:0x[0-9a-f]+|[0-9]+))?\(%([a-z0-9]+)\)$`)
	armOperand = regexp.MustCompile(`^\[([a-z0-9]+)(?:, *#?([+-]?[0-9]+))?\]$`)
)

// markFetch returns the fetcharg of an argument; ok is false if the kernel cannot read it.
func markFetch(arg string, machine elf.Machine) (fetch string, ok bool) {
	m := markWord.FindStringSubmatch(arg)
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
	if n, ok := markImmediate(op, machine); ok {
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

func markImmediate(op string, machine elf.Machine) (int64, bool) {
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

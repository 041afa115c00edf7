package probe

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"gperf/symbolize/dso"
)

// resolve puts what is really called in the place of IFUNCs: functions which
// choose, when a program is loaded, the one that suits the CPU best, as memcpy
// does. unresolved says which could not be resolved, and are left away.
func (f *Finder) resolve(file *file, found []*Function) (l []*Function, unresolved error) {
	at := map[uint64]uint64{} // implementations by resolver, as vaddrs
	for _, fn := range found {
		if fn.ifunc {
			at[fn.vaddr] = 0
		}
	}
	if len(at) == 0 {
		return found, nil
	}
	by, err := f.implementations(file, at)
	var chosen, left []string
	seen := map[uint64]bool{}
	for _, fn := range found {
		if !fn.ifunc {
			seen[fn.Off] = true
		}
	}
	for _, fn := range found {
		impl := *fn
		if fn.ifunc {
			off, ok := file.code(at[fn.vaddr])
			if at[fn.vaddr] == 0 || !ok {
				left = append(left, fn.Symbol)
				continue
			}
			impl.vaddr, impl.Off, impl.Size = at[fn.vaddr], off, 0
			where := fmt.Sprintf("%s at %#x", fn.Symbol, impl.vaddr)
			if real := file.at(off); real != nil {
				impl.Size = real.Size
				where = fmt.Sprintf("%s at %s", fn.Symbol, real.Symbol)
			}
			chosen = append(chosen, where)
			if seen[off] {
				continue
			}
			seen[off] = true
		}
		l = append(l, &impl)
	}
	if len(chosen) > 0 {
		f.notice(fmt.Errorf("%s, chosen when programs start (IFUNC): %s", few(chosen), by))
	}
	if len(left) > 0 {
		if err == nil {
			err = errors.New("none of them calls it")
		}
		unresolved = fmt.Errorf("%s: what is called is chosen when programs start (IFUNC), and cannot be told (%w): record a process that runs (-p), or name the implementation (`gperf list 'uprobe:%s:*%s*'`)",
			few(left), err, file.path, strings.TrimLeft(left[0], "_"))
	}
	return l, unresolved
}

// few joins names, few of them if they are many.
func few(names []string) string {
	const some = 4
	if len(names) <= some {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
}

// implementations fills in what the resolvers choose. by says who was asked.
func (f *Finder) implementations(file *file, at map[uint64]uint64) (by string, err error) {
	for _, pid := range f.PIDs {
		if err = file.readSlots(pid, at); err == nil && resolved(at) {
			return fmt.Sprintf("as process %d has it", pid), nil
		}
	}
	if _, inside := strings.CutPrefix(file.path, "/proc/"); inside {
		if pid, ok := pidOf(file.path); ok && !slices.Contains(f.PIDs, pid) {
			if err = file.readSlots(pid, at); err == nil && resolved(at) {
				return fmt.Sprintf("as process %d has it", pid), nil
			}
		}
		return "as the process has it", err
	}
	if err := trusted(file.path); err != nil {
		return "", err
	}
	return "as this machine's CPU has it", file.callResolvers(at)
}

func resolved(at map[uint64]uint64) bool {
	for _, v := range at {
		if v == 0 {
			return false
		}
	}
	return true
}

// pidOf is the process whose tree a path is in.
func pidOf(path string) (pid int, ok bool) {
	_, err := fmt.Sscanf(path, "/proc/%d/root/", &pid)
	return pid, err == nil
}

// trusted says why code of the file must not be run just to ask it what it
// would call: whoever can write it could run what they like as gperf's user.
func trusted(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid != 0 && int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return errors.New("the file is not only root's or yours to write, so none of its code is run to ask it")
	}
	return nil
}

// readSlots reads what a process's dynamic linker has found, in the slots that
// calls of the functions go through: those of the file itself, and those of the
// other files that the process has mapped.
func (f *file) readSlots(pid int, at map[uint64]uint64) error {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer mem.Close()
	maps, err := mappings(pid)
	if err != nil {
		return err
	}
	bias, ok := biasOf(f.Image, maps, f.path)
	if !ok {
		return fmt.Errorf("process %d has not mapped the file", pid)
	}
	read := func(ip uint64) uint64 {
		var b [8]byte
		if _, err := mem.ReadAt(b[:], int64(ip)); err != nil {
			return 0
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	take := func(resolver, ip uint64) {
		if vaddr := ip - bias; at[resolver] == 0 && vaddr != resolver {
			if _, ok := f.code(vaddr); ok {
				at[resolver] = vaddr
			}
		}
	}
	for _, s := range slots(f.path) {
		if _, wanted := at[s.addend]; wanted && s.irelative {
			take(s.addend, read(s.vaddr+bias))
		}
	}
	if resolved(at) {
		return nil
	}
	resolver := map[string]uint64{}
	for _, fn := range f.functions {
		if fn.ifunc && !fn.imported {
			resolver[fn.Symbol] = fn.vaddr
		}
	}
	for _, m := range maps {
		im, err := dso.Open(m.path)
		if err != nil {
			continue
		}
		if b, ok := im.Bias(m.start, m.end, m.pgoff); ok {
			for _, s := range slots(m.path) {
				if r, ok := resolver[s.symbol]; ok {
					if _, wanted := at[r]; wanted {
						take(r, read(s.vaddr+b))
					}
				}
			}
		}
		im.Close()
	}
	return nil
}

// mapping is code that a process has mapped from a file.
type mapping struct {
	start, end, pgoff uint64
	path              string // from here
}

func mappings(pid int) (l []mapping, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	r := rootOf(pid)
	for line := range strings.Lines(string(b)) {
		var m mapping
		var perms string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &m.start, &m.end, &perms, &m.pgoff); n < 4 || !strings.Contains(perms, "x") {
			continue
		}
		if _, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "/"); ok {
			m.path = string(r) + "/" + path
			l = append(l, m)
		}
	}
	return l, nil
}

func biasOf(im *dso.Image, maps []mapping, path string) (uint64, bool) {
	for _, m := range maps {
		if same(m.path, path) {
			if bias, ok := im.Bias(m.start, m.end, m.pgoff); ok {
				return bias, true
			}
		}
	}
	return 0, false
}

// slot is where a file keeps the address of a function.
type slot struct {
	vaddr     uint64
	irelative bool   // of the one that the resolver at addend chooses
	addend    uint64 // a vaddr
	symbol    string // else: the function's name
}

// slots reads a 64-bit file's relocations of functions' addresses.
func slots(path string) (l []slot) {
	defer func() {
		if recover() != nil { // debug/elf is not proof against every file
			l = nil
		}
	}()
	e, err := elf.Open(path)
	if err != nil || e.Class != elf.ELFCLASS64 {
		return nil
	}
	defer e.Close()
	symbols, _ := e.DynamicSymbols()
	kinds := map[elf.Machine][3]uint32{
		elf.EM_X86_64:  {uint32(elf.R_X86_64_IRELATIVE), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_JMP_SLOT)},
		elf.EM_AARCH64: {uint32(elf.R_AARCH64_IRELATIVE), uint32(elf.R_AARCH64_GLOB_DAT), uint32(elf.R_AARCH64_JUMP_SLOT)},
	}[e.Machine]
	for _, name := range [...]string{".rela.plt", ".rela.dyn"} {
		s := e.Section(name)
		if s == nil {
			continue
		}
		b, err := s.Data()
		for ; err == nil && len(b) >= 24; b = b[24:] {
			info := binary.LittleEndian.Uint64(b[8:])
			sym, typ := elf.R_SYM64(info), elf.R_TYPE64(info)
			r := slot{vaddr: binary.LittleEndian.Uint64(b)}
			switch {
			case typ == kinds[0]:
				r.irelative, r.addend = true, binary.LittleEndian.Uint64(b[16:])
			case (typ == kinds[1] || typ == kinds[2]) && sym > 0 && int(sym) <= len(symbols):
				r.symbol = symbols[sym-1].Name
			default:
				continue
			}
			l = append(l, r)
		}
	}
	return l
}

package program

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"gperf/internal/dso"
	"gperf/internal/procmem"
	"gperf/internal/text"
)

// ifuncs are the IFUNCs of a file: the vaddrs of the functions that the resolvers choose, by the resolvers'
// vaddrs; 0: not known yet.
type ifuncs struct {
	file *File
	at   map[uint64]uint64
}

// resolve replaces IFUNCs by the chosen implementations: an IFUNC such as memcpy is a resolver that chooses, when
// a program is loaded, the best function for the CPU. unresolved lists the IFUNCs that could not be resolved,
// which are skipped.
func (l *Locator) resolve(file *File, found []*Function) (direct []*Function, unresolved error) {
	at := map[uint64]uint64{} // implementations by resolver, as vaddrs
	for _, fn := range found {
		if fn.ifunc {
			at[fn.vaddr] = 0
		}
	}
	if len(at) == 0 {
		return found, nil
	}
	by, err := l.implementations(ifuncs{file, at})
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
			if real := file.At(off); real != nil {
				impl.Size = real.Size
				where = fmt.Sprintf("%s at %s", fn.Symbol, real.Symbol)
			}
			chosen = append(chosen, where)
			if seen[off] {
				continue
			}
			seen[off] = true
		}
		direct = append(direct, &impl)
	}
	if len(chosen) > 0 {
		l.notice(fmt.Errorf("%s, chosen when programs start (IFUNC): %s", few(chosen), by))
	}
	if len(left) > 0 {
		if err == nil {
			err = errors.New("none of the processes calls it")
		}
		unresolved = fmt.Errorf("%s: cannot find the implementation, which is chosen when programs start (IFUNC, %w): "+
			"record a running process (-p), or name the implementation (`gperf list 'uprobe:%s:*%s*'`)",
			few(left), err, file.path, strings.TrimLeft(left[0], "_"))
	}
	return direct, unresolved
}

// few joins names, but only the first of many.
func few(names []string) string { return text.JoinFirst(names, 4) }

// implementations fills in the functions that the resolvers choose. by names the source of
// the choice.
func (l *Locator) implementations(i ifuncs) (by string, err error) {
	for _, pid := range l.PIDs {
		if err = i.readSlots(pid); err == nil && i.resolved() {
			return fmt.Sprintf("as process %d has it", pid), nil
		}
	}
	if _, inside := strings.CutPrefix(i.file.path, "/proc/"); inside {
		if pid, ok := pidOf(i.file.path); ok && !slices.Contains(l.PIDs, pid) {
			if err = i.readSlots(pid); err == nil && i.resolved() {
				return fmt.Sprintf("as process %d has it", pid), nil
			}
		}
		return "as the process has it", err
	}
	if err := trusted(i.file.path); err != nil {
		return "", err
	}
	return "as this machine's CPU has it", i.callResolvers()
}

func (i ifuncs) resolved() bool {
	return !slices.Contains(slices.Collect(maps.Values(i.at)), 0)
}

// pidOf returns the process whose root a path is in.
func pidOf(path string) (pid int, ok bool) {
	_, err := fmt.Sscanf(path, "/proc/%d/root/", &pid)
	return pid, err == nil
}

// trusted returns an error if code of the file must not be run to find the implementation: other users who can
// write the file could run any code as gperf's user.
func trusted(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid != 0 && int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return errors.New("users other than root and you can write the file, so gperf does not run its code")
	}
	return nil
}

// readSlots reads the addresses that a process's dynamic linker resolved, from the slots for calls of the
// functions: slots of the file itself, and of the other files that the process maps.
func (i ifuncs) readSlots(pid int) error {
	mem, err := procmem.Open(pid)
	if err != nil {
		return err
	}
	defer mem.Close()
	maps, err := mappings(pid)
	if err != nil {
		return err
	}
	bias, ok := biasOf(i.file.Image, maps, i.file.path)
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
		if vaddr := ip - bias; i.at[resolver] == 0 && vaddr != resolver {
			if _, ok := i.file.code(vaddr); ok {
				i.at[resolver] = vaddr
			}
		}
	}
	for _, s := range slots(i.file.path) {
		if _, wanted := i.at[s.addend]; wanted && s.irelative {
			take(s.addend, read(s.vaddr+bias))
		}
	}
	if i.resolved() {
		return nil
	}
	resolver := map[string]uint64{}
	for _, fn := range i.file.functions {
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
					if _, wanted := i.at[r]; wanted {
						take(r, read(s.vaddr+b))
					}
				}
			}
		}
		im.Close()
	}
	return nil
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

// slot is the position in a file of a function's address.
type slot struct {
	vaddr     uint64
	irelative bool   // of the function that the resolver at addend chooses
	addend    uint64 // a vaddr
	symbol    string // otherwise: the function's name
}

// slots reads a 64-bit file's relocations of functions' addresses.
func slots(path string) (l []slot) {
	defer func() {
		if recover() != nil { // debug/elf may panic on damaged files
			l = nil
		}
	}()
	e, err := dso.OpenELF(path)
	if err != nil || e.Class != elf.ELFCLASS64 {
		return nil
	}
	defer e.Close()
	symbols, _ := e.DynamicSymbols()
	kinds := map[elf.Machine][3]uint32{
		elf.EM_X86_64: {uint32(elf.R_X86_64_IRELATIVE), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_JMP_SLOT)},
		elf.EM_AARCH64: {uint32(elf.R_AARCH64_IRELATIVE), uint32(elf.R_AARCH64_GLOB_DAT),
			uint32(elf.R_AARCH64_JUMP_SLOT)},
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

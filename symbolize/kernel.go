package symbolize

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"gperf/internal/dso"
)

// errOtherKernel: no symbols of the recorded kernel were found.
var errOtherKernel = errors.New("the running kernel is not the one recorded")

// kernel is the symbols of the recorded kernel.
type kernel struct {
	syms  *Kallsyms
	delta uint64 // vaddr - recorded ip
	// modules has the symbols that a vmlinux lacks: modules and BPF programs, at
	// their addresses during the recording. It is nil if these are unknown, or in
	// syms.
	modules func() *Kallsyms
}

// ofVmlinux reports whether the symbols are those of a vmlinux.
func (k *kernel) ofVmlinux() bool { return k.modules != nil }

func (k *kernel) lookup(ip uint64) (sym *Symbol, offset uint64, module string, ok bool) {
	if sym, module, ok = k.syms.Lookup(ip + k.delta); ok {
		return sym, ip + k.delta - sym.Start, module, true
	}
	if k.modules == nil || k.modules() == nil {
		return nil, 0, "", false
	}
	if sym, module, ok = k.modules().Lookup(ip); ok && module != "" {
		return sym, ip - sym.Start, module, true
	}
	return nil, 0, "", false
}

// Kernel returns the symbol at ip in the kernel, a module or a BPF program, how
// far into it ip is, and the module: "" for the kernel itself, else in brackets.
// The symbol's addresses are those of the symbols' source, which differ from the
// recorded ones if the kernel was moved in between.
func (s *Symbolizer) Kernel(ip uint64) (sym *Symbol, offset uint64, module string, why Reason) {
	sym, offset, module, why = s.kernelSymbol(ip)
	s.kernelAsked.count(why)
	return sym, offset, module, why
}

// kernelSymbol is Kernel for one that asks not on its own account.
func (s *Symbolizer) kernelSymbol(ip uint64) (sym *Symbol, offset uint64, module string, why Reason) {
	k, err := s.kernel()
	if err != nil {
		return nil, 0, "", reasonOf(err)
	}
	sym, offset, module, ok := k.lookup(ip)
	if !ok {
		return nil, 0, "", NoSymbol
	}
	return sym, offset, module, Found
}

// KernelProblem returns why kernel addresses have no names, nil if they have.
func (s *Symbolizer) KernelProblem() error {
	_, err := s.kernel()
	return err
}

// KernelRange returns the addresses, as recorded, that the kernel's own symbols
// span; 0, 0 if there are none.
func (s *Symbolizer) KernelRange() (start, end uint64) {
	k, err := s.kernel()
	if err != nil {
		return 0, 0
	}
	start, end = k.syms.Range()
	return start - k.delta, end - k.delta
}

func (s *Symbolizer) loadKernel() (*kernel, error) {
	syms, whole, err := s.kernelSymbols()
	if err != nil {
		return nil, err
	}
	k := &kernel{syms: syms}
	if !whole {
		k.modules = sync.OnceValue(s.loadModules)
	}
	if ref := s.opts.KernelRef; ref != "" {
		addr, ok := syms.Addr(ref)
		if !ok {
			return nil, fmt.Errorf("kernel symbols: %s is not among them: %w", ref, errOtherKernel)
		}
		k.delta = addr - s.opts.KernelRefAddr
	}
	return k, nil
}

// loadModules reads the kallsyms of the recorded kernel; it returns nil unless they
// are of the same boot.
func (s *Symbolizer) loadModules() *Kallsyms {
	k, err := s.kallsyms(s.opts.KernelBuildID, dso.BuildID{})
	if err != nil {
		return nil
	}
	if addr, ok := k.Addr(s.opts.KernelRef); s.opts.KernelRef != "" && (!ok || addr != s.opts.KernelRefAddr) {
		return nil
	}
	return k
}

// kernelSymbols reads the recorded kernel's symbols from where perf takes them
// (dso__load_kernel_sym in tools/perf/util/symbol.c): the file in the options, a
// vmlinux with its build ID, /proc/kallsyms of the same kernel, perf's cache. A
// vmlinux lacks the modules.
func (s *Symbolizer) kernelSymbols() (k *Kallsyms, whole bool, err error) {
	if s.opts.Kallsyms != "" {
		k, err = openKallsyms(s.opts.Kallsyms)
		return k, true, err
	}
	want := s.kernelID()
	k, err = s.vmlinux(want)
	switch {
	case err == nil:
		return k, false, nil
	case s.opts.Locator.VmlinuxPath != "": // it was asked for, and nothing else
		return nil, false, fmt.Errorf("kernel symbols: %w", err)
	}
	var running dso.BuildID
	if s.opts.Locator.Root == "" {
		running, _ = dso.KernelBuildID()
	}
	k, err = s.kallsyms(want, running)
	return k, true, err
}

// kernelID returns the recorded kernel's build ID. Without one the kernel is assumed
// to be the running one, unless options name another root, or the file itself.
func (s *Symbolizer) kernelID() dso.BuildID {
	id := s.opts.KernelBuildID
	if locator := s.opts.Locator; id.IsZero() && locator.Root == "" && locator.VmlinuxPath == "" {
		id, _ = dso.KernelBuildID()
	}
	return id
}

// kallsyms reads the list of the kernel that is wanted.
func (s *Symbolizer) kallsyms(want, running dso.BuildID) (*Kallsyms, error) {
	locator := s.opts.Locator
	if locator.Root != "" && !locator.Packed() { // perf looks for nothing else below --symfs
		return nil, fmt.Errorf("kernel symbols: no vmlinux of the recorded kernel below %s: %w", locator.Root, dso.ErrNoFile)
	}
	f, err := locator.Kallsyms(s.opts.KernelBuildID)
	switch {
	case err == nil:
		return readKallsyms(f, "kallsyms")
	case locator.Packed():
		return nil, fmt.Errorf("kernel symbols: the archive has no kallsyms or vmlinux: %w", dso.ErrNoFile)
	case want.IsZero() || want.Matches(running):
		return nil, fmt.Errorf("kernel symbols: %w", err)
	}
	return nil, fmt.Errorf("kernel symbols: no kallsyms or vmlinux with build id %s: %w", want, errOtherKernel)
}

func openKallsyms(path string) (*Kallsyms, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("kernel symbols: %w", err)
	}
	return readKallsyms(f, path)
}

// readKallsyms reads f and closes it; errors name it path.
func readKallsyms(f io.ReadCloser, path string) (*Kallsyms, error) {
	defer f.Close()
	k, err := ParseKallsyms(f)
	if err != nil {
		return nil, fmt.Errorf("kernel symbols: %s: %w", path, err)
	}
	return k, nil
}

// vmlinux returns the symbols of the kernel's own ELF file with the build ID.
func (s *Symbolizer) vmlinux(id dso.BuildID) (*Kallsyms, error) {
	why := errNoVmlinux
	for im, err := range s.opts.Locator.Kernels(id) {
		if err != nil {
			why = err
			continue
		}
		k, err := vmlinuxSymbols(im)
		im.Close()
		if err == nil {
			return k, nil
		}
		why = err
	}
	return nil, why
}

// vmlinuxSymbols converts a vmlinux's .symtab to the list of kallsyms.
func vmlinuxSymbols(im *dso.Image) (*Kallsyms, error) {
	section := im.Section(".symtab")
	if section == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	list, err := readSymbols(im, section)
	if err != nil {
		return nil, err
	}
	refs := make(map[string]uint64)
	entries := make([]entry, 0, len(list))
	for i := range list {
		r := &list[i]
		if !wanted(r, im.Machine) || ignoredKernelName(r.name) || uint64(r.shndx) >= uint64(len(im.Sections())) {
			continue
		}
		if r.typ == elf.STT_NOTYPE && !hasLabels(im.Sections()[r.shndx]) {
			continue
		}
		if slices.Contains(refNames, r.name) {
			refs[r.name] = r.value
		}
		entries = append(entries, entry{start: r.value, end: r.value + r.size, name: r.name, typ: r.typ, bind: r.bind, node: int32(i + 1)})
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	show := func(e *entry) string { return e.name }
	sortEntries(entries)
	fixupEnds(entries, func(_, next *entry) uint64 { return next.start })
	return &Kallsyms{newTable(dropDuplicates(entries, show, func(*entry) {}), nil, show), refs}, nil
}

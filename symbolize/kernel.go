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

// errOtherKernel means that there are no symbols of the recorded kernel.
var errOtherKernel = errors.New("the running kernel is not the one recorded")

// kernelSymbols are the symbols of the kernel, its modules and its BPF programs.
type kernelSymbols struct {
	opts    Options
	files   *kernelFiles
	tables  func() (*kernelTables, error)
	own     func() *Table // the symbols that the recording contains, or nil
	lookups lookups
}

// kernelFiles has the symbols of kernels by their files, which the Symbolizers of several boots share.
type kernelFiles struct {
	mu    sync.Mutex
	files map[kernelFile]func() (kernelTable, error) // each reads a file once
}

// kernelFile identifies the symbols of a kernel.
type kernelFile struct {
	kallsyms string // of the Options
	id       dso.BuildID
}

// kernelTable is the result of kernelSymbols.read.
type kernelTable struct {
	syms       *Kallsyms
	hasModules bool
}

func newKernelFiles() *kernelFiles {
	return &kernelFiles{files: map[kernelFile]func() (kernelTable, error){}}
}

// table returns the symbols of a kernel, which the first call reads.
func (f *kernelFiles) table(k *kernelSymbols) (kernelTable, error) {
	key := kernelFile{k.opts.Kallsyms, k.opts.KernelBuildID}
	f.mu.Lock()
	read := f.files[key]
	if read == nil {
		read = sync.OnceValues(func() (t kernelTable, err error) {
			t.syms, t.hasModules, err = k.read()
			return t, err
		})
		f.files[key] = read
	}
	f.mu.Unlock()
	return read()
}

func newKernelSymbols(opts Options, files *kernelFiles) *kernelSymbols {
	k := &kernelSymbols{opts: opts, files: files}
	k.tables = sync.OnceValues(k.load)
	k.own = sync.OnceValue(opts.Recorded.kernel)
	return k
}

// kernelTables are the tables of the recorded kernel.
type kernelTables struct {
	syms  *Kallsyms
	delta uint64 // vaddr - recorded ip
	// modules returns the symbols of modules and BPF programs, at their recorded ips, or nil if unknown. The field is
	// nil if syms contains them; a vmlinux does not.
	modules func() *Kallsyms
}

// ofVmlinux reports whether syms is from a vmlinux.
func (k *kernelTables) ofVmlinux() bool { return k.modules != nil }

func (k *kernelTables) lookup(ip uint64) (sym *Symbol, offset uint64, module string, ok bool) {
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

// Kernel returns the symbol at ip in the kernel, a module or a BPF program, the offset of ip from the symbol's start in
// bytes, and the module in brackets, or "" for the kernel itself. The symbol's addresses are the addresses in the file
// with the symbols. They differ from the recorded ips if the kernel was booted again in between.
func (k *kernelSymbols) Kernel(ip uint64) (sym *Symbol, offset uint64, module string, why Reason) {
	sym, offset, module, why = k.symbol(ip)
	k.lookups.count(why)
	return sym, offset, module, why
}

// symbol is Kernel without counting the lookup.
func (k *kernelSymbols) symbol(ip uint64) (sym *Symbol, offset uint64, module string, why Reason) {
	t, err := k.tables()
	if err != nil {
		return k.ownSymbol(ip, err)
	}
	sym, offset, module, ok := t.lookup(ip)
	if !ok {
		return nil, 0, "", NoSymbol
	}
	return sym, offset, module, Found
}

// ownSymbol looks an address up in the symbols that the recording contains, since err prevents other lookups.
func (k *kernelSymbols) ownSymbol(ip uint64, err error) (sym *Symbol, offset uint64, module string, why Reason) {
	t := k.own()
	if t == nil {
		return nil, 0, "", reasonOf(err)
	}
	sym, ok := t.Lookup(ip)
	if !ok {
		return nil, 0, "", NoSymbol
	}
	return sym, ip - sym.Start, "", Found
}

// KernelProblem returns why kernel addresses have no names, or nil if they have.
func (k *kernelSymbols) KernelProblem() error {
	if _, err := k.tables(); err != nil && k.own() == nil {
		return err
	}
	return nil
}

// KernelRange returns the recorded ips from the start of the kernel's own first symbol to the end of its last, without
// modules. It returns 0, 0 if there are no symbols.
func (k *kernelSymbols) KernelRange() (start, end uint64) {
	t, err := k.tables()
	if err != nil {
		return 0, 0
	}
	start, end = t.syms.Range()
	return start - t.delta, end - t.delta
}

// KernelOrigin returns the place of the kernel's symbols.
func (k *kernelSymbols) KernelOrigin() dso.Origin {
	switch t, err := k.tables(); {
	case err != nil && k.own() != nil:
		return dso.OriginRecording
	case err != nil:
		return dso.OriginNone
	case t.ofVmlinux():
		return dso.OriginVmlinux
	}
	return dso.OriginKallsyms
}

func (k *kernelSymbols) unresolved() []Unresolved {
	if k.lookups.missing.Load() == 0 {
		return nil
	}
	return appendUnresolved(nil, dso.KernelName, k.opts.KernelBuildID, &k.lookups, k.KernelProblem())
}

func (k *kernelSymbols) load() (*kernelTables, error) {
	defer k.opts.reading(dso.KernelName)()
	read, err := k.files.table(k)
	if err != nil {
		return nil, err
	}
	syms := read.syms
	t := &kernelTables{syms: syms}
	if !read.hasModules {
		t.modules = sync.OnceValue(k.loadModules)
	}
	if ref := k.opts.KernelRef; ref != "" {
		addr, ok := syms.Addr(ref)
		if !ok {
			return nil, fmt.Errorf("kernel symbols: no symbol %s: %w", ref, errOtherKernel)
		}
		t.delta = addr - k.opts.KernelRefAddr
	}
	return t, nil
}

// loadModules reads the kallsyms of the recorded kernel. It returns nil unless they are from the recorded boot.
func (k *kernelSymbols) loadModules() *Kallsyms {
	syms, err := k.kallsyms(k.opts.KernelBuildID, dso.BuildID{})
	if err != nil {
		return nil
	}
	if addr, ok := syms.Addr(k.opts.KernelRef); k.opts.KernelRef != "" && (!ok || addr != k.opts.KernelRefAddr) {
		return nil
	}
	return syms
}

// read reads the recorded kernel's symbols from perf's places, in perf's order (dso__load_kernel_sym in
// tools/perf/util/symbol.c): the file in the options, a vmlinux with its build ID, /proc/kallsyms of the same kernel,
// perf's cache. A vmlinux has no modules.
func (k *kernelSymbols) read() (syms *Kallsyms, hasModules bool, err error) {
	if k.opts.Kallsyms != "" {
		syms, err = openKallsyms(k.opts.Kallsyms)
		return syms, true, err
	}
	want := k.id()
	syms, err = k.vmlinux(want)
	switch {
	case err == nil:
		return syms, false, nil
	case k.opts.Locator.VmlinuxPath != "": // the user wants this file only
		return nil, false, fmt.Errorf("kernel symbols: %w", err)
	}
	var running dso.BuildID
	if k.opts.Locator.Root == "" {
		running, _ = dso.KernelBuildID()
	}
	syms, err = k.kallsyms(want, running)
	return syms, true, err
}

// id returns the recorded kernel's build ID. If it was not recorded, id returns the running kernel's, unless the
// options name another root or a vmlinux.
func (k *kernelSymbols) id() dso.BuildID {
	id := k.opts.KernelBuildID
	if locator := k.opts.Locator; id.IsZero() && locator.Root == "" && locator.VmlinuxPath == "" {
		id, _ = dso.KernelBuildID()
	}
	return id
}

// kallsyms reads the kallsyms of the kernel with build ID want, or of the running kernel if want is zero.
func (k *kernelSymbols) kallsyms(want, running dso.BuildID) (*Kallsyms, error) {
	locator := k.opts.Locator
	if locator.Root != "" && !locator.Packed() { // with --symfs, perf reads no kallsyms
		return nil, fmt.Errorf("kernel symbols: no vmlinux of the recorded kernel below %s: %w",
			locator.Root, dso.ErrNoFile)
	}
	f, err := locator.Kallsyms(k.opts.KernelBuildID)
	switch {
	case err == nil:
		return k.opts.Shared.kernel(f, func() (*Kallsyms, error) { return readKallsyms(f, "kallsyms") })
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

// readKallsyms reads f and closes it. Errors name the file path.
func readKallsyms(f io.ReadCloser, path string) (*Kallsyms, error) {
	defer f.Close()
	k, err := parseKallsyms(f)
	if err != nil {
		return nil, fmt.Errorf("kernel symbols: %s: %w", path, err)
	}
	return k, nil
}

// vmlinux returns the symbols of the kernel's ELF file with build ID id.
func (k *kernelSymbols) vmlinux(id dso.BuildID) (*Kallsyms, error) {
	why := errNoVmlinux
	for im, err := range k.opts.Locator.Kernels(id) {
		if err != nil {
			why = err
			continue
		}
		syms, err := vmlinuxSymbols(im)
		im.Close()
		if err == nil {
			return syms, nil
		}
		why = err
	}
	return nil, why
}

// vmlinuxSymbols converts a vmlinux's .symtab to the form of kallsyms.
func vmlinuxSymbols(im *dso.Image) (*Kallsyms, error) {
	list, err := readSymtab(im)
	if err != nil {
		return nil, err
	}
	refs := make(map[string]uint64)
	entries := make([]entry, 0, len(list))
	for i := range list {
		r := &list[i]
		if !isWanted(r, im.Machine) || ignoredKernelName(r.name) || uint64(r.shndx) >= uint64(len(im.Sections)) {
			continue
		}
		if r.typ == elf.STT_NOTYPE && !hasLabels(im.Sections[r.shndx]) {
			continue
		}
		if slices.Contains(refNames, r.name) {
			refs[r.name] = r.value
		}
		entries = append(entries, entry{start: r.value, end: r.value + r.size, name: r.name, typ: r.typ, bind: r.bind,
			node: int32(i + 1)})
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	name := func(e *entry) string { return e.name }
	sortEntries(entries)
	fixupEnds(entries, func(_, next *entry) uint64 { return next.start })
	return &Kallsyms{newTable(dropDuplicates(entries, name, func(*entry) {}), nil, name), refs}, nil
}

// vmlinuxDelta returns vaddr - recorded ip of a vmlinux, which depends on the boot (KASLR).
func (k *kernelSymbols) vmlinuxDelta(im *dso.Image) (uint64, error) {
	t, err := k.tables()
	if err == nil && t.ofVmlinux() { // im is from the same build
		return t.delta, nil
	}
	ref, addr := k.opts.KernelRef, k.opts.KernelRefAddr
	if ref == "" {
		if err != nil {
			return 0, err
		}
		ref = "_text"
		addr, _ = t.syms.Addr(ref)
	}
	list, err := readSymtab(im)
	if err != nil {
		return 0, err
	}
	for i := range list {
		if list[i].name == ref && list[i].shndx != elf.SHN_UNDEF {
			return list[i].value - addr, nil
		}
	}
	return 0, fmt.Errorf("%s has no symbol %s: %w", im.Path, ref, errOtherKernel)
}

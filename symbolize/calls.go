package symbolize

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
	"gperf/symbolize/demangle"
	"gperf/symbolize/srcline"
)

// source finds the source lines of one DSO, or holds the error why it cannot.
type source struct {
	once    sync.Once
	runtime *dso.Image        // closed: its headers
	delta   uint64            // vaddr - recorded ip, for the kernel
	symbols map[string]uint64 // vaddrs, for a module
	index   *srcline.Index
	err     error
}

// UserSource returns the functions at offset off of the DSO recorded at path with
// build ID id (zero if not recorded), with file and line: the innermost first,
// inlined ones before the one that they were inlined into. Names are shown as
// those of symbols are. Without a result, the Reason is not Found.
func (s *Symbolizer) UserSource(path string, id dso.BuildID, off uint64) ([]srcline.InlineFrame, Reason) {
	d := s.source(path, id)
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	vaddr, ok := d.runtime.VaddrOfOff(off)
	if !ok {
		return nil, NoSymbol
	}
	return s.shown(d.index.Lookup(vaddr), func() (*Symbol, Reason) {
		sym, _, why := s.user(path, id).symbol(off)
		return sym, why
	})
}

// shown gives calls their names, the last that of the symbol if DWARF has none.
func (s *Symbolizer) shown(calls []srcline.InlineFrame, symbol func() (*Symbol, Reason)) ([]srcline.InlineFrame, Reason) {
	if len(calls) == 0 {
		return nil, NoSymbol
	}
	for i := range calls {
		if s.opts.Demangle {
			calls[i].Function = demangle.Name(calls[i].Function)
		}
	}
	if last := &calls[len(calls)-1]; last.Function == "" {
		if sym, why := symbol(); why == Found {
			last.Function = sym.Name
		}
	}
	return calls, Found
}

func (s *Symbolizer) source(path string, id dso.BuildID) *source {
	d := s.sourceOf(dsoKey{path, id})
	d.once.Do(func() { d.err = s.loadSource(d, path, id) })
	return d
}

func (s *Symbolizer) sourceOf(key dsoKey) *source {
	s.mu.RLock()
	d := s.sources[key]
	s.mu.RUnlock()
	if d != nil {
		return d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d = s.sources[key]; d == nil {
		d = new(source)
		s.sources[key] = d
	}
	return d
}

func (s *Symbolizer) loadSource(d *source, path string, id dso.BuildID) error {
	var err error
	if d.runtime, err = s.opts.Locator.Find(path, id); err != nil {
		return err
	}
	defer d.runtime.Close()
	if id.IsZero() {
		id = d.runtime.BuildID()
	}
	d.index, err = srcline.Open(s.lineCache(), id, func() (srcline.Files, error) {
		debug, supp, err := s.opts.Locator.Debug(path, id)
		if debug == nil {
			im, findErr := s.opts.Locator.Find(path, id)
			if findErr == nil && srcline.In(im) { // it is in Go
				return srcline.Files{Debug: im}, nil
			}
			im.Close()
			return srcline.Files{}, err
		}
		dwo := func(compDir, name string) iter.Seq[*dso.Image] { return s.opts.Locator.DWO(path, debug, compDir, name) }
		return srcline.Files{Debug: debug, Supp: supp, DWO: dwo}, nil
	})
	return err
}

// lineCache is the user's; without a home directory, lines are read each time.
// Lines of an archive, which may be incomplete, are not cached.
func (s *Symbolizer) lineCache() *cache.Dir {
	if s.opts.Locator.Packed() {
		return nil
	}
	c, err := srcline.NewCache()
	if err != nil {
		return nil
	}
	return c
}

// KernelSource returns the functions at ip in the kernel or a module, as UserSource
// does for a DSO.
func (s *Symbolizer) KernelSource(ip uint64) ([]srcline.InlineFrame, Reason) {
	if _, _, module, why := s.kernelSymbol(ip); why == Found && module != "" {
		return s.ModuleSource(module, dso.BuildID{}, ip)
	}
	d := s.kernelSource()
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	return s.shown(d.index.Lookup(ip+d.delta), func() (*Symbol, Reason) {
		sym, _, _, why := s.kernelSymbol(ip)
		return sym, why
	})
}

// ModuleSource returns the functions at ip in the module called so, in brackets,
// with build ID id (zero if not recorded).
func (s *Symbolizer) ModuleSource(module string, id dso.BuildID, ip uint64) ([]srcline.InlineFrame, Reason) {
	sym, offset, _, why := s.kernelSymbol(ip)
	if why != Found {
		return nil, why
	}
	d := s.sourceOf(dsoKey{module, id})
	d.once.Do(func() { d.err = s.loadModule(d, module, id) })
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	start, ok := d.symbols[sym.Name]
	if !ok {
		return nil, NoSymbol
	}
	return s.shown(d.index.Lookup(start+offset), func() (*Symbol, Reason) { return sym, Found })
}

// loadModule reads a module's file. The kernel places the module's sections one by
// one, so its symbols map an ip to a vaddr: the lines kept are by vaddr in the
// file, independent of where it is loaded.
func (s *Symbolizer) loadModule(d *source, module string, id dso.BuildID) error {
	debug, supp, err := s.opts.Locator.Debug(module, id)
	if debug == nil {
		return err
	}
	if id.IsZero() {
		id = debug.BuildID()
	}
	d.symbols, err = moduleSymbols(debug)
	if err := errors.Join(err, debug.Close(), supp.Close()); err != nil {
		return err
	}
	d.index, err = srcline.Open(s.lineCache(), id, func() (srcline.Files, error) {
		debug, supp, err := s.opts.Locator.Debug(module, id)
		if debug == nil {
			return srcline.Files{}, err
		}
		return srcline.Files{Debug: debug, Supp: supp}, nil
	})
	return err
}

// moduleSymbols returns the vaddrs of the symbols with a unique name.
func moduleSymbols(im *dso.Image) (map[string]uint64, error) {
	section := im.Section(".symtab")
	if section == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	list, err := readSymbols(im, section)
	if err != nil {
		return nil, err
	}
	addrs := srcline.SectionAddrs(im)
	symbols, count := make(map[string]uint64), make(map[string]int)
	for _, r := range list {
		if wanted(&r, im.Machine) && uint64(r.shndx) < uint64(len(addrs)) {
			symbols[r.name] = r.value
			if im.Type == elf.ET_REL {
				symbols[r.name] += addrs[r.shndx]
			}
			count[r.name]++
		}
	}
	maps.DeleteFunc(symbols, func(name string, _ uint64) bool { return count[name] > 1 })
	return symbols, nil
}

func (s *Symbolizer) kernelSource() *source {
	d := s.sourceOf(dsoKey{path: dso.KernelName})
	d.once.Do(func() { d.err = s.loadKernelSource(d) })
	return d
}

func (s *Symbolizer) loadKernelSource(d *source) (err error) {
	id := s.kernelID()
	im, err := s.opts.Locator.Vmlinux(id)
	if err != nil {
		return err
	}
	defer im.Close()
	if d.delta, err = s.kernelDelta(im); err != nil {
		return err
	}
	if id.IsZero() {
		id = im.BuildID()
	}
	d.index, err = srcline.Open(s.lineCache(), id, func() (srcline.Files, error) {
		im, err := s.opts.Locator.Vmlinux(id)
		return srcline.Files{Debug: im}, err
	})
	return err
}

// kernelDelta returns vaddr - recorded ip of the kernel (KASLR).
func (s *Symbolizer) kernelDelta(im *dso.Image) (uint64, error) {
	k, err := s.kernel()
	if err == nil && k.ofVmlinux() { // of the same build
		return k.delta, nil
	}
	ref, addr := s.opts.KernelRef, s.opts.KernelRefAddr
	if ref == "" {
		if err != nil {
			return 0, err
		}
		ref = "_text"
		addr, _ = k.syms.Addr(ref)
	}
	section := im.Section(".symtab")
	if section == nil {
		return 0, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	list, err := readSymbols(im, section)
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

// Lineless returns the DSOs that had lookups but have no source lines, by path,
// without counts of addresses.
func (s *Symbolizer) Lineless() (l []Unresolved) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, d := range s.sources {
		if d.err == nil {
			continue
		}
		u := Unresolved{Path: key.path, ID: key.id, Reason: reasonOf(d.err), Err: d.err}
		if key.path == dso.KernelName {
			u.ID = s.opts.KernelBuildID
		}
		l = append(l, u)
	}
	slices.SortFunc(l, func(a, b Unresolved) int { return cmp.Compare(a.Path, b.Path) })
	return l
}

// Damage returns the errors of reading debug information, in the order of the DSOs'
// paths.
func (s *Symbolizer) Damage() (l []error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, key := range slices.SortedFunc(maps.Keys(s.sources), func(a, b dsoKey) int { return cmp.Compare(a.path, b.path) }) {
		if d := s.sources[key]; d.index != nil && d.index.Problem() != nil {
			l = append(l, fmt.Errorf("debug information of %s: %w", key.path, d.index.Problem()))
		}
	}
	return l
}

// Close keeps what was read of source lines for the next time, and releases their
// files.
func (s *Symbolizer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, d := range s.sources {
		if d.index != nil {
			errs = append(errs, d.index.Close())
		}
	}
	clear(s.sources)
	return errors.Join(errs...)
}

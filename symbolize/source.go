package symbolize

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
	"gperf/symbolize/demangle"
	"gperf/symbolize/srcline"
)

// sourceLines are the source lines of all DSOs.
type sourceLines struct {
	opts    Options
	user    *userSymbols
	kernel  *kernelSymbols
	users   *linesByDSO // of user DSOs, shared by the Symbolizers of several kernels
	kernels *linesByDSO // of the kernel and its modules
}

// linesByDSO has the source lines of DSOs. It may be used from several goroutines.
type linesByDSO struct {
	mu   sync.RWMutex
	dsos map[dsoKey]*dsoLines
}

// dsoLines are the source lines of one DSO, or the error why it has none.
type dsoLines struct {
	once    sync.Once
	runtime *dso.Image        // of a user DSO; closed, for its headers
	delta   uint64            // of the kernel: vaddr - recorded ip
	symbols map[string]uint64 // of a module: vaddrs by name
	index   *srcline.Index
	owner   *uint32 // of the recorded file, if it has the lines: see SourceOwner
	err     error
}

func newSourceLines(opts Options, user *userSymbols, kernel *kernelSymbols, users *linesByDSO) *sourceLines {
	return &sourceLines{opts: opts, user: user, kernel: kernel, users: users, kernels: newLinesByDSO()}
}

func newLinesByDSO() *linesByDSO { return &linesByDSO{dsos: map[dsoKey]*dsoLines{}} }

// UserSource returns the functions at file offset off of the DSO recorded at path with build ID id (zero if not
// recorded), with file and line. The innermost inlined function is first, the function with the code last. Names are
// demangled like symbols' names. If there are no functions, the Reason is not Found.
func (s *sourceLines) UserSource(path string, id dso.BuildID, off uint64) ([]srcline.InlineFrame, Reason) {
	d := s.userDSO(path, id)
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	vaddr, ok := d.runtime.VaddrOfOff(off)
	if !ok {
		return nil, NoSymbol
	}
	return s.named(d.index.Lookup(vaddr), func() (*Symbol, Reason) {
		sym, _, why := s.user.dso(path, id).symbol(off)
		return sym, why
	})
}

// SourceOwner returns the owner of the program or library that was recorded at path, if its source lines are read from
// this very file, or nil: files in caches and archives belong to whoever keeps them, not to those who made them.
func (s *sourceLines) SourceOwner(path string, id dso.BuildID) *uint32 {
	return s.userDSO(path, id).owner
}

// named demangles the names of frames. If DWARF has no name for the last frame, its name is the symbol's.
func (s *sourceLines) named(frames []srcline.InlineFrame,
	symbol func() (*Symbol, Reason)) ([]srcline.InlineFrame, Reason) {
	if len(frames) == 0 {
		return nil, NoSymbol
	}
	for i := range frames {
		if s.opts.Demangle {
			frames[i].Function = demangle.Name(frames[i].Function)
		}
	}
	if last := &frames[len(frames)-1]; last.Function == "" {
		if sym, why := symbol(); why == Found {
			last.Function = sym.Name
		}
	}
	return frames, Found
}

func (s *sourceLines) userDSO(path string, id dso.BuildID) *dsoLines {
	d := s.users.dso(dsoKey{path, id})
	d.once.Do(func() {
		defer s.opts.reading(path)()
		d.err = s.loadUser(d, path, id)
	})
	return d
}

// dso returns the lines of a DSO, which the caller loads on first use.
func (l *linesByDSO) dso(key dsoKey) *dsoLines {
	l.mu.RLock()
	d := l.dsos[key]
	l.mu.RUnlock()
	if d != nil {
		return d
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if d = l.dsos[key]; d == nil {
		d = new(dsoLines)
		l.dsos[key] = d
	}
	return d
}

// sorted yields the DSOs by their paths.
func (l *linesByDSO) sorted() iter.Seq2[dsoKey, *dsoLines] {
	return func(yield func(dsoKey, *dsoLines) bool) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		byPath := func(a, b dsoKey) int { return cmp.Compare(a.path, b.path) }
		for _, key := range slices.SortedFunc(maps.Keys(l.dsos), byPath) {
			if !yield(key, l.dsos[key]) {
				return
			}
		}
	}
}

// close caches the source lines that were read, and releases their files.
func (l *linesByDSO) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, d := range l.dsos {
		if d.index != nil {
			errs = append(errs, d.index.Close())
		}
	}
	clear(l.dsos)
	return errors.Join(errs...)
}

func (s *sourceLines) loadUser(d *dsoLines, path string, id dso.BuildID) error {
	var err error
	if d.runtime, err = s.opts.Locator.Find(path, id); err != nil {
		return err
	}
	defer d.runtime.Close()
	id = s.opts.Locator.OwnID(path, id)
	var first sync.Once
	var owner *uint32
	opened := func(im *dso.Image) {
		first.Do(func() {
			if uid, ok := s.opts.Locator.Owner(im, path); ok {
				owner = &uid
			}
		})
	}
	d.index, err = srcline.Open(s.lineCache(), id, func() (srcline.Files, error) {
		debug, supp, err := s.opts.Locator.Debug(path, id)
		if debug == nil {
			im, findErr := s.opts.Locator.Find(path, id)
			if findErr == nil && srcline.In(im) { // a Go program: its own table has lines
				opened(im)
				return srcline.Files{Debug: im}, nil
			}
			im.Close()
			return srcline.Files{}, err
		}
		opened(debug)
		dwo := func(compDir, name string) iter.Seq[*dso.Image] {
			return s.opts.Locator.DWO(path, debug, compDir, name)
		}
		return srcline.Files{Debug: debug, Supp: supp, DWO: dwo}, nil
	})
	d.owner = owner
	return err
}

// lineCache returns the user's cache of source lines, or nil without a home directory. For an archive, whose debug
// information may be incomplete, it returns the source lines in the archive.
func (s *sourceLines) lineCache() *cache.Dir {
	if s.opts.Locator.Packed() {
		return srcline.PackedCache(s.opts.Locator.OpenFile)
	}
	c, err := srcline.NewCache()
	if err != nil {
		return nil
	}
	return c
}

// KernelSource returns the functions at ip in the kernel or a module, like UserSource.
func (s *sourceLines) KernelSource(ip uint64) ([]srcline.InlineFrame, Reason) {
	if _, _, module, why := s.kernel.symbol(ip); why == Found && module != "" {
		return s.ModuleSource(module, dso.BuildID{}, ip)
	}
	d := s.kernels.dso(dsoKey{path: dso.KernelName})
	d.once.Do(func() {
		defer s.opts.reading("the kernel's debug information")()
		d.err = s.loadKernel(d)
	})
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	return s.named(d.index.Lookup(ip+d.delta), func() (*Symbol, Reason) {
		sym, _, _, why := s.kernel.symbol(ip)
		return sym, why
	})
}

// ModuleSource returns the functions at ip in the module of that name, in brackets, with build ID id (zero if not
// recorded).
func (s *sourceLines) ModuleSource(module string, id dso.BuildID, ip uint64) ([]srcline.InlineFrame, Reason) {
	sym, offset, _, why := s.kernel.symbol(ip)
	if why != Found {
		return nil, why
	}
	d := s.kernels.dso(dsoKey{module, id})
	d.once.Do(func() { d.err = s.loadModule(d, module, id) })
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	start, ok := d.symbols[sym.Name]
	if !ok {
		return nil, NoSymbol
	}
	return s.named(d.index.Lookup(start+offset), func() (*Symbol, Reason) { return sym, Found })
}

// loadModule reads a module's file. The kernel loads each of the module's sections at an address of its own, so
// ModuleSource converts ips to vaddrs by symbols. The cached lines are by vaddr and so independent of the load
// addresses.
func (s *sourceLines) loadModule(d *dsoLines, module string, id dso.BuildID) error {
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

// moduleSymbols returns the vaddrs of the symbols with unique names.
func moduleSymbols(im *dso.Image) (map[string]uint64, error) {
	list, err := readSymtab(im)
	if err != nil {
		return nil, err
	}
	addrs := srcline.SectionAddrs(im)
	symbols, count := make(map[string]uint64), make(map[string]int)
	for _, r := range list {
		if isWanted(&r, im.Machine) && uint64(r.shndx) < uint64(len(addrs)) {
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

func (s *sourceLines) loadKernel(d *dsoLines) (err error) {
	id := s.kernel.id()
	im, err := s.opts.Locator.Vmlinux(id)
	if err != nil {
		return err
	}
	defer im.Close()
	if d.delta, err = s.kernel.vmlinuxDelta(im); err != nil {
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

// PackedLines yields a file for each DSO with the source lines that were looked up, for an archive, and its path there.
func (s *sourceLines) PackedLines() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, lines := range [...]*linesByDSO{s.users, s.kernels} {
			for _, d := range lines.sorted() {
				if d.index == nil {
					continue
				}
				if name, file := d.index.Pack(); file != nil && !yield(path.Join(srcline.PackedPath, name), file) {
					return
				}
			}
		}
	}
}

// Lineless returns the DSOs that had lookups of source lines and have none, sorted by path. It sets no counts.
func (s *sourceLines) Lineless() (l []Unresolved) {
	for _, lines := range [...]*linesByDSO{s.users, s.kernels} {
		for key, d := range lines.sorted() {
			if d.err == nil {
				continue
			}
			u := Unresolved{Path: key.path, ID: key.id, Reason: reasonOf(d.err), Err: d.err}
			if key.path == dso.KernelName {
				u.ID = s.opts.KernelBuildID
			}
			l = append(l, u)
		}
	}
	slices.SortStableFunc(l, func(a, b Unresolved) int { return cmp.Compare(a.Path, b.Path) })
	return l
}

// Damage returns the errors of reading corrupt debug information, sorted by the DSOs' paths.
func (s *sourceLines) Damage() (l []error) {
	for _, lines := range [...]*linesByDSO{s.users, s.kernels} {
		for key, d := range lines.sorted() {
			if d.index != nil && d.index.Problem() != nil {
				l = append(l, fmt.Errorf("debug information of %s: %w", key.path, d.index.Problem()))
			}
		}
	}
	return l
}

// Close caches the source lines that were read, and releases their files.
func (s *sourceLines) Close() error { return errors.Join(s.users.close(), s.kernels.close()) }

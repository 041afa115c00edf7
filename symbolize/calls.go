package symbolize

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"sync"

	"gperf/symbolize/dso"
	"gperf/symbolize/srcline"
)

// source is what tells the source lines of one DSO, or why nothing does.
type source struct {
	once    sync.Once
	runtime *dso.Image // closed: its headers
	index   *srcline.Index
	missing error // what the index has to do without
	err     error
}

// UserCalls returns the functions at offset off of the DSO recorded at path with
// build ID id (zero if not recorded), with file and line: the innermost first,
// inlined ones before the one that they were inlined into. Names are shown as
// those of symbols are. Without a result, the Reason is not Found.
func (s *Symbolizer) UserCalls(path string, id dso.BuildID, off uint64) ([]srcline.Call, Reason) {
	d := s.source(path, id)
	if d.err != nil {
		return nil, reasonOf(d.err)
	}
	vaddr, ok := d.runtime.VaddrOfOff(off)
	if !ok {
		return nil, NoSymbol
	}
	return s.shown(d.index.Lookup(vaddr), func() (*Symbol, Reason) {
		sym, _, why := s.User(path, id, off)
		return sym, why
	})
}

// shown gives calls their names, the last that of the symbol if DWARF has none.
func (s *Symbolizer) shown(calls []srcline.Call, symbol func() (*Symbol, Reason)) ([]srcline.Call, Reason) {
	if len(calls) == 0 {
		return nil, NoSymbol
	}
	for i := range calls {
		if s.opts.Demangle {
			calls[i].Function = Demangle(calls[i].Function)
		}
	}
	if last := &calls[len(calls)-1]; last.Function == "" {
		if sym, why := symbol(); why == Found {
			last.Function = sym.Name
		}
	}
	return calls, Found
}

// CallsProblem returns why the DSO recorded at path with build ID id has no
// source lines, or what of them could not be read; nil if all is well.
func (s *Symbolizer) CallsProblem(path string, id dso.BuildID) error {
	d := s.source(path, id)
	if err := cmp.Or(d.err, d.missing); err != nil {
		return err
	}
	return d.index.Problem()
}

func (s *Symbolizer) source(path string, id dso.BuildID) *source {
	key := dsoKey{path, id}
	s.mu.Lock()
	d := s.sources[key]
	if d == nil {
		d = new(source)
		s.sources[key] = d
	}
	s.mu.Unlock()
	d.once.Do(func() { d.err = s.loadSource(d, path, id) })
	return d
}

func (s *Symbolizer) loadSource(d *source, path string, id dso.BuildID) error {
	var err error
	if d.runtime, err = s.opts.Finder.Find(path, id); err != nil {
		return err
	}
	defer d.runtime.Close()
	debug, supp, err := s.opts.Finder.Debug(path, id)
	if debug == nil {
		return err
	}
	d.missing = err
	d.index, err = srcline.New(debug, supp)
	return err
}

// kernelSource is what tells the source lines of the kernel itself.
type kernelSource struct {
	index *srcline.Index
	delta uint64 // to be added to a recorded ip
}

// KernelCalls returns the functions at ip in the kernel, as UserCalls does for a
// DSO.
func (s *Symbolizer) KernelCalls(ip uint64) ([]srcline.Call, Reason) {
	k, err := s.kernelSource()
	if err != nil {
		return nil, reasonOf(err)
	}
	return s.shown(k.index.Lookup(ip+k.delta), func() (*Symbol, Reason) {
		sym, _, _, why := s.Kernel(ip)
		return sym, why
	})
}

// KernelCallsProblem returns why the kernel has no source lines, or what of them
// could not be read; nil if all is well.
func (s *Symbolizer) KernelCallsProblem() error {
	k, err := s.kernelSource()
	if err != nil {
		return err
	}
	return k.index.Problem()
}

func (s *Symbolizer) loadKernelSource() (*kernelSource, error) {
	id := s.opts.KernelBuildID
	if id.IsZero() && s.opts.Finder.Root == "" {
		id, _ = dso.KernelBuildID()
	}
	im, err := s.opts.Finder.Vmlinux(id)
	if err != nil {
		return nil, err
	}
	k := new(kernelSource)
	if k.delta, err = s.kernelDelta(im); err != nil {
		im.Close()
		return nil, err
	}
	k.index, err = srcline.New(im, nil)
	return k, err
}

// kernelDelta returns how far the recorded kernel was from where its file has it.
func (s *Symbolizer) kernelDelta(im *dso.Image) (uint64, error) {
	ref, addr := s.opts.KernelRef, s.opts.KernelRefAddr
	if ref == "" {
		k, err := s.kernel()
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

// Close releases the files of source lines.
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

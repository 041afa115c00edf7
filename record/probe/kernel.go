package probe

import (
	"fmt"
	"os"
	"strconv"

	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
)

// kernelProbes returns the kernel probes of a spec, without arguments.
func (r *Resolver) kernelProbes(s *spec) ([]*Probe, error) {
	if err := r.HaveKprobes(); err != nil {
		return nil, err
	}
	if s.kind.Return() && s.off != 0 {
		return nil, s.bad("a kretprobe runs at the function's return: it has no offset")
	}
	if addr, err := strconv.ParseUint(s.name, 0, 64); err == nil {
		return []*Probe{{
			Kind: s.kind, Group: kernelGroup, Event: fmt.Sprintf("abs_%x", addr+s.off),
			Symbol: fmt.Sprintf("%#x", addr+s.off),
		}}, nil
	}
	q := kernel.Query{Spec: s.text, Module: s.file, Name: s.name, Off: s.off}
	if kernel.IsGlob(s.name) || kernel.IsGlob(s.file) {
		return r.kernelGlob(s, q)
	}
	sites, err := r.symbols().Find(q)
	if err != nil {
		return nil, err
	}
	if err := missedCopies(s, r.symbols(), sites); err != nil {
		r.notice(err)
	}
	return s.atFunctions(sites), nil
}

// missedCopies reports the copies of functions of the kernel that a spec does not probe, nil if there are none.
func missedCopies(s *spec, symbols *kernel.Symbols, sites []kernel.Site) error {
	if s.off != 0 {
		return nil // an instruction, not the calls of a function
	}
	if copies := symbols.Copies(sites); len(copies) > 0 {
		return &PartialError{Spec: s.text, Copies: copies}
	}
	return nil
}

// kernelGroup is perf's group of kernel probes.
const kernelGroup = "probe"

// HaveKprobes returns nil if there is a file to define kprobes in, otherwise an *AccessError.
func (r *Resolver) HaveKprobes() error {
	path, err := r.Tracefs.Path(kprobeEvents)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return &AccessError{kprobeEvents, program.Errno(err)}
	}
	return nil
}

// kernelGlob returns the probes of a glob's functions, except those that the kernel is known
// to reject: Notice gets a *SkippedError for these.
func (r *Resolver) kernelGlob(s *spec, q kernel.Query) ([]*Probe, error) {
	sites, why, err := r.symbols().FindGlob(q)
	if err != nil {
		return nil, err
	}
	skipped := &SkippedError{Glob: s.text, Of: len(sites), Why: why}
	for _, n := range why {
		skipped.Skipped += n
		skipped.Of += n
	}
	switch {
	case len(sites) == 0:
		return nil, skipped
	case skipped.Skipped > 0:
		r.notice(skipped)
	}
	if err := missedCopies(s, r.symbols(), sites); err != nil {
		r.notice(err)
	}
	probes := s.atFunctions(sites)
	for _, p := range probes {
		p.Glob = s.text
	}
	return probes, nil
}

// atFunctions returns the probes of a spec in functions of the kernel.
func (s *spec) atFunctions(sites []kernel.Site) (l []*Probe) {
	for _, site := range sites {
		p := &Probe{
			Kind: s.kind, Group: kernelGroup, Event: eventName(site.Name, s.kind),
			Module: site.Module, Symbol: site.Name, Off: s.off, FromText: site.FromText, site: site,
		}
		if site.ByAddr {
			p.Address = site.Addr
		}
		l = append(l, p)
	}
	return l
}

// KernelFunctions returns the functions of the kernel, or of a module, that match the glob and that kprobes can
// probe: see kernel.Symbols.Functions.
func (r *Resolver) KernelFunctions(module, glob string) ([]kernel.Function, error) {
	return r.symbols().Functions(module, glob)
}

// symbols returns the kernel's functions.
func (r *Resolver) symbols() *kernel.Symbols {
	if r.kernel == nil {
		r.kernel = &kernel.Symbols{Tracefs: r.Tracefs, Root: r.Root}
	}
	return r.kernel
}

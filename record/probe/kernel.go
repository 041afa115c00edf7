package probe

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
	"gperf/record/tracefs"
)

// kernelPlaces returns the kernel probes of a spec, without arguments.
func (f *Finder) kernelPlaces(s *spec) ([]*Probe, error) {
	if err := f.HaveKprobes(); err != nil {
		return nil, err
	}
	if s.kind.Return() && s.off != 0 {
		return nil, s.bad("a kretprobe runs at the function's return: it has no offset")
	}
	if addr, err := strconv.ParseUint(s.name, 0, 64); err == nil {
		return []*Probe{{Kind: s.kind, Group: kernelGroup, Event: fmt.Sprintf("abs_%x", addr+s.off), Symbol: fmt.Sprintf("%#x", addr+s.off)}}, nil
	}
	k, err := f.kernel()
	if err != nil {
		return nil, err
	}
	if isGlob(s.name) || isGlob(s.file) {
		return f.kernelGlob(k, s)
	}
	functions := k.named(s.file, s.name)
	if len(functions) == 0 {
		return nil, k.unknown(s)
	}
	for _, sym := range functions {
		if size := k.size(sym); size > 0 && s.off >= size {
			return nil, s.bad(fmt.Sprintf("%s is only %d bytes long", sym.name, size))
		}
	}
	return k.probes(s, functions), nil
}

// kernelGroup is perf's group of kernel probes.
const kernelGroup = "probe"

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// HaveKprobes returns nil if the kernel has a file to define kprobes in, otherwise an
// *AccessError.
func (f *Finder) HaveKprobes() error {
	path, err := f.Tracefs.Path(kprobeEvents)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return &AccessError{kprobeEvents, errno(err)}
	}
	return nil
}

// kernelGlob returns the probes of a glob's functions, except those that the kernel is known
// to reject: Notice gets a *SkippedError for these.
func (f *Finder) kernelGlob(k *kernelCode, s *spec) ([]*Probe, error) {
	for _, glob := range []string{s.name, s.file} {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, s.bad("the glob has an unbalanced bracket")
		}
	}
	all := k.matching(s.file, s.name)
	if len(all) == 0 {
		return nil, k.unknown(s)
	}
	k.readTraced(f.Tracefs)
	skipped := &SkippedError{Glob: s.text, Of: len(all), Why: map[string]int{}}
	var functions []ksym
	for _, sym := range all {
		if why := k.why(sym); why != "" {
			skipped.Why[why]++
			skipped.Skipped++
		} else {
			functions = append(functions, sym)
		}
	}
	switch {
	case len(functions) == 0:
		return nil, skipped
	case skipped.Skipped > 0 && f.Notice != nil:
		f.Notice(skipped)
	}
	probes := k.probes(s, functions)
	for _, p := range probes {
		p.Glob = s.text
	}
	return probes, nil
}

// probes returns the probes of a spec at functions.
func (k *kernelCode) probes(s *spec, functions []ksym) (l []*Probe) {
	for _, f := range functions {
		p := &Probe{Kind: s.kind, Group: kernelGroup, Event: eventName(f.name, s.kind), Module: f.module, Symbol: f.name, Off: s.off,
			entry: f.addr, ambiguous: k.ambiguous(f)}
		p.traced = k.traced != nil && !p.ambiguous
		switch {
		case f.module == "" && k.text != 0 && f.addr > k.text:
			p.FromText = f.addr - k.text
		case len(functions) > 1 && p.ambiguous:
			p.Address = f.addr
		}
		l = append(l, p)
	}
	return l
}

// unknown returns the error for a spec without functions.
func (k *kernelCode) unknown(s *spec) error {
	e := &NoFunctionError{Spec: s.text, Name: s.name, Module: s.file, Loaded: k.hasModule(s.file)}
	if e.Loaded && !isGlob(s.name) {
		e.Near = k.near(s.file, s.name)
	}
	return e
}

// near returns functions with names similar to name, best first.
func (k *kernelCode) near(module, name string) []string {
	var names []string
	for _, f := range k.functions {
		// Names of another length cannot be near; skipping them saves time, because there are
		// very many.
		if n := len(f.name) - len(name); f.inModule(module) && f.whole() && (strings.Contains(f.name, name) || -3 < n && n < 3) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return suggest.Names(name, slices.Compact(names))
}

// KernelFunction is a function of the kernel that can be probed by kprobes.
type KernelFunction struct {
	Name   string
	Module string // "" for the kernel itself
}

// KernelFunctions returns the functions of the kernel, or of one of its modules, that match
// the glob and that kprobes can probe, by name. If the kernel does not list traceable
// functions, it only excludes those on kprobes' blacklist.
func (f *Finder) KernelFunctions(module, glob string) ([]KernelFunction, error) {
	k, err := f.kernel()
	if err != nil {
		return nil, err
	}
	if _, err := f.Tracefs.Path(""); err == nil {
		k.readTraced(f.Tracefs)
	}
	if module != "" && !k.hasModule(module) {
		return nil, &NoFunctionError{Spec: module + ":" + glob, Name: glob, Module: module}
	}
	var blacklist map[string]bool
	if k.traced == nil {
		blacklist = f.readBlacklist()
	}
	var l []KernelFunction
	for _, sym := range k.matching(module, glob) {
		if k.why(sym) == "" && !blacklist[sym.name] {
			l = append(l, KernelFunction{sym.name, sym.module})
		}
	}
	slices.SortFunc(l, func(a, b KernelFunction) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Module, b.Module))
	})
	return slices.Compact(l), nil
}

// refusal returns the known reason why the kernel rejected a probe; "" if there is none.
func refusal(t *tracefs.FS, p *Probe) string {
	f := Finder{Tracefs: t}
	if f.readBlacklist()[p.Symbol] {
		return "the function is on kprobes' blacklist (" + blacklistPath + ")"
	}
	k, err := f.kernel()
	if err != nil {
		return ""
	}
	k.readTraced(t)
	for _, sym := range k.named(p.Module, p.Symbol) {
		if why := k.why(sym); why != "" {
			return why
		}
	}
	return ""
}

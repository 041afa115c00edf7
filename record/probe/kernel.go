package probe

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"gperf/record/near"
	"gperf/record/tracefs"
)

// kernelPlaces are the probes in the kernel that a spec means, without arguments.
func (f *Finder) kernelPlaces(s *spec) ([]*Probe, error) {
	if err := f.HaveKprobes(); err != nil {
		return nil, err
	}
	if s.kind.Return() && s.off != 0 {
		return nil, s.bad("a kretprobe runs when the function returns: an offset means nothing")
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

// kernelGroup is perf's group of the kernel's probes.
const kernelGroup = "probe"

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// HaveKprobes tells whether the kernel has a file to define kprobes in: nil, or an
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

// kernelGlob are the probes of a glob's functions, without those that are known
// not to be taken: Notice gets a *SkippedError for these.
func (f *Finder) kernelGlob(k *kernelCode, s *spec) ([]*Probe, error) {
	for _, glob := range []string{s.name, s.file} {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, s.bad("the glob has a bracket without its other half")
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

// probes are the probes of a spec at functions.
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

// unknown is the error of a spec that means no function.
func (k *kernelCode) unknown(s *spec) error {
	e := &NoFunctionError{Spec: s.text, Name: s.name, Module: s.file, Loaded: k.hasModule(s.file)}
	if e.Loaded && !isGlob(s.name) {
		e.Near = k.near(s.file, s.name)
	}
	return e
}

// near returns functions whose names are like name, best first.
func (k *kernelCode) near(module, name string) []string {
	var names []string
	for _, f := range k.functions {
		// A name of another length cannot be near, and there are very many.
		if n := len(f.name) - len(name); f.inModule(module) && f.whole() && (strings.Contains(f.name, name) || -3 < n && n < 3) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return near.Names(name, slices.Compact(names))
}

// KernelFunction is a function of the kernel that kprobes can be at.
type KernelFunction struct {
	Name   string
	Module string // "": it is the kernel's own
}

// KernelFunctions returns the functions of the kernel, or of one of its modules,
// that the glob means and that kprobes can be at, by name. Where the kernel does not
// tell which can be traced, those are left out that are on kprobes' blacklist.
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

// refusal is what is known against a probe that the kernel has refused; "": nothing.
func refusal(t *tracefs.FS, p *Probe) string {
	f := Finder{Tracefs: t}
	if f.readBlacklist()[p.Symbol] {
		return "kprobes' blacklist has the function (" + blacklistPath + ")"
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

package kernel

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gperf/internal/procfs"
	"gperf/internal/suggest"
	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// Symbols finds functions of the running kernel. It reads the kernel's lists of them once.
type Symbols struct {
	Tracefs *tracefs.FS
	Root    string // directory with the kernel's proc and sys; "": /

	code *code // nil: not read yet
}

// Query names functions of the kernel.
type Query struct {
	Spec   string // the probe as requested, for errors
	Module string // name or glob; "" for any, "vmlinux" for the kernel itself
	Name   string // name or glob
	Off    uint64 // offset from the function's entry, in bytes
}

// Site is a function that a probe can be defined in.
type Site struct {
	Function
	// FromText is the offset of the function from _text, in bytes: the kernel resolves it
	// without a search, and names can be ambiguous. 0: unknown.
	FromText uint64
	// ByAddr means that only the address identifies the function, because the name is ambiguous.
	ByAddr    bool
	Ambiguous bool // another function of the module uses this name
	Traced    bool // ftrace is known to be able to trace it
}

// NoFunctionError means that this function does not exist in the kernel.
type NoFunctionError struct {
	Spec, Name string
	Module     string   // the requested module; "" for none
	Loaded     bool     // the module is loaded
	Near       []string // functions with similar names, best first
}

func (e *NoFunctionError) Error() string {
	if !e.Loaded {
		return fmt.Sprintf("probe %q: the module %s is not loaded", e.Spec, e.Module)
	}
	s := fmt.Sprintf("probe %q: the kernel has no function %s", e.Spec, e.Name)
	if e.Module != "" {
		s = fmt.Sprintf("probe %q: %s has no function %s", e.Spec, e.Module, e.Name)
	}
	return s + suggest.DidYouMean(e.Near)
}

// WrongUse reports that the command line caused the error.
func (e *NoFunctionError) WrongUse() bool { return true }

// IsGlob reports whether a name is a glob.
func IsGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// Find returns the functions of a query by name, at least one. The error is a *NoFunctionError,
// or an *args.SpecError if the offset is outside of the function.
func (s *Symbols) Find(q Query) ([]Site, error) {
	c, err := s.read()
	if err != nil {
		return nil, err
	}
	functions := c.named(q.Module, q.Name)
	if len(functions) == 0 {
		return nil, c.unknown(q)
	}
	for _, f := range functions {
		if size := c.size(f); size > 0 && q.Off >= size {
			return nil, q.bad(fmt.Sprintf("%s is only %d bytes long", f.Name, size))
		}
	}
	return c.sites(functions), nil
}

func (q *Query) bad(msg string) error { return &args.SpecError{Spec: q.Spec, Msg: msg} }

// FindGlob returns the functions that match the globs of a query, except those that the kernel
// is known to reject: skipped counts these by reason. The error is a *NoFunctionError if nothing
// matches, or an *args.SpecError if a glob is wrong.
func (s *Symbols) FindGlob(q Query) (sites []Site, skipped map[string]int, err error) {
	for _, glob := range []string{q.Name, q.Module} {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, nil, q.bad("the glob has an unbalanced bracket")
		}
	}
	c, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	all := c.matching(q.Module, q.Name)
	if len(all) == 0 {
		return nil, nil, c.unknown(q)
	}
	c.readTraced(s.Tracefs)
	skipped = map[string]int{}
	var functions []Function
	for _, f := range all {
		if why := c.why(f); why != "" {
			skipped[why]++
		} else {
			functions = append(functions, f)
		}
	}
	return c.sites(functions), skipped, nil
}

// Copies returns the names of the compiler's copies of the functions of sites, without those that have a site
// themselves. Calls that enter a copy do not enter the function.
func (s *Symbols) Copies(sites []Site) (names []string) {
	c, err := s.read()
	if err != nil {
		return nil
	}
	probed := map[key]bool{}
	for _, site := range sites {
		probed[site.key()] = true
	}
	for _, f := range c.functions {
		if original, ok := args.CopyOf(f.Name); ok && probed[key{original, f.Module}] && !probed[f.key()] {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Functions returns the functions of the kernel, or of a module, that match the glob and that kprobes can probe,
// by name, each name once. If the kernel does not list traceable functions, it only excludes those on kprobes'
// blacklist.
func (s *Symbols) Functions(module, glob string) ([]Function, error) {
	c, err := s.read()
	if err != nil {
		return nil, err
	}
	if _, err := s.Tracefs.Path(""); err == nil {
		c.readTraced(s.Tracefs)
	}
	if module != "" && !c.hasModule(module) {
		return nil, &NoFunctionError{Spec: module + ":" + glob, Name: glob, Module: module}
	}
	var blacklist map[string]bool
	if c.traced == nil {
		blacklist = s.readBlacklist()
	}
	var l []Function
	for _, f := range c.matching(module, glob) {
		if c.why(f) == "" && !blacklist[f.Name] {
			l = append(l, f)
		}
	}
	slices.SortStableFunc(l, func(a, b Function) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Module, b.Module))
	})
	return slices.CompactFunc(l, func(a, b Function) bool { return a.key() == b.key() }), nil
}

// At returns the function that contains an address, or the nearest one before it.
func (s *Symbols) At(addr uint64) (f Function, ok bool) {
	c, err := s.read()
	if err != nil || c.text == 0 {
		return f, false
	}
	return c.at(addr)
}

// Bound returns the address of _text or _stext, 0 if it is hidden from this user.
func (s *Symbols) Bound(name string) uint64 {
	c, err := s.read()
	if err != nil {
		return 0
	}
	return c.bounds[name]
}

// Refusal returns the known reason why the kernel rejects a probe in a function; "" if there is
// none.
func (s *Symbols) Refusal(module, name string) string {
	if s.readBlacklist()[name] {
		return "the function is on kprobes' blacklist (" + blacklistPath + ")"
	}
	c, err := s.read()
	if err != nil {
		return ""
	}
	c.readTraced(s.Tracefs)
	for _, f := range c.named(module, name) {
		if why := c.why(f); why != "" {
			return why
		}
	}
	return ""
}

// read reads kallsyms, once.
func (s *Symbols) read() (*code, error) {
	if s.code != nil {
		return s.code, nil
	}
	file, err := os.Open(s.path(procfs.Kallsyms))
	if err != nil {
		return nil, fmt.Errorf("cannot read the kernel's functions: %w", err)
	}
	defer file.Close()
	c, err := readCode(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the kernel's functions: %w", err)
	}
	s.code = c
	return c, nil
}

const blacklistPath = "/sys/kernel/debug/kprobes/blacklist"

func (s *Symbols) path(name string) string { return filepath.Join("/", s.Root, name) }

// readBlacklist returns the functions that kprobes reject; none if debugfs is not readable for
// this user.
func (s *Symbols) readBlacklist() map[string]bool {
	text, _ := os.ReadFile(s.path(blacklistPath))
	return parseBlacklist(string(text))
}

// sites returns the sites of functions.
func (k *code) sites(functions []Function) (l []Site) {
	for _, f := range functions {
		site := Site{Function: f, Ambiguous: k.ambiguous(f)}
		site.Traced = k.traced != nil && !site.Ambiguous
		switch {
		case f.Module == "" && k.text != 0 && f.Addr > k.text:
			site.FromText = f.Addr - k.text
		case len(functions) > 1 && site.Ambiguous:
			site.ByAddr = true
		}
		l = append(l, site)
	}
	return l
}

// unknown returns the error for a query without functions.
func (k *code) unknown(q Query) error {
	e := &NoFunctionError{Spec: q.Spec, Name: q.Name, Module: q.Module, Loaded: k.hasModule(q.Module)}
	if e.Loaded && !IsGlob(q.Name) {
		e.Near = k.near(q.Module, q.Name)
	}
	return e
}

// near returns functions with names similar to name, best first.
func (k *code) near(module, name string) []string {
	var names []string
	for _, f := range k.functions {
		// Names of another length cannot be near; skipping them saves time, because there are
		// very many.
		if n := len(f.Name) - len(name); f.inModule(module) && f.whole() &&
			(strings.Contains(f.Name, name) || -3 < n && n < 3) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return suggest.Names(name, slices.Compact(names))
}

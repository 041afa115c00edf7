package kernel

import (
	"cmp"
	"io"
	"path"
	"slices"
	"sort"
	"strings"

	"gperf/internal/procfs"
	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// Function is a function of the kernel or of a module.
type Function struct {
	Addr   uint64 // ip of the entry, 0 if hidden from this user
	Name   string
	Module string // "" for the kernel itself
}

// key identifies functions by name, which may be ambiguous.
type key struct{ name, module string }

func (f Function) key() key { return key{f.Name, f.Module} }

// code is the kernel's code according to /proc/kallsyms.
type code struct {
	functions []Function
	byName    map[string]int    // index of the last function of a name; nil: not built yet
	before    []int             // by function: index of the previous one of the same name, or -1
	sorted    []Function        // by address; nil: not built yet
	text      uint64            // address of _text, 0 if hidden from this user
	bounds    map[string]uint64 // symbols at the start and end of sections
	traced    map[key]bool      // functions that ftrace can trace; nil: unknown
}

// readCode reads the functions of kallsyms: types t and w, as perf does for probes.
func readCode(r io.Reader) (*code, error) {
	k := &code{bounds: map[string]uint64{}}
	for s, err := range procfs.Symbols(r) {
		if err != nil {
			return nil, err
		}
		if !s.IsFunction() {
			continue
		}
		name, module := s.Name(), s.Module()
		if module == "bpf" || strings.HasPrefix(module, "__builtin__") {
			continue // programs and trampolines generated at run time
		}
		if module == "" && isBound(name) {
			k.bounds[name] = s.Addr
			continue
		}
		k.functions = append(k.functions, Function{s.Addr, name, module})
	}
	k.text = k.bounds["_text"]
	return k, nil
}

// section is a part of the kernel's code, by the symbols around it.
type section struct{ start, end, why string }

// sections are the sections in which the kernel rejects probes, by the symbols around them
// (the kernel's asm-generic/sections.h), with the reason.
var sections = []section{
	{"_sinittext", "_einittext", "it was freed after boot (__init)"},
	{"__noinstr_text_start", "__noinstr_text_end", "the kernel does not allow probes there (noinstr)"},
	{"__kprobes_text_start", "__kprobes_text_end", "kprobes themselves need it (__kprobes)"},
	{"__entry_text_start", "__entry_text_end", "it is kernel entry code (.entry.text)"},
}

func isBound(name string) bool {
	return name == "_text" || name == "_stext" ||
		slices.ContainsFunc(sections, func(s section) bool { return name == s.start || name == s.end })
}

// why returns why the kernel rejects a probe in a function; "" if no reason is known.
func (k *code) why(f Function) string {
	for _, s := range sections {
		start, end := k.bounds[s.start], k.bounds[s.end]
		if f.Module == "" && start <= f.Addr && f.Addr < end {
			return s.why
		}
	}
	if k.traced != nil && !k.traced[f.key()] {
		return "the kernel cannot trace it (notrace)"
	}
	return ""
}

// parseBlacklist parses kprobes' blacklist: lines of "0xstart-0xend\tname".
func parseBlacklist(text string) map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(text) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			m[name] = true
		}
	}
	return m
}

// whole reports whether this is a function, rather than padding or a cold part, which are
// never called.
func (f Function) whole() bool {
	return !strings.HasPrefix(f.Name, "__pfx_") && !strings.HasPrefix(f.Name, "__cfi_") &&
		!strings.HasSuffix(f.Name, ".cold") && !strings.Contains(f.Name, ".cold.")
}

// inModule reports whether the function is in the spec's module: "" is any module, "vmlinux"
// the kernel itself.
func (f Function) inModule(glob string) bool {
	switch glob {
	case "":
		return true
	case "vmlinux":
		return f.Module == ""
	}
	ok, _ := path.Match(strings.ReplaceAll(glob, "-", "_"), f.Module)
	return ok && f.Module != ""
}

// called returns the functions with exactly this name. It uses an index, because a thousand
// probes may look up one function each among very many.
func (k *code) called(name string) (l []Function) {
	if k.byName == nil {
		k.byName = make(map[string]int, len(k.functions))
		k.before = make([]int, len(k.functions))
		for i, f := range k.functions {
			k.before[i] = -1
			if last, ok := k.byName[f.Name]; ok {
				k.before[i] = last
			}
			k.byName[f.Name] = i
		}
	}
	i, ok := k.byName[name]
	for ; ok && i >= 0; i = k.before[i] {
		l = append(l, k.functions[i])
	}
	slices.Reverse(l)
	return l
}

// named returns the functions with this name, or if there are none, the compiler's copies of it.
func (k *code) named(module, name string) (l []Function) {
	for _, f := range k.called(name) {
		if f.inModule(module) {
			l = append(l, f)
		}
	}
	if len(l) > 0 {
		return distinct(l)
	}
	for _, f := range k.functions {
		if !strings.HasPrefix(f.Name, name) || !f.inModule(module) {
			continue
		}
		if original, ok := args.CopyOf(f.Name); ok && original == name {
			l = append(l, f)
		}
	}
	return distinct(l)
}

// ambiguous reports whether another function of the same module uses the same name.
func (k *code) ambiguous(f Function) bool {
	n := 0
	for _, other := range k.called(f.Name) {
		if other.Module == f.Module {
			n++
		}
	}
	return n > 1
}

// matching returns the functions that match a glob.
func (k *code) matching(module, glob string) (l []Function) {
	for _, f := range k.functions {
		if ok, _ := path.Match(glob, f.Name); ok && f.whole() && f.inModule(module) {
			l = append(l, f)
		}
	}
	return distinct(l)
}

// distinct keeps one name of each address.
func distinct(l []Function) []Function {
	seen := map[Function]bool{}
	return slices.DeleteFunc(l, func(f Function) bool {
		if f.Addr != 0 { // all are 0 if addresses are hidden
			f = Function{Addr: f.Addr}
		}
		was := seen[f]
		seen[f] = true
		return was
	})
}

func (k *code) hasModule(glob string) bool {
	return slices.ContainsFunc(k.functions, func(f Function) bool { return f.inModule(glob) })
}

// readTraced reads the functions that ftrace can trace.
func (k *code) readTraced(t *tracefs.FS) {
	if k.traced != nil {
		return
	}
	if m, err := readTraced(t); err == nil && len(m) > 0 {
		k.traced = m
	}
}

// at returns the function that contains an address, or the nearest one before it.
func (k *code) at(addr uint64) (best Function, ok bool) {
	k.sort()
	i := k.after(addr) - 1
	if i < 0 {
		return best, false
	}
	for i > 0 && k.sorted[i-1].Addr == k.sorted[i].Addr {
		i-- // of several names at one address, kallsyms' first one
	}
	return k.sorted[i], true
}

// after returns the index of the first of the sorted functions that begins after addr.
func (k *code) after(addr uint64) int {
	return sort.Search(len(k.sorted), func(i int) bool { return k.sorted[i].Addr > addr })
}

func (k *code) sort() {
	if k.sorted == nil {
		k.sorted = slices.Clone(k.functions)
		slices.SortStableFunc(k.sorted, func(a, b Function) int { return cmp.Compare(a.Addr, b.Addr) })
	}
}

// size returns the number of bytes up to the next function, 0 if there is none or addresses
// are hidden.
func (k *code) size(f Function) uint64 {
	k.sort()
	if i := k.after(f.Addr); i < len(k.sorted) {
		return k.sorted[i].Addr - f.Addr
	}
	return 0
}

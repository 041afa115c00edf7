package probe

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gperf/internal/procfs"
	"gperf/record/tracefs"
)

// ksym is a function of the kernel.
type ksym struct {
	addr         uint64
	name, module string // module is "" for the kernel itself
}

// kernelCode is the kernel's code according to /proc/kallsyms.
type kernelCode struct {
	functions []ksym
	byName    map[string]int    // index of the last function of a name; nil: not built yet
	before    []int             // by function: index of the previous one of the same name, or -1
	sorted    []ksym            // by address; nil: not built yet
	text      uint64            // address of _text, 0 if hidden from this user
	bounds    map[string]uint64 // symbols at the start and end of sections
	traced    map[function]bool // functions that ftrace can trace; nil: unknown
}

// readKernel reads the functions of kallsyms: types t and w, as perf does for probes.
func readKernel(r io.Reader) (*kernelCode, error) {
	k := &kernelCode{bounds: map[string]uint64{}}
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
		k.functions = append(k.functions, ksym{s.Addr, name, module})
	}
	k.text = k.bounds["_text"]
	return k, nil
}

// sections are the sections in which the kernel rejects probes, by the symbols around them
// (the kernel's asm-generic/sections.h), with the reason.
var sections = []struct{ start, end, why string }{
	{"_sinittext", "_einittext", "it was freed after boot (__init)"},
	{"__noinstr_text_start", "__noinstr_text_end", "the kernel does not allow probes there (noinstr)"},
	{"__kprobes_text_start", "__kprobes_text_end", "kprobes themselves need it (__kprobes)"},
	{"__entry_text_start", "__entry_text_end", "it is kernel entry code (.entry.text)"},
}

func isBound(name string) bool {
	if name == "_text" || name == "_stext" {
		return true
	}
	for _, s := range sections {
		if name == s.start || name == s.end {
			return true
		}
	}
	return false
}

// why returns why the kernel rejects a probe in a function; "" if no reason is known.
func (k *kernelCode) why(f ksym) string {
	for _, s := range sections {
		start, end := k.bounds[s.start], k.bounds[s.end]
		if f.module == "" && start <= f.addr && f.addr < end {
			return s.why
		}
	}
	if k.traced != nil && !k.traced[function{f.name, f.module}] {
		return "the kernel cannot trace it (notrace)"
	}
	return ""
}

// readBlacklist returns the functions that kprobes reject; none if debugfs is not readable
// for this user.
func (f *Finder) readBlacklist() map[string]bool {
	text, _ := os.ReadFile(f.path(blacklistPath))
	return parseBlacklist(string(text))
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

// suffixes are added by compilers to the name of a function that they changed. A split-off
// part (.cold) is not the function.
var suffixes = []string{".isra.", ".constprop.", ".part.", ".llvm."}

// plain returns the function's name in its source.
func (f ksym) plain() string {
	base, rest, ok := strings.Cut(f.name, ".")
	if !ok || !f.whole() {
		return f.name
	}
	for _, s := range suffixes {
		if strings.HasPrefix("."+rest, s) {
			return base
		}
	}
	return f.name
}

// whole reports whether this is a function, rather than padding or a cold part, which are
// never called.
func (f ksym) whole() bool {
	return !strings.HasPrefix(f.name, "__pfx_") && !strings.HasPrefix(f.name, "__cfi_") &&
		!strings.HasSuffix(f.name, ".cold") && !strings.Contains(f.name, ".cold.")
}

// inModule reports whether the function is in the spec's module: "" is any module, "vmlinux"
// the kernel itself.
func (f ksym) inModule(glob string) bool {
	switch glob {
	case "":
		return true
	case "vmlinux":
		return f.module == ""
	}
	ok, _ := path.Match(strings.ReplaceAll(glob, "-", "_"), f.module)
	return ok && f.module != ""
}

// called returns the functions with exactly this name. It uses an index, because a thousand
// probes may look up one function each among very many.
func (k *kernelCode) called(name string) (l []ksym) {
	if k.byName == nil {
		k.byName = make(map[string]int, len(k.functions))
		k.before = make([]int, len(k.functions))
		for i, f := range k.functions {
			k.before[i] = -1
			if last, ok := k.byName[f.name]; ok {
				k.before[i] = last
			}
			k.byName[f.name] = i
		}
	}
	i, ok := k.byName[name]
	for ; ok && i >= 0; i = k.before[i] {
		l = append(l, k.functions[i])
	}
	slices.Reverse(l)
	return l
}

// named returns the functions with this name, or if there are none, the compiler's variants
// of it.
func (k *kernelCode) named(module, name string) (l []ksym) {
	for _, f := range k.called(name) {
		if f.inModule(module) {
			l = append(l, f)
		}
	}
	if len(l) > 0 {
		return distinct(l)
	}
	for _, f := range k.functions {
		if strings.HasPrefix(f.name, name) && f.plain() == name && f.inModule(module) {
			l = append(l, f)
		}
	}
	return distinct(l)
}

// ambiguous reports whether another function has the same name in the same module.
func (k *kernelCode) ambiguous(f ksym) bool {
	n := 0
	for _, other := range k.called(f.name) {
		if other.module == f.module {
			n++
		}
	}
	return n > 1
}

// matching returns the functions that match a glob.
func (k *kernelCode) matching(module, glob string) (l []ksym) {
	for _, f := range k.functions {
		if ok, _ := path.Match(glob, f.name); ok && f.whole() && f.inModule(module) {
			l = append(l, f)
		}
	}
	return distinct(l)
}

// distinct keeps one name of each address.
func distinct(l []ksym) []ksym {
	seen := map[ksym]bool{}
	return slices.DeleteFunc(l, func(f ksym) bool {
		if f.addr != 0 { // all are 0 if addresses are hidden
			f = ksym{addr: f.addr}
		}
		was := seen[f]
		seen[f] = true
		return was
	})
}

func (k *kernelCode) hasModule(glob string) bool {
	for _, f := range k.functions {
		if f.inModule(glob) {
			return true
		}
	}
	return false
}

// kernel reads kallsyms and ftrace's functions, once.
func (f *Finder) kernel() (*kernelCode, error) {
	if f.code == nil {
		code, err := f.readKernel()
		if err != nil {
			return nil, fmt.Errorf("cannot read the kernel's functions: %w", err)
		}
		f.code = code
	}
	return f.code, nil
}

func (f *Finder) readKernel() (*kernelCode, error) {
	file, err := os.Open(f.path(procfs.Kallsyms))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readKernel(file)
}

const blacklistPath = "/sys/kernel/debug/kprobes/blacklist"

func (f *Finder) path(name string) string { return filepath.Join("/", f.Root, name) }

// readTraced reads the functions that ftrace can trace.
func (k *kernelCode) readTraced(t *tracefs.FS) {
	if k.traced != nil {
		return
	}
	if m, err := readTraced(t); err == nil && len(m) > 0 {
		k.traced = m
	}
}

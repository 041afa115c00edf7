package probe

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gperf/record/tracefs"
)

// ksym is a function of the kernel.
type ksym struct {
	addr         uint64
	name, module string // module is "" for the kernel itself
}

// kernelCode is what /proc/kallsyms tells of the kernel's code.
type kernelCode struct {
	functions []ksym
	byName    map[string]int    // of functions, the last of a name; nil: not yet
	before    []int             // of each function, the one of the same name before it, or -1
	sorted    []ksym            // by address; nil: not yet
	text      uint64            // where _text is, 0 if that is hidden from this user
	bounds    map[string]uint64 // symbols that begin and end sections
	traced    map[function]bool // those that ftrace can stop at; nil: not known
}

// parseKernel takes the functions out of kallsyms' lines of "address type
// name[\t[module]]": types t and w, as perf does it for probes.
func parseKernel(text string) *kernelCode {
	k := &kernelCode{bounds: map[string]uint64{}}
	k.functions = make([]ksym, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		address, rest, ok := strings.Cut(line, " ")
		if !ok || len(rest) < 3 || !strings.Contains("tTwW", rest[:1]) {
			continue
		}
		addr, err := strconv.ParseUint(address, 16, 64)
		if err != nil {
			continue
		}
		name, module, _ := strings.Cut(rest[2:], "\t")
		module = strings.Trim(module, "[]")
		if module == "bpf" || strings.HasPrefix(module, "__builtin__") {
			continue // programs and trampolines made at run time
		}
		if module == "" && isBound(name) {
			k.bounds[name] = addr
			continue
		}
		k.functions = append(k.functions, ksym{addr, name, module})
	}
	k.text = k.bounds["_text"]
	return k
}

// sections are where the kernel takes no probes, by the symbols around them (the
// kernel's asm-generic/sections.h), and why.
var sections = []struct{ start, end, why string }{
	{"_sinittext", "_einittext", "it ran at boot and is gone (__init)"},
	{"__noinstr_text_start", "__noinstr_text_end", "the kernel allows no probes there (noinstr)"},
	{"__kprobes_text_start", "__kprobes_text_end", "kprobes themselves need it (__kprobes)"},
	{"__entry_text_start", "__entry_text_end", "it is where the kernel is entered (.entry.text)"},
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

// why tells why the kernel takes no probe in a function; "": nothing is known
// against it.
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

// readBlacklist returns the functions that kprobes refuse; none where debugfs does
// not show them to this user.
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

// suffixes are what compilers add to the name of a function that they changed.
// What they split off of it (.cold) is not the function.
var suffixes = []string{".isra.", ".constprop.", ".part.", ".llvm."}

// plain is the function's name in its source.
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

// whole tells functions from pieces of code that nobody calls: paddings, and cold parts.
func (f ksym) whole() bool {
	return !strings.HasPrefix(f.name, "__pfx_") && !strings.HasPrefix(f.name, "__cfi_") &&
		!strings.HasSuffix(f.name, ".cold") && !strings.Contains(f.name, ".cold.")
}

// inModule tells whether the function is where the spec's module says: "" is
// anywhere, "vmlinux" the kernel itself.
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

// called returns the functions of exactly that name. A thousand probes ask for one
// each, and there are very many functions.
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

// named returns the functions of the name; where there are none, those that the
// compiler made of it.
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

// ambiguous tells whether another function has the same name in the same module.
func (k *kernelCode) ambiguous(f ksym) bool {
	n := 0
	for _, other := range k.called(f.name) {
		if other.module == f.module {
			n++
		}
	}
	return n > 1
}

// matching returns the functions that a glob means.
func (k *kernelCode) matching(module, glob string) (l []ksym) {
	for _, f := range k.functions {
		if ok, _ := path.Match(glob, f.name); ok && f.whole() && f.inModule(module) {
			l = append(l, f)
		}
	}
	return distinct(l)
}

// distinct leaves one of the names of each place.
func distinct(l []ksym) []ksym {
	seen := map[ksym]bool{}
	return slices.DeleteFunc(l, func(f ksym) bool {
		if f.addr != 0 { // they are hidden where all are 0
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

// kernel reads what there is to know of the kernel's code, once.
func (f *Finder) kernel() (*kernelCode, error) {
	if f.code == nil {
		text, err := os.ReadFile(f.path(kallsymsPath))
		if err != nil {
			return nil, fmt.Errorf("functions of the kernel: %w", err)
		}
		f.code = parseKernel(string(text))
	}
	return f.code, nil
}

const (
	kallsymsPath  = "/proc/kallsyms"
	blacklistPath = "/sys/kernel/debug/kprobes/blacklist"
)

func (f *Finder) path(name string) string { return filepath.Join("/", f.Root, name) }

// readTraced reads which functions can be traced.
func (k *kernelCode) readTraced(t *tracefs.FS) {
	if k.traced != nil {
		return
	}
	if m, err := readTraced(t); err == nil && len(m) > 0 {
		k.traced = m
	}
}

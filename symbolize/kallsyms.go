package symbolize

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/internal/procfs"
)

// errRestricted means that the kernel hides its addresses from this user.
var errRestricted = errors.New("all addresses are 0: kernel.kptr_restrict or missing CAP_SYSLOG")

// Kallsyms is the symbols of a kernel, its modules and its BPF programs, as
// /proc/kallsyms lists them, with the addresses of that list.
type Kallsyms struct {
	table *Table
	refs  map[string]uint64 // addresses of refNames
}

// refNames are the reference symbols of a recorded kernel. The name of the kernel's
// MMAP record ends in one of them, and the record's pgoff is the symbol's address.
var refNames = []string{"_text", "_stext"}

// maxKallsyms is the maximum size of the text in bytes; a kernel's has about 10 MB.
const maxKallsyms = 1 << 29

// Capacities, in symbols: most kernels have fewer than usualKallsyms, whose memory takes a millisecond to clear;
// excerpts, as in archives, have a few.
const fewKallsyms, usualKallsyms = 1 << 10, 1 << 18

// parseKallsyms reads lines of "address type name[\t[module]]" and skips others. It
// returns errRestricted if all addresses are zero.
func parseKallsyms(r io.Reader) (*Kallsyms, error) {
	entries := make([]entry, 0, fewKallsyms)
	refs := make(map[string]uint64, len(refNames))
	hidden := true
	for sym, err := range procfs.Symbols(io.LimitReader(r, maxKallsyms)) {
		if err != nil {
			return nil, fmt.Errorf("read kallsyms: %w", err)
		}
		e, ok := kernelEntry(sym)
		if !ok {
			continue
		}
		hidden = hidden && e.start == 0
		if len(entries) == fewKallsyms {
			entries = slices.Grow(entries, usualKallsyms)
		}
		e.node = int32(len(entries) + 1)
		entries = append(entries, e)
		if slices.Contains(refNames, e.name) {
			refs[e.name] = e.start
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("read kallsyms: no symbols")
	}
	if hidden {
		return nil, fmt.Errorf("read kallsyms: %w", errRestricted)
	}
	show := func(e *entry) string { return e.name }
	sortEntries(entries)
	fixupEnds(entries, kernelEnd)
	entries = dropDuplicates(entries, show, func(*entry) {})
	return &Kallsyms{newTable(entries, nil, func(e *entry) string {
		name, _ := cutModule(e.name)
		return name
	}), refs}, nil
}

// kernelEntry returns the entry of a symbol that perf uses: text, data and bss
// (symbol_type__filter in tools/perf/util/symbol.c), without mapping symbols,
// local labels and livepatch's placeholders.
func kernelEntry(s procfs.Symbol) (e entry, ok bool) {
	switch s.Type | 0x20 {
	case 't', 'w':
		e.typ = elf.STT_FUNC
	case 'd', 'b':
		e.typ = elf.STT_OBJECT
	default:
		return e, false
	}
	if ignoredKernelName(s.Label) {
		return e, false
	}
	switch {
	case s.Type == 'W':
		e.bind = elf.STB_WEAK
	case s.Type < 'a':
		e.bind = elf.STB_GLOBAL
	default:
		e.bind = elf.STB_LOCAL
	}
	e.start, e.end, e.name = s.Addr, s.Addr, s.Label
	return e, true
}

// entryTrampoline is an alias of kernels before 5.2, at another address for
// every CPU.
const entryTrampoline = "__entry_SYSCALL_64_trampoline"

func ignoredKernelName(name string) bool {
	return name[0] == '$' || strings.HasPrefix(name, ".L") || strings.HasPrefix(name, "L0") ||
		strings.HasPrefix(name, ".klp.sym.") || name == entryTrampoline
}

// cutModule splits "name\t[module]"; module keeps its brackets and is "" for the
// kernel itself.
func cutModule(s string) (name, module string) {
	name, module, _ = strings.Cut(s, "\t")
	return name, module
}

// kernelEnd returns the end of a symbol that is followed by next. The last one of
// the kernel or of a module ends a page after its own page, not at the next symbol
// (symbols__fixup_end with is_kallsyms).
func kernelEnd(e, next *entry) uint64 {
	_, mod, _ := strings.Cut(e.name, "[")
	_, nextMod, _ := strings.Cut(next.name, "[")
	if mod != nextMod {
		return pageUp(e.start + pageSize)
	}
	return next.start
}

// Lookup returns the symbol at ip and its module: "[bpf]" for a BPF program, "" for
// the kernel itself.
func (k *Kallsyms) Lookup(ip uint64) (sym *Symbol, module string, ok bool) {
	i := k.table.find(ip)
	if i < 0 {
		return nil, "", false
	}
	_, module = cutModule(k.table.entries[i].name)
	return k.table.symbol(i), module, true
}

// Addr returns the address of _text or _stext.
func (k *Kallsyms) Addr(name string) (addr uint64, ok bool) {
	addr, ok = k.refs[name]
	return addr, ok
}

// Range returns the start of the kernel's first symbol and the end of its last one.
// Modules and BPF programs are outside.
func (k *Kallsyms) Range() (start, end uint64) {
	own := func(e entry) bool { return !strings.HasSuffix(e.name, "]") }
	first := slices.IndexFunc(k.table.entries, own)
	if first < 0 {
		return 0, 0
	}
	last := len(k.table.entries) - 1
	for !own(k.table.entries[last]) {
		last--
	}
	return k.table.entries[first].start, k.table.entries[last].end
}

package session

import (
	"slices"
	"strconv"
	"strings"
)

// Where selects samples by the DSO and the function in which they were taken, as
// perf's --dsos, --symbols and --addr-range do. An empty list selects all.
type Where struct {
	DSOs      []string // paths, or the last parts of paths
	Symbols   []string // names of functions, or addresses in hexadecimal
	AddrRange uint64   // length of the range from each of these addresses, in bytes

	addrs []uint64
	known map[*Frame]bool
}

// All reports whether w selects every sample.
func (w *Where) All() bool { return len(w.DSOs)+len(w.Symbols) == 0 }

// Matches reports whether w selects samples at f.
func (w *Where) Matches(f *Frame) bool {
	if w.All() {
		return true
	}
	if w.known == nil {
		w.known = map[*Frame]bool{}
		w.addrs = addresses(w.Symbols)
	}
	is, ok := w.known[f]
	if !ok {
		is = w.matchesDSO(f) && w.matchesSymbol(f)
		w.known[f] = is
	}
	return is
}

func (w *Where) matchesDSO(f *Frame) bool {
	if len(w.DSOs) == 0 {
		return true
	}
	return f.Map != nil && (slices.Contains(w.DSOs, f.Map.DSO.Name) || slices.Contains(w.DSOs, f.Map.DSO.ShortName()))
}

func (w *Where) matchesSymbol(f *Frame) bool {
	if len(w.Symbols) == 0 {
		return true
	}
	if sym := f.Sym(); sym != nil && slices.Contains(w.Symbols, sym.Name) {
		return true
	}
	return f.Map != nil && slices.ContainsFunc(w.addrs, func(addr uint64) bool {
		return f.IP == addr || f.IP-addr < w.AddrRange
	})
}

// addresses returns the words that are hexadecimal numbers.
func addresses(words []string) (addrs []uint64) {
	for _, word := range words {
		if addr, ok := address(word); ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func address(word string) (addr uint64, ok bool) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 64)
	return addr, err == nil
}

// Names returns the Symbols that are not addresses.
func (w *Where) Names() []string {
	return slices.DeleteFunc(slices.Clone(w.Symbols), func(word string) bool {
		_, ok := address(word)
		return ok
	})
}

// ShortName returns perf report's name of the DSO: mostly the last part of the path (dso__set_basename of
// tools/perf/util/dso.c).
func (d *DSO) ShortName() string {
	if d.Short != "" {
		return d.Short
	}
	return ShortName(d.Name)
}

// ShortName returns the last part of a DSO's path, or perf's name for code of a JIT.
func ShortName(name string) string {
	if name != "" && name[0] == '[' {
		return name
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	if pid, ok := strings.CutPrefix(base, "perf-"); ok {
		if pid, ok = strings.CutSuffix(pid, ".map"); ok {
			if _, err := strconv.Atoi(pid); err == nil {
				return "[JIT] tid " + pid
			}
		}
	}
	return base
}

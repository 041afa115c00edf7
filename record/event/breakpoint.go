package event

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/suggest"
	"gperf/internal/text"
)

const breakpointPrefix = "mem:"

// Accesses that trigger a breakpoint: HW_BREAKPOINT_* of include/uapi/linux/hw_breakpoint.h.
const (
	bpRead, bpWrite, bpExecute = 1, 2, 4
)

// breakpoint returns the event of accesses to an address: mem:ADDR[/LEN][:ACCESS], where ADDR
// is a number or a symbol of the kernel, as in /proc/kallsyms.
func (w *words) breakpoint(at *Resolver) ([]Event, error) {
	rest := w.name[len(breakpointPrefix):]
	place, access, more := strings.Cut(rest, ":")
	ev := Event{Name: string(w.spec), Type: format.TypeBreakpoint, BPType: bpRead | bpWrite}
	if more {
		mods, modified := "", false
		access, mods, modified = strings.Cut(access, ":")
		if typ, ok := accessType(access); ok {
			ev.BPType = typ
		} else if !modified {
			mods, modified = access, true // mem:ADDR:u
		} else {
			return nil, w.spec.bad(fmt.Sprintf("%q is not an access: use r, w and x", access))
		}
		if modified {
			w.mods, w.modified = mods+w.mods, true
		}
	}
	place, length, hasLen := strings.Cut(place, "/")
	var err error
	if ev.Config1, err = w.address(place, at); err != nil {
		return nil, err
	}
	ev.Config2 = 4
	if ev.BPType == bpExecute {
		ev.Config2 = strconv.IntSize / 8 // sizeof(long), required by the kernel
	}
	if hasLen {
		if ev.Config2, err = strconv.ParseUint(length, 0, 64); err != nil || ev.Config2 < 1 || ev.Config2 > 8 {
			return nil, w.spec.bad(fmt.Sprintf("the length %q is not a number of bytes from 1 to 8", length))
		}
	}
	return []Event{ev}, nil
}

// accessType returns the BPType of r, w, x and combinations.
func accessType(s string) (typ uint32, ok bool) {
	for _, c := range s {
		bit := map[rune]uint32{'r': bpRead, 'w': bpWrite, 'x': bpExecute}[c]
		if bit == 0 || typ&bit != 0 {
			return 0, false
		}
		typ |= bit
	}
	return typ, typ != 0
}

func (w *words) address(place string, at *Resolver) (uint64, error) {
	if place == "" {
		return 0, w.spec.bad("the format is mem:ADDR[/LEN][:ACCESS]")
	}
	if c := place[0]; '0' <= c && c <= '9' {
		n, err := strconv.ParseUint(place, 0, 64)
		if err != nil {
			return 0, w.spec.bad(fmt.Sprintf("%q is not an address", place))
		}
		return n, nil
	}
	addrs, names, err := at.kernelSymbol(place)
	switch {
	case err != nil:
		return 0, err
	case len(addrs) == 1:
		return addrs[0].Addr, nil
	case len(addrs) > 1:
		return 0, w.spec.bad(fmt.Sprintf("the kernel has %d symbols %s: use an address, %s", len(addrs), place,
			candidates(addrs)))
	case names == nil:
		return 0, w.spec.bad("the kernel hides its addresses from this user (kernel.kptr_restrict)")
	}
	return 0, &UnknownError{Spec: string(w.spec), Kind: "symbol", Name: place, Near: suggest.Names(place, names)}
}

// kernelSymbol returns the symbols of the kernel with a name, one of each address. If there is none, names are the
// existing symbols, nil if the kernel hides their addresses.
func (f *Resolver) kernelSymbol(name string) (found []procfs.Symbol, names []string, err error) {
	file, err := os.Open(cmp.Or(f.Kallsyms, procfs.Kallsyms))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	shown := false
	for s, err := range procfs.Symbols(file) {
		if err != nil {
			return nil, nil, err
		}
		// Per-CPU symbols are offsets, small numbers.
		shown = shown || s.Addr != 0
		if s.Name() == name && s.Addr != 0 &&
			!slices.ContainsFunc(found, func(other procfs.Symbol) bool { return other.Addr == s.Addr }) {
			found = append(found, s)
		}
		names = append(names, s.Name())
	}
	if !shown {
		return nil, nil, nil
	}
	return found, names, nil
}

// maxCandidates is the maximum number of symbols in an error.
const maxCandidates = 4

// candidates lists symbols of the same name: "0xffffffff81001200, 0xffffffffc0001100 (nf_conntrack)".
func candidates(symbols []procfs.Symbol) string {
	var l []string
	for _, s := range symbols {
		of := ""
		if m := s.Module(); m != "" {
			of = " (" + m + ")"
		}
		l = append(l, fmt.Sprintf("%#x%s", s.Addr, of))
	}
	return text.JoinFirst(l, maxCandidates)
}

package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"gperf/record/tracefs"
)

// function is a function of the kernel. module is "" for the kernel itself.
type function struct{ name, module string }

// Files of tracefs that list the functions that ftrace can trace.
const (
	filterFunctions = "available_filter_functions"
	filterAddrs     = "available_filter_functions_addrs" // since Linux 6.5
)

// readTraced returns the functions that ftrace can trace.
func readTraced(t *tracefs.FS) (map[function]bool, error) {
	text, err := t.Read(filterFunctions)
	if err != nil {
		return nil, err
	}
	m := make(map[function]bool, bytes.Count(text, []byte{'\n'}))
	for line := range strings.Lines(string(text)) { // "name" or "name [module]"
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[function{name, strings.Trim(module, "[]")}] = true
	}
	return m, nil
}

// readTracedAddrs returns the addresses of ftrace's calls.
func readTracedAddrs(t *tracefs.FS) (map[uint64]bool, error) {
	text, err := t.Read(filterAddrs)
	if err != nil {
		return nil, err
	}
	m := make(map[uint64]bool, bytes.Count(text, []byte{'\n'}))
	for line := range strings.Lines(string(text)) {
		address, _, _ := strings.Cut(line, " ")
		if a, err := strconv.ParseUint(address, 16, 64); err == nil {
			m[a] = true
		}
	}
	return m, nil
}

// readTraceable returns a function that reports whether ftrace can trace a probe's function:
// by address if the kernel lists addresses, else by name.
func readTraceable(t *tracefs.FS) (func(*Probe) bool, error) {
	if _, err := t.Path(""); err != nil {
		return nil, err
	}
	addrs, err := readTracedAddrs(t)
	if err == nil {
		return func(p *Probe) bool { return addrs[p.entry] || addrs[p.entry+endbrSize] }, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, err := readTraced(t)
	return func(p *Probe) bool { return !p.ambiguous && names[function{p.Symbol, p.Module}] }, err
}

// endbrSize is the offset of ftrace's call from a function's start if indirect jumps are
// tracked (CONFIG_X86_KERNEL_IBT), in bytes.
const endbrSize = 4

// ErrHidden means that /proc/kallsyms hides the addresses of functions from this user.
var ErrHidden = errors.New("kernel addresses are hidden (kernel.kptr_restrict)")

// Entries returns the entry addresses of the probed functions that ftrace can trace. Missing
// probes are of functions that it cannot trace, or of an ambiguous name for which the
// traceable function is unknown.
func Entries(t *tracefs.FS, probes []*Probe) (map[*Probe]uint64, error) {
	var traceable func(*Probe) bool // nil: not read yet, because the kernel takes long to list them
	found := map[*Probe]uint64{}
	for _, p := range probes {
		if p.entry == 0 {
			return nil, ErrHidden
		}
		if p.traced {
			found[p] = p.entry
			continue
		}
		if traceable == nil {
			var err error
			if traceable, err = readTraceable(t); err != nil {
				return nil, fmt.Errorf("functions that ftrace can trace: %w", err)
			}
		}
		if traceable(p) {
			found[p] = p.entry
		}
	}
	return found, nil
}

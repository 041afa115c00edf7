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

// function is a function of the kernel, "" being the module of the kernel itself.
type function struct{ name, module string }

// Files of tracefs that tell what ftrace can stop at.
const (
	filterFunctions = "available_filter_functions"
	filterAddrs     = "available_filter_functions_addrs" // since Linux 6.5
)

// readTraced reads what ftrace can stop at.
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

// readTracedAddrs reads where ftrace's calls are.
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

// readTraceable returns what tells whether ftrace can stop at a probe's function:
// by place if the kernel says where, else by name.
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

// endbrSize is how far behind a function's begin ftrace's call is where indirect
// jumps are tracked (CONFIG_X86_KERNEL_IBT).
const endbrSize = 4

// ErrHidden: /proc/kallsyms does not show this user where functions are.
var ErrHidden = errors.New("kernel addresses are hidden (kernel.kptr_restrict)")

// Entries tells where the functions of probes begin, as far as ftrace can stop
// at them. Probes that are not in the result are of functions that it cannot stop
// at, or of a name that several have where nothing tells at which it can.
func Entries(t *tracefs.FS, probes []*Probe) (map[*Probe]uint64, error) {
	var traceable func(*Probe) bool // nil: not asked yet, it takes the kernel long to list
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
				return nil, fmt.Errorf("functions that ftrace can stop at: %w", err)
			}
		}
		if traceable(p) {
			found[p] = p.entry
		}
	}
	return found, nil
}

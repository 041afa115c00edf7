package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"gperf/record/tracefs"
)

// function is a function of the kernel, "" being the module of the kernel itself.
type function struct{ name, module string }

// traceable is what ftrace can stop at.
type traceable struct {
	functions map[function]bool
	addrs     map[uint64]bool // where ftrace's calls are; nil before Linux 6.5
}

// Files of tracefs that tell what ftrace can stop at.
const (
	filterFunctions = "available_filter_functions"
	filterAddrs     = "available_filter_functions_addrs" // since Linux 6.5
)

// readTraceable reads what ftrace can stop at, and where if the kernel tells.
func readTraceable(t *tracefs.FS) (*traceable, error) {
	l := &traceable{functions: map[function]bool{}}
	if _, err := t.Path(""); err != nil {
		return nil, err
	}
	l.addrs = map[uint64]bool{}
	b, err := t.Read(filterAddrs)
	if errors.Is(err, fs.ErrNotExist) {
		l.addrs = nil
		b, err = t.Read(filterFunctions)
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if l.addrs != nil && len(words) > 0 {
			if a, err := strconv.ParseUint(words[0], 16, 64); err == nil {
				l.addrs[a] = true
			}
			words = words[1:]
		}
		if len(words) > 0 {
			l.functions[newFunction(words)] = true
		}
	}
	return l, nil
}

// newFunction takes a name and, if there is one, "[module]".
func newFunction(words []string) function {
	f := function{name: words[0]}
	if len(words) > 1 {
		f.module = strings.Trim(words[1], "[]")
	}
	return f
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
	var can *traceable // it takes the kernel long to list
	found := map[*Probe]uint64{}
	for _, p := range probes {
		if p.entry == 0 {
			return nil, ErrHidden
		}
		if p.traced {
			found[p] = p.entry
			continue
		}
		if can == nil {
			var err error
			if can, err = readTraceable(t); err != nil {
				return nil, fmt.Errorf("functions that ftrace can stop at: %w", err)
			}
		}
		if can.at(p) {
			found[p] = p.entry
		}
	}
	return found, nil
}

// at tells whether ftrace can stop at a probe's function.
func (t *traceable) at(p *Probe) bool {
	if t.addrs == nil {
		return !p.ambiguous && t.functions[function{p.Symbol, p.Module}]
	}
	return t.addrs[p.entry] || t.addrs[p.entry+endbrSize]
}

package probe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
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

// readTraceable reads what ftrace can stop at, and where if that is needed:
// this takes the kernel twice the time.
func readTraceable(t *tracefs.FS, where bool) (*traceable, error) {
	l := &traceable{functions: map[function]bool{}}
	if _, err := t.Path(""); err != nil {
		return nil, err
	}
	var b []byte
	err := fs.ErrNotExist
	if where {
		l.addrs = map[uint64]bool{}
		b, err = t.Read(filterAddrs)
	}
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

// entry is where a function begins.
type entry struct {
	function
	addr uint64
}

// Entries tells where the functions of probes begin, as far as ftrace can stop
// at them: some names stand for several. Probes that are not in the result are
// of functions that it cannot stop at, or of several where nothing tells at which.
func Entries(t *tracefs.FS, probes []*Probe) (map[*Probe][]uint64, error) {
	all, err := entries(probes)
	if err != nil {
		return nil, err
	}
	var can *traceable // it takes the kernel long to list
	found := map[*Probe][]uint64{}
	for _, p := range probes {
		l := all[p]
		if len(l) == 1 && p.traced {
			found[p] = []uint64{l[0].addr}
			continue
		}
		if can == nil {
			if can, err = readTraceable(t, true); err != nil {
				return nil, fmt.Errorf("functions that ftrace can stop at: %w", err)
			}
		}
		if len(l) > 1 && can.addrs == nil {
			continue
		}
		for _, e := range l {
			if can.at(e) {
				found[p] = append(found[p], e.addr)
			}
		}
	}
	return found, nil
}

// entries finds the probes' functions in /proc/kallsyms.
func entries(probes []*Probe) (map[*Probe][]entry, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wanted := map[string][]*Probe{}
	for _, p := range probes {
		wanted[p.Symbol] = append(wanted[p.Symbol], p)
	}
	found := map[*Probe][]entry{}
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return found, lines.Err()
		}
		// ADDRESS TYPE NAME[\t[MODULE]]: most lines are of other names.
		addr, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		if len(rest) < 2 || !strings.ContainsRune("tTwW", rune(rest[0])) {
			continue
		}
		name, module, _ := bytes.Cut(rest[2:], []byte("\t"))
		l := wanted[string(name)]
		if l == nil {
			continue
		}
		e := entry{function: function{string(name), string(bytes.Trim(module, "[]"))}}
		if e.addr, err = strconv.ParseUint(string(addr), 16, 64); err != nil {
			continue
		}
		if e.addr == 0 {
			return nil, ErrHidden
		}
		for _, p := range l {
			if p.Module == "" || p.Module == e.module {
				found[p] = append(found[p], e)
			}
		}
	}
}

// at tells whether ftrace can stop at a function.
func (t *traceable) at(e entry) bool {
	if t.addrs == nil {
		return t.functions[e.function]
	}
	return t.addrs[e.addr] || t.addrs[e.addr+endbrSize]
}

// globPlaces are the probes of a kernel glob.
func (f *Finder) globPlaces(s *spec) ([]*Probe, error) {
	can, err := readTraceable(f.Tracefs, false)
	if err != nil {
		return nil, err
	}
	var l []*Probe
	for fn := range can.functions {
		if ok, _ := path.Match(s.name, fn.name); ok && (s.file == "" || s.file == fn.module) {
			l = append(l, &Probe{Kind: s.kind, Group: "probe", Event: eventName(fn.name, s.kind), Module: fn.module, Symbol: fn.name, traced: true})
		}
	}
	if len(l) == 0 {
		return nil, s.bad("no function matches")
	}
	slices.SortFunc(l, func(a, b *Probe) int { return strings.Compare(a.Symbol, b.Symbol) })
	return l, nil
}

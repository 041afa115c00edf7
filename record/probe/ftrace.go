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
	functions map[function]int // how many there are of a name
	addrs     map[uint64]bool  // where ftrace's calls are; nil before Linux 6.5
}

// Files of tracefs that tell what ftrace can stop at.
const (
	filterFunctions = "available_filter_functions"
	filterAddrs     = "available_filter_functions_addrs" // since Linux 6.5
)

// readTraceable reads what ftrace can stop at.
func readTraceable(t *tracefs.FS) (*traceable, error) {
	l := &traceable{functions: map[function]int{}, addrs: map[uint64]bool{}}
	if _, err := t.Path(""); err != nil {
		return nil, err
	}
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
			l.functions[newFunction(words)]++
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
// at them: some names stand for several. Probes that are not in the result are
// of functions that it cannot stop at, or of several one of which it cannot.
func Entries(t *tracefs.FS, probes []*Probe) (map[*Probe][]uint64, error) {
	can, err := readTraceable(t)
	if err != nil {
		return nil, fmt.Errorf("functions that ftrace can stop at: %w", err)
	}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wanted := map[string][]*Probe{}
	for _, p := range probes {
		wanted[p.Symbol] = append(wanted[p.Symbol], p)
	}
	found := map[*Probe][]uint64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sym := lines.Bytes()
		// ADDRESS TYPE NAME[\t[MODULE]]: most lines are of other names.
		_, rest, _ := bytes.Cut(sym, []byte(" "))
		if len(rest) < 2 || !strings.ContainsRune("tTwW", rune(rest[0])) {
			continue
		}
		name, module, _ := bytes.Cut(rest[2:], []byte("\t"))
		l := wanted[string(name)]
		if l == nil {
			continue
		}
		fn := function{string(name), string(bytes.Trim(module, "[]"))}
		addr, err := strconv.ParseUint(string(sym[:bytes.IndexByte(sym, ' ')]), 16, 64)
		if err != nil {
			continue
		}
		if addr == 0 {
			return nil, ErrHidden
		}
		for _, p := range l {
			if (p.Module == "" || p.Module == fn.module) && can.at(fn, addr) {
				found[p] = append(found[p], addr)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if can.addrs == nil { // one of several may be out of reach, and nothing tells which
		for p, l := range found {
			if len(l) > 1 {
				delete(found, p)
			}
		}
	}
	return found, nil
}

// at tells whether ftrace can stop at the function that begins at addr.
func (t *traceable) at(f function, addr uint64) bool {
	if t.addrs == nil {
		return t.functions[f] > 0
	}
	return t.addrs[addr] || t.addrs[addr+endbrSize]
}

// globPlaces are the probes of a kernel glob.
func (f *Finder) globPlaces(s *spec) ([]*Probe, error) {
	can, err := readTraceable(f.Tracefs)
	if err != nil {
		return nil, err
	}
	var l []*Probe
	for fn := range can.functions {
		if ok, _ := path.Match(s.name, fn.name); ok && (s.file == "" || s.file == fn.module) {
			l = append(l, &Probe{Kind: s.kind, Group: "probe", Event: eventName(fn.name, s.kind), Module: fn.module, Symbol: fn.name})
		}
	}
	if len(l) == 0 {
		return nil, s.bad("no function matches")
	}
	slices.SortFunc(l, func(a, b *Probe) int { return strings.Compare(a.Symbol, b.Symbol) })
	return l, nil
}

package kernel

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"gperf/record/tracefs"
)

// Files of tracefs that list the functions that ftrace can trace.
const (
	filterFunctions = "available_filter_functions"
	filterAddrs     = "available_filter_functions_addrs" // since Linux 6.5
)

// readTraced returns the functions that ftrace can trace.
func readTraced(t *tracefs.FS) (map[key]bool, error) {
	text, err := t.Read(filterFunctions)
	if err != nil {
		return nil, err
	}
	m := make(map[key]bool, bytes.Count(text, []byte{'\n'}))
	for line := range strings.Lines(string(text)) { // "name" or "name [module]"
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[key{name, strings.Trim(module, "[]")}] = true
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

// Traceable is the set of functions that ftrace can trace: by address if the kernel lists
// addresses, else by name.
type Traceable struct {
	addrs map[uint64]bool
	names map[key]bool
}

// ReadTraceable reads the kernel's list of traceable functions, which takes it long to make.
func ReadTraceable(t *tracefs.FS) (*Traceable, error) {
	if _, err := t.Path(""); err != nil {
		return nil, err
	}
	addrs, err := readTracedAddrs(t)
	if err == nil {
		return &Traceable{addrs: addrs}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, err := readTraced(t)
	return &Traceable{names: names}, err
}

// Has reports whether ftrace can trace the function of a site. If the kernel lists names only,
// it cannot know of ambiguous ones.
func (t *Traceable) Has(s Site) bool {
	if t.addrs != nil {
		return t.addrs[s.Addr] || t.addrs[s.Addr+endbrSize]
	}
	return !s.Ambiguous && t.names[s.key()]
}

// endbrSize is the offset of ftrace's call from a function's start if indirect jumps are
// tracked (CONFIG_X86_KERNEL_IBT), in bytes.
const endbrSize = 4

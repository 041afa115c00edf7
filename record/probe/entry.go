package probe

import (
	"errors"
	"fmt"

	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// ErrHidden means that /proc/kallsyms hides the addresses of functions from this user.
var ErrHidden = errors.New("kernel addresses are hidden (kernel.kptr_restrict)")

// EntryAddrs returns the entry addresses of the probed functions that ftrace can trace. Missing
// probes are of functions that it cannot trace, or of an ambiguous name for which the
// traceable function is unknown.
func EntryAddrs(t *tracefs.FS, probes []*Probe) (map[*Probe]uint64, error) {
	var traceable *kernel.Traceable // nil: not read yet, because the kernel takes long to list them
	found := map[*Probe]uint64{}
	for _, p := range probes {
		if p.site.Addr == 0 {
			return nil, ErrHidden
		}
		if p.site.Traced {
			found[p] = p.site.Addr
			continue
		}
		if traceable == nil {
			var err error
			if traceable, err = kernel.ReadTraceable(t); err != nil {
				return nil, fmt.Errorf("functions that ftrace can trace: %w", err)
			}
		}
		if traceable.Has(p.site) {
			found[p] = p.site.Addr
		}
	}
	return found, nil
}

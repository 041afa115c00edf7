package record

import (
	"fmt"
	"slices"
	"strings"
)

// Branches selects the taken branches in samples: attr.branch_sample_type (enum
// perf_branch_sample_type).
type Branches uint64

// branchFilters are the names of -j, in the order of their bits.
var branchFilters = []string{"u", "k", "hv", "any", "any_call", "any_ret", "ind_call", "abort_tx",
	"in_tx", "no_tx", "cond",
	"stack", "ind_jmp", "call", "no_flags", "no_cycles", "save_type", "hw_index", "priv", "counter"}

const (
	branchLevels Branches = 1<<3 - 1 // u, k, hv
	AnyBranch    Branches = 1 << 3
	// CallStacks makes the PMU's branch records hold the callers of the sampled code in
	// user space (perf's --call-graph lbr).
	CallStacks Branches = 1<<0 | 1<<11 | 1<<14 | 1<<15 | 1<<17
)

// ParseBranches parses the comma-separated filters of -j. Privilege levels alone select any
// branch at the event's own levels, as in perf.
func ParseBranches(list string) (Branches, error) {
	var b Branches
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(branchFilters, strings.ToLower(name))
		if i < 0 {
			return 0, fmt.Errorf("unknown branch filter %q: there are %s", name, strings.Join(branchFilters, ", "))
		}
		b |= 1 << i
	}
	if b&^branchLevels == 0 {
		return AnyBranch, nil
	}
	return b, nil
}

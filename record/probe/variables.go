package probe

import (
	"fmt"

	"gperf/record/probe/args"
)

// Variables are the variables that a probe can read by name at the probe's place.
type Variables struct {
	Place string // FUNC+OFF
	Scope *args.Scope
}

// Variables returns the variables that probes of a definition (see Define) can read by name, for each place of the
// probes. The error is a *SpecError if the definition is wrong, a *args.NoDebugError without debug information.
func (r *Resolver) Variables(text string, where Where) (l []Variables, err error) {
	if !IsSpec(text) {
		if _, _, text, err = translate(text, where); err != nil {
			return nil, err
		}
	}
	s, probes, err := r.find(text)
	if err != nil {
		return nil, err
	}
	for _, p := range probes {
		if !p.Kind.User() && p.Off != 0 {
			return nil, s.bad(fmt.Sprintf(args.NotAtEntry, p.Off))
		}
		scope, err := r.scope(s, p)
		if err != nil {
			return nil, err
		}
		l = append(l, Variables{fmt.Sprintf("%s+%d", scope.Function, s.off), scope})
	}
	return l, nil
}

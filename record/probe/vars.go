package probe

import "gperf/record/probe/vars"

// Vars returns what a probe of a spec can read by name: one Scope for each place
// that it means. The error is a *SpecError where the spec is to blame, a
// *vars.NoDebugError where nothing tells.
func (f *Finder) Vars(text string) ([]*vars.Scope, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	places := f.kernelPlaces
	if s.kind.User() {
		places = f.userPlaces
	}
	probes, err := places(s)
	if err != nil {
		return nil, err
	}
	var l []*vars.Scope
	for _, p := range probes {
		scope, err := f.values.scope(s, p)
		if err != nil {
			return nil, err
		}
		l = append(l, scope)
	}
	return l, nil
}

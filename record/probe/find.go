package probe

import "gperf/record/tracefs"

// Finder resolves specs to probes on this machine.
type Finder struct {
	Tracefs *tracefs.FS
	PIDs    []int  // processes whose files specs refer to
	Root    string // directory with the kernel's proc and sys; "": /
	// Notice, if set, receives warnings as they occur.
	Notice func(what error)

	values values
	code   *kernelCode // nil: not read yet
}

// Find returns the probes of a spec, at least one. The error is a *SpecError if the spec is
// wrong.
func (f *Finder) Find(text string) ([]*Probe, error) {
	s, probes, err := f.find(text)
	if err != nil {
		return nil, err
	}
	for _, p := range probes {
		args, err := f.args(s, p)
		if err != nil {
			return nil, err
		}
		p.Args = append(p.Args, args...) // after a USDT probe's own arguments
	}
	return probes, nil
}

// find returns the probes of a spec, without the arguments that it names.
func (f *Finder) find(text string) (*spec, []*Probe, error) {
	s, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	places := f.kernelPlaces
	if s.kind.User() {
		places = f.userPlaces
	}
	probes, err := places(s)
	return s, probes, err
}

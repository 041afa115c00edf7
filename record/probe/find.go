package probe

import "gperf/record/tracefs"

// Finder finds what specs mean on this machine.
type Finder struct {
	Tracefs *tracefs.FS
	PIDs    []int  // whose files are meant
	Root    string // where proc and sys are that tell of the kernel; "": /
	// Notice is told what turns out other than asked for; nil: nobody is.
	Notice func(what error)

	values values
	code   *kernelCode // nil: not read yet
}

// Find returns the probes that a spec means, at least one. The error is a
// *SpecError where the spec is to blame.
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
		p.Args = append(p.Args, args...) // behind those that a USDT probe has of itself
	}
	return probes, nil
}

// find returns the probes that a spec means, without the arguments that it names.
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

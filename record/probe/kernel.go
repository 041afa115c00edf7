package probe

import "strings"

// kernelPlaces are the probes in the kernel that a spec means, without arguments.
func (f *Finder) kernelPlaces(s *spec) ([]*Probe, error) {
	if strings.ContainsAny(s.name, "*?[") {
		return f.globPlaces(s)
	}
	return []*Probe{{Kind: s.kind, Group: "probe", Event: eventName(s.name, s.kind), Module: s.file, Symbol: s.name, Off: s.off}}, nil
}

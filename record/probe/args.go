package probe

import "strings"

// args are what a probe reads, of the words behind its place.
func (f *Finder) args(s *spec, p *Probe) (l []Arg, err error) {
	for _, a := range s.args {
		name, fetch, ok := strings.Cut(a, "=")
		if !ok {
			return nil, s.bad("an argument is NAME=VALUE")
		}
		l = append(l, Arg{name, fetch})
	}
	return l, nil
}

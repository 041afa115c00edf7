package args

import (
	"errors"
	"runtime"
)

// Scopes finds the names that are valid at probes, and caches the types that it reads.
type Scopes struct {
	kernels  map[string]*Kernel // by module
	programs map[string]*Program
}

var errMachine = errors.New("the locations of arguments are unknown on this machine")

// Kernel returns the names at the entry of a kernel function; module is "" for the kernel
// itself.
func (s *Scopes) Kernel(module, function string) (*Scope, error) {
	m := MachineOf(runtime.GOARCH)
	if m == nil {
		return nil, errMachine
	}
	k, ok := s.kernels[module]
	if !ok {
		var err error
		if k, err = openKernel(module, m); err != nil {
			return nil, err
		}
		if s.kernels == nil {
			s.kernels = map[string]*Kernel{}
		}
		s.kernels[module] = k
	}
	return k.Scope(function)
}

// Program returns the names at offset off of a file of code; inlined is the requested function,
// see Program.Scope.
func (s *Scopes) Program(path string, off uint64, inlined string) (*Scope, error) {
	p, ok := s.programs[path]
	if !ok {
		var err error
		if p, err = openProgram(path); err != nil {
			return nil, err
		}
		if s.programs == nil {
			s.programs = map[string]*Program{}
		}
		s.programs[path] = p
	}
	return p.Scope(off, inlined)
}

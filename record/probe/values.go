package probe

import (
	"errors"
	"runtime"

	"gperf/record/probe/vars"
)

// values locates variables by name, and caches the types that it reads.
type values struct {
	kernels  map[string]*vars.Kernel // by module
	programs map[string]*vars.Program
}

var errMachine = errors.New("the locations of arguments are unknown on this machine")

// scope returns the names that are valid at p.
func (v *values) scope(s *spec, p *Probe) (*vars.Scope, error) {
	if p.Kind.User() {
		return v.programScope(s, p)
	}
	m := vars.MachineOf(runtime.GOARCH)
	if m == nil {
		return nil, errMachine
	}
	k, ok := v.kernels[p.Module]
	if !ok {
		var err error
		if k, err = vars.OpenKernel(p.Module, m); err != nil {
			return nil, err
		}
		if v.kernels == nil {
			v.kernels = map[string]*vars.Kernel{}
		}
		v.kernels[p.Module] = k
	}
	return k.Scope(p.Symbol)
}

func (v *values) programScope(s *spec, p *Probe) (*vars.Scope, error) {
	program, ok := v.programs[p.Path]
	if !ok {
		var err error
		if program, err = vars.OpenProgram(p.Path); err != nil {
			return nil, err
		}
		if v.programs == nil {
			v.programs = map[string]*vars.Program{}
		}
		v.programs[p.Path] = program
	}
	return program.Scope(p.Off, s.name)
}

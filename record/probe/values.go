package probe

import (
	"errors"
	"runtime"

	"gperf/record/probe/vars"
)

// values tell where things are that have names. What they read is kept.
type values struct {
	kernels map[string]*vars.Kernel // by module
}

// scope is what has a name where p is.
func (v *values) scope(s *spec, p *Probe) (*vars.Scope, error) {
	m := vars.MachineOf(runtime.GOARCH)
	if m == nil {
		return nil, errors.New("where arguments are is not known of this machine")
	}
	k := v.kernels[p.Module]
	if k == nil {
		var err error
		if k, err = vars.OpenKernel(p.Module, m); err != nil {
			return nil, err
		}
		v.kernels = map[string]*vars.Kernel{p.Module: k}
	}
	return k.Scope(p.Symbol)
}

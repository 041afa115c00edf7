package probe

import (
	"fmt"
	"runtime"

	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
	"gperf/record/tracefs"
)

// Resolver resolves specs to probes on this machine.
type Resolver struct {
	Tracefs *tracefs.FS
	PIDs    []int  // processes whose files specs refer to
	Command string // else the program whose files specs refer to, which will start; "": none
	Root    string // directory with the kernel's proc and sys; "": /
	// Notice, if set, receives warnings as they occur: see program.Locator.
	Notice func(what error)

	files  *program.Locator // nil: not used yet
	scopes args.Scopes
	kernel *kernel.Symbols // nil: not used yet
}

// Find returns the probes of a spec, at least one. The error is a *SpecError if the spec is
// wrong.
func (r *Resolver) Find(text string) ([]*Probe, error) {
	s, probes, err := r.find(text)
	if err != nil {
		return nil, err
	}
	for _, p := range probes {
		if p.Args, p.Off, err = r.siteOf(s, p).Resolve(s.args); err != nil {
			return nil, err
		}
	}
	return probes, nil
}

// find returns the probes of a spec, without the arguments that it names.
func (r *Resolver) find(text string) (*spec, []*Probe, error) {
	s, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	probes, err := r.places(s)
	return s, probes, err
}

// places returns the probes of a parsed spec.
func (r *Resolver) places(s *spec) ([]*Probe, error) {
	if s.kind.User() {
		return r.userProbes(s)
	}
	return r.kernelProbes(s)
}

// siteOf describes the place of a probe to package args.
func (r *Resolver) siteOf(s *spec, p *Probe) args.Site {
	site := args.Site{
		Spec: s.text, Name: p.Event, Returns: p.returns(), AtReturn: p.AtReturn, FuncOff: s.off,
		Path: p.Path, Off: p.Off, Own: p.Args, Notes: p.notes,
		Machine: args.MachineOf(runtime.GOARCH), Types: r.Tracefs.FetchTypes,
		Scope: func() (*args.Scope, error) { return r.scope(s, p) },
		Help:  fmt.Sprintf("`gperf probe --vars %s` lists the variables", p.Symbol),
	}
	if p.Kind.User() {
		site.Kind = args.InProgram
		site.Help = fmt.Sprintf("`gperf probe --vars %s -x %s` lists the variables", s.name, s.file)
	}
	if s.usdt {
		site.Kind = args.AtUSDT
	}
	return site
}

// scope returns the names that are valid at p.
func (r *Resolver) scope(s *spec, p *Probe) (*args.Scope, error) {
	if p.Kind.User() {
		return r.scopes.Program(p.Path, p.Off, s.name)
	}
	return r.scopes.Kernel(p.Module, p.Symbol)
}

// Functions returns the functions that can be probed in a file of code: see
// program.Locator.Functions.
func (r *Resolver) Functions(name string) ([]program.Function, error) {
	return r.locator().Functions(name)
}

// USDT returns the USDT probes of a file of code.
func (r *Resolver) USDT(name string) ([]program.USDT, error) { return r.locator().USDT(name) }

func (r *Resolver) locator() *program.Locator {
	if r.files == nil {
		r.files = &program.Locator{PIDs: r.PIDs, Command: r.Command, Notice: r.Notice}
	}
	return r.files
}

func (r *Resolver) notice(what error) {
	if r.Notice != nil {
		r.Notice(what)
	}
}

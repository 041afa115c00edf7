package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
)

// userProbes returns the probes in files of code that a spec names, without the arguments.
func (r *Resolver) userProbes(s *spec) (l []*Probe, err error) {
	sites, err := r.locator().Find(program.Query{
		Spec: s.text, File: s.file, Name: s.name, Literal: s.literal, Off: s.off, Line: s.line,
		USDT: s.usdt, Provider: s.provider, Return: s.kind.Return(),
	})
	if err != nil {
		return nil, err
	}
	for i := range sites {
		l = append(l, s.userProbe(&sites[i]))
	}
	if err := unreadable(s, l); err != nil {
		r.notice(err)
	}
	return l, nil
}

// userProbe returns the probe at a place of a file. For USDT, it includes the arguments that the kernel can read,
// under perf's names: arg1 …
func (s *spec) userProbe(site *program.Site) *Probe {
	p := &Probe{
		Kind: s.kind, Group: userGroup(site), Event: s.userEvent(site), Path: site.Path, Off: site.Off,
		AtReturn: site.AtReturn, Semaphore: site.Semaphore, notes: site.Args,
	}
	if p.AtReturn {
		p.Kind = Uprobe
	}
	if kernel.IsGlob(s.name) && !s.literal && !s.usdt {
		p.Glob = s.text
	}
	for i, n := range p.notes {
		if a, ok := n.Arg("arg" + strconv.Itoa(i+1)); ok {
			p.Args = append(p.Args, a)
		}
	}
	return p
}

// unreadable reports the arguments of USDT probes that the kernel cannot read, nil if it can
// read all.
func unreadable(s *spec, probes []*Probe) error {
	var of []string
	first := ""
	for _, p := range probes {
		for i, n := range p.notes {
			if _, ok := n.Arg(""); !ok {
				of = append(of, p.Event)
				first = cmp.Or(first, fmt.Sprintf("arg%d of %s, %s", i+1, p.Event, n.Text))
			}
		}
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: the kernel cannot read an argument: %s", s.text, first)
	}
	return fmt.Errorf("%s: the kernel cannot read %d arguments of %d probes, the first: %s", s.text, len(of),
		len(slices.Compact(of)), first)
}

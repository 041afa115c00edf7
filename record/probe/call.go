package probe

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"gperf/record/probe/args"
	"gperf/record/probe/program"
)

// Call is a function whose calls are measured, from entry to return.
type Call struct {
	*Probe           // the function's entry
	Address uint64   // of a kernel function
	Go      bool     // it is in a Go program
	GoID    uint64   // offset of a goroutine's number in Go's struct g, in bytes; 0: unknown
	Begin   uint64   // offset in the file where a probe sees the arguments: Off, or some bytes later
	Returns []uint64 // offsets of the return instructions in the file; nil: a return probe
	Params  []Param  // that are in registers at the entry
	Result  *Param   // nil: none
}

// Param is a parameter, or the return value.
type Param struct {
	Name     string
	Type     string // in C
	Register int    // number among the registers of the first integer arguments
	Size     int    // in bytes
	Signed   bool
}

// FindCalls returns the functions that place names, FUNC of the kernel or FILE:FUNC, or globs of both, at
// least one. The error is a *SpecError if the place is wrong. text is the complete text for errors.
func (r *Resolver) FindCalls(text, place string) (l []*Call, err error) {
	kind := "kprobe:"
	if args.Index(place, ':') >= 0 {
		kind = "uprobe:"
	}
	s, err := parse(kind + place)
	if err != nil {
		return nil, &SpecError{Spec: text, Msg: "expected span:FUNCTION of the kernel, or span:FILE:FUNCTION"}
	}
	switch s.text = text; {
	case len(s.args) > 0:
		return nil, s.bad("a span of a function has all arguments that are in registers at its entry: name none")
	case s.off != 0 || s.line != 0:
		return nil, s.bad("a span begins at the entry of a function: name the function without offset or line")
	}
	probes, err := r.places(s)
	if err != nil {
		return nil, err
	}
	if s.kind.User() {
		return r.userCalls(s, probes)
	}
	addrs, err := EntryAddrs(r.Tracefs, probes)
	if err != nil {
		addrs = nil // kprobes may still be there
	}
	skipped := &SkippedError{Glob: text, Of: len(probes), Why: map[string]int{}}
	why := ""
	for _, p := range probes {
		if addrs != nil && addrs[p] == 0 && p.Glob != "" {
			skipped.Skipped++
			why = cmp.Or(why, "ftrace cannot trace them, such as "+p.Symbol)
			continue
		}
		c := &Call{Probe: p, Address: p.site.Addr}
		c.describe(r.scope(s, p))
		l = append(l, c)
	}
	if len(l) == 0 {
		return nil, s.bad("ftrace can trace none of these functions")
	}
	if skipped.Skipped > 0 {
		skipped.Why[why] = skipped.Skipped
		r.notice(skipped)
	}
	return l, nil
}

// FindEntry returns the function that a place names, FILE:FUNC, without its return. The error is a *SpecError if the
// place is wrong. text is the complete text for errors.
func FindEntry(r *Resolver, text, place string) (*Call, error) {
	s, err := parse("uprobe:" + place)
	if err != nil {
		return nil, err
	}
	switch s.text = text; {
	case len(s.args) > 0:
		return nil, s.bad("a span of functions has all arguments that are in registers: name none")
	case s.off != 0 || s.line != 0:
		return nil, s.bad("a span begins and ends at the entries of functions: name these without offset or line")
	}
	probes, err := r.places(s)
	switch {
	case err != nil:
		return nil, err
	case len(probes) != 1:
		return nil, s.bad(fmt.Sprintf("a span begins and ends at one function each, and %s are %d", place, len(probes)))
	}
	c := &Call{Probe: probes[0], Begin: probes[0].Off}
	f, err := program.Open(c.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if id := f.GoID(); id != 0 {
		c.Go, c.GoID, c.Begin = true, id, f.AfterCheck(c.Off)
	}
	c.describe(r.scope(s, c.Probe))
	return c, nil
}

// place identifies a function of a file.
type place struct {
	path string
	off  uint64
}

// userCalls returns the calls of functions in files, except those whose return cannot be probed.
func (r *Resolver) userCalls(s *spec, probes []*Probe) (l []*Call, err error) {
	sites, err := r.locator().Find(program.Query{Spec: s.text, File: s.file, Name: s.name, Literal: s.literal,
		Return: true, KeepStack: true})
	if err != nil {
		return nil, err
	}
	returns := map[place][]program.Site{}
	ofGo := map[string]*program.File{} // by path
	defer func() {
		for _, f := range ofGo {
			f.Close()
		}
	}()
	for i := range sites {
		if sites[i].Function == nil {
			return nil, s.bad("a span begins at the entry of a function: name the function, not an address")
		}
		at := place{sites[i].Path, sites[i].Function.Off}
		returns[at] = append(returns[at], sites[i])
		if sites[i].Go && ofGo[at.path] == nil {
			if ofGo[at.path], err = program.Open(at.path); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range probes {
		at := returns[place{p.Path, p.Off}]
		if len(at) == 0 || slices.ContainsFunc(l, func(c *Call) bool { return c.Path == p.Path && c.Off == p.Off }) {
			continue // it does not return, or is another name of the same function
		}
		c := &Call{Probe: p, Begin: p.Off}
		if f := ofGo[p.Path]; f != nil {
			c.Go, c.GoID, c.Begin = true, f.GoID(), f.AfterCheck(p.Off)
		}
		for _, site := range at {
			if site.AtReturn {
				c.Returns = append(c.Returns, site.Off)
			}
		}
		c.describe(r.scope(s, p))
		l = append(l, c)
	}
	return l, nil
}

// describe adds the types of a function: without them (err), there are arg1 to arg6 and retval.
func (c *Call) describe(scope *args.Scope, err error) {
	m := args.MachineOf(runtime.GOARCH)
	if err != nil || m == nil {
		for i := range args.NumInRegisters {
			c.Params = append(c.Params, Param{Name: fmt.Sprintf("arg%d", i+1), Type: "u64", Register: i, Size: 8})
		}
		c.Result = &Param{Name: "retval", Type: "u64", Size: 8}
		return
	}
	for _, v := range m.InRegisters(scope, c.Go) {
		c.Params = append(c.Params, c.param(v.Name, v.Type, v.Register))
	}
	if t := scope.Return; t.Kind == args.Int || t.Kind == args.Enum || t.Kind == args.Pointer {
		p := c.param("retval", t, 0)
		c.Result = &p
	} else if t.Kind != args.Void && t.Kind != args.Float {
		c.Result = &Param{Name: "retval", Type: "u64", Size: 8}
	}
}

// param describes a value of type t. Types of programs become C's types of the same size, because perf cannot read
// the names of types of other languages.
func (c *Call) param(name string, t *args.Type, register int) Param {
	p := Param{Name: args.Word(name), Register: register, Size: int(t.Size), Signed: t.Signed}
	if p.Name == "" {
		p.Name = fmt.Sprintf("arg%d", register+1)
	}
	typ := t.String()
	base := strings.TrimRight(typ, "*")
	switch {
	case t.Kind == args.Pointer && (c.Kind.User() || base == typ):
		p.Type = "void *"
	case t.Kind == args.Pointer:
		p.Type = base + " " + typ[len(base):]
	case !c.Kind.User():
		p.Type = typ
	case t.Signed:
		p.Type = fmt.Sprintf("s%d", 8*t.Size)
	default:
		p.Type = fmt.Sprintf("u%d", 8*t.Size)
	}
	return p
}

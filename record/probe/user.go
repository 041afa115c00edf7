package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// FunctionError means that a file of code has no such function or USDT probe.
type FunctionError struct {
	File, Name string
	Why        string   // the reason; may be ""
	Near       []string // existing similar names, best first
	Stripped   bool     // the file has dynamic symbols only
	USDT       bool     // Name is a USDT probe
}

func (e *FunctionError) Error() string {
	s := fmt.Sprintf("no function %q can be probed in %s", e.Name, e.File)
	if e.USDT {
		s = fmt.Sprintf("no USDT probe %q in %s", e.Name, e.File)
	}
	if e.Why != "" {
		s += ": " + e.Why
	}
	if len(e.Near) > 0 {
		s += ": did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return s
}

// place is the position of a probe in a file.
type place struct {
	event    string // perf's name, without the suffix of return probes
	off      uint64 // in the file
	function *Function
	return_  bool // the instruction returns from the function
}

// userPlaces returns the probes in files of code that a spec names, without the arguments.
func (f *Finder) userPlaces(s *spec) ([]*Probe, error) {
	paths, err := f.files(s.file)
	if err != nil {
		return nil, err
	}
	var l []*Probe
	for _, path := range paths {
		probes, err := f.inFile(s, path)
		if err != nil {
			return nil, err
		}
		l = append(l, probes...)
	}
	return l, nil
}

func (f *Finder) inFile(s *spec, path string) ([]*Probe, error) {
	if strings.ContainsAny(path, " \t\n()") {
		return nil, &FileError{path, errors.New("the kernel does not accept a path with a space or bracket: use a symbolic link")}
	}
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if s.usdt {
		marks, err := file.marks(s)
		if what := unreadable(s, marks); err == nil && what != nil {
			f.notice(what)
		}
		return marks, err
	}
	if err := file.readFunctions(); err != nil {
		return nil, err
	}
	places, err := f.places(s, file)
	if err != nil {
		return nil, err
	}
	var l []*Probe
	for _, p := range places {
		probe := &Probe{Kind: s.kind, Group: file.group(), Path: path, Off: p.off, Event: withSuffix(p.event, s.kind)}
		if p.return_ {
			probe.Kind, probe.AtReturn = Uprobe, true
		}
		if isGlob(s.name) && !s.literal {
			probe.Glob = s.text
		}
		l = append(l, probe)
	}
	return l, nil
}

// group returns perf's name for the events of a file.
func (f *file) group() string {
	path := f.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return "probe_" + word(filepath.Base(path))
}

func (f *Finder) places(s *spec, file *file) ([]place, error) {
	if s.line > 0 {
		return file.linePlaces(s)
	}
	if vaddr, err := strconv.ParseUint(s.name, 0, 64); err == nil {
		return file.address(s, vaddr)
	}
	found, imported, err := file.match(s)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, file.missing(s, imported)
	}
	found, unresolved := f.resolve(file, found)
	if len(found) == 0 {
		return nil, &FunctionError{File: file.path, Name: s.name, Why: unresolved.Error()}
	}
	if unresolved != nil {
		f.notice(fmt.Errorf("%s: %w", s.text, unresolved))
	}
	var l []place
	var refused []error
	for _, fn := range found {
		p, err := file.inFunction(s, fn)
		if err != nil {
			refused = append(refused, err)
		}
		l = append(l, p...)
	}
	switch {
	case len(refused) > 0 && len(l) == 0:
		return nil, refused[0]
	case len(refused) > 0:
		f.notice(fmt.Errorf("%s: %d of %d functions cannot be probed, the first: %w", s.text, len(refused), len(found), refused[0]))
	}
	return l, nil
}

func (f *Finder) notice(what error) {
	if f.Notice != nil {
		f.Notice(what)
	}
}

// address returns the place at a vaddr, as in perf probe.
func (f *file) address(s *spec, vaddr uint64) ([]place, error) {
	off, ok := f.code(vaddr)
	if !ok {
		return nil, s.bad(fmt.Sprintf("there is no code at %#x of %s; use addresses of `nm` and `objdump -d`", vaddr, f.path))
	}
	if i := slices.IndexFunc(f.functions, func(fn Function) bool { return !fn.imported && off-fn.Off < fn.Size }); i >= 0 && !s.kind.Return() {
		if err := f.boundary(s, &f.functions[i], off); err != nil {
			return nil, err
		}
	}
	return []place{{event: fmt.Sprintf("abs_%x", vaddr), off: off + s.off}}, nil
}

// inFunction returns the places of a spec in a function.
func (f *file) inFunction(s *spec, fn *Function) ([]place, error) {
	p := place{event: f.eventOf(fn), off: fn.Off + s.off, function: fn}
	switch {
	case s.kind.Return() && s.off != 0:
		return nil, s.bad("a return probe needs a function without an offset, not +" + strconv.FormatUint(s.off, 10))
	case s.kind.Return() && f.isGo():
		return f.goReturns(p)
	case s.off != 0:
		if fn.Size > 0 && s.off >= fn.Size {
			return nil, s.bad(fmt.Sprintf("%s is %#x bytes long", fn.Name(), fn.Size))
		}
		if err := f.boundary(s, fn, p.off); err != nil {
			return nil, err
		}
	}
	return []place{p}, nil
}

// eventOf returns perf's name for an event at the function.
func (f *file) eventOf(fn *Function) string {
	if name := fn.Name(); name != fn.Symbol || f.isGo() {
		return sourceEventName(name)
	}
	return word(strings.TrimPrefix(fn.Symbol, "."))
}

// boundary checks that an instruction of a function begins at off: a probe inside an
// instruction would corrupt it.
func (f *file) boundary(s *spec, fn *Function, off uint64) error {
	for at, insn := range f.instructions(fn) {
		switch end := at + uint64(len(insn)); {
		case at == off:
			return nil
		case end > off:
			return s.bad(fmt.Sprintf("+%#[4]x is inside the instruction from %[1]s+%#[2]x to +%#[3]x", fn.Name(), at-fn.Off, end-fn.Off, off-fn.Off))
		}
	}
	return nil // the kernel checks code that gperf cannot decode
}

// missing returns the error for an unknown function, with the reason and an alternative.
func (f *file) missing(s *spec, imported []*Function) error {
	e := &FunctionError{File: f.path, Name: s.name}
	if len(imported) > 0 || strings.HasSuffix(s.name, "@plt") {
		library := "LIBRARY"
		for _, fn := range imported {
			if fn.library != "" {
				library = fn.library
			}
		}
		e.Why = fmt.Sprintf("it is imported from another file: probe %s:%s", library, strings.TrimSuffix(s.name, "@plt"))
		if library == "LIBRARY" {
			e.Why = "it is imported from another file (`ldd` lists them)"
		}
		return e
	}
	if why := f.inlined(s.name); why != "" {
		e.Why = why
		return e
	}
	var names []string
	for i := range f.functions {
		if fn := &f.functions[i]; !fn.imported {
			names = append(names, withoutParameters(fn.Name()))
		}
	}
	slices.Sort(names)
	e.Near = suggest.Names(s.name, slices.Compact(names))
	e.Stripped = !f.HasSymtab() && !f.goPCs
	if e.Stripped {
		e.Why = fmt.Sprintf("it is stripped: only its %d exported functions have names", len(slices.Compact(names)))
		if len(names) == 0 {
			e.Why = "it is stripped: none of its functions has a name"
		}
	}
	return e
}

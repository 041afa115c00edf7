package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
	"gperf/record/probe/args"
)

// FunctionError means that a file of code does not contain this function or USDT probe.
type FunctionError struct {
	File, Name string
	Why        string   // the reason; may be ""
	Near       []string // existing similar names, best first
	Stripped   bool     // the file contains dynamic symbols only
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
	return s + suggest.DidYouMean(e.Near)
}

// WrongUse reports that the command line caused the error.
func (e *FunctionError) WrongUse() bool { return true }

// PartialError is a notice: a probe misses calls of a function, because the compiler has directed them elsewhere.
type PartialError struct {
	Spec    string   // the probe as requested
	Inlined int      // calls that are inlined
	Where   string   // the places of the first inlined calls
	Copies  []string // symbols of the compiler's copies and parts of the function
}

func (e *PartialError) Error() string {
	var missed []string
	if e.Inlined > 0 {
		missed = append(missed, fmt.Sprintf("inlined calls (%d: %s; probe these places, or compile with noinline)",
			e.Inlined, e.Where))
	}
	if len(e.Copies) > 0 {
		missed = append(missed, fmt.Sprintf("calls of the compiler's copies (%s; probe these, too)", few(e.Copies)))
	}
	return fmt.Sprintf("probe %q misses %s", e.Spec, strings.Join(missed, ", and "))
}

// Locator finds files of code, and places in them.
type Locator struct {
	PIDs    []int  // processes whose files are meant
	Command string // else the program whose files are meant, which will start; "": none
	// Notice, if set, receives warnings as they occur, and once the path of each file that is given by name alone.
	Notice func(what error)

	reported map[string]bool // notices about a file, by subject and path
}

// Query names places in a file of code: a function, an address, a source line, or a USDT probe.
type Query struct {
	Spec string // the probe as requested, for errors
	File string // a path, or a program's or library's name alone
	// Name is the function's, or a glob; for a source line the name of the source file, for an
	// address the vaddr in hexadecimal, for USDT the probe's name, or a glob.
	Name     string
	Literal  bool   // Name is not a glob
	Off      uint64 // offset from Name, in bytes
	Line     int    // of the source file; 0: not a line
	USDT     bool
	Provider string // of USDT; "" if unspecified
	Return   bool   // the places where the function returns
	// KeepStack means that the program must survive exceptions that pass the function: gperf probes the return
	// instructions if there are any.
	KeepStack bool
}

// search is a query in a file.
type search struct {
	Query
	file *File
}

func (q *Query) bad(msg string) error { return &args.SpecError{Spec: q.Spec, Msg: msg} }

// Site is a place in a file of code.
type Site struct {
	Path     string    // for the kernel to open
	Off      uint64    // in the file
	Function *Function // nil: unknown
	Go       bool      // the file is a Go program
	// AtReturn marks an instruction that returns from the function, where a uretprobe is not possible.
	AtReturn bool
	USDT     *USDT // nil for other places
	// Semaphore is the offset in the file of the counter by which a program knows that the USDT probe is in use;
	// 0: none.
	Semaphore uint64
	Args      []args.NoteArg // of the USDT probe
}

// Find returns the places of a query, at least one.
func (l *Locator) Find(q Query) ([]Site, error) {
	paths, err := l.Files(q.File)
	if err != nil {
		return nil, err
	}
	var all []Site
	for _, path := range paths {
		sites, err := l.findIn(q, path)
		if err != nil {
			return nil, err
		}
		all = append(all, sites...)
	}
	return all, nil
}

func (l *Locator) findIn(q Query, path string) ([]Site, error) {
	if strings.ContainsAny(path, " \t\n()") {
		return nil, &FileError{path, errors.New("the kernel does not accept a path with a space or bracket: use a " +
			"symbolic link")}
	}
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &search{q, file}
	find := l.sites
	if q.USDT {
		find = (*search).findUSDT
	}
	sites, err := find(s)
	for i := range sites {
		sites[i].Path, sites[i].Go = path, file.isGo()
	}
	if !q.USDT && q.Line == 0 && q.Off == 0 && len(sites) > 0 && l.first(q.Spec, path) {
		l.reportMissed(s, sites)
	}
	return sites, err
}

// first reports whether a notice about a file is the first one of its kind.
func (l *Locator) first(what, path string) bool {
	if l.reported == nil {
		l.reported = map[string]bool{}
	}
	was := l.reported[what+path]
	l.reported[what+path] = true
	return !was
}

// reportMissed reports the calls of the functions of sites that do not get there.
func (l *Locator) reportMissed(s *search, sites []Site) {
	probed := map[string]bool{}
	for i := range sites {
		if fn := sites[i].Function; fn != nil {
			probed[fn.Symbol] = true
		}
	}
	e := &PartialError{Spec: s.Spec}
	for i := range s.file.functions {
		symbol := s.file.functions[i].Symbol
		original, ok := args.CopyOf(symbol)
		if ok && probed[original] && !probed[symbol] && !slices.Contains(e.Copies, symbol) {
			e.Copies = append(e.Copies, symbol)
		}
	}
	e.Inlined, e.Where = s.file.inlinedCalls(probed)
	if e.Inlined+len(e.Copies) > 0 {
		l.notice(e)
	}
}

// open opens the file of code with this name: of several, the first.
func (l *Locator) open(name string) (*File, error) {
	paths, err := l.Files(name)
	if err != nil {
		return nil, err
	}
	return Open(paths[0])
}

// Functions returns the functions that can be probed in a file of code, given by path, or by a program's or
// library's name alone, sorted by offset in the file. The offsets of several functions may be equal.
func (l *Locator) Functions(name string) ([]Function, error) {
	file, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.ReadFunctions(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(file.functions, func(fn Function) bool { return fn.imported }), nil
}

// sites returns the places of a query that is not for USDT.
func (l *Locator) sites(s *search) ([]Site, error) {
	if err := s.file.ReadFunctions(); err != nil {
		return nil, err
	}
	if s.Line > 0 {
		return s.lineSites()
	}
	if vaddr, err := strconv.ParseUint(s.Name, 0, 64); err == nil {
		return s.address(vaddr)
	}
	found, imported, err := s.match()
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, s.missing(imported)
	}
	found, unresolved := l.resolve(s.file, found)
	if len(found) == 0 {
		return nil, &FunctionError{File: s.file.path, Name: s.Name, Why: unresolved.Error()}
	}
	if unresolved != nil {
		l.notice(fmt.Errorf("%s: %w", s.Spec, unresolved))
	}
	return l.inFunctions(s, found)
}

// inFunctions returns the places of a query in functions: if there are none in some functions, it passes the first
// reason to Notice.
func (l *Locator) inFunctions(s *search, functions []*Function) (sites []Site, err error) {
	var refused []error
	for _, fn := range functions {
		in, err := s.inFunction(fn)
		if err != nil {
			refused = append(refused, err)
		}
		sites = append(sites, in...)
	}
	switch {
	case len(refused) > 0 && len(sites) == 0:
		return nil, refused[0]
	case len(refused) > 0:
		l.notice(fmt.Errorf("%s: %d of %d functions cannot be probed, the first: %w", s.Spec, len(refused),
			len(functions), refused[0]))
	}
	return sites, nil
}

func (l *Locator) notice(what error) {
	if l.Notice != nil {
		l.Notice(what)
	}
}

// address returns the site at a vaddr, as in perf probe.
func (s *search) address(vaddr uint64) ([]Site, error) {
	off, ok := s.file.code(vaddr)
	if !ok {
		return nil, s.bad(fmt.Sprintf("there is no code at %#x of %s; use addresses of `nm` and `objdump -d`", vaddr,
			s.file.path))
	}
	if fn := s.file.At(off); fn != nil && !s.Return {
		if err := s.boundary(fn, off); err != nil {
			return nil, err
		}
	}
	return []Site{{Off: off + s.Off}}, nil
}

// entryPoint is the function that the kernel or the dynamic linker enters, with argc in place of a return address.
const entryPoint = "_start"

// inFunction returns the sites of a query in a function.
func (s *search) inFunction(fn *Function) ([]Site, error) {
	site := Site{Off: fn.Off + s.Off, Function: fn}
	switch {
	case s.Return && s.Off != 0:
		return nil, s.bad("a return probe needs a function without an offset, not +" + strconv.FormatUint(s.Off, 10))
	case s.Return && fn.Symbol == entryPoint:
		return nil, &FunctionError{File: s.file.path, Name: fn.Symbol,
			Why: "nothing calls it: a return probe would overwrite the number of arguments"}
	case s.Return && s.noTrampoline() != "":
		return s.file.returnSites(fn, s.noTrampoline())
	case s.Off != 0:
		if fn.Size > 0 && s.Off >= fn.Size {
			return nil, s.bad(fmt.Sprintf("%s is %#x bytes long", fn.Name(), fn.Size))
		}
		if err := s.boundary(fn, site.Off); err != nil {
			return nil, err
		}
	}
	return []Site{site}, nil
}

// boundary checks that an instruction of a function begins at off: a probe inside an
// instruction would corrupt it.
func (s *search) boundary(fn *Function, off uint64) error {
	for at, insn := range s.file.instructions(fn) {
		switch end := at + uint64(len(insn)); {
		case at == off:
			return nil
		case end > off:
			return s.bad(fmt.Sprintf("+%#[4]x is inside the instruction from %[1]s+%#[2]x to +%#[3]x", fn.Name(),
				at-fn.Off, end-fn.Off, off-fn.Off))
		}
	}
	return nil // the kernel checks code that gperf cannot decode
}

// missing returns the error for an unknown function, with the reason and an alternative.
func (s *search) missing(imported []*Function) error {
	e := &FunctionError{File: s.file.path, Name: s.Name}
	if len(imported) > 0 || strings.HasSuffix(s.Name, "@plt") {
		library := "LIBRARY"
		for _, fn := range imported {
			if fn.library != "" {
				library = fn.library
			}
		}
		e.Why = fmt.Sprintf("it is imported from another file: probe %s:%s", library,
			strings.TrimSuffix(s.Name, "@plt"))
		if library == "LIBRARY" {
			e.Why = "it is imported from another file (`ldd` lists them)"
		}
		return e
	}
	if info := s.file.debugInfo(anySize); info != nil {
		if e.Why = info.inlined(s.Name); e.Why != "" {
			return e
		}
	}
	var names []string
	for i := range s.file.functions {
		if fn := &s.file.functions[i]; !fn.imported {
			names = append(names, WithoutParameters(fn.Name()))
		}
	}
	slices.Sort(names)
	e.Near = suggest.Names(s.Name, slices.Compact(names))
	e.Stripped = !s.file.HasSymtab() && !s.file.goPCs
	if e.Stripped {
		e.Why = fmt.Sprintf("it is stripped: only its %d exported functions have names", len(slices.Compact(names)))
		if len(names) == 0 {
			e.Why = "it is stripped: none of its functions has a name"
		}
	}
	return e
}

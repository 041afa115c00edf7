// Package symbolize answers "address in a DSO → names": it builds the symbol
// tables of ELF files and of the kernel and looks addresses up in them. Which
// names it chooses and how it shows them is what perf does, so that both print
// the same text. Whose address it was (maps, processes) is the business of
// package replay; which file a DSO is, of package dso.
package symbolize

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"gperf/internal/dso"
	"gperf/symbolize/demangle"
	"gperf/symbolize/jit"
	"gperf/symbolize/srcline"
)

// Reason says why an address has no name; 0 says that it has one.
type Reason uint8

const (
	Found       Reason = iota
	Unmapped           // nothing was mapped there when the sample was taken
	NoFile             // the file is not there
	Unreadable         // the file cannot be read, or is no ELF file
	NotOwned           // the file is neither the user's nor root's
	Mismatch           // the file is not the one recorded: another build ID
	NoSymbols          // the file has no symbol table
	NoSymbol           // the table has no symbol at the address
	Restricted         // the kernel hides its addresses from this user
	OtherKernel        // the kernel recorded is not the one running, and no copy of its symbols was found
	NoLines            // no debug information was found
)

var reasonTexts = [...]string{
	Found:       "found",
	Unmapped:    "unmapped",
	NoFile:      "no such file",
	Unreadable:  "unreadable file",
	NotOwned:    "file of another user",
	Mismatch:    "build id mismatch",
	NoSymbols:   "no symbols",
	NoSymbol:    "no symbol at the address",
	Restricted:  "kernel addresses are restricted",
	OtherKernel: "another kernel was recorded",
	NoLines:     "no debug information",
}

func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// reasonOf classifies the error of loading a DSO.
func reasonOf(err error) Reason {
	switch {
	case err == nil:
		return Found
	case errors.Is(err, srcline.ErrNoLines), errors.Is(err, dso.ErrNoDWARF): // whatever else was found wrong
		return NoLines
	case errors.Is(err, dso.ErrNoFile), errors.Is(err, os.ErrNotExist):
		return NoFile
	case errors.Is(err, dso.ErrOwner):
		return NotOwned
	case errors.Is(err, dso.ErrMismatch), errors.Is(err, dso.ErrNoBuildID):
		return Mismatch
	case errors.Is(err, dso.ErrNoSymbols):
		return NoSymbols
	case errors.Is(err, ErrRestricted):
		return Restricted
	case errors.Is(err, errOtherKernel):
		return OtherKernel
	}
	return Unreadable
}

// Options of a Symbolizer. The zero value names addresses of the running kernel
// and of files as they are, without demangling.
type Options struct {
	Locator  *dso.Locator // where files are; nil means where perf looks
	Demangle bool         // show C++, Rust, OCaml and Java names as their sources have them

	// Kallsyms is a file to be used whatever kernel was recorded; "" means
	// /proc/kallsyms, or else the recorded kernel's copy in perf's cache.
	Kallsyms string
	// Proc is a folder with kallsyms and kcore of the recorded machine's /proc; "" means
	// there is none, and the kernel's memory is read if it still runs.
	Proc string
	// KernelBuildID is the recorded kernel's; zero if not recorded.
	KernelBuildID dso.BuildID
	// KernelRef is "_text" or "_stext" and KernelRefAddr its recorded address:
	// where the recorded kernel lay, which changes with every boot (KASLR). With
	// "" it lay where the symbols say.
	KernelRef     string
	KernelRefAddr uint64
}

// Symbolizer names addresses. Tables are built once per DSO, when first needed.
// It may be used from several goroutines.
type Symbolizer struct {
	opts   Options
	kernel func() (*kernel, error)

	// vmlinuxText and runningText are where the kernel's code is.
	vmlinuxText, runningText func() (*kernelText, error)
	proc                     string // "/proc", replaced by tests

	mu      sync.RWMutex
	dsos    map[dsoKey]*userDSO
	sources map[dsoKey]*source

	kernelAsked asked
}

// asked counts the addresses of a DSO that were asked for, and those of them that
// have no name.
type asked struct{ all, missing atomic.Int64 }

func (a *asked) count(why Reason) {
	a.all.Add(1)
	if why != Found {
		a.missing.Add(1)
	}
}

type dsoKey struct {
	path string
	id   dso.BuildID
}

// userDSO is the table of one DSO, or why it has none.
type userDSO struct {
	once   sync.Once
	table  *Table
	origin dso.Origin
	err    error
	asked  asked
}

// New returns a Symbolizer.
func New(opts Options) *Symbolizer {
	if opts.Locator == nil {
		opts.Locator = new(dso.Locator)
	}
	s := &Symbolizer{opts: opts, proc: "/proc", dsos: make(map[dsoKey]*userDSO), sources: make(map[dsoKey]*source)}
	s.kernel = sync.OnceValues(s.loadKernel)
	s.vmlinuxText, s.runningText = sync.OnceValues(s.loadVmlinuxText), sync.OnceValues(s.loadRunningText)
	return s
}

// Locator returns where the Symbolizer looks for files.
func (s *Symbolizer) Locator() *dso.Locator { return s.opts.Locator }

// User returns the symbol at offset off of the DSO recorded at path with build
// ID id (zero if not recorded), and how far into the symbol off is. Of a PerfMap
// off is the ip. Without a symbol, the Reason is not Found.
func (s *Symbolizer) User(path string, id dso.BuildID, off uint64) (sym *Symbol, offset uint64, why Reason) {
	d := s.user(path, id)
	sym, offset, why = d.symbol(off)
	d.asked.count(why)
	return sym, offset, why
}

func (d *userDSO) symbol(off uint64) (sym *Symbol, offset uint64, why Reason) {
	if d.err != nil {
		return nil, 0, reasonOf(d.err)
	}
	sym, ok := d.table.Lookup(off)
	if !ok {
		return nil, 0, NoSymbol
	}
	return sym, off - sym.Start, Found
}

func (s *Symbolizer) user(path string, id dso.BuildID) *userDSO {
	key := dsoKey{path, id}
	s.mu.RLock()
	d := s.dsos[key]
	s.mu.RUnlock()
	if d == nil {
		s.mu.Lock()
		if d = s.dsos[key]; d == nil {
			d = new(userDSO)
			s.dsos[key] = d
		}
		s.mu.Unlock()
	}
	d.once.Do(func() {
		d.origin = dso.OriginNone
		d.err = s.loadUser(d, path, id)
	})
	return d
}

func (s *Symbolizer) loadUser(d *userDSO, path string, id dso.BuildID) (err error) {
	if pid, ok := jit.PerfMapPID(path); ok {
		d.origin = dso.OriginJIT
		d.table, err = loadPerfMap(s.opts.Locator, pid)
		return err
	}
	syms, runtime, err := s.opts.Locator.FindSymbols(path, id)
	if err != nil {
		return err
	}
	defer syms.Close()
	d.origin = s.opts.Locator.Origin(syms.Path, path, id)
	if runtime != syms {
		defer runtime.Close()
		if syms.Path == runtime.Path {
			d.origin = dso.OriginMiniDebug
		}
	}
	d.table, err = userTable(syms, runtime, s.show)
	return err
}

// Origin returns where the symbols of the DSO recorded at path with build ID id are from.
func (s *Symbolizer) Origin(path string, id dso.BuildID) dso.Origin { return s.user(path, id).origin }

// KernelOrigin returns where the kernel's symbols are from.
func (s *Symbolizer) KernelOrigin() dso.Origin {
	switch k, err := s.kernel(); {
	case err != nil:
		return dso.OriginNone
	case k.ofVmlinux():
		return dso.OriginVmlinux
	}
	return dso.OriginKallsyms
}

// show returns an entry's name as perf shows it.
func (s *Symbolizer) show(e *entry) string {
	name := e.name
	if s.opts.Demangle {
		name = demangle.Name(name)
	}
	if !e.plt {
		return name
	}
	name += pltSuffix
	return name[:min(len(name), maxPLTName)]
}

// maxPLTName is where perf cuts the names that it makes for PLT entries.
const maxPLTName = 1023

// Problem returns why the DSO recorded at path with build ID id has no names, or
// nil. The error names the file and the cause.
func (s *Symbolizer) Problem(path string, id dso.BuildID) error { return s.user(path, id).err }

// Unresolved is a DSO with addresses that have no names.
type Unresolved struct {
	Path    string // dso.KernelName for the kernel with its modules
	ID      dso.BuildID
	Missing int    // distinct addresses without a name
	Asked   int    // distinct addresses
	Reason  Reason // NoSymbol where there are symbols, but none there
	Err     error  // which file and what of it; nil with NoSymbol
}

// Unresolved returns the DSOs with unresolved addresses, those with most of them
// first.
func (s *Symbolizer) Unresolved() (l []Unresolved) {
	add := func(path string, id dso.BuildID, a *asked, err error) {
		u := Unresolved{Path: path, ID: id, Missing: int(a.missing.Load()), Asked: int(a.all.Load()), Reason: NoSymbol, Err: err}
		if err != nil {
			u.Reason = reasonOf(err)
		}
		l = append(l, u)
	}
	s.mu.RLock()
	for key, d := range s.dsos {
		if d.asked.missing.Load() > 0 { // else it may still be read
			add(key.path, key.id, &d.asked, d.err)
		}
	}
	s.mu.RUnlock()
	if s.kernelAsked.missing.Load() > 0 {
		add(dso.KernelName, s.opts.KernelBuildID, &s.kernelAsked, s.KernelProblem())
	}
	slices.SortFunc(l, func(a, b Unresolved) int {
		return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(a.Path, b.Path), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return l
}

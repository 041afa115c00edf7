// Package symbolize names addresses: it builds the symbol tables of ELF files and of the kernel and looks addresses
// up in them. It chooses the same symbol and prints the same name as perf. Package internal/session finds the DSO of
// an ip, package internal/dso the file of a DSO.
package symbolize

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"gperf/internal/dso"
	"gperf/symbolize/srcline"
)

// Reason says why an address has no name. The zero value, Found, means that it has one.
type Reason uint8

const (
	Found       Reason = iota
	Unmapped           // no mapping contained the address at the time of the sample
	NoFile             // the file is missing
	Unreadable         // the file cannot be read, or is not an ELF file
	NotOwned           // the file belongs to neither the user nor root
	Mismatch           // the file has another build ID than the recorded one
	Replaced           // the file was recorded without build ID, and is another one now
	NoSymbols          // the file has no symbol table
	NoSymbol           // the table has no symbol at the address
	Restricted         // the kernel hides its addresses from this user
	OtherKernel        // another kernel is running than the recorded one, and there is no copy of its symbols
	NoLines            // there is no debug information
)

var reasonTexts = [...]string{
	Found:       "found",
	Unmapped:    "unmapped",
	NoFile:      "no such file",
	Unreadable:  "unreadable file",
	NotOwned:    "file of another user",
	Mismatch:    "build id mismatch",
	Replaced:    "another file, or changed since it was recorded",
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
	case errors.Is(err, srcline.ErrNoLines), errors.Is(err, dso.ErrNoDWARF): // it wraps the errors of all files tried
		return NoLines
	case errors.Is(err, dso.ErrNoFile), errors.Is(err, os.ErrNotExist):
		return NoFile
	case errors.Is(err, dso.ErrOwner):
		return NotOwned
	case errors.Is(err, dso.ErrMismatch), errors.Is(err, dso.ErrNoBuildID):
		return Mismatch
	case errors.Is(err, dso.ErrReplaced):
		return Replaced
	case errors.Is(err, dso.ErrNoSymbols):
		return NoSymbols
	case errors.Is(err, errRestricted):
		return Restricted
	case errors.Is(err, errOtherKernel):
		return OtherKernel
	}
	return Unreadable
}

// Options of a Symbolizer. With the zero value it names addresses of the running kernel and of this machine's files,
// without demangling.
type Options struct {
	Locator  *dso.Locator // finds files; nil looks where perf looks
	Demangle bool         // demangle C++, Rust, OCaml and Java names

	// Kallsyms is a file with the symbols of any recorded kernel; "" means /proc/kallsyms, or the copy in perf's cache
	// if another kernel was recorded.
	Kallsyms string
	// Proc is a directory with the files kallsyms and kcore of the recorded machine's /proc; "" means this machine's
	// /proc, if the recorded kernel is running.
	Proc string
	// KernelBuildID is the recorded kernel's build ID; zero if not recorded.
	KernelBuildID dso.BuildID
	// KernelRef is "_text" or "_stext" and KernelRefAddr its recorded ip, which changes with every boot (KASLR). With
	// "" the kernel's addresses equal the addresses of its symbols.
	KernelRef     string
	KernelRefAddr uint64
	// Reading, if set, is called before symbols or source lines of a file are read, and its result after that. The
	// calls may be concurrent.
	Reading func(path string) (done func())
	// Recorded has the symbols that the recording contains; nil: none.
	Recorded Recorded
	// Shared has tables that other Symbolizers made; nil: none.
	Shared *Shared
}

// Symbolizer names addresses. It builds each DSO's table once, on first use. It may be used from several goroutines.
type Symbolizer struct {
	*userSymbols
	*kernelSymbols
	*sourceLines
	*codeReader
	*functionStarts

	locator *dso.Locator
}

// New returns a Symbolizer.
func New(opts Options) *Symbolizer {
	if opts.Locator == nil {
		opts.Locator = new(dso.Locator)
	}
	if opts.Locator.Carried == nil {
		opts.Locator.Carried = new(dso.Carried)
	}
	user, kernel := newUserSymbols(opts), newKernelSymbols(opts, newKernelFiles())
	return &Symbolizer{user, kernel, newSourceLines(opts, user, kernel, newLinesByDSO()),
		newCodeReader(opts, user, kernel), newFunctionStarts(opts), opts.Locator}
}

// OfKernel returns a Symbolizer for a recording of the kernel that opts describe. It uses the files, the tables and the
// source lines of s for user DSOs, and its tables for kernels with the same build ID. Close of either closes the lines
// of both.
func (s *Symbolizer) OfKernel(opts Options) *Symbolizer {
	shared := s.userSymbols.opts
	shared.Kallsyms, shared.Proc, shared.KernelBuildID = opts.Kallsyms, opts.Proc, opts.KernelBuildID
	shared.KernelRef, shared.KernelRefAddr = opts.KernelRef, opts.KernelRefAddr
	kernel := newKernelSymbols(shared, s.kernelSymbols.files)
	return &Symbolizer{s.userSymbols, kernel, newSourceLines(shared, s.userSymbols, kernel, s.sourceLines.users),
		newCodeReader(shared, s.userSymbols, kernel), s.functionStarts, s.locator}
}

// reading reports that a file is being read, until the caller calls done.
func (o *Options) reading(path string) (done func()) {
	if o.Reading == nil {
		return func() {}
	}
	return o.Reading(path)
}

// Locator returns the locator of the Symbolizer's files.
func (s *Symbolizer) Locator() *dso.Locator { return s.locator }

// lookups counts the lookups of addresses in a DSO, and those that found no name.
type lookups struct{ all, missing atomic.Int64 }

func (l *lookups) count(why Reason) {
	l.all.Add(1)
	if why != Found {
		l.missing.Add(1)
	}
}

// Unresolved is a DSO with addresses that have no names.
type Unresolved struct {
	Path    string // dso.KernelName for the kernel and its modules
	ID      dso.BuildID
	Missing int    // number of lookups that found no name
	Asked   int    // number of lookups
	Reason  Reason // NoSymbol if the DSO has other symbols
	Err     error  // names the file and the cause; nil with NoSymbol
}

// Unresolved returns the DSOs with unresolved addresses, sorted by their number, the largest first.
func (s *Symbolizer) Unresolved() []Unresolved {
	l := slices.Concat(s.userSymbols.unresolved(), s.kernelSymbols.unresolved())
	slices.SortFunc(l, func(a, b Unresolved) int {
		return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return l
}

// appendUnresolved appends a DSO if some of its lookups found no name. err says why the DSO has no symbols.
func appendUnresolved(l []Unresolved, path string, id dso.BuildID, count *lookups, err error) []Unresolved {
	missing := int(count.missing.Load())
	if missing == 0 {
		return l
	}
	u := Unresolved{Path: path, ID: id, Missing: missing, Asked: int(count.all.Load()), Reason: NoSymbol, Err: err}
	if err != nil {
		u.Reason = reasonOf(err)
	}
	return append(l, u)
}

// Package srcline answers "vaddr in an ELF → function, inlined calls, file, line,
// column", from DWARF 2 to 5, or else from the table that Go programs keep for
// themselves (.gopclntab). Its name is perf's (util/srcline.c).
//
// A DSO's units of compilation are listed when it is opened, and each is read
// when the first address in it is asked for: its DIEs are walked once, with
// abbreviations that pass over what is not needed, and merged with its line
// program into a compact table. Tables are kept on disk by build ID, so that
// next time DWARF is not touched.
package srcline

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"

	"gperf/symbolize/dso"
)

// ErrNoLines: the file has neither DWARF nor another table of lines.
var ErrNoLines = errors.New("no line information")

// Index finds the source of a DSO's addresses. Lookup may be called from several
// goroutines.
type Index struct {
	files   []*dso.Image
	code    spans
	units   []*indexUnit
	pieces  []piece // owner: firstUnit - number of the unit
	problem problem

	mu      sync.Mutex // of strings
	strings stringTable
}

// indexUnit is a unit with its table, which is made when first needed.
type indexUnit struct {
	unit    *unit
	once    sync.Once
	table   table
	strings []byte // of the index, as far as the table needs them
}

// firstUnit is what the first unit is called as the owner of addresses: higher
// than those behind it.
const firstUnit = math.MaxInt32

// problem counts units that could not be read.
type problem struct {
	mu    sync.Mutex
	n     int
	first error
}

func (p *problem) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.first = cmp.Or(p.first, err)
}

// Problem returns what of the line information could not be read, nil if nothing.
func (x *Index) Problem() error {
	x.problem.mu.Lock()
	defer x.problem.mu.Unlock()
	if x.problem.n == 0 {
		return nil
	}
	return fmt.Errorf("%d units of the line information are damaged: %w", x.problem.n, x.problem.first)
}

// In tells whether a file has line information.
func In(im *dso.Image) bool {
	for _, name := range [...]string{".debug_info", ".zdebug_info"} {
		if s := im.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return true
		}
	}
	return false
}

// New returns the index of the file with the debug information; supp is the one
// that dwz moved parts of it into, nil if there is none. Both are the index's from
// then on, to be closed with it, or if it is not to be had. The error is ErrNoLines
// where that is the cause.
func New(im, supp *dso.Image) (*Index, error) {
	x := &Index{code: codeOf(im), files: []*dso.Image{im, supp}}
	if err := x.open(im, supp); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// Close releases the files. No Lookup may be running, nor come later.
func (x *Index) Close() error {
	var errs []error
	for _, im := range x.files {
		errs = append(errs, im.Close())
	}
	x.files = nil
	return errors.Join(errs...)
}

func (x *Index) open(im, supp *dso.Image) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer guard(&err)
	s, err := readSections(im)
	if err != nil {
		return err
	}
	if len(s.info) == 0 {
		return fmt.Errorf("%s: %w", im.Path, ErrNoLines)
	}
	if supp != nil {
		if s.supp, err = readSections(supp); err != nil {
			return err
		}
		s.supp.readUnits()
	}
	if n := s.readUnits(); n > 0 {
		x.problem.n, x.problem.first = n, errDamaged
	}
	x.listPieces(s)
	return nil
}

var errDamaged = errors.New("damaged")

// guard turns a panic into an error: of a file that became shorter while it was
// mapped, reads fail that way.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("read debug information: %v", p)
	}
}

// listPieces finds out which unit has which addresses. Where several claim one,
// the first has it.
func (x *Index) listPieces(s *sections) {
	var claims []claim
	var list []span
	for _, u := range s.units {
		if u.tag != tagCompileUnit && u.tag != tagSkeletonUnit {
			continue
		}
		if list = u.spans(&u.attrs, list[:0]); len(list) == 0 && u.hasLines {
			list = x.functionSpans(u)
		}
		for _, s := range list {
			if x.code.has(s.lo) {
				claims = append(claims, claim{s, firstUnit - int32(len(x.units))})
			}
		}
		x.units = append(x.units, &indexUnit{unit: u})
	}
	x.pieces = settle(claims)
}

// functionSpans are the addresses of a unit that does not tell them itself.
func (x *Index) functionSpans(u *unit) []span {
	t := x.newTree()
	t.read(u)
	return t.spans
}

func (x *Index) newTree() *tree {
	return &tree{code: x.code.has, names: make(map[place]function)}
}

// Lookup returns the functions at vaddr, the innermost first, inlined ones before
// the one that they were inlined into; nil if nothing is known. Only a unit
// without a function there gives a Call without one.
func (x *Index) Lookup(vaddr uint64) []Call {
	owner := ownerOf(x.pieces, vaddr)
	if owner < 0 {
		return nil
	}
	u := x.units[firstUnit-owner]
	u.once.Do(func() { x.load(u) })
	return u.table.lookup(vaddr, u.strings)
}

// load makes a unit's table.
func (x *Index) load(u *indexUnit) {
	if err := x.build(u); err != nil {
		x.problem.add(err)
	}
}

func (x *Index) build(u *indexUnit) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer guard(&err)
	t := x.newTree()
	whole := t.read(u.unit)
	lines, ok := u.unit.lines(x.code.has)
	x.mu.Lock()
	defer x.mu.Unlock()
	e := encoder{strings: &x.strings}
	if u.table, err = e.encode(t, lines); err != nil {
		return err
	}
	u.strings = x.strings.b
	if !whole || !ok {
		return errDamaged
	}
	return nil
}

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
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
)

// ErrNoLines: the file has neither DWARF nor another table of lines.
var ErrNoLines = errors.New("no line information")

var errDamaged = errors.New("damaged")

// InlineFrame is one function that an address belongs to.
type InlineFrame struct {
	Function  string // its linkage name, or else its name, as DWARF has it; "" if there is none
	File      string // path in DWARF, relative to the compilation directory; "" if unknown
	Top       int    // bytes of File that lead to the top of its tree; 0: not known
	Line      int    // 0: of no line
	Column    int    // 0: not known
	StartLine int    // where the function is declared; 0: not known
	Inlined   bool   // into the next one
}

// Files are what a DSO's lines are read from.
type Files struct {
	Debug *dso.Image // with the DWARF
	Supp  *dso.Image // what dwz moved parts of it into; nil if there is none
	// DWO yields files that may hold the split DWARF of a unit, which names it by
	// its DW_AT_comp_dir and DW_AT_dwo_name. It may be nil.
	DWO func(compDir, name string) iter.Seq[*dso.Image]
}

func (f Files) close() error {
	return errors.Join(f.Debug.Close(), f.Supp.Close())
}

// Index finds the source of a DSO's addresses. Lookup may be called from several
// goroutines.
type Index struct {
	id    dso.BuildID
	cache *cache.Dir
	find  func() (Files, error)
	dwarf func() (*debugInfo, error) // opened when first needed

	units  []*indexUnit
	pieces []piece // owner: firstUnit - number of the unit
	golang *goTable

	mu      sync.Mutex // of what follows
	strings stringTable
	made    int // tables that the cache has not
	damaged int // units
	first   error
}

// indexUnit is a unit's table, which is made when first needed.
type indexUnit struct {
	once    sync.Once
	table   table
	strings []byte // of the index, as far as the table needs them
	partial bool   // the unit is damaged
}

// firstUnit is the first unit's number as the owner of addresses; the following
// units have lower ones.
const firstUnit = math.MaxInt32

// In reports whether a file has line information.
func In(im *dso.Image) bool { return im.HasDWARF() || goSection(im) != nil }

// Open returns the index of the DSO with a build ID. It calls find only if c lacks
// a part of the index; the index then owns the files. The error is that of find, or
// ErrNoLines.
func Open(c *cache.Dir, id dso.BuildID, find func() (Files, error)) (*Index, error) {
	x := &Index{id: id, cache: c, find: find}
	x.dwarf = sync.OnceValues(x.open)
	if b, err := c.Load(id); err == nil {
		if x.decode(b) {
			return x, nil
		}
		c.Drop(id)
	}
	d, err := x.dwarf()
	if err != nil {
		return nil, err
	}
	for range d.units {
		x.units = append(x.units, new(indexUnit))
	}
	x.pieces, x.golang = d.pieces(), d.golang
	return x, nil
}

func (x *Index) open() (*debugInfo, error) {
	files, err := x.find()
	if err != nil {
		return nil, err
	}
	d, err := openDWARF(files)
	if err != nil {
		files.close()
		return nil, err
	}
	x.note(d.damaged, errDamaged)
	return d, nil
}

// note counts units that could not be read.
func (x *Index) note(n int, err error) {
	if n > 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.damaged += n
		x.first = cmp.Or(x.first, err)
	}
}

// Problem returns what of the line information could not be read, nil if nothing.
func (x *Index) Problem() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.damaged == 0 {
		return nil
	}
	return fmt.Errorf("units that could not be read: %d, the first: %w", x.damaged, x.first)
}

// Lookup returns the functions at vaddr, the innermost first, inlined ones before
// the one that they were inlined into; nil if nothing is known. Only where there is
// a line and no function, an InlineFrame has none.
func (x *Index) Lookup(vaddr uint64) []InlineFrame {
	if x.golang != nil {
		return x.golang.lookup(vaddr)
	}
	owner := ownerOf(x.pieces, vaddr)
	if owner < 0 {
		return nil
	}
	i := int(firstUnit - owner)
	u := x.units[i]
	u.once.Do(func() {
		if u.table == nil {
			x.make(i)
		}
	})
	return u.table.lookup(vaddr, u.strings)
}

// make makes a unit's table.
func (x *Index) make(i int) {
	d, err := x.dwarf()
	switch {
	case err != nil:
	case len(d.units) != len(x.units):
		err = errors.New("debug information changed since it was indexed")
	default:
		err = x.build(x.units[i], d.units[i], d)
	}
	if err != nil {
		x.note(1, err)
	}
}

func (x *Index) build(to *indexUnit, u *unit, d *debugInfo) (err error) {
	defer guard(&err)()
	r := d.reader()
	defer d.readers.Put(r)
	err = d.read(u, r)
	to.partial = err != nil
	r.encode(&r.tree, &r.lines.lineTable)
	if to.strings = x.intern(r); to.strings == nil {
		return errTable
	}
	b, encodeErr := r.table(&r.tree)
	to.table = b
	return cmp.Or(encodeErr, err)
}

// intern adds the strings that a unit needs to the index's and returns those, nil
// if they are too many. It alone has other units wait.
func (x *Index) intern(r *unitReader) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.addStrings(&r.tree, &r.lines.lineTable, &x.strings)
	if x.strings.full() {
		return nil
	}
	x.made++
	return x.strings.b
}

// guard turns a panic into an error: reads of a mapped file that was truncated
// panic. Defer the result.
func guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = fmt.Errorf("read debug information: %v", p)
		}
	}
}

// Close puts into the cache what was read, and closes the files. No Lookup may be
// running, nor come later.
func (x *Index) Close() error {
	err := x.store()
	x.find = func() (Files, error) { return Files{}, errors.New("closed") }
	if d, _ := x.dwarf(); d != nil {
		err = errors.Join(err, d.close())
	}
	return err
}

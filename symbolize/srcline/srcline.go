// Package srcline finds the function, the inlined functions, the file, the line and the column at a vaddr. It reads
// DWARF 2 to 5, or the table of Go programs (.gopclntab) if there is no DWARF. Its name is perf's (util/srcline.c).
//
// Open lists a DSO's compilation units. The first Lookup in a unit reads it: it walks the DIEs once, skipping unneeded
// attributes, and merges them with the line program into a compact table. Close caches the tables on disk, so that
// later runs read no DWARF of the same file.
package srcline

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
)

// ErrNoLines means that the file has neither DWARF nor a Go table of lines.
var ErrNoLines = errors.New("no line information")

var errDamaged = errors.New("corrupt")

// InlineFrame is one of the functions at an address: an inlined function, or the function that contains the code.
type InlineFrame struct {
	Function  string // linkage name, or name, in DWARF; "" if it has none
	File      string // path in DWARF, relative to the compilation directory; "" if unknown
	Top       int    // length in bytes of the prefix of File up to the top of its source tree; 0: unknown
	Line      int    // 0: unknown
	Column    int    // 0: unknown
	StartLine int    // of the function's declaration; 0: unknown
	Inlined   bool   // into the next frame
}

// Files are the files with a DSO's debug information.
type Files struct {
	Debug *dso.Image // with the DWARF
	Supp  *dso.Image // the supplementary file of dwz, or nil
	// DWO yields the files that may contain the split DWARF of a unit with that DW_AT_comp_dir and DW_AT_dwo_name. It
	// may be nil.
	DWO func(compDir, name string) iter.Seq[*dso.Image]
}

func (f Files) close() error {
	return errors.Join(f.Debug.Close(), f.Supp.Close())
}

// key returns the key of the files' index in the cache: a digest of the files' identities and versions. It is
// zero if they are no files of this machine.
func (f Files) key() dso.BuildID {
	sum, supp := f.Debug.Version(), f.Supp.Version()
	if sum == nil || f.Supp != nil && supp == nil {
		return dso.BuildID{}
	}
	if supp != nil {
		both := sha256.Sum256(append(sum, supp...))
		sum = both[:]
	}
	return dso.NewBuildID(sum[:dso.BuildIDMax])
}

// Index finds the source of a DSO's addresses. Lookup may be called from several
// goroutines.
type Index struct {
	id    dso.BuildID
	cache *cache.Dir
	key   dso.BuildID // in the cache: see Files.key
	find  func() (Files, error)
	dwarf func() (*debugInfo, error) // opens the files on first use

	units  []*indexUnit
	pieces []piece // the owner of a unit's addresses is firstUnit - the unit's number
	golang *dso.GoFunctions

	mu      sync.Mutex // guards the following fields
	strings stringTable
	made    int // number of tables that are not in the cache
	damaged int // number of corrupt units
	first   error
}

// indexUnit is a unit's table, which Lookup makes on first use.
type indexUnit struct {
	once    sync.Once
	used    atomic.Bool // by Lookup
	table   table
	strings []byte // of the index, up to the last one that the table needs
	partial bool   // the unit is corrupt: some lines are missing
}

// firstUnit is the first unit's number as an owner of addresses. The other units have lower numbers, so that the first
// of several units at an address owns it.
const firstUnit = math.MaxInt32

// In reports whether im has line information.
func In(im *dso.Image) bool { return im.HasDWARF() || im.HasGoTable() }

// errChanged means that find returns other files than before.
var errChanged = errors.New("debug information changed since it was indexed")

// Open returns the index of the DSO with build ID id, whose files find returns. The index closes the files. Open reads
// the parts in c of the index of the same files, or of the same build ID if c is an archive's: that needs no files. The
// error is find's, or ErrNoLines.
func Open(c *cache.Dir, id dso.BuildID, find func() (Files, error)) (*Index, error) {
	x := &Index{id: id, cache: c, find: find}
	x.dwarf = sync.OnceValues(x.open)
	if c != nil && c.Open != nil {
		if x.key = id; x.load() {
			return x, nil
		}
	}
	files, err := find()
	if err != nil {
		return nil, err
	}
	if x.key = files.key(); x.load() {
		return x, files.close()
	}
	x.dwarf = sync.OnceValues(func() (*debugInfo, error) { return x.openDWARF(files) })
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

// load reads the index from the cache. It returns false if that does not have it.
func (x *Index) load() bool {
	b, err := x.cache.Load(x.key)
	if err != nil {
		return false
	}
	if x.decode(b) {
		return true
	}
	x.cache.Drop(x.key)
	return false
}

// open opens the files of an index that was in the cache, to read other parts.
func (x *Index) open() (*debugInfo, error) {
	files, err := x.find()
	if err != nil {
		return nil, err
	}
	if x.cache.Open == nil && files.key() != x.key {
		files.close()
		return nil, errChanged
	}
	return x.openDWARF(files)
}

func (x *Index) openDWARF(files Files) (*debugInfo, error) {
	d, err := openDWARF(files)
	if err != nil {
		files.close()
		return nil, err
	}
	x.note(d.damaged, errDamaged)
	return d, nil
}

// note counts n unreadable units. err is the reason for the first one.
func (x *Index) note(n int, err error) {
	if n > 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.damaged += n
		x.first = cmp.Or(x.first, err)
	}
}

// Problem returns the number of unreadable units and the first error, or nil if there are none.
func (x *Index) Problem() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.damaged == 0 {
		return nil
	}
	return fmt.Errorf("%d unreadable units, the first: %w", x.damaged, x.first)
}

// Lookup returns the functions at vaddr: the innermost inlined function first, the function that contains the code
// last. If only the line is known, the result is one frame without a Function. It returns nil if nothing is known.
func (x *Index) Lookup(vaddr uint64) []InlineFrame {
	if x.golang != nil {
		return goLookup(x.golang, vaddr)
	}
	owner := ownerOf(x.pieces, vaddr)
	if owner < 0 {
		return nil
	}
	i := int(firstUnit - owner)
	u := x.units[i]
	if !u.used.Load() {
		u.used.Store(true)
	}
	u.once.Do(func() {
		if u.table == nil {
			x.makeTable(i)
		}
	})
	return u.table.lookup(vaddr, u.strings)
}

// makeTable makes the table of unit i.
func (x *Index) makeTable(i int) {
	d, err := x.dwarf()
	switch {
	case err != nil:
	case len(d.units) != len(x.units):
		err = errChanged
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

// intern adds a unit's strings to the index's and returns these, or nil if they exceed maxStrings. It holds the lock,
// so other units wait for it.
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

// guard returns a function to defer, which converts a panic to an error: reading a mapped file panics if another
// process has truncated it.
func guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = fmt.Errorf("read debug information: %v", p)
		}
	}
}

// Close stores new tables in the cache, and closes the files. No Lookup may run during or after Close.
func (x *Index) Close() error {
	err := x.store()
	x.find = func() (Files, error) { return Files{}, errors.New("closed") }
	if d, _ := x.dwarf(); d != nil {
		err = errors.Join(err, d.close())
	}
	return err
}

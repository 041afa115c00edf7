package symbolize

import (
	"sync"

	"gperf/internal/dso"
	"gperf/symbolize/demangle"
)

// userSymbols are the symbols of user DSOs.
type userSymbols struct {
	opts Options

	mu   sync.RWMutex
	dsos map[dsoKey]*userDSO
}

type dsoKey struct {
	path string
	id   dso.BuildID
}

// userDSO is the table of one DSO, or the error why it has none, or has the PLT alone.
type userDSO struct {
	once    sync.Once
	table   *Table
	origin  dso.Origin
	err     error
	lookups lookups
}

func newUserSymbols(opts Options) *userSymbols {
	return &userSymbols{opts: opts, dsos: map[dsoKey]*userDSO{}}
}

// User returns the symbol at file offset off of the DSO recorded at path with build ID id (zero if not recorded), and
// the offset of off from the symbol's start, in bytes. For a perf map, off is the ip. If there is no symbol, why is not
// Found.
func (u *userSymbols) User(path string, id dso.BuildID, off uint64) (sym *Symbol, offset uint64, why Reason) {
	d := u.dso(path, id)
	sym, offset, why = d.symbol(off)
	d.lookups.count(why)
	return sym, offset, why
}

func (d *userDSO) symbol(off uint64) (sym *Symbol, offset uint64, why Reason) {
	if d.table != nil {
		if sym, ok := d.table.Lookup(off); ok {
			return sym, off - sym.Start, Found
		}
	}
	if d.err != nil {
		return nil, 0, reasonOf(d.err)
	}
	return nil, 0, NoSymbol
}

// dso returns a DSO, whose table it reads on first use.
func (u *userSymbols) dso(path string, id dso.BuildID) *userDSO {
	key := dsoKey{path, id}
	u.mu.RLock()
	d := u.dsos[key]
	u.mu.RUnlock()
	if d == nil {
		u.mu.Lock()
		if d = u.dsos[key]; d == nil {
			d = new(userDSO)
			u.dsos[key] = d
		}
		u.mu.Unlock()
	}
	d.once.Do(func() {
		defer u.opts.reading(path)()
		d.origin = dso.OriginNone
		d.err = u.load(d, path, id)
	})
	return d
}

// load reads the symbols of a file, or takes the recording's if it cannot.
func (u *userSymbols) load(d *userDSO, path string, id dso.BuildID) error {
	err := u.loadFile(d, path, id)
	if err == nil {
		return nil
	}
	if t := u.opts.Recorded.table(path, u.displayName); t != nil {
		d.table, d.origin = t, dso.OriginRecording
		return nil
	}
	return err
}

func (u *userSymbols) loadFile(d *userDSO, path string, id dso.BuildID) (err error) {
	if pid, ok := dso.PerfMapPID(path); ok {
		d.origin = dso.OriginJIT
		d.table, err = loadPerfMap(u.opts.Locator, pid)
		return err
	}
	syms, runtime, err := u.opts.Locator.FindSymbols(path, id)
	if err != nil {
		return err
	}
	defer syms.Close()
	d.origin = u.opts.Locator.Origin(syms.Path, path, id)
	if runtime != syms {
		defer runtime.Close()
		if syms.Path == runtime.Path {
			d.origin = dso.OriginMiniDebug
		}
	}
	d.table, err = u.opts.Shared.table(id, u.opts.Demangle, syms, runtime, func() (*Table, error) {
		return userTable(syms, runtime, u.displayName)
	})
	return err
}

// Origin returns the place of the symbols of the DSO recorded at path with build ID id.
func (u *userSymbols) Origin(path string, id dso.BuildID) dso.Origin { return u.dso(path, id).origin }

// Problem returns why the DSO recorded at path with build ID id has no symbols, or nil. The error names the file and
// the cause.
func (u *userSymbols) Problem(path string, id dso.BuildID) error { return u.dso(path, id).err }

// displayName returns an entry's name as perf prints it.
func (u *userSymbols) displayName(e *entry) string {
	name := e.name
	if u.opts.Demangle {
		name = demangle.Name(name)
	}
	if !e.plt {
		return name
	}
	name += pltSuffix
	return name[:min(len(name), maxPLTName)]
}

// maxPLTName is the length to which perf truncates the names that it makes for PLT entries, in bytes.
const maxPLTName = 1023

func (u *userSymbols) unresolved() (l []Unresolved) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for key, d := range u.dsos {
		if d.lookups.missing.Load() > 0 { // otherwise another goroutine may still be loading it
			l = appendUnresolved(l, key.path, key.id, &d.lookups, d.err)
		}
	}
	return l
}

package srcline

import (
	"fmt"
	"sync"

	"gperf/internal/dso"
)

// debugInfo is the open debug information of a DSO.
type debugInfo struct {
	files   Files
	code    spans
	units   []*unit          // units with code
	damaged int              // number of corrupt units
	golang  *dso.GoFunctions // used if there is no DWARF; nil otherwise

	packages packages
	readers  sync.Pool // of *unitReader
}

// unitReader reads units. It reuses its memory for each unit.
type unitReader struct {
	tree
	lines lineProgram
	encoder
}

func (d *debugInfo) reader() *unitReader {
	if r, ok := d.readers.Get().(*unitReader); ok {
		return r
	}
	r := new(unitReader)
	r.tree.code, r.lines.code = d.code, d.code
	return r
}

// openDWARF reads the sections and lists the units.
func openDWARF(files Files) (d *debugInfo, err error) {
	defer guard(&err)()
	d = &debugInfo{files: files, code: codeOf(files.Debug)}
	s, err := readSections(files.Debug, "", files.Debug.Map)
	if err != nil {
		return nil, err
	}
	if len(s.info) == 0 {
		d.golang, err = openGo(files.Debug)
		return d, err
	}
	if files.Supp != nil {
		if s.supp, err = readSections(files.Supp, "", files.Supp.Map); err != nil {
			return nil, err
		}
		d.damaged += s.supp.readUnits()
	}
	d.damaged += s.readUnits()
	for _, u := range s.units {
		if u.tag == tagCompileUnit || u.tag == tagSkeletonUnit {
			d.units = append(d.units, u)
		}
	}
	return d, nil
}

// pieces returns the unit of each address. An address in several units belongs to the first.
func (d *debugInfo) pieces() []piece {
	var claims []claim
	var list []span
	r := d.reader()
	defer d.readers.Put(r)
	for i, u := range d.units {
		if list = u.spans(&u.attrs, list[:0]); len(list) == 0 && u.hasLines {
			d.read(u, r) // the root DIE has no ranges: take the functions' ranges
			list = append(list, r.spans...)
		}
		for _, s := range list {
			if d.code.has(s.lo) {
				claims = append(claims, claim{s, firstUnit - int32(i)})
			}
		}
	}
	return resolveClaims(claims, nil)
}

// read reads the functions and lines of a unit into r. With an error, some are missing.
func (d *debugInfo) read(u *unit, r *unitReader) error {
	r.tree.reset()
	ok := r.lines.read(u)
	if len(u.dwoName) > 0 {
		split, err := d.split(u)
		if err != nil {
			return err
		}
		u = split
	}
	if complete := r.tree.read(u); !complete || !ok {
		return fmt.Errorf("unit %s: %w", u.name, errDamaged)
	}
	return nil
}

func (d *debugInfo) close() error {
	d.packages.close()
	return d.files.close()
}

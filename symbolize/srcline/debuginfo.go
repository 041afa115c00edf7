package srcline

import (
	"fmt"
	"sync"
)

// debugInfo is the opened debug information of a DSO.
type debugInfo struct {
	files   Files
	code    spans
	units   []*unit  // those with code
	damaged int      // of all units
	golang  *goTable // instead of DWARF

	packages packages
	readers  sync.Pool // of *unitReader
}

// unitReader reads units one after the other, each with the memory of the last.
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

// openDWARF lists the units.
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

// pieces finds out which unit has which addresses. Where several claim one, the
// first has it.
func (d *debugInfo) pieces() []piece {
	var claims []claim
	var list []span
	r := d.reader()
	defer d.readers.Put(r)
	for i, u := range d.units {
		if list = u.spans(&u.attrs, list[:0]); len(list) == 0 && u.hasLines {
			d.read(u, r) // the root DIE has no ranges
			list = append(list, r.spans...)
		}
		for _, s := range list {
			if d.code.has(s.lo) {
				claims = append(claims, claim{s, firstUnit - int32(i)})
			}
		}
	}
	return settle(claims, nil)
}

// read has r read the functions and lines of a unit. With an error, they are not whole.
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
	if whole := r.tree.read(u); !whole || !ok {
		return fmt.Errorf("unit %s: %w", u.name, errDamaged)
	}
	return nil
}

func (d *debugInfo) close() error {
	d.packages.close()
	return d.files.close()
}

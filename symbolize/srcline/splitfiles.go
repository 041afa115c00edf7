package srcline

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"gperf/internal/dso"
)

// SplitFile is a file with the split DWARF of units, and the DW_AT_comp_dir and DW_AT_dwo_name of the first of them.
type SplitFile struct{ Path, CompDir, Name string }

// SplitFiles returns the files with the split DWARF of all units that have code in a wanted range of vaddrs, from lo to
// hi, exclusive. It closes the given files. With an error, some files are missing from the result.
func SplitFiles(files Files, wanted func(lo, hi uint64) bool) (list []SplitFile, err error) {
	d, err := openDWARF(files)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	defer func() { err = errors.Join(err, d.close()) }()
	defer guard(&err)()
	if !slices.ContainsFunc(d.units, func(u *unit) bool { return len(u.dwoName) > 0 }) {
		return nil, nil
	}
	var path string // of the last file tried: the one with the unit, if any
	d.files.DWO = func(compDir, name string) iter.Seq[*dso.Image] {
		return func(yield func(*dso.Image) bool) {
			for im := range files.DWO(compDir, name) {
				if path = im.Path; !yield(im) {
					return
				}
			}
		}
	}
	for _, u := range d.with(wanted) {
		if len(u.dwoName) == 0 {
			continue
		}
		if _, e := d.split(u); e != nil {
			err = cmp.Or(err, e)
			continue
		}
		if !slices.ContainsFunc(list, func(f SplitFile) bool { return f.Path == path }) {
			list = append(list, SplitFile{path, string(u.compDir), string(u.dwoName)})
		}
	}
	return list, err
}

// with returns the units with wanted code.
func (d *debugInfo) with(wanted func(lo, hi uint64) bool) (list []*unit) {
	known := make([]bool, len(d.units))
	pieces := d.pieces()
	for i, p := range pieces {
		if p.owner < 0 {
			continue
		}
		if u := firstUnit - p.owner; !known[u] && wanted(p.addr, pieces[i+1].addr) {
			known[u] = true
			list = append(list, d.units[u])
		}
	}
	return list
}

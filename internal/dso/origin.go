package dso

// Origin is perf's letter for where a DSO's symbols are from
// (dso__symtab_origin of tools/perf/util/dso.c).
type Origin byte

const (
	OriginNone      Origin = '!'
	OriginJIT       Origin = 'j'
	OriginKallsyms  Origin = 'k'
	OriginVmlinux   Origin = 'v'
	OriginMiniDebug Origin = 'n'
	OriginDebugLink Origin = 'l'
)

// Origin returns where the file lies that has the symbols of the DSO recorded at path
// with build ID id.
func (f *Locator) Origin(file, path string, id BuildID) Origin {
	if id.IsZero() {
		id = f.OwnID(path)
	}
	for _, where := range places {
		if where.file(f, path, id) == file {
			return where.origin
		}
	}
	return OriginDebugLink
}

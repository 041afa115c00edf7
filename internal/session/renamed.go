package session

import (
	"slices"

	"gperf/internal/dso"
)

// Renamed maps the short names of DSOs in newer recordings to the names with the same build ID in older recordings,
// such as "server-1.1" to "server-1.0" if both are copies of one file. A DSO is renamed if the older recordings do
// not contain the new name, and the newer ones do not contain the old name.
func Renamed(older, newer []*DSO) map[string]string {
	names, ids := dsoNames(older)
	newNames, _ := dsoNames(newer)
	renamed := map[string]string{}
	for _, d := range newer {
		name := d.ShortName()
		if old, ok := ids[d.BuildID]; ok && !names[name] && !newNames[old] {
			renamed[name] = old
		}
	}
	return renamed
}

// dsoNames returns the short names of DSOs, and one of them for each build ID.
func dsoNames(list []*DSO) (names map[string]bool, ids map[dso.BuildID]string) {
	names, ids = map[string]bool{}, map[dso.BuildID]string{}
	for _, d := range list {
		name := d.ShortName()
		names[name] = true
		if old, ok := ids[d.BuildID]; !d.BuildID.IsZero() && (!ok || name < old) {
			ids[d.BuildID] = name
		}
	}
	return names, ids
}

// SharedPaths returns a path for each path of the DSOs: the same one for all DSOs with the same short name under
// the renaming. It is the DSOs' path if they share one, or else the short name.
func SharedPaths(list []*DSO, renamed map[string]string) map[string]string {
	byName := map[string][]string{}
	for _, d := range list {
		name := d.ShortName()
		if old, ok := renamed[name]; ok {
			name = old
		}
		if d.isJIT() {
			name = "[JIT]"
		}
		if !slices.Contains(byName[name], d.Name) {
			byName[name] = append(byName[name], d.Name)
		}
	}
	shared := map[string]string{}
	for name, paths := range byName {
		for _, path := range paths {
			if shared[path] = name; len(paths) == 1 {
				shared[path] = path
			}
		}
	}
	return shared
}

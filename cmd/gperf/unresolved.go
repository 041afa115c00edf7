package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"gperf/symbolize"
	"gperf/symbolize/dso"
)

// maxUnresolved is how many files are told of.
const maxUnresolved = 10

// tellUnresolved says of which files addresses have no names, why, and by which
// build IDs they are found elsewhere.
func (in *input) tellUnresolved(stderr io.Writer) {
	l := slices.DeleteFunc(in.sym.Unresolved(), func(u symbolize.Unresolved) bool { return !missingFile(u) })
	if len(l) == 0 {
		return
	}
	files := "files"
	if len(l) == 1 {
		files = "file"
	}
	way := "gperf archive packs what is needed where it was recorded; or bring them, by build ID"
	if in.packed != nil {
		way = "they were not there when it was packed; bring them, by build ID (--symfs)"
	}
	fmt.Fprintf(stderr, "gperf: addresses in %d %s have no names: %s\n", len(l), files, way)
	for _, u := range l[:min(len(l), maxUnresolved)] {
		fmt.Fprintf(stderr, "  %-40s %s: %v\n", u.ID, u.Path, u.Reason)
	}
	if len(l) > maxUnresolved {
		fmt.Fprintf(stderr, "  and %d more, which gperf buildid-list --with-hits lists\n", len(l)-maxUnresolved)
	}
}

// missingFile tells whether another file, or the right one, would give names: not of
// memory, and not of what a file's symbols just do not cover. The kernel is told of
// elsewhere.
func missingFile(u symbolize.Unresolved) bool {
	_, jit := symbolize.PerfMapPID(u.Path)
	return u.Reason != symbolize.NoSymbol && !jit && (filepath.IsAbs(u.Path) || u.Path == dso.VDSO)
}

package main

import (
	"fmt"
	"io"
	"slices"

	"gperf/symbolize"
	"gperf/symbolize/dso"
)

// maxUnresolved is how many files are listed without -v.
const maxUnresolved = 10

// tellUnresolved says of which files addresses have no names, why, and by which
// build IDs they are found elsewhere.
func (in *input) tellUnresolved(stderr io.Writer) {
	const debug = "install their debug packages (-dbgsym, -dbg), or name a server (--debuginfod=URL)"
	var missing, stripped []symbolize.Unresolved
	for _, u := range in.sym.Unresolved() {
		switch {
		case !isFile(u.Path) && u.Path != dso.VDSO: // the kernel is told of elsewhere
		case u.Reason != symbolize.NoSymbol:
			missing = append(missing, u)
		case 2*u.Missing > u.Asked: // rather than the little that symbols do not cover
			stripped = append(stripped, u)
		}
	}
	way := "gperf archive packs what is needed where it was recorded; or bring them, by build ID"
	if in.packed != nil {
		way = "they were not there when it was packed; bring them, by build ID (--symfs)"
	}
	in.tellFiles(stderr, "addresses in %d %s have no names: "+way, missing)
	in.tellFiles(stderr, "most addresses in %d stripped %s have no names: "+debug, stripped)
	for _, err := range in.sym.Damage() {
		fmt.Fprintf(stderr, "gperf: %v\n", err)
	}
	if in.lines {
		in.tellFiles(stderr, "addresses in %d %s have no source lines: "+debug,
			slices.DeleteFunc(in.sym.Lineless(), func(u symbolize.Unresolved) bool {
				return slices.ContainsFunc(missing, func(m symbolize.Unresolved) bool { return m.Path == u.Path })
			}))
	}
}

// tellFiles lists files below a line that says what they are: their number and the
// word for them are put into it.
func (in *input) tellFiles(stderr io.Writer, what string, l []symbolize.Unresolved) {
	if len(l) == 0 {
		return
	}
	files := "files"
	if len(l) == 1 {
		files = "file"
	}
	fmt.Fprintf(stderr, "gperf: "+what+"\n", len(l), files)
	shown := len(l)
	if !in.verbose {
		shown = min(shown, maxUnresolved)
	}
	for _, u := range l[:shown] {
		fmt.Fprintf(stderr, "  %-40s %s: %v\n", u.ID, u.Path, reasonText(u))
	}
	if len(l) > shown {
		fmt.Fprintf(stderr, "  and %d more, which -v lists\n", len(l)-shown)
	}
}

// reasonText says why; of a file with symbols, how few they are.
func reasonText(u symbolize.Unresolved) string {
	if u.Reason == symbolize.NoSymbol {
		return fmt.Sprintf("%d of %d addresses are in none of the functions that have names", u.Missing, u.Asked)
	}
	return u.Reason.String()
}

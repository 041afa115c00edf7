package main

import (
	"fmt"
	"io"
	"slices"

	"gperf/symbolize"
	"gperf/symbolize/dso"
	"gperf/symbolize/replay"
)

const (
	// maxUnresolved is how many files are listed without -v.
	maxUnresolved = 10
	// minUnresolved is the part of the samples below which a file is not.
	minUnresolved = 0.01
)

// tellUnresolved says of which files addresses have no names, why, and by which
// build IDs they are found elsewhere. Files that matter little are only counted.
func (in *input) tellUnresolved(stderr io.Writer) {
	if self == perfName {
		in.warnUnresolved(stderr)
		return
	}
	const debug = "install their debug packages (-dbgsym, -dbg), or name a server (--debuginfod=URL)"
	var missing, stripped []symbolize.Unresolved
	shares := in.history.Unnamed()
	few := 0
	for _, u := range in.sym.Unresolved() {
		switch {
		case !isFile(u.Path) && u.Path != dso.VDSO: // the kernel is told of elsewhere
		case u.Reason == symbolize.NoSymbol && 2*u.Missing <= u.Asked: // the little that symbols do not cover
		case shares[replay.File{Path: u.Path, ID: u.ID}] < minUnresolved:
			few++
		case u.Reason == symbolize.NoSymbol:
			stripped = append(stripped, u)
		default:
			missing = append(missing, u)
		}
	}
	way := "gperf archive packs what is needed where it was recorded; or bring them, by build ID"
	if in.packed != nil {
		way = "they were not there when it was packed; bring them, by build ID (--symfs)"
	}
	in.tellFiles(stderr, "addresses in %d %s have no names: "+way, missing)
	in.tellFiles(stderr, "most addresses in %d stripped %s have no names: "+debug, stripped)
	if few > 0 {
		more := ""
		if len(missing)+len(stripped) > 0 {
			more = "more "
		}
		fmt.Fprintf(stderr, "gperf: addresses in %d %s%s have no names, in less than 1 %% of the samples each\n", few, more, filesWord(few))
	}
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
	fmt.Fprintf(stderr, "gperf: "+what+"\n", len(l), filesWord(len(l)))
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

func filesWord(n int) string {
	if n == 1 {
		return "file"
	}
	return "files"
}

// reasonText says why; of a file with symbols, how few they are.
func reasonText(u symbolize.Unresolved) string {
	if u.Reason == symbolize.NoSymbol {
		return fmt.Sprintf("%d of %d addresses are in none of the functions that have names", u.Missing, u.Asked)
	}
	return u.Reason.String()
}

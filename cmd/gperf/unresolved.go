package main

import (
	"fmt"
	"io"
	"slices"

	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
)

const (
	// maxUnresolved is the maximum number of files to list without -v.
	maxUnresolved = 10
	// minUnresolved is the minimum fraction of the samples for a file to be listed.
	minUnresolved = 0.01
)

// warnUnresolved lists the files that gperf could not symbolize, with the reason and the
// build ID. It only counts files with few samples.
func (in *input) warnUnresolved(stderr io.Writer) {
	if self == perfName {
		in.warnAsPerf(stderr)
		return
	}
	const debug = "install their debug packages (-dbgsym, -dbg), or name a server (--debuginfod=URL)"
	var missing, stripped []symbolize.Unresolved
	shares := in.session.Unresolved()
	few := 0
	for _, u := range in.session.Symbols.Unresolved() {
		switch {
		case !session.IsFile(u.Path) && u.Path != dso.VDSO && !dso.IsFunctions(u.Path): // warn reports the kernel
		case u.Reason == symbolize.NoSymbol && 2*u.Missing <= u.Asked: // most addresses have a symbol
		case shares[session.DSOFile{Path: u.Path, ID: u.ID}] < minUnresolved:
			few++
		case u.Reason == symbolize.NoSymbol:
			stripped = append(stripped, u)
		default:
			missing = append(missing, u)
		}
	}
	way := "run gperf archive on the recorded machine, or copy the files with these build IDs"
	if in.Packed != nil {
		way = "the archive does not contain them; copy the files with these build IDs (--symfs)"
	}
	in.listFiles(stderr, "addresses in %d %s have no names: "+way, missing)
	in.listFiles(stderr, "most addresses in %d stripped %s have no names: "+debug, stripped)
	if few > 0 {
		more := ""
		if len(missing)+len(stripped) > 0 {
			more = "more "
		}
		fmt.Fprintf(stderr, "gperf: addresses in %d %s%s have no names, in less than 1 %% of the samples each\n",
			few, more, filesWord(few))
	}
	for _, err := range in.session.Symbols.Damage() {
		fmt.Fprintf(stderr, "gperf: %v\n", err)
	}
	if in.lines {
		in.listFiles(stderr, "addresses in %d %s have no source lines: "+debug,
			slices.DeleteFunc(in.session.Symbols.Lineless(), func(u symbolize.Unresolved) bool {
				return slices.ContainsFunc(missing, func(m symbolize.Unresolved) bool { return m.Path == u.Path })
			}))
	}
}

// listFiles prints the line what, with the number of files and "file" or "files" filled in,
// and lists the files.
func (in *input) listFiles(stderr io.Writer, what string, l []symbolize.Unresolved) {
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

// reasonText returns the reason; for a file with symbols, how many addresses have none.
func reasonText(u symbolize.Unresolved) string {
	if u.Reason == symbolize.NoSymbol {
		return fmt.Sprintf("%d of %d addresses are in no function of the symbol table", u.Missing, u.Asked)
	}
	return u.Reason.String()
}

package input

import (
	"fmt"
	"io"
	"slices"
	"strings"

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
func (l *Warnings) warnUnresolved(stderr io.Writer) {
	if l.AsPerf {
		l.warnAsPerf(stderr)
		return
	}
	const debug = "install their debug packages (-dbgsym, -dbg), or name a server (--debuginfod=URL)"
	var missing, replaced, stripped []symbolize.Unresolved
	few := 0
	for _, u := range l.unresolved {
		switch kind := dso.KindOf(u.Path); {
		case !kind.HasPath() && kind != dso.KindVDSO && kind != dso.KindFunctions: // warn reports the kernel
		case u.Reason == symbolize.NoSymbol && 2*u.Missing <= u.Asked: // most addresses belong to a symbol
		case l.shares[session.DSOFile{Path: u.Path, ID: u.ID}] < minUnresolved*float64(l.Samples):
			few++
		case u.Reason == symbolize.NoSymbol:
			stripped = append(stripped, u)
		case u.Reason == symbolize.Replaced:
			replaced = append(replaced, u)
		default:
			missing = append(missing, u)
		}
	}
	way := "run gperf archive on the recorded machine, or copy the files with these build IDs"
	if l.packed > 0 {
		way = "the archive does not contain them; copy the files with these build IDs (--symfs)"
	}
	l.listFiles(stderr, "addresses in %d %s have no names: "+way, missing)
	l.listFiles(stderr, "addresses in %d %s without build ID have no names: build the programs with one "+
		"(-Wl,--build-id), run gperf archive before they change, or name copies (--sysroot); -f uses the files "+
		"at these paths", byPath(replaced))
	l.listFiles(stderr, "most addresses in %d stripped %s have no names: "+debug, stripped)
	if few > 0 {
		more := ""
		if len(missing)+len(replaced)+len(stripped) > 0 {
			more = "more "
		}
		fmt.Fprintf(stderr, "gperf: addresses in %d %s%s have no names, in less than 1 %% of the samples each\n",
			few, more, filesWord(few))
	}
	for _, err := range l.debug {
		fmt.Fprintf(stderr, "gperf: %v\n", err)
	}
	if l.Lines {
		l.listFiles(stderr, "addresses in %d %s have no source lines: "+debug,
			slices.DeleteFunc(l.lineless, func(u symbolize.Unresolved) bool {
				return slices.ContainsFunc(slices.Concat(missing, replaced), func(m symbolize.Unresolved) bool {
					return m.Path == u.Path
				})
			}))
	}
}

// byPath returns one of the files of each path: records made from /proc and the kernel's
// describe the inode of a file differently.
func byPath(list []symbolize.Unresolved) []symbolize.Unresolved {
	slices.SortStableFunc(list, func(a, b symbolize.Unresolved) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b symbolize.Unresolved) bool { return a.Path == b.Path })
}

// listFiles prints the line what, with the number of files and "file" or "files" filled in,
// and lists the files.
func (l *Warnings) listFiles(stderr io.Writer, what string, list []symbolize.Unresolved) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(stderr, "gperf: "+what+"\n", len(list), filesWord(len(list)))
	shown := len(list)
	if !l.Verbose {
		shown = min(shown, maxUnresolved)
	}
	for _, u := range list[:shown] {
		fmt.Fprintf(stderr, "  %-40s %s: %v\n", u.ID, u.Path, reasonText(u))
	}
	if len(list) > shown {
		fmt.Fprintf(stderr, "  and %d more, which -v lists\n", len(list)-shown)
	}
}

func filesWord(n int) string {
	if n == 1 {
		return "file"
	}
	return "files"
}

// reasonText returns the reason; for a file with symbols, the number of addresses without one.
func reasonText(u symbolize.Unresolved) string {
	if u.Reason == symbolize.NoSymbol {
		return fmt.Sprintf("%d of %d addresses are in no function of the symbol table", u.Missing, u.Asked)
	}
	return u.Reason.String()
}

// warnAsPerf lists the unresolved files with perf's messages.
func (l *Warnings) warnAsPerf(stderr io.Writer) {
	for _, u := range l.unresolved {
		switch {
		case !dso.KindOf(u.Path).HasPath():
		case u.Reason != symbolize.NoSymbol:
			fmt.Fprintf(stderr, "Failed to open %s, continuing without symbols\n", u.Path)
		case 2*u.Missing > u.Asked:
			fmt.Fprintf(stderr, "no symbols found in %s, maybe install a debug package?\n", u.Path)
		}
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gperf/internal/session"
	"gperf/symbolize"
)

// perfName is gperf's name when a link replaces perf by it. gperf then prints perf's
// messages, compresses records as perf 7.3 does, and copies stacks for --call-graph dwarf,
// because other commands of perf (inject) need the copies.
const perfName = "perf"

// self is the program name to print in perf's messages.
var self = programName(os.Args[0])

func programName(arg0 string) string {
	if filepath.Base(arg0) == perfName {
		return perfName
	}
	return "gperf"
}

// warnAsPerf lists the unresolved files with perf's messages.
func (l *findings) warnAsPerf(stderr io.Writer) {
	for _, u := range l.unresolved {
		switch {
		case !session.IsFile(u.Path):
		case u.Reason != symbolize.NoSymbol:
			fmt.Fprintf(stderr, "Failed to open %s, continuing without symbols\n", u.Path)
		case 2*u.Missing > u.Asked:
			fmt.Fprintf(stderr, "no symbols found in %s, maybe install a debug package?\n", u.Path)
		}
	}
}

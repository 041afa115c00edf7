package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gperf/symbolize"
)

// perfName is what gperf is called where it stands in perf's place, by a link. There its
// messages are perf's where perf has them, it compresses records as newer perfs do, and
// --call-graph dwarf copies stacks, which other commands of perf read (inject).
const perfName = "perf"

// self is the name in perf's messages.
var self = programName(os.Args[0])

func programName(arg0 string) string {
	if filepath.Base(arg0) == perfName {
		return perfName
	}
	return "gperf"
}

// warnUnresolved lists in perf's words the files whose addresses have no names.
func (in *input) warnUnresolved(stderr io.Writer) {
	for _, u := range in.sym.Unresolved() {
		switch {
		case !isFile(u.Path):
		case u.Reason != symbolize.NoSymbol:
			fmt.Fprintf(stderr, "Failed to open %s, continuing without symbols\n", u.Path)
		case 2*u.Missing > u.Asked:
			fmt.Fprintf(stderr, "no symbols found in %s, maybe install a debug package?\n", u.Path)
		}
	}
}

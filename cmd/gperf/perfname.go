package main

import (
	"os"
	"path/filepath"
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

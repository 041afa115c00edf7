// Gperf records performance data from the Linux kernel, and prints and reports
// it, in perf's file format and with perf's options.
//
// This package has the flags, signals, exit codes and advice; the work is done
// by packages record, script and report. It is the only one that writes to
// stderr and ends the process.
package main

import (
	"fmt"
	"io"
	"os"
)

// Exit codes; gperf record otherwise tells its command's.
const (
	exitOK    = 0
	exitError = 1 // it could not be done
	exitUsage = 2 // it cannot be meant so
)

// command is one of gperf's commands.
type command struct {
	name string
	help string // one line
	run  func(args []string, stdout, stderr io.Writer) int
}

var commands = []command{
	{"record", "record events of a command, of processes or of all CPUs into perf.data", recordCommand},
	{"script", "print the samples of a recording as text; or their stacks: folded, for pprof, as a flame graph", scriptCommand},
	{"report", "count the samples of a recording by command, DSO, symbol or tracepoint field", reportCommand},
	{"annotate", "print the code of functions with samples, instruction by instruction, or around an address", annotateCommand},
	{"probe", "add probes to functions of the kernel and of programs, list and delete them", probeCommand},
	{"list", "list the events that this machine can record, by kind or glob", listCommand},
	{"doctor", "tell what this machine, kernel and user may record, and what to do about the rest", doctorCommand},
	{"evlist", "list the events of a recording", evlistCommand},
	{"buildid-list", "list the build IDs of the files that a recording's samples are from", buildIDCommand},
	{"archive", "pack a recording and what names its addresses into one file, to be read on other machines", archiveCommand},
	{"cache", "show what is kept of programs by build ID, and how much, or remove it", cacheCommand},
}

func main() {
	os.Exit(run(os.Args[1:], outputTo(os.Stdout), outputTo(os.Stderr)))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	switch name := args[0]; name {
	case "-h", "--help":
		usage(stdout)
		return exitOK
	case "help":
		return help(args[1:], stdout, stderr)
	case "-v", "--version", "version":
		fmt.Fprint(stdout, versionText())
		return exitOK
	default:
		c := find(name)
		if c == nil {
			return unknown(name, stderr)
		}
		return c.run(args[1:], stdout, stderr)
	}
}

func find(name string) *command {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: gperf COMMAND [FLAGS]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.help)
	}
	fmt.Fprint(w, "\n`gperf help COMMAND` tells its flags; `gperf --version` the version.\n")
}

func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stdout)
		return exitOK
	}
	c := find(args[0])
	if c == nil {
		return unknown(args[0], stderr)
	}
	return c.run([]string{"--help"}, stdout, stderr)
}

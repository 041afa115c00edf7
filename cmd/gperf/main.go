// Gperf records performance data from the Linux kernel, and prints and reports
// it, in perf's file format and with perf's options.
//
// This package holds the flags, signals, exit codes and hints; packages record, script
// and report do the work. No other package writes to stderr or ends the process.
package main

import (
	"fmt"
	"io"
	"os"
)

// Exit codes. gperf record also returns its command's exit code.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // wrong use
)

// command is one of gperf's commands.
type command struct {
	name string
	help string // one line
	run  func(args []string, stdout, stderr io.Writer) int
}

var commands = []command{
	{"record", "record events of a command, processes or all CPUs into perf.data", recordCommand},
	{"script", "print samples as text, or their stacks (folded, pprof, flame graph)", scriptCommand},
	{"report", "count samples by command, DSO, symbol or tracepoint field", reportCommand},
	{"annotate", "print the instructions of functions with their samples", annotateCommand},
	{"probe", "add, list and delete probes in the kernel and in programs", probeCommand},
	{"list", "list the events that this machine can record", listCommand},
	{"doctor", "check what this machine can record, and how to fix what it cannot", doctorCommand},
	{"evlist", "list the events of a recording", evlistCommand},
	{"buildid-list", "list the build IDs of a recording's files", buildIDCommand},
	{"archive", "pack a recording and its symbols into one file for other machines", archiveCommand},
	{"cache", "show or clear gperf's cache of unwind tables and source lines", cacheCommand},
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
	fmt.Fprint(w, "\n`gperf help COMMAND` lists its flags; `gperf --version` prints the version.\n")
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

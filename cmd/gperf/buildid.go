package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"gperf/internal/dso"
	"gperf/internal/inspect"
)

// buildIDFlags holds the flags of `gperf buildid-list`.
type buildIDFlags struct {
	path   string
	hits   bool
	kernel bool
}

const buildIDHelp = `Lists the build IDs of a recording's files, as perf buildid-list does: those that the
recording lists, or those that its samples hit. For an ELF file, it prints the build
ID of this file.`

func (o *buildIDFlags) set() *pflag.FlagSet {
	s := newFlagSet("buildid-list")
	addInput(s, &o.path)
	s.BoolVarP(&o.hits, "with-hits", "H", false, "list only files that samples hit")
	s.BoolVarP(&o.kernel, "kernel", "k", false, "print the running kernel's build ID")
	return s
}

func buildIDCommand(args []string, stdout, stderr io.Writer) int {
	var o buildIDFlags
	return readCommand(o.set(), args, buildIDHelp, stdout, stderr, func() error { return o.run(stdout, stderr) })
}

func (o *buildIDFlags) run(stdout, stderr io.Writer) error {
	if o.kernel {
		id, err := dso.KernelBuildID()
		if err == nil {
			_, err = fmt.Fprintln(stdout, id)
		}
		return err
	}
	if id, err := dso.BuildIDOf(o.path); err == nil {
		_, err = fmt.Fprintln(stdout, id)
		return err
	}
	in, err := new(inputFlags).openPath(o.path, stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	skipped, err := inspect.BuildIDs(bufio.NewWriter(stdout), in.file, in.history, o.hits)
	in.tellSkipped(stderr, skipped)
	return err
}

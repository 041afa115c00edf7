package main

import (
	"bufio"
	"io"

	"github.com/spf13/pflag"

	"gperf/internal/inspect"
)

// evlistFlags holds the flags of `gperf evlist`.
type evlistFlags struct {
	path string
	inspect.EventOptions
}

const evlistHelp = `Lists the events of a recording, as perf evlist does.`

func (o *evlistFlags) set() *pflag.FlagSet {
	s := newFlagSet("evlist")
	addInput(s, &o.path)
	s.BoolVarP(&o.Attrs, "verbose", "v", false, "also print the attr of each event")
	s.BoolVarP(&o.Freq, "freq", "F", false, "also print the frequency or period of each event")
	s.BoolVarP(&o.Groups, "group", "g", false, "print groups of events")
	s.BoolVar(&o.TraceFields, "trace-fields", false, "also print the fields of tracepoints")
	return s
}

func evlistCommand(args []string, stdout, stderr io.Writer) int {
	var o evlistFlags
	return readCommand(o.set(), args, evlistHelp, stdout, stderr, func() error { return o.run(stdout, stderr) })
}

func (o *evlistFlags) run(stdout, stderr io.Writer) error {
	if o.Groups && (o.Attrs || o.Freq) {
		return wrongUse("--group cannot be combined with --verbose and --freq")
	}
	in, err := new(inputFlags).openPath(o.path, stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	w := bufio.NewWriter(stdout)
	inspect.Events(w, in.file, o.EventOptions)
	return w.Flush()
}

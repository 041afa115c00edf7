package main

import (
	"bufio"
	"io"

	"github.com/spf13/pflag"

	"gperf/script"
)

// evlistFlags are the flags of `gperf evlist`.
type evlistFlags struct {
	path string
	script.EventOptions
}

const evlistHelp = `Lists the events of a recording, as perf evlist does.`

func (o *evlistFlags) set() *pflag.FlagSet {
	s := newFlagSet("evlist")
	addInput(s, &o.path)
	s.BoolVarP(&o.Attrs, "verbose", "v", false, "all that the events were opened with, too")
	s.BoolVarP(&o.Freq, "freq", "F", false, "how often they were sampled, too")
	s.BoolVarP(&o.Groups, "group", "g", false, "which of them were counted together")
	s.BoolVar(&o.TraceFields, "trace-fields", false, "the fields of tracepoints, too")
	return s
}

func evlistCommand(args []string, stdout, stderr io.Writer) int {
	var o evlistFlags
	return readCommand(o.set(), args, evlistHelp, stdout, stderr, func() error { return o.run(stdout, stderr) })
}

func (o *evlistFlags) run(stdout, stderr io.Writer) error {
	if o.Groups && (o.Attrs || o.Freq) {
		return wrongUse("--group shows groups, not the events that --verbose and --freq tell of")
	}
	in, err := new(inputFlags).openPath(o.path, stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	w := bufio.NewWriter(stdout)
	script.Events(w, in.file, o.EventOptions)
	return w.Flush()
}

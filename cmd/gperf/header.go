package main

import (
	"bufio"
	"io"

	"github.com/spf13/pflag"

	"gperf/script"
)

// headerFlags ask for what a file says about its recording.
type headerFlags struct {
	header     bool
	headerOnly bool
	info       bool
}

func (o *headerFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.header, "header", false, "first what the file says about the recording")
	s.BoolVar(&o.headerOnly, "header-only", false, "only that")
	s.BoolVarP(&o.info, "show-info", "I", false, "with --header: also the topology of CPUs, memory and caches")
}

// print prints it where it is asked for; done tells that there is no more to do.
func (o *headerFlags) print(stdout io.Writer, in *input) (done bool, err error) {
	if !o.header && !o.headerOnly {
		return false, nil
	}
	w := bufio.NewWriter(stdout)
	script.Header(w, in.file, in.recorded, o.info)
	return o.headerOnly, w.Flush()
}

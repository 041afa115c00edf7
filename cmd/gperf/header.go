package main

import (
	"bufio"
	"io"

	"github.com/spf13/pflag"

	"gperf/internal/inspect"
)

// headerFlags holds the flags that print the header of the recording.
type headerFlags struct {
	header     bool
	headerOnly bool
	info       bool
}

func (o *headerFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.header, "header", false, "print the header of the recording first")
	s.BoolVar(&o.headerOnly, "header-only", false, "print only the header of the recording")
	s.BoolVarP(&o.info, "show-info", "I", false, "with --header: print the topology of CPUs and caches")
}

// print prints the header if a flag requests it; done is true for --header-only.
func (o *headerFlags) print(stdout io.Writer, in *openInput) (done bool, err error) {
	if !o.header && !o.headerOnly {
		return false, nil
	}
	w := bufio.NewWriter(stdout)
	inspect.Header(w, in.recording.File, in.recording.Written, o.info)
	return o.headerOnly, w.Flush()
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/text"
	"gperf/record"
)

// outputFlags choose the files that gperf record writes.
type outputFlags struct {
	compress     string
	switchTo     string
	switchEvents []string
	maxSize      string
	implied      bool // standard output is a pipe, and -o names no file
}

func (f *outputFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.StringVarP(&o.Output.Path, "output", "o", "perf.data", "`file`, or - for a pipe")
	s.StringVarP(&f.compress, "compression-level", "z", "0", "compress with zstd at this `level`, 1 to 22")
	s.Lookup("compression-level").NoOptDefVal = "1"
	s.StringVar(&f.switchTo, "switch-output", "", "start a new file on SIGUSR2, or `when`: 10m")
	s.Lookup("switch-output").NoOptDefVal = "signal"
	s.StringArrayVar(&f.switchEvents, "switch-output-event", nil, "start a new file at these `events`")
	s.IntVar(&o.Output.Switch.MaxFiles, "switch-max-files", 0, "keep only the last `n` files")
	s.BoolVar(&o.Output.Timestamp, "timestamp-filename", false, "append the time to the file name")
	s.StringVar(&f.maxSize, "max-size", "", "stop at this file `size`, with B, K, M, G")
	s.BoolVar(&o.Output.Kcore, "kcore", false, "write a directory with a copy of /proc/kcore")
}

const maxCompressionLevel = 22

func (f *outputFlags) apply(s *pflag.FlagSet, o *record.Options) error {
	if f.implied = !s.Changed("output") && isPipe(os.Stdout); f.implied {
		o.Output.Path = "-"
	}
	if o.Output.Path == "-" && cli.IsTerminal(os.Stdout) {
		return cli.WrongUse("-o -: standard output is a terminal")
	}
	level, err := strconv.ParseUint(f.compress, 10, 31)
	if err != nil {
		return cli.WrongUse("-z%s: invalid compression level, use 1 to %d", f.compress, maxCompressionLevel)
	}
	if level > maxCompressionLevel {
		o.Notice(fmt.Errorf("-z%d: using %d, the highest compression level", level, maxCompressionLevel))
	}
	o.Output.Compress = int(min(level, maxCompressionLevel))
	o.Output.Compressed2 = self == perfName
	if o.Output.Compress == 0 && s.Changed("compression-level") {
		o.Output.Compress = 1
	}
	if o.Output.Switch.MaxFiles < 0 {
		return cli.WrongUse("--switch-max-files %d: the number of files is negative", o.Output.Switch.MaxFiles)
	}
	if o.Output.Path == "-" && o.Output.Timestamp {
		o.Notice(errors.New("--timestamp-filename has no effect in pipe mode"))
		o.Output.Timestamp = false
	}
	if f.maxSize != "" {
		if o.Output.MaxSize, err = text.ParseSize(f.maxSize); err != nil {
			return cli.WrongUse("--max-size: %v", err)
		}
	}
	return f.applySwitch(o)
}

// applySwitch applies --switch-output, which --switch-output-event implies.
func (f *outputFlags) applySwitch(o *record.Options) error {
	if f.switchTo == "" && len(f.switchEvents) > 0 {
		f.switchTo = "signal"
	}
	switch {
	case f.switchTo == "":
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGUSR2)
		o.Snapshot = ch
		return nil
	case o.Output.Path == "-":
		return cli.WrongUse("--switch-output is not possible in pipe mode (-o -)")
	case f.switchTo == "signal":
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGUSR2)
		o.Output.Switch.Signal = ch
		return nil
	}
	how, err := record.ParseSwitch(f.switchTo)
	if err != nil {
		return cli.WrongUse("--switch-output: %v", err)
	}
	o.Output.Switch.Size, o.Output.Switch.Every = how.Size, how.Every
	return nil
}

func isPipe(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeNamedPipe != 0
}

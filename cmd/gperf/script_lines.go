package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/untrusted"
	"gperf/script"
)

// lineFlags holds the flags that choose the lines of `gperf script` and their contents.
type lineFlags struct {
	where              whereFlags
	reltime, deltatime bool
	stopAt             string
	perEvent, list     bool
}

func (o *lineFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.reltime, "reltime", false, "print times relative to the first line")
	s.BoolVar(&o.deltatime, "deltatime", false, "print times relative to the previous line")
	s.BoolVar(&o.perEvent, "per-event-dump", false, "write each event's samples to a file, INPUT.EVENT.dump")
}

// options applies the flags.
func (o *lineFlags) options(opts *script.Options) error {
	switch {
	case o.reltime && o.deltatime:
		return cli.WrongUse("--reltime and --deltatime exclude each other")
	case o.reltime:
		opts.Since = script.SinceFirst
	case o.deltatime:
		opts.Since = script.SincePrevious
	}
	opts.Where = o.where.where()
	opts.StopAt = cli.Words(o.stopAt)
	return nil
}

// whereFlags holds the flags that choose samples by DSO, symbol or address.
type whereFlags struct {
	dsos, symbols string
	addrRange     uint64
}

// add defines the flags; letter is the shorthand of --dsos.
func (o *whereFlags) add(s *pflag.FlagSet, letter string) {
	s.StringVarP(&o.dsos, "dsos", letter, "", "print only samples in these DSOs, a `list`")
	s.StringVarP(&o.symbols, "symbols", "S", "", "print only samples in these functions, a `list`")
	s.Uint64Var(&o.addrRange, "addr-range", 0, "with -S: match this many `bytes` from each address")
}

func (o *whereFlags) where() session.Where {
	return session.Where{DSOs: cli.Words(o.dsos), Symbols: cli.Words(o.symbols), AddrRange: o.addrRange}
}

// listScripts prints the scripts of perf that gperf implements.
func listScripts(stdout, stderr io.Writer) error {
	_, err := fmt.Fprint(stdout, `List of available trace scripts:
  flamegraph                           create flame graphs: gperf script --format flamegraph
  stackcollapse                        produce callgraphs in short form for scripting use: gperf script --format folded
`)
	fmt.Fprintln(stderr, "gperf script: perf's other scripts read gperf's recordings: perf script NAME -i FILE")
	return err
}

// eventFile is a file that --per-event-dump writes.
type eventFile struct {
	*os.File
	buffer *bufio.Writer
	size   int
}

func (f *eventFile) Write(b []byte) (int, error) {
	f.size += len(b)
	return f.buffer.Write(b)
}

// createEventFiles creates a file for each event of the recording at path. Events of the
// same name share a file.
func createEventFiles(path string, f *format.File) ([]script.EventText, error) {
	texts := make([]script.EventText, len(f.Attrs))
	files := map[string]*eventFile{}
	for i := range f.Attrs {
		name := path + "." + strings.ReplaceAll(f.EventName(i), "/", "_") + ".dump"
		if files[name] == nil {
			file, err := untrusted.Create(name, 0o666)
			if err != nil {
				closeEventFiles(texts[:i])
				return nil, err
			}
			files[name] = &eventFile{File: file, buffer: bufio.NewWriter(file)}
		}
		texts[i].Writer = files[name]
	}
	return texts, nil
}

// closeEventFiles flushes and closes the files. On error, a file keeps its contents so far.
func closeEventFiles(texts []script.EventText) (err error) {
	for _, t := range texts {
		f := t.Writer.(*eventFile)
		err = errors.Join(err, f.buffer.Flush())
		if cerr := f.Close(); !errors.Is(cerr, os.ErrClosed) {
			err = errors.Join(err, cerr)
		}
	}
	return err
}

// printEventFiles lists the files as perf does.
func printEventFiles(stdout io.Writer, texts []script.EventText) error {
	for _, t := range texts {
		f := t.Writer.(*eventFile)
		if _, err := fmt.Fprintf(stdout, "[ gperf script: Wrote %.3f MB %s (%d samples) ]\n",
			float64(f.size)/(1<<20), f.Name(), t.Samples); err != nil {
			return err
		}
	}
	return nil
}

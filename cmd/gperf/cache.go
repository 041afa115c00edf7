package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"gperf/internal/dso/cache"
	"gperf/symbolize/srcline"
	"gperf/unwind"
)

// cacheFlags holds the flags of `gperf cache`.
type cacheFlags struct {
	clear bool
}

const cacheHelp = `Prints the size of gperf's cache below ~/.cache/gperf or $XDG_CACHE_HOME/gperf. It
holds the unwind tables and source lines of programs and libraries by build ID. When
the cache is full, gperf removes the least recently used files.`

func (o *cacheFlags) set() *pflag.FlagSet {
	s := newFlagSet("cache")
	s.BoolVar(&o.clear, "clear", false, "remove all files; gperf recreates them when needed")
	return s
}

func cacheCommand(args []string, stdout, stderr io.Writer) int {
	var o cacheFlags
	return readCommand(o.set(), args, cacheHelp, stdout, stderr, func() error { return o.run(stdout) })
}

func (o *cacheFlags) run(stdout io.Writer) error {
	tables, err := unwind.NewCache()
	if err != nil {
		return err
	}
	lines, err := srcline.NewCache()
	if err != nil {
		return err
	}
	var errs []error
	for _, kept := range []struct {
		what string
		in   *cache.Dir
	}{{"unwind tables", tables.Files()}, {"source lines", lines}} {
		if o.clear {
			errs = append(errs, kept.in.Clear())
		}
		files, size, err := kept.in.Size()
		errs = append(errs, err)
		fmt.Fprintf(stdout, "%-13s  %6d files  %8.1f MB of at most %.0f  %s\n", kept.what, files, mb(size), mb(kept.in.Limit), kept.in.Path)
	}
	return errors.Join(errs...)
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }

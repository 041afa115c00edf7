package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/dso/cache"
	"gperf/symbolize/srcline"
	"gperf/unwind"
)

// cacheFlags holds the flags of `gperf cache`.
type cacheFlags struct {
	clear bool
}

func (o *cacheFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.clear, "clear", false, "remove all files; gperf recreates them when needed")
}

// cacheCommand returns `gperf cache`.
func cacheCommand() *cobra.Command {
	var o cacheFlags
	c := cli.NewCommand(cli.GroupOther, "cache [FLAGS]", "show or clear the cache of unwind tables and source lines")
	cli.AddFlags(c, cli.General, o.add)
	c.Args = cli.NoOperands
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) }
	return c
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
		fmt.Fprintf(stdout, "%-13s  %6d files  %8.1f MB of at most %.0f  %s\n", kept.what, files, mb(size),
			mb(kept.in.Limit), kept.in.Path)
	}
	return errors.Join(errs...)
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }

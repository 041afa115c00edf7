package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/internal/archive"
	"gperf/internal/text"
)

// archiveFlags holds the flags of `gperf archive`.
type archiveFlags struct {
	input   inputFlags
	output  string
	mapped  bool
	noDebug bool
	whole   bool
	exclude string
	// Flags for the format of perf archive:
	perf   bool
	all    bool // with --perf: include the recording
	unpack bool
}

func (o *archiveFlags) addTo(c *cobra.Command) {
	cli.AddFlags(c, "Input", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&o.input.paths, "input", "i", nil, inputUsage)
		o.input.files.force = addForce(s)
	})
	cli.AddFlags(c, "Symbols", o.input.files.add)
	cli.AddFlags(c, "Archive", o.add)
}

func (o *archiveFlags) add(s *pflag.FlagSet) {
	s.StringVarP(&o.output, "output", "o", "", "write this `file` (default INPUT.zip); - is stdout")
	s.BoolVar(&o.mapped, "mapped", false, "pack mapped files without samples, too")
	s.BoolVar(&o.noDebug, "no-debug", false, "omit debug information, for source lines")
	s.BoolVar(&o.whole, "whole", false, "pack complete files, with all code and data")
	s.BoolVar(&o.perf, "perf", false, "write perf archive's format (.tar.bz2, -o .tar)")
	s.BoolVar(&o.all, "all", false, "with --perf: include the recording")
	s.BoolVar(&o.unpack, "unpack", false, "unpack a file of perf archive to ~/.debug")
	s.StringVar(&o.exclude, "exclude-buildids", "", "exclude files that match a line of this `file`")
}

func archiveCommand() *cobra.Command {
	var o archiveFlags
	c := readCommand(cli.GroupFiles, "archive", "pack a recording and its symbols for other machines")
	o.addTo(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) }
	return c
}

func (o *archiveFlags) run(stdout, stderr io.Writer) error {
	if o.unpack {
		return o.runUnpack(stdout)
	}
	o.input.filters.guests = true
	in, err := o.input.open("archive", stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(in.recording.Parts) == 0 {
		return fmt.Errorf("%s is a pipe and can be read only once: write it to a file first", in.recording.Path)
	}
	hits, skipped, err := archive.Collect(in.session, o.mapped)
	input.WarnSkipped(stderr, in.recording.Path, skipped)
	if err == nil && o.exclude != "" {
		err = excludeFiles(hits, o.exclude)
	}
	if err != nil {
		return err
	}
	if o.perf {
		return o.runPerf(in, hits, stdout, stderr)
	}
	name := cmp.Or(o.output, filepath.Clean(in.recording.Path)+".zip")
	written := func(n int64) { in.bar.Bytes("writing "+filepath.Base(name), n, 0) }
	n, err := archive.WriteFile(name, stdout, written, func(w io.Writer) error { return o.pack(w, in, hits, stderr) })
	if err == nil && name != "-" {
		fmt.Fprintf(stderr, "[ gperf archive: wrote %.3f MB to %s ]\n", float64(n)/1e6, name)
	}
	return err
}

// excludeFiles removes the files that the named file lists (--exclude-buildids).
func excludeFiles(hits *archive.Hits, name string) error {
	list, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	hits.Exclude(string(list))
	return nil
}

// pack writes the archive.
func (o *archiveFlags) pack(out io.Writer, in *openInput, hits *archive.Hits, stderr io.Writer) error {
	p := &archive.Packer{
		Writer:  archive.NewWriter(out),
		Locator: in.session.Symbols.Locator(),
		NoDebug: o.noDebug,
		Whole:   o.whole,
	}
	noDebug, err := hits.Pack(p, in.recording, warnNotPacked(stderr))
	if len(noDebug) > 0 {
		fmt.Fprintf(stderr, "gperf archive: no debug information for %s: no source lines and inline frames\n",
			text.JoinFirst(noDebug, 5))
	}
	return err
}

// warnNotPacked returns a function that reports a file missing from the archive.
func warnNotPacked(stderr io.Writer) func(error) {
	return func(err error) { fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err) }
}

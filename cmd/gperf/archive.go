package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/archive"
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
	c := readCommand(groupFiles, "archive", "pack a recording and its symbols for other machines")
	o.addTo(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) }
	return c
}

func (o *archiveFlags) run(stdout, stderr io.Writer) error {
	if o.unpack {
		return o.runUnpack(stdout)
	}
	o.input.guests = true
	in, err := o.input.open(stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(in.Parts) == 0 {
		return fmt.Errorf("%s is a pipe and can be read only once: write it to a file first", in.Path)
	}
	hits, skipped, err := archive.Collect(in.session, o.mapped)
	in.warnSkipped(stderr, skipped)
	if err == nil && o.exclude != "" {
		err = excludeFiles(hits, o.exclude)
	}
	if err != nil {
		return err
	}
	if o.perf {
		return o.runPerf(in, hits, stdout, stderr)
	}
	name := cmp.Or(o.output, filepath.Clean(in.Path)+".zip")
	written := func(n int64) { in.bar.Bytes("writing "+filepath.Base(name), n, 0) }
	n, err := writeWhole(name, stdout, func(w io.Writer) error {
		return o.pack(&counting{w: w, each: written}, in, hits, stderr)
	})
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
func (o *archiveFlags) pack(out io.Writer, in *input, hits *archive.Hits, stderr io.Writer) error {
	p := &archive.Packer{
		Writer:  archive.NewWriter(out),
		Locator: in.session.Symbols.Locator(),
		NoDebug: o.noDebug,
		Whole:   o.whole,
	}
	for i, part := range in.Parts {
		if err := p.AddRecording(i, in.Directory, part); err != nil {
			return err
		}
	}
	noDebug, err := hits.Pack(p, warnNotPacked(stderr))
	if err != nil {
		return err
	}
	if len(noDebug) > 0 {
		fmt.Fprintf(stderr, "gperf archive: no debug information for %s: no source lines and inline frames\n",
			joinFirst(noDebug, 5))
	}
	return p.Close()
}

// warnNotPacked returns a function that reports a file missing from the archive.
func warnNotPacked(stderr io.Writer) func(error) {
	return func(err error) { fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err) }
}

// joinFirst joins the first n elements of a list and counts the rest.
func joinFirst(l []string, n int) string {
	if len(l) <= n {
		return strings.Join(l, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(l[:n], ", "), len(l)-n)
}

// writeWhole writes a temporary file and renames it when it is complete. It writes directly
// to stdout (name "-") and to files that are not regular. It returns the number of bytes
// written.
func writeWhole(name string, stdout io.Writer, write func(io.Writer) error) (int64, error) {
	if name == "-" {
		return writeTo(stdout, write)
	}
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		n, err := writeTo(f, write)
		return n, errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gperf-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // fails after the rename
	n, err := writeTo(f, write)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, os.Rename(f.Name(), name)
}

// writeTo calls write and returns the number of bytes written. An error of w has precedence
// over the error that write derives from it.
func writeTo(w io.Writer, write func(io.Writer) error) (int64, error) {
	c := &counting{w: w}
	err := write(c)
	return c.n, cmp.Or(c.err, err)
}

// counting counts the bytes written to w and keeps the first error.
type counting struct {
	w    io.Writer
	n    int64
	err  error
	each func(n int64) // is called after each Write; nil: none
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = cmp.Or(c.err, err)
	if c.each != nil {
		c.each(c.n)
	}
	return n, err
}

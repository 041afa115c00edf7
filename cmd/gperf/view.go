package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/untrusted"
	"gperf/report/table"
	"gperf/report/view"
)

// viewFlags holds the flags of gperf view.
type viewFlags struct {
	input     inputFlags
	baseline  []string // paths of recordings
	loader    table.Loader
	http      string
	noBrowser bool
	export    string
	site      *view.Site
	server    view.Server
	record    []string // arguments after "--"

	stdout, stderr io.Writer
}

func viewCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupAnalyse, "view [FLAGS] [FILE…]\nview [FLAGS] -- record …",
		"show recordings in the browser")
	v := &viewFlags{input: inputFlags{keepExited: true}}
	v.add(c)
	c.RunE = func(c *cobra.Command, args []string) error { return unknownKey("--by", v.run(c, args)) }
	return c
}

func (v *viewFlags) add(c *cobra.Command) {
	cli.AddFlags(c, "Page", func(s *pflag.FlagSet) {
		s.StringVar(&v.http, "http", "127.0.0.1:0", "serve at this `address`, HOST:PORT")
		s.BoolVar(&v.noBrowser, "no-browser", false, "print the address, open no browser")
		s.StringVar(&v.export, "export", "", "write the page to this `file`, which needs no server")
		s.StringArrayVar(&v.baseline, "baseline", nil, "compare with this recording, a `file`")
		s.StringSliceVar(&v.loader.Words, "by", nil, "divide the samples by these `keys`, too (gperf help sort)")
		s.IntVar(&v.loader.MaxStack, "max-stack", maxStack, "show at most `n` frames per callchain")
		s.BoolVar(&v.loader.NoInline, "no-inline", false, "do not show inline frames")
		s.StringVar(&v.server.Sources.Prefix, "prefix", "", "add this `prefix` to absolute paths of source files")
		s.IntVar(&v.server.Sources.Strip, "prefix-strip", 0, "with --prefix: strip `n` directories of paths")
		s.BoolVar(&v.server.Sources.All, "source", false, "show source text to other machines, as root of all files")
	})
	v.input.addTo(c)
}

func (v *viewFlags) run(c *cobra.Command, args []string) error {
	v.stdout, v.stderr = c.OutOrStdout(), c.ErrOrStderr()
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		args, v.record = args[:dash], args[dash:]
	}
	v.loader.Weight = v.input.filters.weight
	paths, err := input.Expand(slices.Concat(v.input.paths, args))
	if err == nil {
		v.baseline, err = input.Expand(v.baseline)
	}
	if err != nil {
		return err
	}
	named := len(paths) > 0
	if !named {
		paths = []string{""}
	}
	live := v.record != nil || v.export == "" && slices.Contains(paths, "-")
	switch recording := v.record != nil; {
	case recording && (len(v.record) == 0 || v.record[0] != "record" || named):
		return cli.WrongUse("-- is followed by the command that records: gperf view -- record -a -g sleep 10")
	case recording && v.export != "":
		return cli.WrongUse("--export needs a complete recording: record to a file, then gperf view --export")
	case live && (len(v.baseline) > 0 || len(paths) > 1):
		return cli.WrongUse("a recording that is still made is shown alone: omit --baseline and other files")
	case v.loader.MaxStack < 0:
		return cli.WrongUse("--max-stack %d is negative", v.loader.MaxStack)
	}
	if v.export == "" { // before the recording is read, which may take long
		site, err := view.Listen(v.http)
		if err != nil {
			return err
		}
		defer site.Close()
		v.site = site
	}
	if live {
		return v.showLive()
	}
	return v.showFiles(slices.Concat(v.baseline, paths))
}

// maxOpen is how many recordings are open at a time, and are shown again when they grow.
const maxOpen = 8

// showMany shows recordings, the baseline's first. It reads one after the other.
func (v *viewFlags) showMany(paths []string) error {
	l := v.loader
	m, err := v.input.readMany(paths, v.stderr, nil)
	if err != nil {
		return err
	}
	err = m.each(func(in *openInput, src *source) (format.Skipped, error) {
		skipped, err := l.Add(table.Source{Path: in.recording.Path, Session: in.session,
			Baseline: src.number < len(v.baseline)})
		l.NameFrames()
		return skipped, err
	})
	incomplete := m.close()
	if err != nil {
		return err
	}
	t := l.Table()
	if t.Len() == 0 {
		return fmt.Errorf("%d recordings: %w", len(paths), view.ErrNoSamples)
	}
	about := view.About{Title: fmt.Sprintf("%d recordings", len(t.Recordings)), Version: 1}
	if v.export != "" {
		return cmp.Or(v.writePage(paths, t, about), incomplete)
	}
	// The code of functions comes from the first recording.
	shown, err := v.input.openPath(t.Recordings[min(len(v.baseline), len(t.Recordings)-1)].Path, io.Discard)
	if err == nil {
		defer shown.Close()
		v.server.Open = func() (*session.Session, error) { return session.New(shown.session.Options), nil }
	}
	return cmp.Or(v.serve(t, about, func(context.Context) {}), incomplete)
}

// showFiles shows recordings, the baseline's first.
func (v *viewFlags) showFiles(paths []string) error {
	v.loader.Origins = len(paths) > 1
	if len(paths) > maxOpen {
		return v.showMany(paths)
	}
	inputs, err := v.open(paths, v.stderr)
	defer func() { closeAll(inputs) }()
	if err != nil {
		return err
	}
	t, incomplete, err := v.load(inputs, v.stderr)
	if err != nil {
		return err
	}
	about := view.About{Title: titleOf(inputs), Version: 1}
	if v.export != "" {
		return cmp.Or(v.writePage(paths, t, about), incomplete)
	}
	if shown := inputs[len(v.baseline)]; len(shown.recording.Parts) > 0 {
		v.server.Open = func() (*session.Session, error) { return session.New(shown.session.Options), nil }
	}
	if !slices.ContainsFunc(inputs, func(in *openInput) bool { return len(in.recording.Parts) == 0 }) {
		v.server.Sessions = func() (l []*session.Session) {
			for _, in := range inputs {
				l = append(l, session.New(in.session.Options))
			}
			return l
		}
	}
	err = v.serve(t, about, func(ctx context.Context) { v.watch(ctx, paths, inputs, about) })
	return cmp.Or(err, incomplete)
}

// open opens recordings. On error, it also returns those that it opened before.
func (v *viewFlags) open(paths []string, stderr io.Writer) (opened []*openInput, err error) {
	for _, path := range paths {
		in, err := v.input.openPath(path, stderr)
		if err != nil {
			return opened, err
		}
		opened = append(opened, in)
	}
	return opened, nil
}

func closeAll(inputs []*openInput) {
	for _, in := range inputs {
		in.Close()
	}
}

// load reads the recordings into a table. incomplete is not nil if parts of them were skipped, which it reports.
func (v *viewFlags) load(inputs []*openInput, stderr io.Writer) (t *table.Table, incomplete, err error) {
	l := v.loader
	skipped := make([]format.Skipped, len(inputs))
	for i, in := range inputs {
		baseline := i < len(v.baseline)
		skipped[i], err = l.Add(table.Source{Path: in.recording.Path, Session: in.session, Baseline: baseline})
		if err != nil {
			return nil, nil, in.recording.Wrap(err)
		}
	}
	t = l.Table() // it reads symbols: warnings about them come later
	for i, in := range inputs {
		incomplete = cmp.Or(incomplete, in.warn(stderr, skipped[i]))
	}
	if t.Len() == 0 {
		return nil, nil, fmt.Errorf("%s: %w", titleOf(inputs), view.ErrNoSamples)
	}
	return t, incomplete, nil
}

func titleOf(inputs []*openInput) string {
	var names []string
	for _, in := range inputs {
		names = append(names, filepath.Base(in.recording.Path))
	}
	return strings.Join(names, " → ")
}

// writePage writes the page to the file of --export, unless that is one of the recordings.
func (v *viewFlags) writePage(paths []string, t *table.Table, about view.About) (err error) {
	if v.export == "-" {
		return view.Export(v.stdout, t, about)
	}
	if overwrites(v.export, paths) {
		return cli.WrongUse("--export %s would overwrite the recording", v.export)
	}
	fd, err := untrusted.Create(v.export, 0o666)
	if err != nil {
		return err
	}
	err = view.Export(fd, t, about)
	if err = cmp.Or(err, fd.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", v.export, err)
	}
	return nil
}

// serve shows a table until Ctrl-C. It calls more, which may show others, in another goroutine.
func (v *viewFlags) serve(t *table.Table, about view.About, more func(context.Context)) error {
	ctx, _, stop := interrupts() // until here, Ctrl-C ends gperf at once
	defer stop()
	site := v.site
	v.server.Token, v.server.Hosts = site.Token, site.Hosts
	if err := v.server.Show(t, about); err != nil {
		return err
	}
	if site.Hosts == nil {
		v.server.NoSource = !v.server.Sources.All
		what := "recording, without source text (--source)"
		if v.server.Sources.All {
			what = "recording and the text of its source files"
		}
		fmt.Fprintf(v.stderr, "gperf view: other machines can connect to %s: all users of this address see the %s\n",
			site.Addr(), what)
	}
	fmt.Fprintln(v.stdout, site.URL())
	if !v.noBrowser {
		if err := view.OpenBrowser(site.URL()); err != nil {
			fmt.Fprintf(v.stderr, "gperf view: %v\n", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() { more(ctx) })
	return site.Serve(ctx, &v.server)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/internal/archive"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/symbolize"
)

// inputFlags holds the flags that script and report share: the file, filters of samples,
// and the sources of symbols.
type inputFlags struct {
	paths      []string
	noDemangle bool
	kallsyms   string
	files      fileFlags
	filters    filterFlags
	strict     bool
	verbose    bool
	noSandbox  bool
	flags      *pflag.FlagSet // of the command; nil: it keeps all rights
	// keepExited is session.Options.KeepExited, which commands set.
	keepExited bool
	many       *many // shares symbols among recordings; nil for one
}

// addTo adds the flags to a command, in groups.
func (in *inputFlags) addTo(c *cobra.Command) {
	in.flags = c.Flags()
	cli.AddFlags(c, "Input", in.addFile)
	cli.AddFlags(c, "Symbols", in.addSymbols)
	cli.AddFlags(c, "Filters", in.filters.add)
}

// add adds the flags.
func (in *inputFlags) add(s *pflag.FlagSet) {
	in.addFile(s)
	in.addSymbols(s)
	in.filters.add(s)
}

func (in *inputFlags) addFile(s *pflag.FlagSet) {
	s.StringArrayVarP(&in.paths, "input", "i", nil, inputUsage)
	in.files.force = addForce(s)
	in.addSandbox(s)
	s.BoolVar(&in.strict, "strict", false, "stop at the first error in the file")
	s.BoolVarP(&in.verbose, "verbose", "v", false, "list all files without symbols; report: print more")
}

func (in *inputFlags) addSandbox(s *pflag.FlagSet) {
	s.BoolVar(&in.noSandbox, "no-sandbox", false, "as root, keep all rights for recordings of other users")
}

func (in *inputFlags) addSymbols(s *pflag.FlagSet) {
	s.BoolVar(&in.noDemangle, "no-demangle", false, "do not demangle C++ and Rust names")
	s.StringVar(&in.kallsyms, "kallsyms", "", "read kernel symbols from this `file`")
	in.files.add(s)
}

// openInput is an open recording with a session.
type openInput struct {
	recording *archive.Recording
	fd        *os.File // nil: stdin, or a file on a server
	origin    session.Origin
	session   *session.Session
	shared    bool            // the session's symbols belong to many
	weight    *session.Weight // nil without --weight
	filter    *session.Filter
	selected  *key.Filter // by --filter, nil without
	files     *files
	bar       *cli.Progress
	lines     bool // the user asked for source lines
	verbose   bool // list all files without symbols
}

const defaultFile = "perf.data"

// inputs returns the recordings' paths, those in directories included; "" means the default one.
func (in *inputFlags) inputs() ([]string, error) {
	if err := cmp.Or(in.files.check(), in.filters.check()); err != nil {
		return nil, err
	}
	if len(in.paths) == 0 {
		return []string{""}, nil
	}
	return input.Expand(in.paths)
}

// open opens the only recording and prints warnings to stderr. With several, it returns an error that names
// the command or the output that reads one recording only.
func (in *inputFlags) open(what string, stderr io.Writer) (*openInput, error) {
	paths, err := in.inputs()
	if err != nil {
		return nil, err
	}
	if len(paths) > 1 {
		return nil, oneOnly(what, paths)
	}
	return in.openPath(paths[0], stderr)
}

func oneOnly(what string, paths []string) error {
	return cli.WrongUse("%s reads one recording, and -i names %d", what, len(paths))
}

func (in *inputFlags) openPath(path string, stderr io.Writer) (*openInput, error) {
	input.TuneReading()
	r := &openInput{verbose: in.verbose}
	err := in.openFile(r, path, stderr)
	if err == nil {
		err = in.prepare(r, stderr)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// confine gives up rights if the file is another user's.
func (in *inputFlags) confine(file *os.File, stderr io.Writer) error {
	if in.flags == nil || in.noSandbox {
		return nil
	}
	var outputs []string
	for _, name := range []string{"output", "export"} {
		if f := in.flags.Lookup(name); f != nil && f.Value.String() != "" {
			outputs = append(outputs, f.Value.String())
		}
	}
	return input.EnterSandbox(file, outputs, stderr)
}

// prepare makes the session of an open recording.
func (in *inputFlags) prepare(r *openInput, stderr io.Writer) error {
	f := r.recording.File
	for _, w := range f.Warnings {
		if in.strict {
			return fmt.Errorf("%s: %w", r.recording.Path, w)
		}
		fmt.Fprintf(stderr, "gperf: %s: %v\n", r.recording.Path, w)
	}
	f.Strict = in.strict
	filter, err := in.filters.filter(f)
	if err != nil {
		return err
	}
	r.filter = filter
	keep := filter.Match
	if in.filters.weight != "" {
		if r.weight, err = session.NewWeight(f, in.filters.weight); err != nil {
			return weightError(err)
		}
		keep = func(s *session.Sample) bool { return filter.Match(s) && r.weight.Apply(s) }
	}
	if r.bar == nil {
		r.bar = cli.NewProgress("gperf", stderr, false)
	}
	if r.origin.File == "" {
		r.origin = new(session.Origins).Of(f, r.recording.Path)
	}
	symbols := in.symbolizer(r)
	opts := session.Options{File: f, Symbols: symbols, Keep: keep,
		NoIdle: in.filters.noIdle, NoNative: in.filters.noNative,
		KeepExited: in.keepExited, Written: r.recording.Written, Origin: r.origin}
	if in.many == nil {
		opts.Progress = func(n, of int64) { r.bar.Bytes("reading "+filepath.Base(r.recording.Path), n, of) }
	}
	if err := in.filters.selectSamples(r, &opts, in.many != nil); err != nil {
		return err
	}
	r.session = session.New(opts)
	return nil
}

// misses returns why the filters selected no sample, nothing if they selected one.
func (in *openInput) misses() []session.Miss {
	return slices.Concat(in.filter.Misses(), in.selected.Misses())
}

// symbolizer returns the Symbolizer of an open recording, and sets the files.
func (in *inputFlags) symbolizer(r *openInput) *symbolize.Symbolizer {
	recorded := session.RecordedSymbols(r.recording.File)
	generated := r.recording.Generated()
	own := r.recording.Packed != nil || r.recording.Proc != "" || recorded != nil || generated != ""
	r.shared = in.many != nil && !own
	if r.shared {
		r.files = in.many.sharedFiles()
	} else {
		r.files = in.files.open(r.recording.Packed, r.recording.Path, r.bar)
		r.files.Generated = generated
	}
	id, ref, addr := session.RecordedKernel(r.recording.File)
	opts := symbolize.Options{Locator: &r.files.Locator, Demangle: !in.noDemangle,
		Kallsyms: cmp.Or(in.kallsyms, r.recording.Kallsyms()), Proc: r.recording.Proc,
		KernelBuildID: id, KernelRef: ref,
		KernelRefAddr: addr, Recorded: recorded, Reading: r.bar.Reading}
	switch {
	case r.shared:
		return in.many.symbolizer(opts)
	case in.many != nil:
		opts.Shared = in.many.tables
	}
	return symbolize.New(opts)
}

// weightError adds the known fields to an error of --weight.
func weightError(err error) error {
	if none := (*session.NoFieldError)(nil); errors.As(err, &none) {
		if len(none.Fields) == 0 {
			return cli.WrongUse("--weight: %v: only tracepoints have fields, and the recording has none", err)
		}
		return cli.WrongUse("--weight: %v%s", err, suggestion(none.Field, none.Fields, "the fields are"))
	}
	return err
}

// openFile opens the recording at path as r: a file, a pipe, or a directory. Like perf, it reads
// stdin if path is "-", or if path is empty and stdin is a pipe.
func (in *inputFlags) openFile(r *openInput, path string, stderr io.Writer) (err error) {
	if path == "" {
		if st, err := os.Stdin.Stat(); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
			path = "-"
		}
	}
	switch {
	case path == "-":
		r.recording, err = archive.OpenRecording(os.Stdin, "stdin")
		return err
	case archive.IsURL(path):
		return r.openURL(path)
	}
	name := cmp.Or(path, defaultFile)
	r.fd, err = os.Open(name)
	if errors.Is(err, os.ErrNotExist) && path == "" {
		return fmt.Errorf("no %s in this directory: record one with gperf record, or name one with -i", name)
	}
	if err == nil {
		err = in.confine(r.fd, stderr)
	}
	if err == nil {
		r.recording, err = archive.OpenRecording(r.fd, name)
	}
	return err
}

// openURL opens a recording or an archive on a server.
func (in *openInput) openURL(address string) error {
	f, err := archive.OpenRemote(context.Background(), address, archive.RemoteOptions{})
	if err == nil {
		in.recording, err = archive.OpenRecordingAt(f, f.Size(), f.Name(), f.Modified())
	}
	return err
}

func (in *openInput) Close() {
	if in.bar != nil && !in.shared {
		in.bar.End()
	}
	if in.session != nil && !in.shared {
		in.session.Symbols.Close()
	}
	if in.recording != nil {
		in.recording.Close()
	}
	in.fd.Close()
}

func (in *openInput) hasCallchains() bool { return in.has(format.SampleCallchain) }
func (in *openInput) hasBranches() bool   { return in.has(format.SampleBranchStack) }

// has reports whether samples of an event contain a field.
func (in *openInput) has(field format.SampleType) bool {
	return slices.ContainsFunc(in.recording.File.Attrs, func(a format.Attr) bool { return a.SampleType&field != 0 })
}

// recordedDepth returns the recording's limit of frames per callchain, but at least
// perfMaxStack.
func (in *openInput) recordedDepth() int {
	n := perfMaxStack
	for i := range in.recording.File.Attrs {
		n = max(n, int(in.recording.File.Attrs[i].SampleMaxStack))
	}
	return min(n, maxStack)
}

// warn prints the final warnings: lost, skipped and unknown records, and unresolved files.
// It returns errReported if the file is truncated, as perf exits with an error then, or if
// no part of it was usable.
func (in *openInput) warn(stderr io.Writer, skipped format.Skipped) error {
	l := input.Warnings{Lines: in.lines, Verbose: in.verbose, AsPerf: self == perfName}
	l.Add(in.finding(skipped))
	l.AddSymbols(in.session.Symbols)
	if l.Print(stderr, in.files.warnServers) {
		return errReported
	}
	return nil
}

// warnNoSamples says why a recording has no samples, unless warn says it. incomplete is the error of warn: in the
// missing part of a file, the events may have happened.
func (in *openInput) warnNoSamples(command string, incomplete error, stderr io.Writer) {
	if incomplete == nil && in.misses() == nil && !in.recording.File.Has(format.FeatureStat) {
		fmt.Fprintf(stderr, "gperf %s: %s has no samples: %s\n", command, in.recording.Path,
			input.NoSamples(in.recording.File))
	}
}

func (in *openInput) finding(skipped format.Skipped) input.Recording {
	return input.Recording{Path: in.recording.Path, Packed: in.recording.Packed != nil, Session: in.session,
		Weight: in.weight, Skipped: skipped, Misses: in.misses()}
}

// maxStack is the maximum number of frames of a recorded callchain. perfMaxStack is the
// number that perf shows by default, PERF_MAX_STACK_DEPTH.
const (
	maxStack     = 1024
	perfMaxStack = 127
)

const maxStackHelp = "limit callchains to `n` frames"

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/dso"
	"gperf/internal/parallel"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/symbolize"
)

// many reads several recordings, a few at a time. Those whose files are on this machine share the tables of symbols.
// A recording that cannot be read is reported, and left out.
type many struct {
	flags   *inputFlags
	stderr  io.Writer
	bar     *cli.Progress
	sources []source
	found   input.Warnings
	failed  int // number of recordings that could not be read
	// impossible has the recordings' results of key.Filter.Impossible.
	impossible [][]error
	// needsAll makes an error of one recording end the reading.
	needsAll bool

	tables  *symbolize.Shared // of archives
	mu      sync.Mutex
	files   *files
	symbols *symbolize.Symbolizer // of user DSOs
	kernels map[recordedKernel]*symbolize.Symbolizer
}

// source is a recording to read.
type source struct {
	path   string
	number int // among all of them, from 0
	origin session.Origin
	events []int      // see report.Merge
	open   *openInput // of a server or a pipe, which is opened once; nil for others
}

// recordedKernel identifies a boot of a kernel.
type recordedKernel struct {
	id   dso.BuildID
	ref  string
	addr uint64
}

// readMany opens the recordings one after the other, and describes them in order. describe may be nil; its error
// leaves the recording out.
func (in *inputFlags) readMany(paths []string, stderr io.Writer,
	describe func(*format.File) ([]int, error)) (*many, error) {
	input.TuneReading()
	flags := *in
	m := &many{flags: &flags, stderr: stderr, bar: cli.NewProgress("gperf", stderr, false),
		tables: symbolize.NewShared(), kernels: map[recordedKernel]*symbolize.Symbolizer{}}
	flags.many = m
	var origins session.Origins
	for i, path := range paths {
		m.bar.Report("opening recordings", i, len(paths))
		src := source{path: path, number: i}
		r := &openInput{verbose: in.verbose}
		err := in.openFile(r, path, stderr)
		if err == nil {
			src.origin, err = m.describe(r, &origins, &src, describe)
		}
		if err != nil {
			r.Close()
			if usage := (*cli.UsageError)(nil); in.strict || errors.As(err, &usage) {
				return nil, err
			}
			m.fail(err)
			continue
		}
		if r.reopens() {
			r.Close()
		} else {
			src.open = r
		}
		m.sources = append(m.sources, src)
	}
	if len(m.sources) == 0 {
		return nil, errNoneRead
	}
	if err := m.checkFilter(); err != nil {
		return nil, err
	}
	return m, nil
}

// reopens reports whether the recording can be opened again, without asking a server again.
func (in *openInput) reopens() bool {
	st, err := in.fd.Stat()
	return err == nil && (st.Mode().IsRegular() || st.IsDir())
}

// describe describes an open recording, and prints the defects.
func (m *many) describe(r *openInput, origins *session.Origins, src *source,
	describe func(*format.File) ([]int, error)) (o session.Origin, err error) {
	for _, w := range r.recording.File.Warnings {
		if m.flags.strict {
			return o, fmt.Errorf("%s: %w", r.recording.Path, w)
		}
		fmt.Fprintf(m.stderr, "gperf: %s: %v\n", r.recording.Path, w)
	}
	if describe != nil {
		if src.events, err = describe(r.recording.File); err != nil {
			return o, fmt.Errorf("%s: %w", r.recording.Path, err)
		}
	}
	o = origins.Of(r.recording.File, r.recording.Path)
	if text := m.flags.filters.where(); text != "" {
		f, err := key.NewFilter(r.recording.File, nil, text, o)
		if err != nil {
			return o, cli.WrongUse("--filter: %v", err)
		}
		m.impossible = append(m.impossible, f.Impossible())
	}
	return o, nil
}

// checkFilter returns why a comparison of --filter is impossible in all recordings. It reports one that is in some.
func (m *many) checkFilter() error {
	if len(m.impossible) == 0 {
		return nil
	}
	if err := key.FirstImpossible(m.impossible...); err != nil {
		return cli.WrongUse("--filter: %v", err)
	}
	n, why := 0, new(tracepoint.FilterError)
	for _, l := range m.impossible {
		if err := cmp.Or(l...); err != nil {
			n++
			errors.As(err, &why)
		}
	}
	if n > 0 {
		fmt.Fprintf(m.stderr, "gperf: --filter: in %d of %d recordings: %s\n", n, len(m.impossible), why.Msg)
	}
	return nil
}

// fail reports a recording that cannot be read.
func (m *many) fail(err error) {
	if m.failed++; m.failed <= input.MaxDamaged {
		fmt.Fprintf(m.stderr, "gperf: %v\n", err)
	}
}

// open opens a recording again, for the samples.
func (m *many) open(src *source) (r *openInput, err error) {
	if r = src.open; r == nil {
		r = &openInput{verbose: m.flags.verbose}
		err = m.flags.openFile(r, src.path, m.stderr)
	}
	src.open = nil
	if err == nil {
		r.origin, r.bar = src.origin, m.bar
		r.recording.File.Warnings = nil // describe printed them
		err = m.flags.prepare(r, io.Discard)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

var errNoneRead = errors.New("no recording could be read")

// symbolizer returns the shared Symbolizer for a recorded kernel. opts names the files.
func (m *many) symbolizer(opts symbolize.Options) *symbolize.Symbolizer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.symbols == nil {
		m.symbols = symbolize.New(opts)
	}
	k := recordedKernel{opts.KernelBuildID, opts.KernelRef, opts.KernelRefAddr}
	s := m.kernels[k]
	if s == nil {
		s = m.symbols.OfKernel(opts)
		m.kernels[k] = s
	}
	return s
}

// sharedFiles returns the files of this machine.
func (m *many) sharedFiles() *files {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = m.flags.files.open(nil, "", m.bar)
	}
	return m.files
}

// close ends the reading, and prints the warnings. It returns errReported if a recording was left out or is incomplete.
func (m *many) close() error {
	m.bar.End()
	for _, src := range m.sources {
		if src.open != nil {
			src.open.Close()
		}
	}
	if m.symbols != nil {
		m.found.AddSymbols(m.symbols)
		m.symbols.Close()
	}
	m.found.Verbose, m.found.AsPerf = m.flags.verbose, self == perfName
	var err error
	if m.found.Print(m.stderr, m.sharedFiles().warnServers) {
		err = errReported
	}
	if m.failed > 0 {
		fmt.Fprintf(m.stderr, "gperf: left out %d of %d recordings, which could not be read\n", m.failed,
			m.failed+m.found.Recordings)
		return errReported
	}
	return err
}

// countedOne is a recording whose samples were counted.
type countedOne[T any] struct {
	in      *openInput
	value   T
	skipped format.Skipped
	err     error
}

// countMany counts the samples of all recordings, of several at once, and merges the results in order. count and
// merge may use the recording until merge returns. An error of count leaves the recording out, except an error of the
// command line.
func countMany[T any](m *many, count func(*openInput, *source) (T, format.Skipped, error), merge func(*openInput,
	T)) error {
	one := func(i int) (r countedOne[T]) {
		if r.in, r.err = m.open(&m.sources[i]); r.err != nil {
			return r
		}
		r.value, r.skipped, r.err = count(r.in, &m.sources[i])
		r.err = r.in.recording.Wrap(r.err)
		return r
	}
	drop := func(r countedOne[T]) {
		if r.in != nil {
			r.in.Close()
		}
	}
	return parallel.InOrder(len(m.sources), one, func(i int, r countedOne[T]) error {
		m.bar.Report("reading recordings", i, len(m.sources))
		defer drop(r)
		if usage := (*cli.UsageError)(nil); r.err != nil && (m.needsAll || m.flags.strict || errors.As(r.err, &usage)) {
			return r.err
		}
		if r.err != nil {
			m.fail(r.err)
			return nil
		}
		merge(r.in, r.value)
		m.found.Add(r.in.finding(r.skipped))
		if !r.in.shared {
			m.found.AddSymbols(r.in.session.Symbols)
		}
		return nil
	}, drop)
}

// each reads the recordings one after the other. It leaves out a recording that use cannot read completely, and ends
// with other errors of use, for example of writing.
func (m *many) each(use func(*openInput, *source) (format.Skipped, error)) error {
	for i := range m.sources {
		in, err := m.open(&m.sources[i])
		if err != nil {
			m.fail(err)
			continue
		}
		skipped, err := use(in, &m.sources[i])
		if err == nil {
			m.found.Add(in.finding(skipped))
			if !in.shared {
				m.found.AddSymbols(in.session.Symbols)
			}
		}
		in.Close()
		switch damage := (*format.Error)(nil); {
		case err == nil:
		case !m.flags.strict && (errors.As(err, &damage) || errors.Is(err, io.ErrUnexpectedEOF)):
			m.fail(in.recording.Wrap(err))
		default:
			return in.recording.Wrap(err)
		}
	}
	return nil
}

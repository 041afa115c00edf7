package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/format"
	"gperf/internal/archive"
	"gperf/internal/session"
	"gperf/record/output"
	"gperf/symbolize"
)

// inputFlags holds the flags that script and report share: the file, filters of samples,
// and the sources of symbols.
type inputFlags struct {
	paths      []string
	noDemangle bool
	kallsyms   string
	files      fileFlags
	cpus       string
	pids, tids string
	comms      string
	times      string
	guests     bool
	strict     bool
	verbose    bool
}

// addTo adds the flags to a command, in groups.
func (in *inputFlags) addTo(c *cobra.Command) {
	addFlags(c, "Input", in.addFile)
	addFlags(c, "Symbols", in.addSymbols)
	addFlags(c, "Filters", in.addFilters)
}

// add adds the flags.
func (in *inputFlags) add(s *pflag.FlagSet) {
	in.addFile(s)
	in.addSymbols(s)
	in.addFilters(s)
}

func (in *inputFlags) addFile(s *pflag.FlagSet) {
	s.StringArrayVarP(&in.paths, "input", "i", nil, inputUsage)
	in.files.force = addForce(s)
	s.BoolVar(&in.strict, "strict", false, "stop at the first error in the file")
	s.BoolVarP(&in.verbose, "verbose", "v", false, "list all files without symbols; print more")
}

func (in *inputFlags) addSymbols(s *pflag.FlagSet) {
	s.BoolVar(&in.noDemangle, "no-demangle", false, "do not demangle C++ and Rust names")
	s.StringVar(&in.kallsyms, "kallsyms", "", "read kernel symbols from this `file`")
	in.files.add(s)
}

func (in *inputFlags) addFilters(s *pflag.FlagSet) {
	s.StringVarP(&in.cpus, "cpu", "C", "", "only samples of these CPUs, a `list` as 0,2-3")
	s.StringVar(&in.pids, "pid", "", "only samples of these PIDs, a `list`")
	s.StringVar(&in.tids, "tid", "", "only samples of these TIDs, a `list`")
	s.SetAnnotation("pid", bareKey, []string{"--" + barePID})
	s.SetAnnotation("tid", bareKey, []string{"--" + bareTID})
	s.StringVarP(&in.comms, "comms", "c", "", "only samples of threads with these names, a `list`")
	s.BoolVar(&in.guests, "guest", false, "samples of virtual machines, too, without symbols")
	s.StringVar(&in.times, "time", "", "only `ranges`: START,STOP in seconds, 10%-20% or 10%/2")
}

// input is an open recording.
type input struct {
	file    *format.File
	sym     *symbolize.Symbolizer
	lines   bool // the user asked for source lines
	verbose bool // list all files without symbols
	history *session.History
	files   *files
	keep    func(*session.Sample) bool // nil: all samples
	path    string
	closers []io.Closer
	// recorded is the modification time of the file.
	recorded time.Time
	// parts holds the recording's files: several for a directory, none for a pipe.
	parts     []archive.Part
	directory bool
	packed    *archive.Archive // the archive that holds the recording, or nil
	proc      string           // the directory written by perf record --kcore, or ""
}

// kallsyms returns the path of the recording's own copy of kallsyms, or "".
func (r *input) kallsyms() string {
	if r.proc == "" {
		return ""
	}
	return filepath.Join(r.proc, "kallsyms")
}

const defaultFile = "perf.data"

// inputs returns the recordings' paths; "" means the default one.
func (in *inputFlags) inputs() []string {
	if len(in.paths) == 0 {
		return []string{""}
	}
	return in.paths
}

// open opens the only recording and prints its warnings to stderr.
func (in *inputFlags) open(stderr io.Writer) (*input, error) {
	paths := in.inputs()
	if len(paths) > 1 {
		return nil, wrongUse("-i is given %d times: only --format folded, pprof and flamegraph merge recordings", len(paths))
	}
	return in.openPath(paths[0], stderr)
}

// openAll opens all recordings. On error, it also returns those that it opened before.
func (in *inputFlags) openAll(stderr io.Writer) (opened []*input, err error) {
	for _, path := range in.inputs() {
		r, err := in.openPath(path, stderr)
		if err != nil {
			return opened, err
		}
		opened = append(opened, r)
	}
	return opened, nil
}

func (in *inputFlags) openPath(path string, stderr io.Writer) (*input, error) {
	tuneGC()
	r := new(input)
	if err := r.openFile(path); err != nil {
		r.Close()
		return nil, err
	}
	if err := in.prepare(r, stderr); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// prepare sets up symbolizer, session and filters of an open file.
func (in *inputFlags) prepare(r *input, stderr io.Writer) (err error) {
	f := r.file
	for _, w := range f.Warnings {
		if in.strict {
			return fmt.Errorf("%s: %w", r.path, w)
		}
		fmt.Fprintf(stderr, "gperf: %s: %v\n", r.path, w)
	}
	f.Strict = in.strict
	r.verbose = in.verbose
	r.files = in.files.open(r.packed, stderr)
	id, ref, addr := session.RecordedKernel(f)
	r.sym = symbolize.New(symbolize.Options{Locator: &r.files.Locator, Demangle: !in.noDemangle,
		Kallsyms: cmp.Or(in.kallsyms, r.kallsyms()), Proc: r.proc, KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})
	r.closers = append(r.closers, r.sym)
	if r.keep, err = in.filter(f); err != nil {
		return err
	}
	r.history = session.New(f, r.sym)
	return nil
}

// openFile opens the recording at path: a file, a pipe, or a directory. Like perf, it reads
// stdin if path is "-", or if path is empty and stdin is a pipe.
func (r *input) openFile(path string) error {
	r.path = path
	if path == "" {
		r.path = defaultFile
		if st, err := os.Stdin.Stat(); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
			path = "-"
		}
	}
	if path == "-" {
		r.path = "stdin"
		return r.read(os.Stdin)
	}
	fd, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) && path == "" {
		return fmt.Errorf("no %s in this directory: record one with gperf record, or name one with -i", r.path)
	}
	if err != nil {
		return err
	}
	r.closers = append(r.closers, fd)
	return r.read(fd)
}

// read reads the beginning of an open recording.
func (r *input) read(fd *os.File) error {
	st, err := fd.Stat()
	if err != nil {
		return err
	}
	r.recorded = st.ModTime()
	switch {
	case st.IsDir():
		return r.readDir()
	case st.Mode().IsRegular():
		return r.at(r.readFile(fd))
	}
	return r.at(r.readPipe(fd))
}

func (r *input) readFile(fd *os.File) error {
	p, err := r.addPart(fd)
	if err != nil {
		return err
	}
	head := make([]byte, 4)
	if p.ReadAt(head, 0); archive.Is(head) {
		return r.readArchive(p)
	}
	r.file, err = format.Open(p, p.Size)
	return err
}

// readArchive reads the recording in an archive.
func (r *input) readArchive(p archive.Part) (err error) {
	if r.packed, err = archive.Open(p, p.Size); err != nil {
		return err
	}
	r.parts = r.packed.Recording()
	r.directory = len(r.parts) > 1
	r.recorded = r.parts[0].Changed
	if r.file, err = format.Open(r.parts[0], r.parts[0].Size); err != nil {
		return err
	}
	for _, p := range r.parts[1:] {
		r.file.AddData(p, p.Size)
	}
	return nil
}

// readPipe reads a pipe-mode recording from a pipe as it arrives. It first copies other
// formats to a temporary file.
func (r *input) readPipe(fd *os.File) error {
	b := bufio.NewReaderSize(fd, 1<<16)
	if head, _ := b.Peek(16); !format.FileMode(head) && !archive.Is(head) {
		var err error
		r.file, err = format.OpenStream(b)
		return err
	}
	spool, err := os.CreateTemp("", "gperf-")
	if err != nil {
		return err
	}
	r.closers = append(r.closers, spool)
	defer os.Remove(spool.Name())
	if _, err := b.WriteTo(spool); err != nil {
		return fmt.Errorf("copying the pipe to a temporary file: %w", err)
	}
	return r.readFile(spool)
}

// at adds the file's name to an error.
func (r *input) at(err error) error {
	var damage *format.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: truncated: %w", r.path, err)
	case errors.As(err, &damage) && !errors.Is(err, format.ErrNotPerfData):
		return fmt.Errorf("%s: damaged: %w", r.path, err)
	}
	return fmt.Errorf("%s: %w", r.path, err)
}

// addPart adds a file of the recording. The file must stay open until Close.
func (r *input) addPart(fd *os.File) (archive.Part, error) {
	st, err := fd.Stat()
	if err != nil {
		return archive.Part{}, err
	}
	p := archive.Part{ReaderAt: fd, Size: st.Size(), Changed: r.recorded}
	r.parts = append(r.parts, p)
	return p, nil
}

// readDir reads a directory written by perf record --threads or --kcore: data holds the
// header and perf's own records, data.0 and so on those of each thread.
func (r *input) readDir() error {
	r.directory = true
	proc := filepath.Join(r.path, output.DirKcore)
	if _, err := os.Stat(filepath.Join(proc, "kallsyms")); err == nil {
		r.proc = proc
	}
	for i := -1; ; i++ {
		path := filepath.Join(r.path, "data")
		if i >= 0 {
			path += "." + strconv.Itoa(i)
		}
		fd, err := os.Open(path)
		switch {
		case err == nil:
		case i < 0:
			return fmt.Errorf("%s: this directory is not a recording, it has no file data: %w", r.path, err)
		case errors.Is(err, os.ErrNotExist):
			return nil
		default:
			return err
		}
		r.closers = append(r.closers, fd)
		p, err := r.addPart(fd)
		if err != nil {
			return err
		}
		if i >= 0 {
			r.file.AddData(p, p.Size)
		} else if r.file, err = format.Open(p, p.Size); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (r *input) Close() {
	for _, c := range r.closers {
		c.Close()
	}
}

// hasCallchains reports whether an event was recorded with callchains.
func (in *input) hasCallchains() bool {
	return slices.ContainsFunc(in.file.Attrs, func(a format.Attr) bool { return a.SampleType&format.SampleCallchain != 0 })
}

// recordedDepth returns the recording's limit of frames per callchain, but at least
// perfMaxStack.
func (in *input) recordedDepth() int {
	n := perfMaxStack
	for i := range in.file.Attrs {
		n = max(n, int(in.file.Attrs[i].SampleMaxStack))
	}
	return min(n, maxStack)
}

// tell prints the final warnings: lost, skipped and unknown records, and unresolved files.
// It returns errReported if the file is truncated, as perf exits with an error then, or if
// no part of it was usable.
func (in *input) tell(stderr io.Writer, skipped format.Skipped) error {
	if lost := lostText(in.history.Lost); lost != "" {
		fmt.Fprintf(stderr, "gperf: %s while recording: use a larger ring (gperf record -m) or fewer events\n", lost)
	}
	if n := in.history.Unknown; n.Count > 0 {
		fmt.Fprintf(stderr, "gperf: skipped %d records of unknown types, the first: %v\n", n.Count, n.First)
	}
	if t := in.history.Traced; t.Records > 0 {
		fmt.Fprintf(stderr, "gperf: skipped %d AUXTRACE records with %d bytes of %s: gperf does not decode them, perf does\n", t.Records, t.Bytes, t.By)
	}
	if late := in.history.Late; late > 0 {
		fmt.Fprintf(stderr, "gperf: %d records arrived too late and may be out of order\n", late)
	}
	in.tellSkipped(stderr, skipped)
	in.files.tell(stderr)
	if in.history.Also.Names && in.history.KernelFrames() {
		if err := in.sym.KernelProblem(); err != nil {
			fmt.Fprintf(stderr, "gperf: no %v\n", err)
		}
	}
	in.tellUnresolved(stderr)
	damaged := skipped.Count > 0 || len(in.file.Warnings) > 0 && in.file.Complete
	if in.file.Truncated || damaged && in.history.Walked && in.history.Samples == 0 {
		return errReported
	}
	return nil
}

// lostText describes the lost samples and records in the words of record's summary, or
// returns "". LOST records count the same losses again, for all types of records.
func lostText(l session.Lost) string {
	samples := fmt.Sprintf("%d samples", l.Samples-l.SideBand)
	sideBand := fmt.Sprintf("%d other records (mappings, names of processes)", l.SideBand)
	switch {
	case l.Samples > 0 && l.SideBand == 0:
		return samples + " were lost"
	case l.Samples > 0 && l.SideBand == l.Samples:
		return sideBand + " were lost"
	case l.Samples > 0:
		return samples + " and " + sideBand + " were lost"
	case l.Records > 0:
		return fmt.Sprintf("%d records were lost in %d places", l.Records, l.Chunks)
	}
	return ""
}

func (in *input) tellSkipped(stderr io.Writer, skipped format.Skipped) {
	switch skipped.Count {
	case 0:
	case 1:
		fmt.Fprintf(stderr, "gperf: %s: damaged: 1 part was skipped: %v\n", in.path, skipped.First)
	default:
		fmt.Fprintf(stderr, "gperf: %s: damaged: %d parts were skipped, the first: %v\n", in.path, skipped.Count, skipped.First)
	}
}

// filter returns a function that reports whether a sample passes all filters, or nil if
// there are none.
func (in *inputFlags) filter(f *format.File) (func(*session.Sample) bool, error) {
	var tests []func(*session.Sample) bool
	if !in.guests {
		tests = append(tests, func(s *session.Sample) bool { return !s.Guest() })
	}
	if in.cpus != "" {
		cpus, err := format.ParseCPUList(in.cpus)
		if err != nil {
			return nil, wrongUse("--cpu %s: %v", in.cpus, err)
		}
		for i := range f.Attrs {
			if f.Attrs[i].SampleType&(format.SampleCPU) == 0 && !slices.Contains([]string{"dummy:u", "dummy"}, f.EventName(i)) {
				return nil, wrongUse("--cpu %s: samples of %q have no CPU: record with --sample-cpu or -a", in.cpus, f.EventName(i))
			}
		}
		tests = append(tests, func(s *session.Sample) bool { return slices.Contains(cpus, int(s.CPU)) })
	}
	for _, l := range [...]struct {
		flag, list string
		id         func(*session.Sample) int32
	}{
		{"--pid", in.pids, func(s *session.Sample) int32 { return s.PID }},
		{"--tid", in.tids, func(s *session.Sample) int32 { return s.TID }},
	} {
		if l.list == "" {
			continue
		}
		var ids []int32
		for word := range strings.SplitSeq(l.list, ",") {
			n, err := strconv.ParseInt(word, 10, 32)
			if err != nil {
				return nil, wrongUse("%s %s: %q is not an ID", l.flag, l.list, word)
			}
			ids = append(ids, int32(n))
		}
		tests = append(tests, func(s *session.Sample) bool { return slices.Contains(ids, l.id(s)) })
	}
	if in.comms != "" {
		comms := strings.Split(in.comms, ",")
		tests = append(tests, func(s *session.Sample) bool { return slices.Contains(comms, s.Comm) })
	}
	if in.times != "" {
		ranges, err := parseTimes(in.times, f.Uint64s(format.FeatureSampleTime, 2))
		if err != nil {
			return nil, wrongUse("--time %s: %v", in.times, err)
		}
		tests = append(tests, func(s *session.Sample) bool { return ranges.contain(s.Time) })
	}
	if len(tests) == 0 {
		return nil, nil
	}
	return func(s *session.Sample) bool {
		for _, test := range tests {
			if !test(s) {
				return false
			}
		}
		return true
	}, nil
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gperf/format"
	"gperf/record"
	"gperf/symbolize"
	"gperf/symbolize/dso"
	"gperf/symbolize/replay"
)

// inputFlags are what script and report share: which file, which of its
// samples, and how its addresses are named.
type inputFlags struct {
	path       string
	noDemangle bool
	kallsyms   string
	cpus       string
	pids, tids string
	comms      string
	times      string
}

func (in *inputFlags) add(fs *pflag.FlagSet) {
	fs.StringVarP(&in.path, "input", "i", "", "read this `file` instead of perf.data")
	fs.BoolVar(&in.noDemangle, "no-demangle", false, "show C++ and Rust names as the symbol tables have them")
	fs.StringVar(&in.kallsyms, "kallsyms", "", "take kernel symbols from this `file`")
	fs.StringVarP(&in.cpus, "cpu", "C", "", "only samples of these CPUs, a `list` such as 0,2-3")
	fs.StringVar(&in.pids, "pid", "", "only samples of these processes, a `list` of ids")
	fs.StringVar(&in.tids, "tid", "", "only samples of these threads, a `list` of ids")
	fs.StringVar(&in.comms, "comms", "", "only samples of threads with these names, a `list`")
	fs.StringVar(&in.times, "time", "", "only samples in these `ranges`: START,STOP in seconds, either may be missing; or 10%-20%, 10%/2")
}

// input is an open recording, ready to be walked through.
type input struct {
	file    *format.File
	sym     *symbolize.Symbolizer
	history *replay.History
	keep    func(*replay.Sample) bool // nil: all samples
	closer  io.Closer
	// recorded is when the file was last changed.
	recorded time.Time
}

const defaultFile = "perf.data"

// open opens the recording and tells on stderr what is wrong with it.
func (in *inputFlags) open(stderr io.Writer) (*input, error) {
	// Reading makes garbage at the rate of the file; memory is cheaper than
	// collecting it often.
	debug.SetGCPercent(400)
	path := in.path
	if path == "" {
		path = defaultFile
	}
	fd, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && in.path == "" {
		return nil, fmt.Errorf("there is no %s here: record one with gperf record, or name one with -i", path)
	}
	if err != nil {
		return nil, err
	}
	r, err := in.read(fd, path, stderr)
	if err != nil {
		fd.Close()
		return nil, err
	}
	return r, nil
}

func (in *inputFlags) read(fd *os.File, path string, stderr io.Writer) (*input, error) {
	st, err := fd.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	m, err := format.Map(fd)
	if err != nil {
		return nil, err
	}
	f, err := format.Open(m, m.Size())
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, w := range f.Warnings {
		fmt.Fprintf(stderr, "gperf: %s: %v\n", path, w)
	}
	id, ref, addr := replay.RecordedKernel(f)
	sym := symbolize.New(symbolize.Options{Finder: new(dso.Finder), Demangle: !in.noDemangle,
		Kallsyms: in.kallsyms, KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})
	keep, err := in.filter(f)
	if err != nil {
		return nil, err
	}
	// The kernel takes its time to list its symbols: meanwhile the file is read.
	go sym.KernelProblem()
	return &input{file: f, sym: sym, history: replay.New(f, sym), keep: keep, closer: fd, recorded: st.ModTime()}, nil
}

// hasCallchains tells whether an event was recorded with callchains.
func (in *input) hasCallchains() bool {
	return slices.ContainsFunc(in.file.Attrs, func(a format.Attr) bool { return a.SampleType&format.SampleCallchain != 0 })
}

// tell says at the end what the recording lost and what could not be used.
func (in *input) tell(stderr io.Writer, skipped format.Skipped) {
	if lost := in.history.Lost; lost.Samples > 0 {
		fmt.Fprintf(stderr, "gperf: %d samples were lost while recording: a larger ring (gperf record -m) or fewer events keep them\n", lost.Samples)
	} else if lost.Records > 0 {
		fmt.Fprintf(stderr, "gperf: %d records were lost in %d places while recording: a larger ring (gperf record -m) or fewer events keep them\n", lost.Records, lost.Chunks)
	}
	if skipped.Count > 0 {
		fmt.Fprintf(stderr, "gperf: %d parts of the file could not be used, the first: %v\n", skipped.Count, skipped.First)
	}
	if in.history.KernelFrames() {
		if err := in.sym.KernelProblem(); err != nil {
			fmt.Fprintf(stderr, "gperf: no kernel symbols: %v\n", err)
		}
	}
}

// filter makes of the flags one function that says whether a sample is wanted.
func (in *inputFlags) filter(f *format.File) (func(*replay.Sample) bool, error) {
	var tests []func(*replay.Sample) bool
	if in.cpus != "" {
		cpus, err := record.ParseCPUs(in.cpus)
		if err != nil {
			return nil, wrongUse("--cpu %s: %v", in.cpus, err)
		}
		for i := range f.Attrs {
			if f.Attrs[i].SampleType&(format.SampleCPU) == 0 && !slices.Contains([]string{"dummy:u", "dummy"}, f.EventName(i)) {
				return nil, wrongUse("--cpu %s: samples of %q do not carry a CPU: record with --sample-cpu or -a", in.cpus, f.EventName(i))
			}
		}
		tests = append(tests, func(s *replay.Sample) bool { return slices.Contains(cpus, int(s.CPU)) })
	}
	for _, l := range [...]struct {
		flag, list string
		id         func(*replay.Sample) int32
	}{
		{"--pid", in.pids, func(s *replay.Sample) int32 { return s.PID }},
		{"--tid", in.tids, func(s *replay.Sample) int32 { return s.TID }},
	} {
		if l.list == "" {
			continue
		}
		var ids []int32
		for word := range strings.SplitSeq(l.list, ",") {
			n, err := strconv.ParseInt(word, 10, 32)
			if err != nil {
				return nil, wrongUse("%s %s: %q is no id", l.flag, l.list, word)
			}
			ids = append(ids, int32(n))
		}
		tests = append(tests, func(s *replay.Sample) bool { return slices.Contains(ids, l.id(s)) })
	}
	if in.comms != "" {
		comms := strings.Split(in.comms, ",")
		tests = append(tests, func(s *replay.Sample) bool { return slices.Contains(comms, s.Comm) })
	}
	if in.times != "" {
		ranges, err := parseTimes(in.times, f.Uint64s(format.FeatureSampleTime, 2))
		if err != nil {
			return nil, wrongUse("--time %s: %v", in.times, err)
		}
		tests = append(tests, func(s *replay.Sample) bool { return ranges.contain(s.Time) })
	}
	if len(tests) == 0 {
		return nil, nil
	}
	return func(s *replay.Sample) bool {
		for _, test := range tests {
			if !test(s) {
				return false
			}
		}
		return true
	}, nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gperf/format"
	"gperf/record"
	"gperf/record/event"
)

// whyNoSamples returns why the recording that was just made contains no samples: the first reason that applies to all
// events.
func whyNoSamples(o *record.Options, path string) string {
	f, done := openRegular(path)
	defer done()
	var filtered, unmapped []string
	mapped := mappedFiles(f)
	for i := range o.Events {
		e := &o.Events[i]
		if e.Filter != "" {
			filtered = append(filtered, e.Name)
		}
		if file := probedFile(e); file != "" && f != nil && !mapped[file] {
			unmapped = append(unmapped, file)
		}
	}
	switch {
	case len(o.Events) > 0 && len(unmapped) == len(o.Events):
		slices.Sort(unmapped)
		return "no recorded process maps " + anyOf(slices.Compact(unmapped))
	case len(o.Events) > 0 && len(filtered) == len(o.Events):
		return anyOf(filtered) + filteredOut
	case f == nil:
		return neverHappened(nil, 0)
	}
	return noSamplesIn(f)
}

const filteredOut = " never happened, or the filter matched none of them"

// openRegular opens a recording in one file; it returns nil if path is none.
func openRegular(path string) (f *format.File, done func()) {
	fd, err := os.Open(path)
	if err != nil {
		return nil, func() {}
	}
	if st, err := fd.Stat(); err == nil && st.Mode().IsRegular() {
		f, _ = format.Open(fd, st.Size())
	}
	return f, func() { fd.Close() }
}

// neverHappened says that none of the events happened, or too seldom for a sample each period events.
func neverHappened(names []string, period uint64) string {
	isClock := func(name string) bool { return clockEvents.MatchString(name) }
	switch {
	case len(names) == 0:
		return "no event happened"
	case !slices.ContainsFunc(names, func(name string) bool { return !isClock(name) }):
		return "the recorded threads used too little CPU time for a sample of " + anyOf(names)
	case names[0] == event.OffCPU.Name:
		return "no wait began in the recorded threads"
	case period > 1:
		return fmt.Sprintf("%s happened less than %d times in each recorded thread", anyOf(names), period)
	}
	return anyOf(names) + " never happened in the recorded threads"
}

// clockEvents matches the events that happen as long as a thread runs.
var clockEvents = regexp.MustCompile(`^(cpu-clock|task-clock|cycles|cpu-cycles|cpu/cycles)`)

// anyOf returns the first of several names, and how many more there are.
func anyOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}

// ofProcess matches the root of a process in a path.
var ofProcess = regexp.MustCompile(`^/proc/[0-9]+/root/`)

// ofMapping matches the path of a file that a process maps, but that has another name now, or none.
var ofMapping = regexp.MustCompile(`^/proc/[0-9]+/map_files/`)

// probedFile returns the file of code of a probe without symbolic links, as mappings name it; "" for other events, and
// for a file that a process is known to map.
func probedFile(e *event.Event) string {
	if e.Probe == nil || e.Probe.Path == "" || ofMapping.MatchString(e.Probe.Path) {
		return ""
	}
	path := e.Probe.Path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return ofProcess.ReplaceAllString(path, "/")
}

// mappedFiles returns the files that the processes of a recording mapped.
func mappedFiles(f *format.File) map[string]bool {
	files := map[string]bool{}
	if f == nil {
		return files
	}
	for r := f.Records(); ; {
		raw, err := r.Next()
		if err != nil {
			return files
		}
		if raw.Type != format.TypeMmap && raw.Type != format.TypeMmap2 {
			continue
		}
		if rec, err := f.Record(raw); err == nil {
			if m, ok := rec.(*format.Mmap); ok {
				files[strings.Clone(m.Filename)] = true
			}
		}
	}
}

// noSamplesIn returns why a recording that is read contains no samples, as far as it says so.
func noSamplesIn(f *format.File) string {
	var names []string
	period := uint64(0)
	for i := range f.Attrs {
		a := &f.Attrs[i]
		if a.Type == format.TypeSoftware && a.Config == format.SWDummy {
			continue
		}
		names = append(names, f.EventName(i))
		if a.Flags&format.FlagFreq == 0 {
			period = max(period, a.SamplePeriod)
		}
	}
	isFilter := func(arg string) bool { return strings.HasPrefix(arg, "--filter") }
	if len(names) > 0 && slices.ContainsFunc(f.Cmdline(), isFilter) {
		return anyOf(names) + filteredOut
	}
	return neverHappened(names, period)
}

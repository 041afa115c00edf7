package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gperf/cmd/gperf/input"
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
		return "no recorded process maps " + input.AnyOf(slices.Compact(unmapped))
	case len(o.Events) > 0 && len(filtered) == len(o.Events):
		return input.AnyOf(filtered) + input.FilteredOut
	}
	return input.NoSamples(f)
}

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

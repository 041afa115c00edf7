package inspect

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gperf/format"
)

// Names of PMUs and tracepoints by number on the reading machine. perf uses these too, although the recording
// machine may number them differently. As in perf, SYSFS_PATH and TRACEFS_PATH are the mount points of sysfs and
// tracefs.

// pmuName returns the name of a PMU of this machine, "" if there is none of that type.
func pmuName(t uint32) string {
	dirs, _ := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("SYSFS_PATH"), "/sys"), "bus/event_source/devices/*"))
	core := false
	for _, dir := range dirs {
		if number(filepath.Join(dir, "type")) == strconv.FormatUint(uint64(t), 10) {
			return filepath.Base(dir)
		}
		core = core || isCorePMU(dir)
	}
	if !core && t == uint32(format.TypeRaw) {
		return "cpu" // perf's own, for a machine that shows no PMU of the CPUs
	}
	return ""
}

func isCorePMU(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cpus"))
	return err == nil || filepath.Base(dir) == "cpu"
}

// tracepointName returns the name of an event's tracepoint if the tracepoint's number on this machine is the same.
// perf looks only at this machine's numbers, and would otherwise print another name.
func tracepointName(f *format.File, a *format.Attr) string {
	if a.Type != format.TypeTracepoint {
		return ""
	}
	system, name, _ := strings.Cut(a.Name, ":")
	if f.Tracing != nil {
		if t := f.Tracing.Format(int(a.Config)); t != nil {
			system, name = t.System, t.Name
		}
	}
	if !filepath.IsLocal(system) || !filepath.IsLocal(name) {
		return ""
	}
	places := []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}
	if dir := os.Getenv("TRACEFS_PATH"); dir != "" {
		places = []string{dir}
	}
	for _, dir := range places {
		if number(filepath.Join(dir, "events", system, name, "id")) == strconv.FormatUint(a.Config, 10) {
			return system + ":" + name
		}
	}
	return ""
}

// number returns the contents of a file of one line, "" if unreadable.
func number(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

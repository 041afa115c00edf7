package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record/event"
)

// listIdle lists the flags of perf list without effect.
var listIdle = []cli.Idle{
	{Name: "cputype", Value: true, Why: "--unit chooses a PMU"},
	{Name: "debug", Why: "gperf list always prints the kinds that it cannot list"},
	{Name: "deprecated", Why: "gperf lists the kernel's events; none of them is deprecated"},
}

// metricWords lists perf list's words for metrics.
var metricWords = []string{"metric", "metrics", "metricgroup", "metricgroups"}

// withoutMetrics removes metricWords from args and prints a notice. only reports whether
// args held nothing else.
func withoutMetrics(args []string, stderr io.Writer) (rest []string, only bool) {
	rest = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return slices.Contains(metricWords, arg) })
	if len(rest) < len(args) {
		fmt.Fprintf(stderr, "gperf list: gperf has no metrics: "+
			"`perf list %s` lists them, `perf stat -M` computes them\n",
			args[slices.IndexFunc(args, func(arg string) bool { return slices.Contains(metricWords, arg) })])
	}
	return rest, len(rest) == 0 && len(args) > 0
}

// noPMU warns that a kind contains no events because there is no PMU.
func noPMU(kind event.ListKind, stderr io.Writer) {
	fmt.Fprintf(stderr, "gperf list: no %s events: this machine or virtual machine has no PMU; "+
		"cpu-clock, a timer, works on every machine\n", string(kind))
}

// ofPMU reports whether the events of a kind require a PMU.
func ofPMU(kind event.ListKind) bool { return kind == event.KindHardware || kind == event.KindCache }

// unit returns the PMU of an event by name in sysfs, or "".
func unit(e *event.Listed) string {
	switch e.Kind {
	case event.KindSoftware:
		return "software"
	case event.KindTracepoint, event.KindProbe:
		return "tracepoint"
	case event.KindPMU:
		pmu, _, _ := strings.Cut(e.Names[0], "/")
		return pmu
	}
	return ""
}

// encoding returns an event's encoding as perf list --details prints it, or "" if it is not
// a single event.
func (o *listFlags) encoding(e *event.Listed) string {
	switch {
	case e.Tracepoint != "":
		id, err := o.lister.Tracefs.Read("events/" + e.Tracepoint + "/id")
		n, nerr := strconv.ParseUint(strings.TrimSpace(string(id)), 10, 64)
		if err != nil || nerr != nil {
			return ""
		}
		return configOf("tracepoint", n)
	case e.Kind == event.KindPMU:
		return unit(e) + "/" + e.Terms + "/"
	case e.Event == nil || e.Kind == event.KindRaw:
		return ""
	}
	name := map[format.EventType]string{format.TypeHardware: "hardware", format.TypeSoftware: "software",
		format.TypeHWCache: "hw-cache"}[e.Event.Type]
	return configOf(name, e.Event.Config)
}

func configOf(pmu string, config uint64) string {
	if config < 10 {
		return fmt.Sprintf("%s/config=%d/", pmu, config)
	}
	return fmt.Sprintf("%s/config=%#x/", pmu, config)
}

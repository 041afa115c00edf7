package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/record/event"
)

// listIdleFlags are flags of perf list that change nothing here.
var listIdleFlags = []idleFlag{
	{name: "debug", why: "gperf list prints what it could not list"},
	{name: "deprecated", why: "gperf lists the events that the kernel names, none of which is deprecated"},
}

// metricWords are perf list's words for what is computed of counts.
var metricWords = []string{"metric", "metrics", "metricgroup", "metricgroups"}

// withoutMetrics takes the words for metrics out, with a notice.
func withoutMetrics(args []string, stderr io.Writer) (rest []string, only bool) {
	rest = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return slices.Contains(metricWords, arg) })
	if len(rest) < len(args) {
		fmt.Fprintf(stderr, "gperf list: metrics are computed of counts, and gperf records samples: `perf list %s` lists them, `perf stat -M` counts them\n",
			args[slices.IndexFunc(args, func(arg string) bool { return slices.Contains(metricWords, arg) })])
	}
	return rest, len(rest) == 0 && len(args) > 0
}

// noPMU reports that a kind lacks because there is no PMU.
func noPMU(kind event.ListKind, stderr io.Writer) {
	fmt.Fprintf(stderr, "gperf list: no %s events: this machine, or the virtual machine it is, has no PMU; cpu-clock, a timer, is there everywhere\n", string(kind))
}

// ofPMU tells the kinds that a machine's PMU has.
func ofPMU(kind event.ListKind) bool { return kind == event.KindHardware || kind == event.KindCache }

// unit is the PMU of an event, as sysfs calls it; "" where it has none.
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

// encoding is what an event is to the kernel, as perf list --details has it; "" where
// that is not one event.
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
	name := map[format.EventType]string{format.TypeHardware: "hardware", format.TypeSoftware: "software", format.TypeHWCache: "hw-cache"}[e.Event.Type]
	return configOf(name, e.Event.Config)
}

func configOf(pmu string, config uint64) string {
	if config < 10 {
		return fmt.Sprintf("%s/config=%d/", pmu, config)
	}
	return fmt.Sprintf("%s/config=%#x/", pmu, config)
}

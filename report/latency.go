package report

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/text"
)

// Latency profiles: a sample's latency is the sample's part of the time that passed, which is
// the period divided by the number of threads that ran at the time.

// errNoSwitches: latency or parallelism needs context switches, but there are none.
var errNoSwitches = errors.New("latency and parallelism need context switches: record with --latency")

// latencyUnit is perf's: quotients are rounded down.
const latencyUnit = 1000

var parallelismKey = numberKey{
	name:  "parallelism",
	head:  "Parallelism",
	min:   11,
	value: func(x *extra) uint64 { return x.parallelism },
	text: func(b []byte, e *Entry) []byte {
		n := strconv.FormatUint(e.extra.parallelism, 10)
		return append(text.AppendBlanks(b, len("Parallelism")-len(n)), n...)
	},
}.key()

func latency(s *Stat) uint64 { return s.Latency }

// isLatency reports whether a column is a latency.
func isLatency(k *SortKey) bool { return k.Name == "latency" || k.Name == "latency_children" }

// latencyMode says whether latencies are shown, and whether as the first columns.
type latencyMode int

const (
	latencyOff latencyMode = iota
	latencyShown
	latencyFirst
)

// latencyOf returns how the report of f shows latencies; the error is errNoSwitches.
func (o *Options) latencyOf(f *format.File) (latencyMode, error) {
	switches := slices.ContainsFunc(f.Attrs, func(a format.Attr) bool { return a.Flags&format.FlagContextSwitch != 0 })
	switch {
	case !switches && (o.Latency || o.Filter.Parallelism != nil || asksLatency(o.Sort) || asksLatency(o.Fields)):
		return latencyOff, errNoSwitches
	case !switches:
		return latencyOff, nil
	case o.Latency:
		return latencyFirst, nil
	}
	return latencyShown, nil
}

func asksLatency(words string) bool {
	return strings.Contains(words, "latency") || strings.Contains(words, "parallelism")
}

// mostlySerial is the minimum share, in percent, of samples taken while one thread ran, from
// which latencies are not shown: they equal the periods.
const mostlySerial = 99

// dropLatency removes the columns of latencies if they show nothing new, unless the
// options name them.
func (ls *layouts) dropLatency(opts *Options, samples, serial uint64) {
	for _, l := range ls.list {
		l.dropLatency(opts, samples, serial)
	}
}

func (l *layout) dropLatency(opts *Options, samples, serial uint64) {
	if l.latency != latencyShown || isStrict(opts.Fields) || strings.Contains(opts.Sort, "latency") ||
		samples == 0 || serial*100/samples < mostlySerial {
		return
	}
	l.columns = slices.DeleteFunc(l.columns, isLatency) // they still sort
}

// isStrict reports whether --fields names all columns.
func isStrict(fields string) bool { return fields != "" && fields[0] != '+' }

// overheadWords puts the words of the overheads before the keys, as setup_overhead of
// tools/perf/util/sort.c does.
func (l *layout) overheadWords(words string, children bool) string {
	prefix := func(word string) {
		if !strings.Contains(words, word) {
			words = word + "," + words
		}
	}
	switch {
	case l.latency == latencyFirst:
		prefix("overhead")
		prefix("latency")
		if children {
			prefix("overhead_children")
			prefix("latency_children")
		}
	case strings.Contains(words, "overhead") || strings.Contains(words, "latency"):
	default:
		if l.latency == latencyShown {
			prefix("latency")
		}
		prefix("overhead")
		if children && l.latency == latencyShown {
			prefix("latency_children")
		}
		if children {
			prefix("overhead_children")
		}
	}
	return words
}

// overheadColumns are the names of the overheads' columns, in order.
func (l *layout) overheadColumns(children bool) (names []string) {
	add := func(overhead, latency string) {
		switch l.latency {
		case latencyFirst:
			names = append(names, latency, overhead)
		case latencyShown:
			names = append(names, overhead, latency)
		default:
			names = append(names, overhead)
		}
	}
	if children {
		add("overhead_children", "latency_children")
	}
	add("overhead", "latency")
	return names
}

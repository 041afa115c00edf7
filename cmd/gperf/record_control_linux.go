package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/inspect"
	"gperf/record"
)

// controlFlags choose rings, clock, and when gperf record records.
type controlFlags struct {
	pages   string
	delay   string
	clock   string
	control string
}

func (f *controlFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.StringVarP(&f.pages, "mmap-pages", "m", "", "ring `size` per CPU: pages, or bytes with K, M, G")
	s.BoolVar(&o.Overwrite, "overwrite", false, "keep the newest samples; write on SIGUSR2 and the end")
	s.BoolVar(&o.NoBuffering, "no-buffering", false, "read each sample from the ring immediately")
	s.IntVarP(&o.Realtime, "realtime", "r", 0, "record with this SCHED_FIFO `priority`")
	s.StringVarP(&f.delay, "delay", "D", "", "start after this many `ms`; -1: disabled; 10-20: range")
	s.StringVarP(&f.clock, "clockid", "k", "", "use this `clock`: monotonic, realtime, boottime, tai")
	s.StringVar(&f.control, "control", "", "read commands from `fd:N[,N]` or fifo:PATH[,PATH]")
}

func (f *controlFlags) apply(o *record.Options) (err error) {
	if err := f.applyDelay(o); err != nil {
		return err
	}
	if f.pages != "" {
		if err := f.applyPages(o); err != nil {
			return err
		}
	}
	if f.clock != "" {
		id, ok := clockID(f.clock)
		if !ok {
			return cli.WrongUse("unknown clock %q, use %s", f.clock, strings.Join(clockNames(), ", "))
		}
		o.Samples.UseClockID, o.Samples.ClockID = true, id
	}
	if f.control != "" {
		if o.Control, err = record.ParseControl(f.control); err != nil {
			return cli.WrongUse("--control: %v", err)
		}
	}
	return nil
}

func (f *controlFlags) applyPages(o *record.Options) error {
	size, aux, both := strings.Cut(f.pages, ",")
	if both {
		o.Notice(fmt.Errorf("-m %s: gperf records no AUX areas, their size (%s) has no effect", f.pages, aux))
	}
	pages, rounded, err := record.ParsePages(size)
	if err != nil {
		return cli.WrongUse("-m: %v", err)
	}
	if rounded {
		o.Notice(fmt.Errorf("rounding the rings' size to %d pages, a power of 2", pages))
	}
	o.Pages = pages
	return nil
}

// applyDelay applies -D: ms, -1, or comma-separated ranges.
func (f *controlFlags) applyDelay(o *record.Options) error {
	if f.delay == "" {
		return nil
	}
	if n, err := strconv.ParseInt(f.delay, 10, 32); err == nil && n >= -1 {
		o.Delay = time.Duration(n) * time.Millisecond
		return nil
	}
	var times []time.Duration
	for part := range strings.SplitSeq(f.delay, ",") {
		from, to, _ := strings.Cut(part, "-")
		for _, word := range []string{from, to} {
			n, err := strconv.ParseUint(word, 10, 31)
			if err != nil {
				return cli.WrongUse("-D %s: invalid delay, use ms, -1, or ranges such as 10-20,30-40", f.delay)
			}
			times = append(times, time.Duration(n)*time.Millisecond)
		}
	}
	if !slices.IsSorted(times) || times[0] == 0 {
		return cli.WrongUse("-D %s: ranges must start after 0 and be in ascending order", f.delay)
	}
	o.Delay, o.Pauses = times[0], times[1:]
	return nil
}

// clocks lists the clocks that the kernel accepts as attr.clockid, with perf's short names.
var clocks = []struct {
	name, short string
	id          int32
}{
	{"monotonic", "mono", unix.CLOCK_MONOTONIC},
	{"monotonic_raw", "raw", unix.CLOCK_MONOTONIC_RAW},
	{"realtime", "real", unix.CLOCK_REALTIME},
	{"boottime", "boot", unix.CLOCK_BOOTTIME},
	{"tai", "tai", unix.CLOCK_TAI},
}

func clockID(s string) (int32, bool) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n), true
	}
	s = strings.TrimPrefix(strings.ToLower(s), "clock_")
	for _, c := range clocks {
		if s == c.name || s == c.short {
			return c.id, true
		}
	}
	return 0, false
}

func clockNames() (l []string) {
	for _, c := range clocks {
		l = append(l, c.name)
	}
	return l
}

// listEvents prints the events of a running recording, with the flags of evlist.
func listEvents(attrs []format.Attr, flags string, stderr io.Writer) {
	var o evlistFlags
	s := pflag.NewFlagSet("evlist", pflag.ContinueOnError)
	o.add(s)
	if err := s.Parse(strings.Fields(flags)); err != nil {
		fmt.Fprintln(stderr, "failed: wrong command")
		return
	}
	w := bufio.NewWriter(stderr)
	inspect.Events(w, &format.File{Attrs: attrs}, o.EventOptions)
	w.Flush()
}

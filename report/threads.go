package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
)

// ThreadCounts says how the counts of events in each thread, which PERF_RECORD_READ
// has, are listed.
type ThreadCounts int

const (
	ThreadsOff    ThreadCounts = iota
	ThreadsPretty              // a line for each thread
	ThreadsRaw                 // one line, with the events' numbers
)

// threadCounts are the counts by thread and by event, in the order of the records.
type threadCounts struct {
	threads []threadID
	events  []int
	counts  map[threadID]map[int]uint64 // by event
}

type threadID struct{ pid, tid int32 }

// add adds the counts that records have.
func (c *threadCounts) add(records []session.Record) {
	for i := range records {
		r, ok := records[i].Record.(*format.Read)
		if !ok || len(r.Values.Values) == 0 {
			continue
		}
		if c.counts == nil {
			c.counts = map[threadID]map[int]uint64{}
		}
		th, event := threadID{r.PID, r.TID}, records[i].Event
		if c.counts[th] == nil {
			c.threads = append(c.threads, th)
			c.counts[th] = map[int]uint64{}
		}
		if !slices.Contains(c.events, event) {
			c.events = append(c.events, event)
		}
		c.counts[th][event] += r.Values.Values[0].Value
	}
}

// print writes the counts as tools/perf/util/values.c does.
func (c *threadCounts) print(out io.Writer, f *format.File, how ThreadCounts) error {
	w := bufio.NewWriter(out)
	pid, tid := len("PID"), len("TID")
	for _, th := range c.threads {
		pid, tid = max(pid, digits(th.pid)), max(tid, digits(th.tid))
	}
	if how == ThreadsRaw {
		c.printRaw(w, f, pid, tid)
	} else {
		c.printPretty(w, f, pid, tid)
	}
	return w.Flush()
}

func (c *threadCounts) printPretty(w *bufio.Writer, f *format.File, pid, tid int) {
	widths := make([]int, len(c.events))
	fmt.Fprintf(w, "# %*s  %*s", pid, "PID", tid, "TID")
	for i, event := range c.events {
		name := f.EventName(event)
		widths[i] = max(len(name), c.width(event))
		fmt.Fprintf(w, "  %*s", widths[i], name)
	}
	fmt.Fprintln(w)
	for _, th := range c.threads {
		fmt.Fprintf(w, "  %*d  %*d", pid, th.pid, tid, th.tid)
		for i, event := range c.events {
			fmt.Fprintf(w, "  %*d", widths[i], c.counts[th][event])
		}
		fmt.Fprintln(w)
	}
}

// printRaw writes one line, as perf does.
func (c *threadCounts) printRaw(w *bufio.Writer, f *format.File, pid, tid int) {
	name, raw, count := len("Name"), len("Raw"), len("Count")
	for _, event := range c.events {
		name, raw, count = max(name, len(f.EventName(event))), max(raw, len(fmt.Sprintf("%x", event))),
			max(count, c.width(event))
	}
	fmt.Fprintf(w, "# %*s  %*s  %*s  %*s  %*s\n", pid, "PID", tid, "TID", name, "Name", raw, "Raw", count, "Count")
	for _, th := range c.threads {
		for _, event := range c.events {
			fmt.Fprintf(w, "  %*d  %*d  %*s  %*x  %*d", pid, th.pid, tid, th.tid, name, f.EventName(event), raw,
				event, count, c.counts[th][event])
		}
	}
}

// width returns the width of the event's widest count.
func (c *threadCounts) width(event int) (n int) {
	for _, th := range c.threads {
		n = max(n, digits(c.counts[th][event]))
	}
	return n
}

func digits[T cmp.Ordered](v T) int { return len(fmt.Sprint(v)) }

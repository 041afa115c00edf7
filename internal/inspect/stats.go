package inspect

import (
	"bufio"
	"fmt"
	"io"

	"gperf/format"
	"gperf/internal/session"
)

// stats counts a file's records as `perf report --stats` does.
type stats struct {
	types  [format.TypePerfEnd]int
	total  int
	events []eventStats
}

// eventStats counts what came of one event.
type eventStats struct{ samples, lost, dropped uint64 }

// Stats prints how many records of each type f has, and how many samples each
// event. h is new. What could not be used of the file is in the result, and not
// counted.
func Stats(w io.Writer, f *format.File, h *session.History) (format.Skipped, error) {
	st := stats{events: make([]eventStats, len(f.Attrs))}
	reader := f.RecordsAsWritten()
	var skipped format.Skipped
	for {
		raw, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = st.add(f, h, raw)
			raw.Release()
			if err != nil && !f.Strict {
				skipped.Add(err)
				continue
			}
		}
		if err != nil {
			return skipped, err
		}
	}
	skipped.Merge(reader.Skipped)
	out := bufio.NewWriter(w)
	st.print(out, f)
	return skipped, out.Flush()
}

// minEventType is the size of an EVENT_TYPE record's body below which perf
// passes it over; older perfs wrote shorter ones.
const minEventType = 72

func (st *stats) add(f *format.File, h *session.History, raw format.Raw) error {
	if raw.Type >= format.TypePerfEnd || raw.Type == format.TypeHeaderEventType && len(raw.Data) < minEventType {
		return nil
	}
	if err := st.addEvent(f, h, raw); err != nil {
		return err
	}
	st.types[raw.Type]++
	st.total++
	return nil
}

// addEvent counts what a record says of an event, if it does.
func (st *stats) addEvent(f *format.File, h *session.History, raw format.Raw) error {
	if raw.Type == format.TypeSample {
		var s format.Sample
		if err := f.Sample(raw, &s); err != nil {
			return err
		}
		if s.Read.Len() == 0 {
			st.events[s.Event].samples++
			return nil
		}
		h.Counted(f, &s, func() { st.events[s.Event].samples++ })
		return nil
	}
	rec, err := f.Record(raw)
	if err != nil {
		return err
	}
	if lost, ok := rec.(*format.LostSamples); ok {
		_, i := f.RecordID(raw)
		if lost.Misc&format.MiscLostSamplesBPF != 0 {
			st.events[i].dropped += lost.Lost
		} else {
			st.events[i].lost += lost.Lost
		}
	}
	return nil
}

// print follows events_stats__fprintf of tools/perf.
func (st *stats) print(w *bufio.Writer, f *format.File) {
	about := ""
	if f.Has(format.FeatureAuxtrace) {
		about = " (excludes AUX area (e.g. instruction trace) decoded / synthesized events)"
	}
	fmt.Fprintf(w, "\nAggregated stats:%s\n", about)
	printCount(w, "TOTAL", uint64(st.total))
	for t, n := range st.types {
		if t > 0 && n > 0 {
			fmt.Fprintf(w, "%20s events: %10d  (%4.1f%%)\n", format.Type(t), n, 100*float64(n)/float64(st.total))
		}
	}
	for i, e := range st.events {
		if e == (eventStats{}) {
			continue
		}
		fmt.Fprintf(w, "%s stats:\n", f.EventName(i))
		printCount(w, "SAMPLE", e.samples)
		printCount(w, "LOST_SAMPLES", e.lost)
		printCount(w, "LOST_SAMPLES (BPF)", e.dropped)
	}
}

func printCount(w *bufio.Writer, what string, n uint64) {
	if n > 0 {
		fmt.Fprintf(w, "%20s events: %10d\n", what, n)
	}
}

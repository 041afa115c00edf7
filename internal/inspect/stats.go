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

// eventStats counts the samples of one event.
type eventStats struct{ samples, lost, dropped uint64 }

// Stats prints the number of records of each type, and of samples of each event. The
// result counts the skipped parts of the file.
func Stats(w io.Writer, s *session.Session) (format.Skipped, error) {
	f := s.File
	st := stats{events: make([]eventStats, len(f.Attrs))}
	reader := f.RecordsAsWritten()
	var skipped format.Skipped
	for {
		raw, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = st.add(s, raw)
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
// skips the record; older perfs wrote shorter ones.
const minEventType = 72

func (st *stats) add(s *session.Session, raw format.Raw) error {
	if raw.Type >= format.TypePerfEnd || raw.Type == format.TypeHeaderEventType && len(raw.Data) < minEventType {
		return nil
	}
	if err := st.addEvent(s, raw); err != nil {
		return err
	}
	st.types[raw.Type]++
	st.total++
	return nil
}

// addEvent counts a sample, or the lost samples of an event.
func (st *stats) addEvent(s *session.Session, raw format.Raw) error {
	f := s.File
	if raw.Type == format.TypeSample {
		var sample format.Sample
		if err := f.Sample(raw, &sample); err != nil {
			return err
		}
		if sample.Read.Len() == 0 {
			st.events[sample.Event].samples++
			return nil
		}
		s.Counted(&sample, func() { st.events[sample.Event].samples++ })
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

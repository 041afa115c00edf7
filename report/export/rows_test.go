package export

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"gperf/internal/session"
	"gperf/internal/testutil/recording"
	"gperf/report/key"
)

// written is when the recordings of the tests were written.
var written = time.Date(2026, 5, 4, 12, 30, 0, 5, time.UTC)

// openRows returns one of the project's recordings. Names come from the recording's list of the kernel's, and from no
// file.
func openRows(t *testing.T, name string, o RowOptions) *Rows {
	t.Helper()
	r, err := NewRows(recording.Open(t, name, written), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns the rows of a recording, at most max of which are passed on at a time.
func read(t *testing.T, r *Rows, max int) (all []Row) {
	t.Helper()
	if err := r.findOffset(); err != nil {
		t.Fatal(err)
	}
	in := newReader(r, func(rows []Row) error {
		if len(rows) > max {
			t.Errorf("%d rows at a time, more than %d", len(rows), max)
		}
		for _, row := range rows {
			row.Values = slices.Clone(row.Values)
			all = append(all, row)
		}
		return nil
	})
	in.max = max
	if _, err := r.session.Walk(session.WalkOptions{Names: true, KeepChains: true}, in.batch); err != nil {
		t.Fatal(err)
	}
	if err := in.flush(); err != nil {
		t.Fatal(err)
	}
	return all
}

// texts returns a stack's functions, innermost first.
func (s *Stacks) texts(i int32) (names []string) {
	for _, f := range s.Stacks[i] {
		names = append(names, s.Frames[f].Function)
	}
	return names
}

// sums adds up rows by the members that distinguish minutes, except fields.
func sums(r *Rows, rows []Row) map[string][2]int64 {
	m := map[string][2]int64{}
	for _, row := range rows {
		k := fmt.Sprint(r.Events[row.Event].Name, minute(row.Time), row.Comm, row.PID, r.texts(row.Stack))
		m[k] = [2]int64{m[k][0] + row.Samples, m[k][1] + row.Weight}
	}
	return m
}

// TestMinutes: rows of minutes add up to the rows of samples, however many are in memory.
func TestMinutes(t *testing.T) {
	samples := openRows(t, "two.data", RowOptions{Samples: true})
	rows := read(t, samples, maxRows)
	want := sums(samples, rows)
	for _, max := range []int{1, 7, maxRows} {
		minutes := openRows(t, "two.data", RowOptions{})
		found := read(t, minutes, max)
		if got := sums(minutes, found); !maps.Equal(got, want) {
			t.Errorf("at most %d rows: %v; samples: %v", max, got, want)
		}
		if max == maxRows && len(found) >= len(rows) {
			t.Errorf("%d rows of minutes, %d of samples", len(found), len(rows))
		}
		for _, row := range found {
			if row.TID != -1 || row.CPU != -1 || row.Time%int64(time.Minute) != 0 {
				t.Fatalf("row of a minute: %+v", row)
			}
		}
	}
}

// TestSamples: a row contains all that the recording says of a sample.
func TestSamples(t *testing.T) {
	r := openRows(t, "drops.data", RowOptions{Samples: true})
	rows := read(t, r, maxRows)
	if len(rows) != 5 || r.Host != "vm" || !r.Estimated || len(r.Stacks.Stacks) != 1 {
		t.Fatalf("%d rows, host %q, estimated %v, %d stacks", len(rows), r.Host, r.Estimated, len(r.Stacks.Stacks))
	}
	if e := r.Events[0]; e.Name != "skb:kfree_skb" || e.Unit != "count" || !slices.Contains(e.Columns,
		key.Column{Key: "protocol", Unsigned: true}) ||
		!slices.Contains(e.Columns, key.Column{Key: "reason", Unsigned: true}) {
		t.Errorf("event %+v", e)
	}
	last := rows[4]
	if last.Time != written.UnixNano() || last.Comm != "drops" || last.CPU < 0 || last.TID != last.PID ||
		last.Weight != 1 {
		t.Errorf("last row: %+v", last)
	}
	i := slices.IndexFunc(last.Values, func(v key.Value) bool { return v.Key == "reason" })
	if i < 0 || last.Values[i].Text != "NO_SOCKET" {
		t.Errorf("values %+v", last.Values)
	}
	if f := r.Frames[r.Stacks.Stacks[0][0]]; f.Function != "sk_skb_reason_drop" || f.Kind != kernelFrame ||
		f.DSO != "[kernel.kallsyms]" {
		t.Errorf("innermost frame %+v", f)
	}
	outermost := r.Frames[r.Stacks.Stacks[0][len(r.Stacks.Stacks[0])-1]]
	if outermost.Kind != userFrame || outermost.Function == "" {
		t.Errorf("outermost frame %+v", outermost)
	}
}

// TestClock: times follow from the recording's CLOCK_DATA, or from the times of the file and of the last sample.
func TestClock(t *testing.T) {
	for _, c := range []struct {
		name      string
		estimated bool
		last      time.Time // zero: the time of CLOCK_DATA
		first     bool      // it is the time of the first sample
	}{
		{name: "spans.data"},
		{name: "two.data", estimated: true, last: written},
		{name: "threads.data", estimated: true, last: written},
		{name: "records.data", estimated: true, last: written},
		{name: "drops.perf.pipe.data", estimated: true, last: written, first: true},
	} {
		r := openRows(t, c.name, RowOptions{Samples: true})
		want := c.last
		if d, ok := r.session.File.ClockData(); ok != !c.estimated {
			t.Errorf("%s: CLOCK_DATA: %v", c.name, ok)
		} else if ok {
			want = time.Unix(0, int64(d.TimeOfDay))
		}
		rows := read(t, r, maxRows)
		at := rows[len(rows)-1]
		if c.first {
			at = rows[0]
		}
		got := time.Unix(0, at.Time)
		if r.Estimated != c.estimated || got.Sub(want).Abs() > time.Second || c.estimated && !got.Equal(want) {
			t.Errorf("%s: estimated %v, %v; want %v, %v", c.name, r.Estimated, got, c.estimated, want)
		}
	}
}

// TestReadEnds: an error of the caller ends Read.
func TestReadEnds(t *testing.T) {
	full := fmt.Errorf("disk full")
	if _, err := openRows(t, "two.data", RowOptions{}).Read(func([]Row) error { return full }); err != full {
		t.Errorf("error %v", err)
	}
}

package export

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/recording"
)

// openClickHouse returns one of the project's recordings. Names come from the recording's list of the kernel's, and
// from no file.
func openClickHouse(t *testing.T, name string, o RowOptions) *Rows {
	t.Helper()
	r, err := NewRows(recording.Open(t, name, time.Unix(1_800_000_000, 0)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// encoded returns the lines of a recording's inserts, in order, as TABLE LINE.
func encoded(t *testing.T, r *Rows, o ClickHouseOptions) (lines []string) {
	t.Helper()
	_, err := EncodeClickHouse(r, o, func(i *ClickHouseInsert) error {
		list := slices.Collect(strings.Lines(string(i.Body)))
		if len(list) != i.Rows {
			t.Errorf("%s: %d rows, %d lines", i.Query(), i.Rows, len(list))
		}
		for _, line := range list {
			lines = append(lines, i.Table+" "+line)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// object is a row of any table.
type object struct {
	ID       uint64
	Frames   []uint64
	Function string
	Stack    uint64
	Number   *int
	Time     int64
	Host     string
	Names    []string `json:"fields.name"`
	Values   []string `json:"fields.value"`
	Labels   []string `json:"labels.value"`
	Samples  int
	Cgroup   string
}

// TestEncode: samples refer to stacks and frames that come before them, with the values of the recording.
func TestEncode(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples int
		has     string // in a sample
	}{
		{"drops.data", 5, `"fields.name":["skbaddr",`},
		{"two.data", 80, `"event":"cpu-clock"`},
		{"threads.data", 21, `"cgroup":"/`},
	} {
		o := ClickHouseOptions{Recording: "R", Service: "shop", Labels: [][2]string{{"version", "1 \"2\""}}}
		lines := encoded(t, openClickHouse(t, c.name, RowOptions{Samples: true}), o)
		known, number := map[uint64]bool{}, 0
		for _, line := range lines {
			table, text, _ := strings.Cut(line, " ")
			var one object
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, line)
			}
			refers := one.Frames
			if table == "samples" {
				refers = []uint64{one.Stack}
				if one.Number == nil || *one.Number != number || one.Time%60 != 0 ||
					len(one.Names) != len(one.Values) ||
					!slices.Equal(one.Labels, []string{"1 \"2\""}) {
					t.Fatalf("%s: sample %d: %s", c.name, number, text)
				}
				number++
			} else if known[one.ID] {
				t.Errorf("%s: %s has ID %d twice", c.name, table, one.ID)
			}
			for _, id := range refers {
				if !known[id] {
					t.Fatalf("%s: unknown ID %d in %s", c.name, id, line)
				}
			}
			known[one.ID] = true
		}
		if number != c.samples || !strings.Contains(strings.Join(lines, ""), c.has) {
			t.Errorf("%s: %d samples, want %d and %s", c.name, number, c.samples, c.has)
		}
		if again := encoded(t, openClickHouse(t, c.name, RowOptions{Samples: true}), o); !slices.Equal(lines, again) {
			t.Errorf("%s: encoded differently the second time", c.name)
		}
	}
}

// TestIDs: the ID of a stack depends on the frames alone.
func TestIDs(t *testing.T) {
	ids := func(name string, o RowOptions) (list []string) {
		for _, line := range encoded(t, openClickHouse(t, name, o), ClickHouseOptions{Recording: name}) {
			if strings.HasPrefix(line, "stacks ") {
				list = append(list, line)
			}
		}
		return list
	}
	minutes, samples := ids("drops.data", RowOptions{}), ids("drops.data", RowOptions{Samples: true})
	if other := ids("drops.data", RowOptions{MaxStack: 3}); len(minutes) != 1 || !slices.Equal(minutes, samples) ||
		len(other) != 1 || other[0] == minutes[0] {
		t.Errorf("stacks of minutes %q, of samples %q, of 3 frames %q", minutes, samples, other)
	}
}

// TestColumns: samples contain members for columns of the schema only, and for all but those with defaults.
func TestColumns(t *testing.T) {
	_, samples, _ := strings.Cut(ClickHouseSchema, "CREATE TABLE IF NOT EXISTS samples")
	samples, _, _ = strings.Cut(samples, "ENGINE")
	for _, line := range encoded(t, openClickHouse(t, "drops.data", RowOptions{}),
		ClickHouseOptions{Labels: [][2]string{{"a", "b"}}}) {
		text, ok := strings.CutPrefix(line, "samples ")
		if !ok {
			continue
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			column, _, _ := strings.Cut(name, ".")
			if !strings.Contains(samples, "\n    "+column+" ") {
				t.Errorf("column %s is not in the schema", column)
			}
		}
		if columns := strings.Count(samples, "\n    ") + 2; len(members) != columns { // a Nested column needs two
			t.Errorf("%d members for %d columns", len(members), columns)
		}
	}
}

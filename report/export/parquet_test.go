package export

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"gperf/internal/container"
	"gperf/internal/testutil/recording"
	"gperf/report/key"
)

// openParquet returns one of the project's recordings. Names come from the recording's list of the kernel's, and from
// no file.
func openParquet(t testing.TB, name string, o RowOptions) *Rows {
	t.Helper()
	r, err := NewRows(recording.Open(t, name, time.Unix(1_800_000_000, 0)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// writtenParquet returns a file with the rows of recordings.
func writtenParquet(t testing.TB, o RowOptions, names ...string) []byte {
	t.Helper()
	var list []*Rows
	for _, name := range names {
		list = append(list, openParquet(t, name, o))
	}
	var b bytes.Buffer
	w := NewParquetWriter(&b, list)
	for _, r := range list {
		if _, err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// row is the part of a row that the tests read.
type row struct {
	Time     int64          `parquet:"time"`
	Host     string         `parquet:"host"`
	Event    string         `parquet:"event"`
	TID      *int32         `parquet:"tid,optional"`
	Cgroup   *string        `parquet:"cgroup,optional"`
	Weight   int64          `parquet:"weight"`
	Reason   *string        `parquet:"reason,optional"`
	Protocol *string        `parquet:"protocol,optional"`
	PrevPID  *int64         `parquet:"prev_pid,optional"`
	Frames   []parquetFrame `parquet:"frames,list"`
}

type parquetFrame struct {
	Function string  `parquet:"function"`
	File     *string `parquet:"file,optional"`
	Kind     string  `parquet:"kind"`
}

func readParquet(t testing.TB, file []byte) []row {
	t.Helper()
	list, err := pq.Read[row](bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestParquetSamples: a file contains the samples of all recordings, with the fields of the events and null for others.
func TestParquetSamples(t *testing.T) {
	list := readParquet(t, writtenParquet(t, RowOptions{Samples: true}, "two.data", "drops.data", "threads.data"))
	counts := map[string]int{}
	for _, r := range list {
		counts[r.Event]++
		if r.Host != "vm" || r.TID == nil || r.Time/1e6 < 1_799_999_990 || r.Time/1e6 > 1_800_000_000 ||
			len(r.Frames) == 0 {
			t.Fatalf("row %+v", r)
		}
		drop, switched := r.Event == "skb:kfree_skb", r.Event == "sched:sched_switch"
		if (r.Reason != nil) != drop || (r.Protocol != nil) != drop || (r.PrevPID != nil) != switched {
			t.Fatalf("fields of %+v", r)
		}
		if (r.Cgroup != nil) != (r.Event == "cpu-clock:u") {
			t.Errorf("cgroup of %+v", r)
		}
		if drop && (*r.Reason != "NO_SOCKET" || *r.Protocol != "IPv4" || r.Frames[0].Function != "sk_skb_reason_drop" ||
			r.Frames[0].File != nil || r.Frames[0].Kind != "kernel" || r.Frames[len(r.Frames)-1].Kind != "user") {
			t.Errorf("drop %+v", r)
		}
	}
	if counts["skb:kfree_skb"] != 5 || counts["cpu-clock"] != 23 || counts["sched:sched_switch"] != 57 ||
		counts["cpu-clock:u"] == 0 {
		t.Errorf("samples by event: %v", counts)
	}
}

// TestOrder: time is the first column, and frames is the last one.
func TestOrder(t *testing.T) {
	b := writtenParquet(t, RowOptions{}, "drops.data")
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, fd := range f.Schema().Fields() {
		names = append(names, fd.Name())
	}
	if names[0] != "time" || names[len(names)-1] != "frames" || !slices.Contains(names, "reason") ||
		slices.Contains(names, "skbaddr") { // of minutes only fields with few values
		t.Errorf("columns %v", names)
	}
}

// TestFieldName: fields do not hide the columns of all samples.
func TestFieldName(t *testing.T) {
	for field, want := range map[string]string{"reason": "reason", "comm": "field_comm", "PID": "field_PID",
		"frames": "field_frames", "field_comm": "field_field_comm", "Reason": "Reason"} {
		if got := fieldName(field); got != want {
			t.Errorf("%s: %s; want %s", field, got, want)
		}
	}
}

// TestSame: the file is the same, byte for byte, on any number of CPUs.
func TestSame(t *testing.T) {
	first := writtenParquet(t, RowOptions{Samples: true}, "two.data")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if !bytes.Equal(first, writtenParquet(t, RowOptions{Samples: true}, "two.data")) {
		t.Error("two files differ")
	}
}

// TestRows: containers, texts that are not UTF-8, fields that are a number in one event only, stacks without frames.
func TestRows(t *testing.T) {
	r := &Rows{Host: "h", Events: []RowEvent{
		{Name: "a", Unit: "count", Columns: []key.Column{{Key: "Comm"}, {Key: "n", Numeric: true}}},
		{Name: "b", Unit: "count", Columns: []key.Column{{Key: "n"}}},
	}}
	r.Stacks = Stacks{Stacks: [][]int32{{}, {0}},
		Frames: []RowFrame{{Function: "f\xff", Line: 7, Kind: jitFrame}}}
	var b bytes.Buffer
	w := NewParquetWriter(&b, []*Rows{r})
	for i := range w.columns {
		w.columns[i].start(r)
	}
	list := []Row{
		{Event: 0, Cgroup: "/x", Container: &container.Named{Container: container.Container{ID: "c1", Pod: "p1"}}, TID: -1, CPU: -1,
			Values: []key.Value{{Key: "Comm", Text: "sh"}, {Key: "n", Number: -5, Numeric: true}}},
		{Event: 1, TID: 8, CPU: 0, Values: []key.Value{{Key: "n", Text: "five"}}, Stack: 1},
		{Event: 1, TID: 8, CPU: 0, Values: []key.Value{{Key: "n", Text: key.Missing}}, Stack: 1},
	}
	if err := w.write(r, list); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	type row struct {
		TID       *int32  `parquet:"tid,optional"`
		Container *string `parquet:"container,optional"`
		Pod       *string `parquet:"pod,optional"`
		Field     *string `parquet:"field_Comm,optional"`
		N         *string `parquet:"n,optional"`
		Frames    []struct {
			Function string `parquet:"function"`
			Line     *int32 `parquet:"line,optional"`
			Kind     string `parquet:"kind"`
		} `parquet:"frames,list"`
	}
	got, err := pq.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"TID":null,"Container":"c1","Pod":"p1","Field":"sh","N":"-5","Frames":[]},` +
		`{"TID":8,"Container":null,"Pod":null,"Field":null,"N":"five",` +
		`"Frames":[{"Function":"f�","Line":7,"Kind":"jit"}]},` +
		`{"TID":8,"Container":null,"Pod":null,"Field":null,"N":null,` +
		`"Frames":[{"Function":"f�","Line":7,"Kind":"jit"}]}]`
	if string(text) != want {
		t.Errorf("rows %s\nwant %s", text, want)
	}
}

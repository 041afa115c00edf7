package export

import (
	"fmt"
	"strings"
	"testing"
)

// An event has a limited number of series. Samples of others are counted in one series.
func TestMetricsLimit(t *testing.T) {
	count := func(most int) *Metrics {
		t.Helper()
		m := &Metrics{By: []string{"comm", "time"}, MaxSeries: most}
		if _, err := m.Add(open(t, "waits.z.data")); err != nil {
			t.Fatal(err)
		}
		return m
	}
	samples := func(m *Metrics) (n uint64) {
		for _, s := range m.Series {
			n += s.Samples
		}
		return n
	}
	all, few := count(0), count(3)
	if len(all.Series) < 5 || len(all.Merged) > 0 {
		t.Fatalf("%d series, merged %v", len(all.Series), all.Merged)
	}
	last := few.Series[len(few.Series)-1]
	if len(few.Series) != 4 || few.Series[0].Event != last.Event || last.Labels[0] != [2]string{"other", "true"} ||
		last.Samples != few.Merged[last.Event] || samples(few) != samples(all) {
		t.Errorf("%+v, merged %v, want %d samples", few.Series, few.Merged, samples(all))
	}
}

// A label of the user replaces one of the same name.
func TestPrometheusLabels(t *testing.T) {
	got := prometheusLabels([][2]string{{"event", "e"}, {"a.b", "1"}, {"a_b", "x\ny"}, {"event", `"f"`}})
	if want := `{event="\"f\"",a_b="x\ny"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAddPrometheus(t *testing.T) {
	line := func(i, v int) string { return fmt.Sprintf("gperf_samples_total{event=\"e\",n=\"%d\"} %d\n", i, v) }
	sum, more, err := AddPrometheus([]byte("# HELP x\n"+line(1, 2)), []byte(line(1, 3)+line(2, 1<<53)))
	want := "# HELP gperf_samples_total Samples of events, waits and spans that gperf recorded.\n" +
		"# TYPE gperf_samples_total counter\n" + line(1, 5) +
		"gperf_samples_total{event=\"e\",n=\"2\"} 9.007199254740992e+15\n"
	if err != nil || more || string(sum) != want {
		t.Errorf("%v, %t, got\n%s\nwant\n%s", err, more, sum, want)
	}
	var many strings.Builder
	for i := range maxTextSeries {
		many.WriteString(line(i, 1))
	}
	sum, more, err = AddPrometheus([]byte(many.String()), []byte(line(maxTextSeries, 7)+line(0, 1)))
	if err != nil || !more || !strings.Contains(string(sum), "gperf_samples_total{other=\"true\"} 7\n") ||
		!strings.Contains(string(sum), line(0, 2)) {
		t.Errorf("%v, %t", err, more)
	}
	for _, text := range []string{"gperf_samples_total{", "gperf_samples_total{} x", "x{} 3", "3"} {
		if _, _, err := AddPrometheus([]byte(text), nil); err == nil {
			t.Errorf("%q is a text of gperf", text)
		}
	}
}

package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// metricKeys are the keys of series unless Metrics.By names others: those with few values that answer why.
var metricKeys = []string{"reason", "dev", "kind", "syscall", "errno", "unit", "container", "pod"}

// maxSeries is the default of Metrics.MaxSeries. Databases of metrics keep each series in memory.
const maxSeries = 500

// Metrics counts samples by event and keys, without stacks, for databases of metrics.
type Metrics struct {
	By        []string // keys; nil: metricKeys, as far as the recording has them
	MaxSeries int      // of an event; 0: maxSeries

	// Merged is the number of samples that are in the series "other" of their event, by event: more than MaxSeries
	// combinations of values occurred.
	Merged map[string]uint64
	Series []Series
	period
}

// Series is the samples of an event that have the same values.
type Series struct {
	Event   string
	Unit    string // of Sum: "nanoseconds", "bytes" or "count"
	Labels  [][2]string
	Samples uint64
	Sum     uint64 // of periods
}

// other is the label of the samples that have no series of their own.
var other = [][2]string{{"other", "true"}}

// Add counts the samples of a recording.
func (m *Metrics) Add(s *session.Session) (format.Skipped, error) {
	by := m.By
	if by == nil {
		for _, name := range metricKeys {
			if _, err := key.Names(s.File, name); err == nil {
				by = append(by, name)
			}
		}
	}
	keys, err := key.New(s.File, s.Symbols, key.Options{Words: by, Origin: s.Origin})
	if err != nil {
		return format.Skipped{}, err
	}
	in := stacksInput{set: &StackSet{}, session: s}
	in.first = ^uint64(0)
	type values struct {
		event int
		group string
	}
	counted := map[values]int{}
	rest := make([]int, len(s.File.Attrs)) // the index of the event's series "other", plus 1
	series, most := make([]int, len(s.File.Attrs)), cmp.Or(m.MaxSeries, maxSeries)
	leaf := !s.ReadsChains() && !slices.ContainsFunc(by, key.ReadsChain)
	skipped, err := s.Walk(session.WalkOptions{LeafOnly: leaf}, func(b *session.Batch) error {
		for i := range b.Samples {
			smp := &b.Samples[i]
			if session.IsWaker(&s.File.Attrs[smp.Event]) { // the wait is counted
				continue
			}
			in.first, in.last = min(in.first, smp.Time), max(in.last, smp.Time)
			g := keys.Of(smp)
			of := values{smp.Event, g.ID}
			at, ok := counted[of]
			switch {
			case ok:
			case series[smp.Event] < most:
				series[smp.Event]++
				at = m.add(s.File, smp.Event, labels(g))
				counted[of] = at
			default:
				if rest[smp.Event] == 0 {
					rest[smp.Event] = m.add(s.File, smp.Event, other) + 1
				}
				at = rest[smp.Event] - 1
				if m.Merged == nil {
					m.Merged = map[string]uint64{}
				}
				m.Merged[m.Series[at].Event]++
			}
			m.Series[at].Samples++
			m.Series[at].Sum += smp.Period
		}
		if m.Merged != nil {
			keys.Forget() // these values have no end
		}
		b.Release()
		return nil
	})
	in.addTime()
	m.period = in.set.period
	return skipped, err
}

// add adds a series, and returns its index.
func (m *Metrics) add(f *format.File, event int, labels [][2]string) int {
	m.Series = append(m.Series, Series{Event: f.EventName(event), Unit: session.EventUnit(f, event, ""),
		Labels: labels})
	return len(m.Series) - 1
}

// labels returns the values that samples of a group have.
func labels(g *key.Group) (l [][2]string) {
	for _, v := range g.Values {
		if text := v.Text; text != "" && text != key.Missing {
			l = append(l, [2]string{v.Key, text})
		}
	}
	return l
}

// metric is a metric of series. Each series has samples, and one of the others.
type metric struct {
	name string // of Prometheus
	otlp string // name of OpenTelemetry
	unit string // of OpenTelemetry (UCUM)
	help string
	// value returns the value of a series, false if the series has none.
	value func(*Series) (float64, bool)
}

var metrics = []metric{
	{"gperf_samples_total", "gperf.samples", "{sample}", "Samples of events, waits and spans that gperf recorded.",
		func(s *Series) (float64, bool) { return float64(s.Samples), true }},
	{"gperf_seconds_total", "gperf.time", "s", "Time of clocks, waits and spans that gperf recorded.",
		func(s *Series) (float64, bool) { return float64(s.Sum) / 1e9, s.Unit == "nanoseconds" }},
	{"gperf_occurrences_total", "gperf.occurrences", "{event}", "Occurrences of events that gperf recorded or counted.",
		func(s *Series) (float64, bool) { return float64(s.Sum), s.Unit != "nanoseconds" }},
}

// Prometheus returns the values as a text that node_exporter's textfile collector reads. Each series has the labels
// event and those of all. Without samples it returns ErrNoSamples.
func (m *Metrics) Prometheus(all [][2]string) ([]byte, error) {
	values := map[string]float64{}
	for i := range metrics {
		for j := range m.Series {
			s := &m.Series[j]
			if v, ok := metrics[i].value(s); ok {
				labels := slices.Concat([][2]string{{"event", s.Event}}, s.Labels, all)
				values[metrics[i].name+prometheusLabels(labels)] += v
			}
		}
	}
	if len(values) == 0 {
		return nil, ErrNoSamples
	}
	return prometheusText(values), nil
}

// AddPrometheus adds the values of a text of Prometheus to those of another one, which may be empty. The text has at
// most maxTextSeries: others are summed in one series of each metric, and more is true.
func AddPrometheus(total, added []byte) (sum []byte, more bool, err error) {
	values, err := parsePrometheus(total)
	if err != nil {
		return nil, false, err
	}
	new, err := parsePrometheus(added)
	if err != nil {
		return nil, false, err
	}
	for _, series := range slices.Sorted(maps.Keys(new)) {
		v := new[series]
		if _, known := values[series]; !known && len(values) >= maxTextSeries {
			name, _, _ := strings.Cut(series, "{")
			series, more = name+prometheusLabels(other), true
		}
		values[series] += v
	}
	return prometheusText(values), more, nil
}

// maxTextSeries limits the series of all recordings that a text of Prometheus has.
const maxTextSeries = 10 * maxSeries

// parsePrometheus returns the values of a text that prometheusText returned, by series.
func parsePrometheus(text []byte) (map[string]float64, error) {
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if at < 0 || err != nil || !slices.ContainsFunc(metrics, func(m metric) bool {
			return strings.HasPrefix(line, m.name+"{")
		}) {
			return nil, fmt.Errorf("%.60q is no metric of gperf", line)
		}
		values[line[:at]] = v
	}
	return values, nil
}

func prometheusText(values map[string]float64) []byte {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(values))
	for i := range metrics {
		first := true
		for _, series := range names {
			if !strings.HasPrefix(series, metrics[i].name+"{") {
				continue
			}
			if first {
				fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s counter\n", metrics[i].name, metrics[i].help)
				first = false
			}
			fmt.Fprintf(&b, "%s %s\n", series, strconv.FormatFloat(values[series], 'g', -1, 64))
		}
	}
	return []byte(b.String())
}

// prometheusLabels returns labels as Prometheus reads them, which refuses names that come twice: the last one counts.
func prometheusLabels(l [][2]string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var names, texts []string
	for _, kv := range l {
		name := LabelName(kv[0])
		text := name + `="` + quote.Replace(strings.ToValidUTF8(kv[1], "�")) + `"`
		if i := slices.Index(names, name); i >= 0 {
			texts[i] = text
		} else {
			names, texts = append(names, name), append(texts, text)
		}
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// LabelName returns a key as Prometheus permits it for labels.
func LabelName(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, key)
}

// OTLP returns the series as a request of OpenTelemetry's protocol: sums of what occurred in the recording's time.
func (m *Metrics) OTLP(o OTLPOptions) ([]byte, error) {
	var list []*otlp.Metric
	from := max(m.began.UnixNano(), 0)
	until := m.began.Add(max(m.lasted, time.Nanosecond)).UnixNano()
	for i := range metrics {
		sum := &otlp.Sum{AggregationTemporality: otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
			IsMonotonic: true}
		for j := range m.Series {
			s := &m.Series[j]
			v, ok := metrics[i].value(s)
			if !ok {
				continue
			}
			p := &otlp.NumberDataPoint{StartTimeUnixNano: uint64(from), TimeUnixNano: uint64(max(until, 0)),
				Value: &otlp.NumberDataPoint_AsDouble{AsDouble: v}}
			for _, kv := range slices.Concat([][2]string{{"event", s.Event}}, s.Labels) {
				p.Attributes = append(p.Attributes, &common.KeyValue{Key: kv[0], Value: otlpString(kv[1])})
			}
			sum.DataPoints = append(sum.DataPoints, p)
		}
		if len(sum.DataPoints) > 0 {
			list = append(list, &otlp.Metric{Name: metrics[i].otlp, Unit: metrics[i].unit, Description: metrics[i].help,
				Data: &otlp.Metric_Sum{Sum: sum}})
		}
	}
	if len(list) == 0 {
		return nil, ErrNoSamples
	}
	request := &collector.ExportMetricsServiceRequest{ResourceMetrics: []*otlp.ResourceMetrics{{
		Resource: otlpResourceOf(o.Resource),
		ScopeMetrics: []*otlp.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "gperf", Version: o.Version},
			Metrics: list}}}}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode metrics: %w", err)
	}
	return b, nil
}

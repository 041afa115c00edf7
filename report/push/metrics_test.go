package push

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	metrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const drops = "../../testdata/drops.data"

// points returns the values of a request by metric and reason, and the sum of each metric.
func points(t *testing.T, r *metrics.ExportMetricsServiceRequest) map[string]float64 {
	t.Helper()
	l := map[string]float64{}
	for _, m := range r.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		if s := m.GetSum(); !s.IsMonotonic || s.AggregationTemporality != 1 {
			t.Errorf("%s is no sum of differences", m.Name)
		}
		for _, p := range m.GetSum().DataPoints {
			if p.StartTimeUnixNano == 0 || p.TimeUnixNano <= p.StartTimeUnixNano {
				t.Errorf("times %d to %d", p.StartTimeUnixNano, p.TimeUnixNano)
			}
			l[m.Name] += p.GetAsDouble()
			for _, kv := range p.Attributes {
				if kv.Key == "reason" {
					l[m.Name+" "+kv.Value.GetStringValue()] += p.GetAsDouble()
				}
			}
		}
	}
	return l
}

// checkDrops checks the metrics of drops: each sample has a reason.
func checkDrops(t *testing.T, l map[string]float64) {
	t.Helper()
	sum := 0.0
	for name, v := range l {
		if strings.HasPrefix(name, "gperf.samples ") {
			sum += v
		}
	}
	if n := l["gperf.samples"]; n == 0 || sum != n || l["gperf.samples NO_SOCKET"] == 0 || l["gperf.occurrences"] != n {
		t.Errorf("metrics %v", l)
	}
}

func TestMetricsByHTTP(t *testing.T) {
	f := newFake(t)
	q := open(t, f.url("otlp+http"), Options{Metrics: true})
	defer q.Close()
	pushFile(t, q, drops)
	z, err := gzip.NewReader(bytes.NewReader(f.bodies["/v1/metrics"]))
	if err != nil {
		t.Fatal(err, f.requests)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r := &metrics.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(b, r); err != nil {
		t.Fatal(err)
	}
	checkDrops(t, points(t, r))
	if added, err := q.Add(t.Context(), input(t, drops)); added || err != nil {
		t.Errorf("the recording was counted twice: %v", err)
	}
}

func TestMetricsByGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *metrics.ExportMetricsServiceRequest, 1)
	s := grpc.NewServer()
	service, method, _ := strings.Cut(strings.TrimPrefix(metricsMethod, "/"), "/")
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: method,
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			r := &metrics.ExportMetricsServiceRequest{}
			if err := decode(r); err != nil {
				return nil, err
			}
			got <- r
			return &metrics.ExportMetricsServiceResponse{
				PartialSuccess: &metrics.ExportMetricsPartialSuccess{RejectedDataPoints: 3, ErrorMessage: "too old"}}, nil
		}}}}, nil)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	q := open(t, "otlp+grpc://"+listener.Addr().String(), Options{Metrics: true})
	defer q.Close()
	pushFile(t, q, drops)
	checkDrops(t, points(t, <-got))
	if s := q.Stats(); s.Rejected != 1 {
		t.Errorf("dropped points: %+v", s)
	}
}

// The values of the text grow with each recording, also after a restart, and a text of others is left alone.
func TestMetricsText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gperf.prom")
	url := "textfile:" + path
	once := Options{Labels: [][2]string{{"zone", `a"b\`}}}
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	value := func() (line string) {
		t.Helper()
		for line := range strings.Lines(read()) {
			if strings.HasPrefix(line, "gperf_samples_total{") && strings.Contains(line, `reason="NO_SOCKET"`) {
				return line
			}
		}
		t.Fatalf("no line of NO_SOCKET in %s", read())
		return ""
	}
	q := open(t, url, once)
	pushFile(t, q, drops)
	q.Close()
	first := value()
	if !strings.Contains(first, `zone="a\"b\\"`) || !strings.Contains(read(), "# TYPE gperf_samples_total counter\n") {
		t.Errorf("the text is %s", read())
	}
	q = open(t, url, once)
	pushFile(t, q, "../../testdata/waits.z.data")
	if got := value(); got != first {
		t.Errorf("another recording changes %q to %q", first, got)
	}
	if !strings.Contains(read(), "gperf_seconds_total{") {
		t.Errorf("waits have no time: %s", read())
	}
	q.Close()
	once.Again = true
	q = open(t, url, once)
	pushFile(t, q, drops)
	q.Close()
	if got := value(); got == first {
		t.Errorf("the same recording again leaves %q", got)
	}
	if err := os.WriteFile(path, []byte("node_load1 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q = open(t, url, once)
	defer q.Close()
	if _, err := q.Add(t.Context(), input(t, drops)); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if err := q.Wait(t.Context()); !errors.As(err, &refused) || !strings.Contains(err.Error(), "no metric of gperf") ||
		read() != "node_load1 3\n" {
		t.Errorf("a text of others: %v, %s", err, read())
	}
}

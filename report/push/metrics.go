package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"gperf/report/export"
)

// metricsPath is the path of OTLP's metrics.
const metricsPath = "v1/metrics"

// countMetrics counts the samples of the recording.
func (e *encoder) countMetrics() (*export.Metrics, error) {
	m := &export.Metrics{By: e.queue.opts.By}
	skipped, err := m.Add(e.in.Session)
	if e.in.Warn != nil {
		e.in.Warn(skipped)
	}
	for event, n := range m.Merged {
		e.queue.log("%s: %s has more series than a database of metrics should: %d samples are in the series with "+
			"other=\"true\"; --by takes fewer keys", e.in.Recording.Path, event, n)
	}
	return m, err
}

func encodeOTLPMetrics(e *encoder) error {
	m, err := e.countMetrics()
	if err != nil {
		return err
	}
	encoded, err := m.OTLP(export.OTLPOptions{Resource: e.attributes(), Version: e.queue.opts.Version})
	if err != nil {
		return exceptNone(err)
	}
	return e.addPacked(&request{Method: http.MethodPost, Path: metricsPath, Header: map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}}, encoded)
}

// encodeText encodes what the recording adds to the file, with the labels of the user.
func encodeText(e *encoder) error {
	m, err := e.countMetrics()
	if err != nil {
		return err
	}
	text, err := m.Prometheus(e.queue.opts.Labels)
	if err != nil {
		return exceptNone(err)
	}
	return e.add(&request{}, text)
}

// textSender adds metrics to a file of Prometheus's text format, whose values grow from recording to recording.
type textSender struct {
	path string
	log  func(line string) // may be nil
	full bool              // it has as many series as it may; which was said
}

func openText(u *url.URL, o *Options) (sender, error) {
	path, err := localDir(u)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(path) != ".prom" {
		return nil, errors.New("node_exporter reads files whose names end in .prom")
	}
	path, err = filepath.Abs(path)
	return &textSender{path: path, log: o.Log}, err
}

func (*textSender) close() {}

func (s *textSender) send(_ context.Context, r *openedRequest) error {
	added, err := io.ReadAll(r.body())
	if err != nil {
		return err
	}
	total, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &RefusedError{Err: err}
	}
	sum, more, err := export.AddPrometheus(total, added)
	if err != nil {
		return &RefusedError{Err: fmt.Errorf("%s: %w", s.path, err)}
	}
	if more && !s.full && s.log != nil {
		s.full = true
		s.log(s.path + " has as many series as a database of metrics should: new ones are summed in those with " +
			"other=\"true\"")
	}
	return replaceFile(s.path, bytes.NewReader(sum))
}

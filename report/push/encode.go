package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"gperf/format"
	"gperf/internal/spool"
	"gperf/report/export"
)

// encoder encodes a recording.
type encoder struct {
	queue   *Queue
	ctx     context.Context
	in      Input
	id      string
	group   *spool.Group
	batches int             // added so far
	added   map[string]bool // names of files with build IDs
}

// attributes describe where the recording was made, in the words of OpenTelemetry's conventions. Labels of the user
// replace labels of the same key.
func (e *encoder) attributes() [][2]string {
	f := e.in.Recording.File
	arch := f.String(format.FeatureArch)
	switch arch {
	case "x86_64":
		arch = "amd64"
	case "aarch64":
		arch = "arm64"
	}
	l := [][2]string{{"service.name", e.queue.opts.Service}, {"host.name", f.String(format.FeatureHostname)},
		{"host.arch", arch}, {"os.type", "linux"}, {"os.version", f.String(format.FeatureOSRelease)}}
	for _, label := range e.queue.opts.Labels {
		l = slices.DeleteFunc(l, func(kv [2]string) bool { return kv[0] == label[0] })
		l = append(l, label)
	}
	return l
}

// count counts the stacks of the recording. If cgroups were recorded, samples get these keys of containers, too.
func (e *encoder) count(c *export.StackSet, containers ...string) error {
	o := &e.queue.opts
	c.MaxStack, c.NoInline, c.By = o.MaxStack, o.NoInline, slices.Clone(o.By)
	recorded := func(a format.Attr) bool { return a.SampleType&format.SampleCgroup != 0 }
	if slices.ContainsFunc(e.in.Recording.File.Attrs, recorded) {
		for _, key := range containers {
			if !slices.Contains(c.By, key) {
				c.By = append(c.By, key)
			}
		}
	}
	skipped, err := c.Add(e.in.Session)
	if e.in.Warn != nil {
		e.in.Warn(skipped)
	}
	return err
}

// OTLP's profiles are still in development: requests name the version of the format, as the collector does.
const (
	versionHeader   = "otlp-profiles-development-version"
	profilesVersion = "1"
	profilesPath    = "v1development/profiles"
	profilesModule  = "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
)

// batchBytes is the size at which a batch of OTLP ends, in bytes: a quarter of gRPC's default limit, because a
// batch exceeds it by the last stack.
const batchBytes = 1 << 20

// otlpProtocol names the version of the protocol.
func otlpProtocol() string {
	version := "of unknown version"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == profilesModule {
				version = m.Version
			}
		}
	}
	return fmt.Sprintf("OTLP profiles v1development, version %s (%s %s)", profilesVersion, profilesModule, version)
}

func encodeOTLP(e *encoder) error {
	set := &export.StackSet{Processes: true, Threads: true}
	if err := e.count(set, "cgroup"); err != nil {
		return err
	}
	id, err := hex.DecodeString(e.id)
	if err != nil {
		return err
	}
	o := export.OTLPOptions{ID: id, Resource: e.attributes(), Version: e.queue.opts.Version, Limit: batchBytes}
	r := &request{Method: http.MethodPost, Path: profilesPath, Header: map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", versionHeader: profilesVersion}}
	err = set.OTLP(o, func(encoded []byte) error { return e.addPacked(r, encoded) })
	return exceptNone(err)
}

// addPacked adds a request whose body is to be compressed.
func (e *encoder) addPacked(r *request, body []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(body)
	}
	if err := cmp.Or(err, z.Close()); err != nil {
		return err
	}
	return e.add(r, b.Bytes())
}

// encodeClickHouse encodes INSERT statements. The keys of rows are the recording and the number of the row in it.
func encodeClickHouse(e *encoder) error {
	q := &e.queue.opts
	table, err := export.NewRows(e.in.Session, export.RowOptions{Samples: q.Samples, MaxStack: q.MaxStack,
		NoInline: q.NoInline})
	if err != nil {
		return err
	}
	o := export.ClickHouseOptions{Recording: e.id, Service: q.Service, Labels: q.Labels}
	if q.Samples { // other rows than minutes
		o.Recording += "-samples"
	}
	skipped, err := export.EncodeClickHouse(table, o, func(i *export.ClickHouseInsert) error {
		return e.addPacked(&request{Method: http.MethodPost, Query: url.Values{"query": {i.Query()}},
			Header: map[string]string{"Content-Encoding": "gzip"}}, i.Body)
	})
	if e.in.Warn != nil {
		e.in.Warn(skipped)
	}
	return err
}

// exceptNone returns nil for a recording without samples: nothing is to be sent.
func exceptNone(err error) error {
	if errors.Is(err, export.ErrNoSamples) {
		return nil
	}
	return err
}

// encodePyroscope encodes one profile. Pyroscope makes a series of each combination of labels: threads are left out.
func encodePyroscope(e *encoder) error {
	set := &export.StackSet{}
	if err := e.count(set, "container", "pod"); err != nil {
		return err
	}
	var profile bytes.Buffer
	if err := set.Pprof(&profile); err != nil {
		return exceptNone(err)
	}
	config := map[string]sampleType{}
	for _, t := range set.Types()[1:] { // without the number of samples: one series per event
		config[t.Type] = sampleType{t.Unit, displayName(t.Type), "sum", false, true}
	}
	types, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	if err := form.SetBoundary("gperf" + e.id); err != nil {
		return err
	}
	for _, field := range []struct {
		name, file string
		contents   []byte
	}{{"profile", "profile.pprof", profile.Bytes()}, {"sample_type_config", "sample_type_config.json", types}} {
		w, err := form.CreateFormFile(field.name, field.file)
		if err == nil {
			_, err = w.Write(field.contents)
		}
		if err != nil {
			return err
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	from, until := set.Times()
	query := url.Values{"name": {e.series()}, "format": {"pprof"}, "spyName": {"gperf"},
		"from":  {strconv.FormatInt(from.Unix(), 10)},
		"until": {strconv.FormatInt(max(until.Unix(), from.Unix()+1), 10)}}
	return e.add(&request{Method: http.MethodPost, Path: "ingest", Query: query,
		Header: map[string]string{"Content-Type": form.FormDataContentType()}}, b.Bytes())
}

// sampleType is how Pyroscope shows a sample type.
type sampleType struct {
	Units       string `json:"units"`
	DisplayName string `json:"display-name"`
	Aggregation string `json:"aggregation"`
	Cumulative  bool   `json:"cumulative"`
	Sampled     bool   `json:"sampled"`
}

// displayName returns Pyroscope's name of a sample type: cpu for cycles, as for clocks.
func displayName(sampleType string) string {
	name, _, _ := strings.Cut(sampleType, ":")
	if name == "cycles" || name == "cpu-cycles" {
		return "cpu"
	}
	return sampleType
}

// series returns the name of Pyroscope's series: the service, and the other attributes as labels.
func (e *encoder) series() string {
	var labels []string
	name := ""
	for _, kv := range e.attributes() {
		switch {
		case kv[0] == "service.name":
			name = kv[1]
		case kv[1] != "":
			labels = append(labels, export.LabelName(kv[0])+"="+strings.Map(pyroscopeValue, kv[1]))
		}
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// pyroscopeValue replaces the characters that separate labels.
func pyroscopeValue(r rune) rune {
	if strings.ContainsRune("{},=\"", r) {
		return '_'
	}
	return r
}

// began returns when the recording began, from the header alone; without CLOCK_DATA, when it was written.
func (e *encoder) began() time.Time {
	f := e.in.Recording.File
	clock, ok := f.ClockData()
	if times := f.Uint64s(format.FeatureSampleTime, 2); ok && times != nil {
		return time.Unix(0, int64(clock.Offset()+times[0]))
	}
	if ok {
		return time.Unix(0, int64(clock.TimeOfDay))
	}
	return e.in.Recording.Written
}

package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"gperf/internal/archive"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
)

const someFile = "../../testdata/threads.data"

// input opens one of the project's recordings. Names come from no file.
func input(t *testing.T, path string) Input {
	t.Helper()
	fd, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := archive.OpenRecording(fd, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); fd.Close() })
	symbols := symbolize.New(symbolize.Options{Kallsyms: "../../testdata/kallsyms",
		Locator: &dso.Locator{Tree: dso.Tree{Root: t.TempDir()}}})
	return Input{Recording: r, Session: session.New(session.Options{File: r.File, Symbols: symbols, KeepExited: true,
		Written: r.Written})}
}

// open opens a queue, which logs to the test.
func open(t *testing.T, url string, o Options) *Queue {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.MaxStack = 127
	log := o.Log
	o.Log = func(line string) {
		t.Log(line)
		if log != nil {
			log(line)
		}
	}
	q, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// push pushes a file and waits until it is sent.
func pushFile(t *testing.T, q *Queue, path string) {
	t.Helper()
	if added, err := q.Add(t.Context(), input(t, path)); err != nil || !added {
		t.Fatalf("added: %v, %v", added, err)
	}
	wait(t, q)
}

func wait(t *testing.T, q *Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := q.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// fake is a server that stores the requests that it receives, and first answers with these statuses.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	requests []string
	headers  []http.Header
	bodies   map[string][]byte
}

func newFake(t *testing.T, statuses ...int) *fake {
	f := &fake{statuses: statuses, bodies: map[string][]byte{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	f.headers = append(f.headers, r.Header)
	if len(f.statuses) > 0 {
		code := f.statuses[0]
		if f.statuses = f.statuses[1:]; code != 0 {
			http.Error(w, "not now", code)
			return
		}
	}
	if stored, ok := f.bodies[r.URL.Path]; r.Method == http.MethodHead {
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(stored)))
		return
	}
	f.bodies[r.URL.Path] = b
}

// url returns the server's URL with another scheme.
func (f *fake) url(scheme string) string { return scheme + strings.TrimPrefix(f.URL, "http") }

// count returns the number of requests with this method.
func (f *fake) count(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if strings.HasPrefix(r, method+" ") {
			n++
		}
	}
	return n
}

// profilesOf decodes a request of OTLP.
func profilesOf(t *testing.T, body []byte) *collector.ExportProfilesServiceRequest {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r := &collector.ExportProfilesServiceRequest{}
	if err := proto.Unmarshal(b, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOTLPByHTTP(t *testing.T) {
	f := newFake(t)
	q := open(t, f.url("otlp+http"), Options{Service: "shop", Labels: [][2]string{{"env", "test"}, {"host.name", "h"}},
		Header: http.Header{"X-Token": {"secret"}}})
	defer q.Close()
	pushFile(t, q, someFile)
	if want := []string{"POST /v1development/profiles"}; !slices.Equal(f.requests, want) {
		t.Fatalf("requests %q, want %q", f.requests, want)
	}
	h := f.headers[0]
	if h.Get("X-Token") != "secret" || h.Get("Content-Type") != "application/x-protobuf" ||
		h.Get(versionHeader) != "1" {
		t.Errorf("headers %v", h)
	}
	r := profilesOf(t, f.bodies["/v1development/profiles"])
	attrs := map[string]string{}
	for _, kv := range r.ResourceProfiles[0].Resource.Attributes {
		attrs[kv.Key] += kv.Value.GetStringValue()
	}
	for key, want := range map[string]string{"service.name": "shop", "env": "test", "host.name": "h",
		"os.type": "linux", "host.arch": "amd64"} {
		if attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, attrs[key], want)
		}
	}
	if added, err := q.Add(t.Context(), input(t, someFile)); added || err != nil {
		t.Errorf("the recording was pushed twice: %v", err)
	}
}

// Temporary errors are tried again, and the server receives the same bytes.
func TestRetry(t *testing.T) {
	f := newFake(t, http.StatusServiceUnavailable, http.StatusInternalServerError)
	q := open(t, f.url("otlp+http"), Options{})
	defer q.Close()
	pushFile(t, q, someFile)
	if n := f.count("POST"); n != 3 || q.Stats().Batches != 1 {
		t.Errorf("%d requests for %d batches", n, q.Stats().Batches)
	}
}

// A queue that is closed before the server answers leaves the batch in the spool, from which the next one sends it.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // the connection is refused
	failing := make(chan string, 10)
	q := open(t, "otlp+http://"+address, Options{Dir: dir, Log: func(line string) { failing <- line }})
	if _, err := q.Add(t.Context(), input(t, someFile)); err != nil {
		t.Fatal(err)
	}
	if line := <-failing; !strings.Contains(line, "connection refused; 1 batches") {
		t.Errorf("log %q", line)
	}
	if since, err := q.Failing(); since.IsZero() || err == nil {
		t.Errorf("the queue does not say that it fails: %v", err)
	}
	q.Close()
	f := newFake(t)
	q = open(t, f.url("otlp+http"), Options{Dir: dir})
	defer q.Close()
	wait(t, q)
	if n := f.count("POST"); n != 1 {
		t.Errorf("%d requests", n)
	}
	if added, err := q.Add(t.Context(), input(t, someFile)); added || err != nil {
		t.Errorf("the recording was pushed twice: %v", err)
	}
}

// A refused request ends the waiting, and stays in the spool. A rejected one makes room for others.
func TestRefusedAndRejected(t *testing.T) {
	f := newFake(t, http.StatusUnauthorized, http.StatusUnauthorized, http.StatusUnauthorized, http.StatusUnauthorized)
	dir := t.TempDir()
	q := open(t, f.url("otlp+http"), Options{Dir: dir})
	if _, err := q.Add(t.Context(), input(t, someFile)); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	err := q.Wait(t.Context())
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), `401 Unauthorized: "not now"`) {
		t.Errorf("waiting ends with %v", err)
	}
	if n, _ := q.Waiting(); n != 1 {
		t.Errorf("%d batches wait", n)
	}
	q.Close()
	f = newFake(t, http.StatusBadRequest)
	q = open(t, f.url("otlp+http"), Options{Dir: dir})
	defer q.Close()
	wait(t, q)
	if left, _ := filepath.Glob(filepath.Join(dir, "rejected/*-00000000")); len(left) != 1 || q.Stats().Rejected != 1 {
		t.Errorf("rejected: %v, %+v", left, q.Stats())
	}
	pushFile(t, q, "../../testdata/drops.data")
	if n := f.count("POST"); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestPyroscope(t *testing.T) {
	f := newFake(t)
	q := open(t, f.url("pyroscope+http"), Options{Service: "shop", Labels: [][2]string{{"host.name", "a{b}"}}})
	defer q.Close()
	pushFile(t, q, someFile)
	if len(f.requests) != 1 || !strings.HasPrefix(f.requests[0], "POST /ingest?format=pprof&from=") ||
		!strings.Contains(f.requests[0], "name=shop%7Bhost_arch%3Damd64%2C") ||
		!strings.Contains(f.requests[0], "host_name%3Da_b_%7D") {
		t.Errorf("requests %q", f.requests)
	}
	_, params, err := mime.ParseMediaType(f.headers[0].Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(bytes.NewReader(f.bodies["/ingest"]), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(form.File["profile"]) != 1 || len(form.File["sample_type_config"]) != 1 {
		t.Errorf("fields %v", form.File)
	}
	fd, err := form.File["sample_type_config"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	config, _ := io.ReadAll(fd)
	const want = `{"cpu":{"units":"nanoseconds","display-name":"cpu","aggregation":"sum","cumulative":false,` +
		`"sampled":true}}`
	if string(config) != want {
		t.Errorf("config %s", config)
	}
}

// An archive is named by host and time, and reads as the recording. A presigned URL contains the name itself.
func TestStore(t *testing.T) {
	f := newFake(t)
	q := open(t, f.URL+"/bucket/", Options{})
	pushFile(t, q, someFile)
	q.Close()
	q = open(t, f.URL+"/signed.zip?X-Amz-Signature=secret", Options{})
	pushFile(t, q, someFile)
	q.Close()
	if strings.Contains(q.Server(), "secret") {
		t.Errorf("%s has the signature", q.Server())
	}
	paths := slices.Sorted(maps.Keys(f.bodies))
	name := regexp.MustCompile(`^/bucket/vm/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d-[0-9a-f]{6}\.zip$`)
	if len(paths) != 2 || !name.MatchString(paths[0]) || paths[1] != "/signed.zip" {
		t.Errorf("paths %q", paths)
	}
	for _, path := range paths {
		b := f.bodies[path]
		a, err := archive.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(someFile)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if a.Recording()[0].ReadAt(got, 0); !bytes.Equal(got, want) {
			t.Errorf("%s has another recording", path)
		}
	}
}

// Files with build IDs are sent once, before the archives that need them, and not at all if the store contains them.
func TestStoreSymbols(t *testing.T) {
	f := newFake(t)
	q := open(t, f.URL, Options{})
	defer q.Close()
	in := input(t, someFile)
	im, err := dso.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	add := func(group string) {
		g, err := q.spool.Begin(group)
		if err != nil {
			t.Fatal(err)
		}
		e := &encoder{queue: q, ctx: t.Context(), in: in, group: g, added: map[string]bool{}}
		for range 2 {
			if taken, err := e.addFile("ab12", dso.CodeFile, im); err != nil || !taken {
				t.Fatalf("taken: %v, %v", taken, err)
			}
		}
		if err := e.add(&request{Method: http.MethodPut, Path: group}, nil); err != nil {
			t.Fatal(err)
		}
		if err := g.Commit(); err != nil {
			t.Fatal(err)
		}
		wait(t, q)
	}
	add("one")
	add("two")
	want := []string{"HEAD /buildid/ab12/executable", "PUT /buildid/ab12/executable", "PUT /one", "PUT /two"}
	slices.Sort(f.requests[2:]) // the archive of this test has a name that sorts before the file's
	slices.Sort(f.requests)
	if !slices.Equal(f.requests, want) {
		t.Errorf("requests %q", f.requests)
	}
	other := open(t, f.URL, Options{})
	defer other.Close()
	q = other
	add("three")
	if n := f.count("PUT"); n != 4 {
		t.Errorf("the file was sent again: %q", f.requests)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	q := open(t, "file://"+dir, Options{})
	defer q.Close()
	pushFile(t, q, someFile)
	if l, _ := filepath.Glob(filepath.Join(dir, "*/*.zip")); len(l) != 1 {
		t.Errorf("archives %q", l)
	}
	if l, _ := filepath.Glob(filepath.Join(dir, "*/.gperf*")); len(l) != 0 {
		t.Errorf("temporary files %q", l)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"otlp://host":              "push to otlp://host: unknown scheme; the schemes are otlp+grpc, otlp+grpcs, otlp+http",
		"otlp+grpc:///x":           "the host is missing",
		"https://user:pw@/x":       "push to https:///x: the host is missing",
		"file://host/dir":          "host host: files are local",
		"file:":                    "the directory is missing",
		"textfile:/dir/name":       "names end in .prom",
		"otlp+http://host:port/":   `invalid port ":port" after host`,
		"pyroscope+https://h\x7f/": "invalid control character in URL",
	} {
		var wrong *URLError
		_, err := Open(url, Options{Dir: t.TempDir()})
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
}

// grpcFake is the service of a collector. It stores requests, and first answers with these errors; a nil error means
// that the request is stored and the connection lost.
type grpcFake struct {
	mu       sync.Mutex
	errors   []error
	partial  int64
	requests []*collector.ExportProfilesServiceRequest
	versions []string
}

func (f *grpcFake) export(ctx context.Context, r *collector.ExportProfilesServiceRequest) (
	*collector.ExportProfilesServiceResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions = append(f.versions, metadata.ValueFromIncomingContext(ctx, versionHeader)...)
	if len(f.errors) > 0 {
		err := f.errors[0]
		if f.errors = f.errors[1:]; err != nil {
			return nil, err
		}
		f.requests = append(f.requests, r)
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	f.requests = append(f.requests, r)
	return &collector.ExportProfilesServiceResponse{
			PartialSuccess: &collector.ExportProfilesPartialSuccess{RejectedProfiles: f.partial, ErrorMessage: "too old"}},
		nil
}

// serve serves f and returns the address.
func (f *grpcFake) serve(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	service, method, _ := strings.Cut(strings.TrimPrefix(exportMethod, "/"), "/")
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: method,
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			r := &collector.ExportProfilesServiceRequest{}
			if err := decode(r); err != nil {
				return nil, err
			}
			return f.export(ctx, r)
		}}}}, f)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

// A batch whose answer was lost is sent again with the same profile IDs, so that receivers recognize it.
func TestOTLPByGRPC(t *testing.T) {
	f := &grpcFake{errors: []error{status.Error(codes.Unavailable, "starting"), nil}}
	q := open(t, "otlp+grpc://"+f.serve(t), Options{})
	defer q.Close()
	pushFile(t, q, someFile)
	if len(f.requests) != 2 || !proto.Equal(f.requests[0], f.requests[1]) {
		t.Errorf("%d requests, which should be two equal ones", len(f.requests))
	}
	if len(f.requests[0].ResourceProfiles[0].ScopeProfiles[0].Profiles[0].ProfileId) != 16 {
		t.Error("a profile has no ID")
	}
	if !slices.Equal(f.versions, []string{"1", "1", "1"}) {
		t.Errorf("versions %q", f.versions)
	}
	if s := q.Stats(); s.Batches != 1 || s.Recordings != 1 || s.Rejected != 0 {
		t.Errorf("%+v", s)
	}
}

func TestGRPCErrors(t *testing.T) {
	for _, row := range []struct {
		code codes.Code
		want error
	}{{codes.Unauthenticated, &RefusedError{}}, {codes.Unimplemented, &RefusedError{}},
		{codes.InvalidArgument, &rejectedError{}}, {codes.ResourceExhausted, &rejectedError{}}} {
		t.Run(row.code.String(), func(t *testing.T) {
			err := grpcError(status.Error(row.code, "why"))
			if got, want := fmt.Sprintf("%T", err), fmt.Sprintf("%T", row.want); got != want ||
				!strings.Contains(err.Error(), "why") {
				t.Errorf("%s %v, want %s", got, err, want)
			}
		})
	}
	f := &grpcFake{partial: 2}
	q := open(t, "otlp+grpc://"+f.serve(t), Options{})
	defer q.Close()
	pushFile(t, q, someFile)
	if s := q.Stats(); s.Batches != 1 || s.Rejected != 1 || len(f.requests) != 1 {
		t.Errorf("dropped profiles: %+v after %d requests", s, len(f.requests))
	}
}

func TestPause(t *testing.T) {
	for failures, most := range map[int]time.Duration{0: firstPause, 1: 2 * firstPause, 100: maxPause} {
		if got := pause(failures, errServer); got < most/2 || got > most {
			t.Errorf("pause %v after %d failures", got, failures)
		}
	}
	if got := pause(0, fmt.Errorf("x: %w", &laterError{time.Hour, errServer})); got != maxLater {
		t.Errorf("pause %v", got)
	}
	if got := retryAfter("7"); got != 7*time.Second {
		t.Errorf("Retry-After: 7 means %v", got)
	}
	if got := retryAfter(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)); got < 50*time.Second {
		t.Errorf("a date in a minute means %v", got)
	}
}

// A damaged entry does not stop the ones after it.
func TestDamagedEntry(t *testing.T) {
	dir := t.TempDir()
	damaged := filepath.Join(dir, "queue/000000000001-abc")
	if err := os.MkdirAll(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "0"), []byte("{no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	q := open(t, f.url("otlp+http"), Options{Dir: dir})
	defer q.Close()
	pushFile(t, q, someFile)
	if s := q.Stats(); s.Rejected != 1 || s.Batches != 1 {
		t.Errorf("%+v", s)
	}
}

func TestStoreOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a b/buildid"), 0o777); err != nil {
		t.Fatal(err)
	}
	for archive, want := range map[string]string{
		"https://store.example/profiles/host/x.zip":    "https://store.example/profiles",
		"https://store.example/host/x.zip":             "https://store.example/",
		"https://store.example/x.zip":                  "",
		"https://store.example/profiles/h/x.zip?sig=1": "",
		filepath.Join(dir, "a b/host/x.zip"):           "file://" + dir + "/a%20b",
		filepath.Join(dir, "host/x.zip"):               "",
	} {
		if got := StoreOf(archive); got != want {
			t.Errorf("%s: %q, want %q", archive, got, want)
		}
	}
}

// A redirection to another method is not followed: the answer would not mean that the data arrived.
func TestRedirect(t *testing.T) {
	f := newFake(t)
	to := http.StatusFound
	redirect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.URL+r.URL.Path, to)
	}))
	defer redirect.Close()
	url := "otlp+" + redirect.URL
	q := open(t, url, Options{})
	if _, err := q.Add(t.Context(), input(t, someFile)); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if err := q.Wait(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusFound {
		t.Errorf("waiting ends with %v", err)
	}
	q.Close()
	to = http.StatusTemporaryRedirect
	q = open(t, url, Options{})
	defer q.Close()
	pushFile(t, q, someFile)
	if len(f.requests) != 1 || len(f.bodies["/v1development/profiles"]) == 0 {
		t.Errorf("requests %q", f.requests)
	}
}

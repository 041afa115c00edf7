package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kind is a kind of server.
type kind struct {
	schemes  []string // of its URLs
	protocol func() string
	encode   func(*encoder) error
	open     func(*url.URL, *Options) (sender, error)
	whole    bool // it gets whole recordings
	// metrics encodes counts in place of stacks; nil: the server stores no metrics. Without encode, they are all.
	metrics func(*encoder) error
}

// sender sends requests to a server.
type sender interface {
	// send returns nil when the server confirmed the request. Errors are *rejectedError, *RefusedError, *partlyError,
	// or temporary.
	send(ctx context.Context, r *openedRequest) error
	close()
}

var kinds = []*kind{
	{[]string{"otlp+grpc", "otlp+grpcs"}, otlpProtocol, encodeOTLP, openGRPC, false, encodeOTLPMetrics},
	{[]string{"otlp+http", "otlp+https"}, otlpProtocol, encodeOTLP, openHTTP, false, encodeOTLPMetrics},
	{[]string{"pyroscope+http", "pyroscope+https"}, func() string { return "Pyroscope's /ingest with pprof" },
		encodePyroscope, openHTTP, false, nil},
	{[]string{"clickhouse+http", "clickhouse+https"}, func() string { return "ClickHouse's HTTP interface" },
		encodeClickHouse, openHTTP, false, nil},
	{[]string{"http", "https"}, func() string { return "HTTP PUT of archives" }, encodeArchive, openHTTP, true, nil},
	{[]string{"file"}, func() string { return "archives in a directory" }, encodeArchive, openDir, true, nil},
	{[]string{"textfile"}, func() string { return "metrics for node_exporter's textfile collector" }, nil, openText,
		false, encodeText},
}

// Schemes returns the schemes of URLs.
func Schemes() (l []string) {
	for _, k := range kinds {
		l = append(l, k.schemes...)
	}
	return l
}

// IsURL reports whether an operand is a URL of a server, not a path.
func IsURL(operand string) bool {
	scheme, rest, ok := strings.Cut(operand, ":")
	return ok && (strings.HasPrefix(rest, "//") || scheme == "file" || scheme == "textfile")
}

// server is the server of a queue.
type server struct {
	sender
	kind  *kind
	url   *url.URL
	shown string // without secrets
}

func newServer(text string, o *Options) (*server, error) {
	u, err := url.Parse(text)
	if err != nil {
		if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
			err = wrong.Err
		}
		return nil, &URLError{text, err}
	}
	s := &server{url: u, shown: (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, Opaque: u.Opaque}).String()}
	for _, k := range kinds {
		if slices.Contains(k.schemes, u.Scheme) {
			s.kind = k
		}
	}
	switch {
	case s.kind == nil:
		return nil, &URLError{s.shown, fmt.Errorf("unknown scheme; the schemes are %s", strings.Join(Schemes(), ", "))}
	case s.kind.whole && o.Filtered:
		return nil, &URLError{s.shown, errors.New("archives contain all samples, not those of a filter")}
	case o.Metrics && s.kind.metrics == nil:
		return nil, &URLError{s.shown, errors.New("--metrics needs otlp+http, otlp+grpc or textfile:PATH.prom")}
	case u.Scheme != "file" && u.Scheme != "textfile" && u.Host == "":
		return nil, &URLError{s.shown, errors.New("the host is missing")}
	}
	o.Metrics = o.Metrics || s.kind.encode == nil
	if s.sender, err = s.kind.open(u, o); err != nil {
		return nil, &URLError{s.shown, err}
	}
	return s, nil
}

// presigned reports whether a URL names one file, with a signature that permits to write it.
func presigned(u *url.URL) bool { return u.RawQuery != "" }

// send sends a request, in limited time.
func (s *server) send(ctx context.Context, r *openedRequest) error {
	ctx, cancel := context.WithTimeout(ctx, timeout(r.size))
	defer cancel()
	err := s.sender.send(ctx, r)
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		refused.Server = s.shown
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v", s.shown, timeout(r.size))
	}
	return fmt.Errorf("%s: %w", s.shown, err)
}

// timeout returns how long a request of size bytes may take: a minute, and the time that a slow line needs.
func timeout(size int64) time.Duration {
	const slow = 128 << 10 // bytes per second
	return time.Minute + time.Duration(size/slow)*time.Second
}

// localDir returns the directory that a file URL names: file:///ABSOLUTE, file:RELATIVE.
func localDir(u *url.URL) (string, error) {
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("host %s: files are local; write file:///%s", u.Host, u.Host)
	}
	opaque, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return "", err
	}
	dir := cmp.Or(u.Path, opaque)
	if dir == "" {
		return "", errors.New("the directory is missing")
	}
	return filepath.Clean(dir), nil
}

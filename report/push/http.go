package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	"google.golang.org/protobuf/proto"
)

// httpSender sends requests by HTTP.
type httpSender struct {
	client http.Client
	base   *url.URL // with the scheme of HTTP
	header http.Header
	otlp   bool // answers are OTLP's
}

func openHTTP(u *url.URL, o *Options) (sender, error) {
	base := *u
	kind, scheme, compound := strings.Cut(u.Scheme, "+")
	if compound {
		base.Scheme = scheme
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = time.Minute
	client := http.Client{Transport: transport, CheckRedirect: sameMethod}
	return &httpSender{client: client, base: &base, header: o.Header, otlp: kind == "otlp"}, nil
}

// sameMethod follows redirections that keep the method. Others would turn a request into one that sends nothing, and
// whose answer means nothing.
func sameMethod(r *http.Request, via []*http.Request) error {
	if r.Method != via[0].Method || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

func (s *httpSender) close() { s.client.CloseIdleConnections() }

func (s *httpSender) send(ctx context.Context, r *openedRequest) error {
	if r.Once {
		if there, err := s.has(ctx, r); err != nil || there {
			return err
		}
	}
	req, err := s.request(ctx, r.Method, r)
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(r.body()), r.size
	if r.size == 0 {
		req.Body = http.NoBody
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(r.body()), nil }
	answer, err := s.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return s.partly(text)
	}
	return statusError(answer, text)
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10

// request returns a request without a body.
func (s *httpSender) request(ctx context.Context, method string, r *openedRequest) (*http.Request, error) {
	u := *s.base
	if r.Path != "" && !strings.HasSuffix(u.Path, "/"+r.Path) {
		u = *u.JoinPath(strings.Split(r.Path, "/")...)
	}
	if len(r.Query) > 0 {
		query := u.Query()
		maps.Copy(query, r.Query)
		u.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("User-Agent", "gperf")
	return req, nil
}

// has reports whether the server stores the file of a request. Stores that hide contents answer that it is
// forbidden: gperf then sends it.
func (s *httpSender) has(ctx context.Context, r *openedRequest) (bool, error) {
	req, err := s.request(ctx, http.MethodHead, r)
	if err != nil {
		return false, err
	}
	req.Header.Del("Content-Type")
	answer, err := s.client.Do(req)
	if err != nil {
		return false, withoutURL(err)
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK && answer.ContentLength == r.size, nil
}

// withoutURL removes the URL from an error of package http, which may contain a signature.
func withoutURL(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// statusError returns the error of an answer's status.
func statusError(answer *http.Response, text []byte) error {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	err := fmt.Errorf("%s", answer.Status)
	if len(line) > 200 {
		line = line[:200] + "…"
	}
	if line = strings.ToValidUTF8(line, ""); line != "" && !strings.HasPrefix(line, "<") {
		err = fmt.Errorf("%s: %q", answer.Status, line)
	}
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout,
		code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		if after := retryAfter(answer.Header.Get("Retry-After")); after > 0 {
			return &laterError{after, err}
		}
		return err
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound,
		code == http.StatusMethodNotAllowed, code == http.StatusProxyAuthRequired,
		code == http.StatusNotImplemented, code/100 == 3:
		return &RefusedError{Status: code, Err: err}
	}
	if answer.StatusCode >= 500 {
		return fmt.Errorf("%w: %w", errServer, err)
	}
	return &rejectedError{err}
}

// retryAfter returns the time that a header Retry-After names, in seconds or as a date; 0 for none.
func retryAfter(value string) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// partly returns a *partlyError if an answer of OTLP says that profiles were dropped.
func (s *httpSender) partly(answer []byte) error {
	var r collector.ExportProfilesServiceResponse
	if !s.otlp || proto.Unmarshal(answer, &r) != nil {
		return nil
	}
	return partlyOf(&r)
}

func partlyOf(r *collector.ExportProfilesServiceResponse) error {
	if n := r.GetPartialSuccess().GetRejectedProfiles(); n > 0 {
		return &partlyError{n, cmp.Or(r.GetPartialSuccess().GetErrorMessage(), "no reason given")}
	}
	return nil
}

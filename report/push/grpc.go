package push

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/klauspost/compress/gzip"
	metrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// grpcSender sends OTLP's requests by gRPC.
type grpcSender struct {
	conn   *grpc.ClientConn
	header http.Header
}

// defaultPort is OTLP's port for gRPC.
const defaultPort = "4317"

func openGRPC(u *url.URL, o *Options) (sender, error) {
	creds := insecure.NewCredentials()
	if u.Scheme == "otlp+grpcs" {
		creds = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	conn, err := grpc.NewClient("dns:///"+host, grpc.WithTransportCredentials(creds), grpc.WithUserAgent("gperf"),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 10 * time.Second, Backoff: backoff.Config{
			BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: 10 * time.Second}}))
	if err != nil {
		return nil, err
	}
	return &grpcSender{conn, o.Header}, nil
}

func (s *grpcSender) close() { s.conn.Close() }

// The methods of the collector's services.
const (
	exportMethod  = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
	metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

func (s *grpcSender) send(ctx context.Context, r *openedRequest) error {
	method, request := exportMethod, proto.Message(new(collector.ExportProfilesServiceRequest))
	if r.Path == metricsPath {
		method, request = metricsMethod, new(metrics.ExportMetricsServiceRequest)
	}
	if err := unpack(r, request); err != nil {
		return &rejectedError{err}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, versionHeader, profilesVersion)
	for name, values := range s.header {
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, v)
		}
	}
	var answer collector.ExportProfilesServiceResponse // that of metrics has the same fields
	if err := s.conn.Invoke(ctx, method, request, &answer, grpc.UseCompressor("gzip")); err != nil {
		return grpcError(err)
	}
	return partlyOf(&answer)
}

// unpack decodes the body of a request.
func unpack(r *openedRequest, to proto.Message) error {
	z, err := gzip.NewReader(r.body())
	if err != nil {
		return err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, to)
}

// grpcError interprets an error of the server according to the specification of OTLP.
func grpcError(err error) error {
	s := status.Convert(err)
	text := fmt.Errorf("%s: %s", s.Code(), s.Message())
	var later *laterError
	for _, d := range s.Details() {
		if d, ok := d.(*errdetails.RetryInfo); ok {
			later = &laterError{d.GetRetryDelay().AsDuration(), text}
		}
	}
	switch s.Code() {
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Unavailable, codes.Canceled, codes.Aborted, codes.OutOfRange, codes.DataLoss:
		if later != nil {
			return later
		}
		return text
	case codes.ResourceExhausted:
		if later != nil {
			return later
		}
		return &rejectedError{text}
	case codes.Unauthenticated:
		return &RefusedError{Status: http.StatusUnauthorized, Err: text}
	case codes.PermissionDenied:
		return &RefusedError{Status: http.StatusForbidden, Err: text}
	case codes.Unimplemented, codes.NotFound:
		return &RefusedError{Status: http.StatusNotFound, Err: text}
	case codes.Internal, codes.Unknown:
		return fmt.Errorf("%w: %w", errServer, text)
	}
	return &rejectedError{text}
}

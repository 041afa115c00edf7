// Package push encodes recordings for the server that a URL names, keeps the batches in a spool on disk, and sends
// them again and again until the server has them.
//
// Each recording is encoded once, in batches with IDs that depend on nothing but the recording and the settings. A
// batch leaves the spool after the server confirmed it. A server that stored a batch and could not confirm it gets
// the batch again, with the same IDs: OTLP's profile_id, the keys of ClickHouse's rows, or the name of the file.
package push

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gperf/format"
	"gperf/internal/archive"
	"gperf/internal/session"
	"gperf/internal/spool"
)

// Options are the settings of a queue. Zero values are the defaults.
type Options struct {
	Dir   string // of the spool; "": the URL's below the user's directory for states
	Bytes int64  // of the spool at most; 0: defaultBytes
	// Service is the name of the recorded service, service.name of OpenTelemetry. Labels are more attributes, as pairs
	// of key and value.
	Service string
	Labels  [][2]string
	Header  http.Header // of each request, such as Authorization
	// By, MaxStack and NoInline are fields of export.StackSet. Archives contain all samples as they are.
	By       []string
	MaxStack int
	NoInline bool
	// Filtered means that the sessions select samples, which archives cannot.
	Filtered bool
	// Metrics counts the samples by By, for databases of metrics, in place of stacks.
	Metrics bool
	// Samples makes a row of each sample in databases, not of the equal ones of a minute.
	Samples bool
	Version string // gperf's
	// Again pushes recordings and symbols that were pushed before.
	Again bool
	// Log, if set, receives lines about problems and the ends of problems.
	Log func(line string)
}

// defaultBytes is the default of Options.Bytes.
const defaultBytes = 1 << 30

// defaultService is the default of Options.Service.
const defaultService = "gperf"

// Input is a recording to push.
type Input struct {
	Recording *archive.Recording
	Session   *session.Session
	Warn      func(format.Skipped) // receives the parts that could not be read; nil: nobody does
}

// Queue sends recordings to one server. Several goroutines may call the methods.
type Queue struct {
	opts   Options
	server *server
	spool  *spool.Spool
	adding sync.Mutex // one recording is encoded at a time

	stop context.CancelFunc
	done chan struct{} // closed when nothing is sent any more
	// stuck is cancelled with a *RefusedError: waiting longer does not help.
	stuck    context.Context
	setStuck context.CancelCauseFunc

	mu    sync.Mutex
	stats Stats
	last  error     // of sending, nil after a success
	since time.Time // of the first failure after a success
}

// Stats counts the recordings and batches of a queue since Open.
type Stats struct {
	Recordings int // added
	Batches    int // sent
	Bytes      int64
	Rejected   int // batches, or parts of them, that the server did not accept
}

// Open opens the queue of a server, and starts to send the batches left in the spool. It does not connect: an
// unreachable server is not an error. The error is a *URLError, spool.ErrInUse, or one of the disk.
func Open(url string, o Options) (*Queue, error) {
	o.Bytes, o.Service = cmp.Or(o.Bytes, defaultBytes), cmp.Or(o.Service, defaultService)
	srv, err := newServer(url, &o)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		of := url
		if o.Metrics {
			of += " metrics"
		}
		if o.Dir, err = defaultDir(of); err != nil {
			return nil, err
		}
	}
	q := &Queue{opts: o, server: srv, done: make(chan struct{})}
	if q.spool, err = spool.Open(o.Dir, o.Bytes); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, q.stop = context.WithCancel(context.Background())
	q.stuck, q.setStuck = context.WithCancelCause(context.Background())
	go q.send(ctx)
	return q, nil
}

// defaultDir returns the directory of the spool of a URL.
func defaultDir(url string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the specification demands
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a directory for the spool: %w", err)
		}
		state = filepath.Join(home, ".local/state")
	}
	if u, err := neturl.Parse(url); err == nil && (u.Scheme == "file" || u.Scheme == "textfile") { // it may be relative
		dir, err := localDir(u)
		if err == nil {
			url, err = filepath.Abs(dir)
		}
		if err != nil {
			return "", &URLError{url, err}
		}
	}
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(state, "gperf/push", hex.EncodeToString(sum[:8])), nil
}

// Close stops sending. Unsent entries stay in the spool.
func (q *Queue) Close() error {
	q.stop()
	<-q.done
	q.server.close()
	return q.spool.Close()
}

// Stats returns the counts of the queue since Open.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// Waiting returns the number and bytes of the batches to send.
func (q *Queue) Waiting() (batches int, bytes int64) { return q.spool.Len() }

// Failing returns since when sending fails and why, zero and nil if it does not.
func (q *Queue) Failing() (since time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since, q.last
}

// Server returns the URL without secrets, for messages.
func (q *Queue) Server() string { return q.server.shown }

// Protocol names the protocol of the server, for logs.
func (q *Queue) Protocol() string { return q.server.kind.protocol() }

// Dir returns the directory of the spool.
func (q *Queue) Dir() string { return q.opts.Dir }

// Add encodes a recording into the spool. added is false if it was pushed before. When Add returns, the recording's
// file is not needed any more. While the spool is full, Add waits until ctx is done; the recording is then not added.
func (q *Queue) Add(ctx context.Context, in Input) (added bool, err error) {
	q.adding.Lock()
	defer q.adding.Unlock()
	id, err := recordingID(in.Recording)
	if err != nil {
		return false, err
	}
	encode := q.server.kind.encode
	if q.opts.Metrics { // the stacks of a recording may be pushed, too
		id, encode = id+"-metrics", q.server.kind.metrics
	}
	if q.spool.Queued(id) || !q.opts.Again && q.spool.Known(id) {
		return false, nil
	}
	g, err := q.spool.Begin(id)
	if err != nil {
		return false, err
	}
	e := &encoder{queue: q, ctx: ctx, in: in, id: id, group: g, added: map[string]bool{}}
	if err := encode(e); err != nil {
		return false, errors.Join(in.Recording.Wrap(err), g.Discard())
	}
	if err := g.Commit(); err != nil {
		return false, errors.Join(err, g.Discard())
	}
	q.mu.Lock()
	q.stats.Recordings++
	q.mu.Unlock()
	return true, nil
}

// recordingID returns an ID that depends on a recording's bytes alone: 32 hexadecimal digits.
func recordingID(r *archive.Recording) (string, error) {
	if len(r.Parts) == 0 {
		return "", fmt.Errorf("push %s: a pipe can be read only once: write it to a file first", r.Path)
	}
	h := sha256.New()
	for _, p := range r.Parts {
		fmt.Fprintf(h, "%d\n", p.Size)
		if _, err := io.Copy(h, io.NewSectionReader(p, 0, p.Size)); err != nil {
			return "", fmt.Errorf("read %s: %w", r.Path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Wait returns when everything is sent, when ctx is done, or when waiting longer does not help because the server
// refuses requests. The error then says why batches are left.
func (q *Queue) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.stuck, cancel)()
	if q.spool.Wait(ctx) == nil {
		return nil
	}
	if err := context.Cause(q.stuck); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return cmp.Or(q.last, ctx.Err())
}

// send sends the entries of the spool until ctx is done.
func (q *Queue) send(ctx context.Context) {
	defer close(q.done)
	for {
		e, err := q.spool.Next(ctx)
		if err != nil {
			return
		}
		if q.deliver(ctx, e) != nil {
			return
		}
	}
}

// deliver sends an entry until the server stores or rejects it. The error is ctx's.
func (q *Queue) deliver(ctx context.Context, e spool.Entry) error {
	for failures := 0; ; failures++ {
		r, err := openRequest(e.Path)
		if err == nil {
			err = q.server.send(ctx, r)
			r.Close()
		}
		var rejected *rejectedError
		var partly *partlyError
		switch {
		case err == nil, errors.As(err, &partly):
			q.sent(e, partly)
			return q.insist(ctx, func() error { return q.spool.Sent(e, r.Once) })
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &rejected), failures+1 >= maxFailures && errors.Is(err, errServer):
			q.reject(e, err)
			return q.insist(ctx, func() error { return q.spool.Reject(e, err) })
		}
		if err := q.pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

// insist calls a function of the spool until the disk permits it. The entry is not sent again for this.
func (q *Queue) insist(ctx context.Context, do func() error) error {
	for failures := 0; ; failures++ {
		err := do()
		if err == nil {
			return nil
		}
		if err := q.pause(ctx, failures, fmt.Errorf("write the spool: %w", err)); err != nil {
			return err
		}
	}
}

// pause notes a failure and waits until it is time to try again. failures counts those before.
func (q *Queue) pause(ctx context.Context, failures int, err error) error {
	q.failed(err)
	select {
	case <-time.After(pause(failures, err)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent counts a batch.
func (q *Queue) sent(e spool.Entry, partly *partlyError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last != nil {
		q.log("%s accepts data again", q.server.shown)
	}
	q.last, q.since = nil, time.Time{}
	q.stats.Batches++
	q.stats.Bytes += e.Size
	if partly != nil {
		q.stats.Rejected++
		q.log("%s: %v", q.server.shown, partly)
	}
}

func (q *Queue) reject(e spool.Entry, err error) {
	q.log("%s rejected a batch, which stays in %s: %v", q.server.shown, filepath.Join(q.opts.Dir, "rejected"), err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Rejected++
	q.last, q.since = nil, time.Time{}
}

// failed logs a failure, unless the one before was the same.
func (q *Queue) failed(err error) {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		q.setStuck(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil || q.last.Error() != err.Error() {
		batches, bytes := q.spool.Len()
		q.log("%v; %d batches (%.3f MB) wait", err, batches, float64(bytes)/1e6)
	}
	if q.last = err; q.since.IsZero() {
		q.since = time.Now()
	}
}

func (q *Queue) log(format string, args ...any) {
	if q.opts.Log != nil {
		q.opts.Log(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	}
}

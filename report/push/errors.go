package push

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// URLError means that a URL names no kind of server.
type URLError struct {
	URL string
	Err error
}

func (e *URLError) Error() string { return fmt.Sprintf("push to %s: %v", e.URL, e.Err) }
func (e *URLError) Unwrap() error { return e.Err }

// RefusedError means that a server refuses requests for a reason that the user can change: the URL, or who may write.
// The batch stays in the spool.
type RefusedError struct {
	Server string
	Status int // of HTTP, also for gRPC: 401, 403, 404 (no such resource at the URL), 405, …; 0 for a directory
	Err    error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s refuses data: %v", e.Server, e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// rejectedError means that a server does not accept this batch, and will not later.
type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }
func (e *rejectedError) Unwrap() error { return e.err }

// partlyError means that a server took a batch and dropped a part of it.
type partlyError struct {
	parts   int64 // profiles, or points of metrics
	message string
}

func (e *partlyError) Error() string {
	return fmt.Sprintf("dropped %d parts of a batch: %s", e.parts, e.message)
}

// laterError is a temporary error of a server that named the time after which to try again.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// errServer is wrapped by errors of a server that may concern the batch alone. The batch is rejected after maxFailures
// of them, so that the following ones are sent.
var errServer = errors.New("server error")

const maxFailures = 10

// Times between attempts: twice the one before, and a random part, so that many senders do not come at the same time.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
	maxLater   = 5 * time.Minute
)

// pause returns how long to wait after a failure; failures counts those before.
func pause(failures int, err error) time.Duration {
	if later := (*laterError)(nil); errors.As(err, &later) {
		return min(later.after, maxLater)
	}
	most := min(firstPause<<min(failures, 10), maxPause)
	return most/2 + rand.N(most/2)
}

package stacks

import "time"

// retry says when to repeat a failed read. A read fails, for example, because the program freed a function that it
// makes again and again, such as a closure, or because the function was just being moved.
type retry struct {
	failed time.Time     // when something could not be read first, since the last try; zero if all was
	tried  time.Time     // the last try
	pause  time.Duration // from failed to the next try
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// fail notes that something could not be read, and reports whether that is the first time since the last try.
func (r *retry) fail(now time.Time) bool {
	if !r.failed.IsZero() {
		return false
	}
	r.failed = now
	r.pause = min(2*r.pause, lastPause)
	if r.pause == 0 || now.Sub(r.tried) > lastPause {
		r.pause = firstPause
	}
	return true
}

// due reports whether it is time for the next try, and notes that.
func (r *retry) due(now time.Time) bool {
	if r.failed.IsZero() || now.Sub(r.failed) < r.pause {
		return false
	}
	r.failed, r.tried = time.Time{}, now
	return true
}

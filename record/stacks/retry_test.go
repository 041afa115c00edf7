package stacks

import (
	"slices"
	"testing"
	"time"
)

// TestRetry checks when failed reads are tried again.
func TestRetry(t *testing.T) {
	var r retry
	start := time.Unix(1000, 0)
	var tries []time.Duration
	for at := time.Duration(0); at < 2*time.Second; at += time.Millisecond {
		if r.due(start.Add(at)) {
			tries = append(tries, at/time.Millisecond)
		}
		if at < time.Second {
			r.fail(start.Add(at))
		}
	}
	want := []time.Duration{10, 30, 70, 150, 250, 350, 450, 550, 650, 750, 850, 950, 1050}
	if !slices.Equal(tries, want) {
		t.Errorf("tried after %d ms, want %d", tries, want)
	}
	later := start.Add(time.Minute)
	if !r.fail(later) || r.fail(later) || r.due(later) || !r.due(later.Add(firstPause)) {
		t.Error("after a time without failures, pauses do not begin again")
	}
}

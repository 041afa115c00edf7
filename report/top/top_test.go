package top

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

// Intervals follow the time of the samples, also after a gap.
func TestClock(t *testing.T) {
	c := clock{delay: 10, end: 10}
	var ended []uint64
	for _, at := range []uint64{105, 106, 114, 115, 114, 124, 125, 199, 205} {
		if c.sample(at) {
			ended = append(ended, at)
			c.next(at)
		}
		if at != 114 && (at < c.start || at >= c.end) {
			t.Errorf("%d is not in the interval from %d to %d", at, c.start, c.end)
		}
	}
	if want := []uint64{115, 125, 199, 205}; !slices.Equal(ended, want) {
		t.Errorf("intervals ended before the samples %d, want %d", ended, want)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		in   time.Duration
		unit string
		want string
	}{{5, 2 * time.Second, "count", "2.5"}, {100_000, time.Second, "count", "100000"}, {7, 0, "count", "7000000000"},
		{64, time.Second, "bytes", "64.0"}, {3e9, 2 * time.Second, "nanoseconds", "1.500 s"},
		{2.5e6, time.Second, "nanoseconds", "2.500 ms"}, {800, time.Second, "nanoseconds", "0.800 us"}} {
		if got := Rate(c.n, c.in, c.unit); got != c.want {
			t.Errorf("Rate(%d, %s, %s) = %s, want %s", c.n, c.in, c.unit, got, c.want)
		}
	}
}

// A Buffer passes all bytes on in order, then the end.
func TestBuffer(t *testing.T) {
	b := NewBuffer()
	go func() {
		for i := range 1000 {
			b.Write(slices.Repeat([]byte{byte(i)}, 1+i))
		}
		b.Close(nil)
	}()
	all, err := io.ReadAll(b)
	if err != nil || len(all) != 1000*1001/2 {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	at := 0
	for i := range 1000 {
		for range 1 + i {
			if all[at] != byte(i) {
				t.Fatalf("byte %d is %d, want %d", at, all[at], byte(i))
			}
			at++
		}
	}
	if _, err := b.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing after the end: %v", err)
	}
}

// Close ends a Write that waits for the reader.
func TestBufferFull(t *testing.T) {
	b := NewBuffer()
	b.Write(make([]byte, maxBuffer+1))
	done := make(chan error)
	go func() { _, err := b.Write([]byte{1}); done <- err }()
	select {
	case err := <-done:
		t.Fatalf("writing to a full buffer: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	b.Close(errors.New("stopped"))
	if err := <-done; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to a closed buffer: %v", err)
	}
}

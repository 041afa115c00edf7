package record

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A poller misses neither a file that becomes ready between two waits nor a signal.
func TestPoller(t *testing.T) {
	p := newPoller()
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// As for a ring, each event is reported once, however long nobody looks.
	if err := p.watch(fd, unix.EPOLLIN|unix.EPOLLET); err != nil {
		t.Fatal(err)
	}
	const n, long = 2000, time.Minute
	start := time.Now()
	wait := func() {
		if _, err := p.wait(long, func(int) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for i := range n {
			unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			time.Sleep(time.Duration(i%50) * time.Microsecond)
		}
	}()
	var b [8]byte
	for seen := uint64(0); seen < n && time.Since(start) < long; {
		wait()
		if _, err := unix.Read(fd, b[:]); err == nil {
			seen += binary.LittleEndian.Uint64(b[:])
		}
	}
	for range n {
		p.signal()
		wait()
	}
	if d := time.Since(start); d >= long {
		t.Errorf("an event or a signal ended no wait: %v", d)
	}
}

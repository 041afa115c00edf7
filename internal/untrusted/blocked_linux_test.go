package untrusted

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

func TestIsServed(t *testing.T) {
	for typ, want := range map[string]bool{"ext4": false, "overlay": false, "tmpfs": false, "nfs4": true, "fuse": true,
		"fuse.sshfs": true, "fused": false, "9p": true} {
		if got := isServed(&procfs.Mount{Type: typ}); got != want {
			t.Errorf("%s: %t", typ, got)
		}
	}
}

// A call that does not sleep in the kernel may take long: the machine may be busy. One that sleeps is given up.
func TestWithinBusy(t *testing.T) {
	old := patience
	patience = 20 * time.Millisecond
	defer func() { patience = old; blocked.names = nil }()
	path := filepath.Join(t.TempDir(), "file")
	n, err := within(path, func() (n int, err error) {
		for end := time.Now().Add(10 * patience); time.Now().Before(end); {
			n++
		}
		return n, nil
	}, func(int) {})
	if n == 0 || err != nil {
		t.Errorf("a busy call: %d, %v", n, err)
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	_, err = within(path, func() (int, error) { return unix.Read(pipe[0], make([]byte, 1)) }, func(int) {})
	if err != ErrBlocked {
		t.Errorf("a call that sleeps: %v", err)
	}
	unix.Close(pipe[1]) // ends the call
	for isBlocked(path) {
		time.Sleep(time.Millisecond)
	}
}

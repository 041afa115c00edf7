package untrusted

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// impatient makes calls wait for a short time, until the returned function is called or the test ends. After the test,
// it awaits the end of those that were given up.
func impatient(t *testing.T) (end func()) {
	t.Helper()
	old, sleep := patience, sleepOf
	end = func() { patience, sleepOf = old, sleep }
	patience, sleepOf = 10*time.Millisecond, func(int32) string { return "asleep" }
	t.Cleanup(func() {
		for waiting() > 0 {
			time.Sleep(time.Millisecond)
		}
		end()
		blocked.names = nil
	})
	return end
}

func waiting() int {
	blocked.Lock()
	defer blocked.Unlock()
	return len(blocked.calls)
}

// A call that does not end makes other calls on the same path fail at once, until it ends.
func TestWithin(t *testing.T) {
	end := impatient(t)
	path := filepath.Join(t.TempDir(), "file")
	ends, dropped := make(chan int), make(chan int)
	wait := func() (int, error) { return <-ends, nil }
	if _, err := within(path, wait, func(n int) { dropped <- n }); err != ErrBlocked {
		t.Fatalf("the error is %v", err)
	}
	end()
	if _, err := within(path, func() (int, error) { panic("called") }, nil); err != ErrBlocked {
		t.Errorf("next to it, the error is %v", err)
	}
	if n, err := within(path+"2", func() (int, error) { return 3, nil }, nil); n != 3 || err != nil {
		t.Errorf("on another path: %d, %v", n, err)
	}
	if err := NoAnswer(); err == nil || !strings.HasPrefix(err.Error(), path+": the file system") {
		t.Errorf("the error names another: %v", err)
	}
	if err := NoAnswer(); err != nil {
		t.Errorf("said again: %v", err)
	}
	ends <- 7
	if n := <-dropped; n != 7 {
		t.Errorf("dropped: %d", n)
	}
	for isBlocked(path) {
		time.Sleep(time.Millisecond)
	}
	failed := errors.New("failed")
	if _, err := within(path, func() (int, error) { return 0, failed }, nil); err != failed {
		t.Errorf("afterwards the error is %v", err)
	}
}

// Many calls that do not end hold few threads.
func TestWithinMany(t *testing.T) {
	impatient(t)
	ends := make(chan bool)
	defer close(ends)
	var started atomic.Int32
	for i := range 2 * maxBlocked {
		path := filepath.Join("/proc", "none", string(rune('a'+i)))
		within(path, func() (int, error) { started.Add(1); <-ends; return 0, nil }, func(int) {})
	}
	if n := started.Load(); n != maxBlocked {
		t.Errorf("%d calls were started", n)
	}
}

// A file whose contents do not come fails to be read.
func TestRemoteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b [4]byte
	if n, err := (remoteFile{file}).ReadAt(b[:], 8); string(b[:n]) != "89" || err == nil || errors.Is(err, ErrBlocked) {
		t.Errorf("%q, %v", b[:n], err)
	}
	t.Cleanup(func() { blocked.names = nil })
	release := block(path)
	if _, err := (remoteFile{file}).ReadAt(b[:], 0); !errors.Is(err, ErrBlocked) {
		t.Errorf("blocked, the error is %v", err)
	}
	if _, err := Open(path); !errors.Is(err, ErrBlocked) {
		t.Errorf("blocked, opening fails with %v", err)
	}
	if _, err := Stat(path); !errors.Is(err, ErrBlocked) {
		t.Errorf("blocked, stat fails with %v", err)
	}
	release()
	if n, err := (remoteFile{file}).ReadAt(b[:], 0); n != 4 || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
}

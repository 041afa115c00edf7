// This file limits the CPU time and memory that a piece of a test may take.

package inputs

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// AtMost fails if a function takes more CPU time, or allocates more bytes in all. The message calls it by a name.
func AtMost(t *testing.T, name string, limit time.Duration, bytes uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := CPU()
	f()
	d := CPU() - start
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; d > limit || n > bytes {
		t.Errorf("%s takes %v and %d MB, at most %v and %d MB are allowed", name, d, n>>20, limit, bytes>>20)
	}
}

// CPU returns the CPU time of this process.
func CPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package record

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// realtime gives all threads of this process a SCHED_FIFO priority. Threads that they start
// inherit it; the recorded command was started before.
func realtime(priority int) error {
	tids, err := procfs.Threads(os.Getpid())
	if err != nil {
		return err
	}
	const schedFIFO = 1
	param := struct{ priority int32 }{int32(priority)}
	for _, tid := range tids {
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), schedFIFO,
			uintptr(unsafe.Pointer(&param)))
		if errno != 0 && errno != unix.ESRCH {
			return fmt.Errorf("realtime priority %d: %w", priority, errno)
		}
	}
	return nil
}

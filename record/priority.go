package record

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// prioritize lets the recorder run before others: with a SCHED_FIFO priority or,
// where that is 0 and the process may do so, with a lower nice value. Samples wait for it, and
// rings overflow, on machines whose CPUs are all busy. The recorded command was started before.
// restore is called at the end of the recording.
func prioritize(realtime int) (restore func(), err error) {
	if realtime == 0 {
		return lowerNice(), nil
	}
	const schedFIFO = 1
	param := struct{ priority int32 }{int32(realtime)}
	return func() {}, eachThread(func(tid int) error {
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), schedFIFO,
			uintptr(unsafe.Pointer(&param)))
		if errno != 0 && errno != unix.ESRCH {
			return fmt.Errorf("realtime priority %d: %w", realtime, errno)
		}
		return nil
	})
}

// lowerNice lowers the nice value by 10, until restore is called. That needs CAP_SYS_NICE, or
// RLIMIT_NICE: without it, nothing changes.
func lowerNice() (restore func()) {
	const lower, offset = 10, 20 // the system call returns 20 - nice
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return func() {}
	}
	set := func(nice int) {
		_ = eachThread(func(tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, nice) })
	}
	nice := offset - n
	set(nice - lower)
	return func() { set(nice) }
}

// eachThread calls set for all threads of this process, until it fails. Threads that they start
// inherit what is set.
func eachThread(set func(tid int) error) error {
	tids, err := procfs.Threads(os.Getpid())
	if err != nil {
		return err
	}
	for _, tid := range tids {
		if err := set(tid); err != nil {
			return err
		}
	}
	return nil
}

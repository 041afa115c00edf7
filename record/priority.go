package record

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// setRealtime gives the recorder a SCHED_FIFO priority.
func setRealtime(priority int) error {
	const schedFIFO = 1
	param := struct{ priority int32 }{int32(priority)}
	return eachThread(func(tid int) error {
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), schedFIFO,
			uintptr(unsafe.Pointer(&param)))
		if errno != 0 && errno != unix.ESRCH {
			return fmt.Errorf("realtime priority %d: %w", priority, errno)
		}
		return nil
	})
}

// begunNice is the nice value that gperf was started with, and gives the recorded command.
var begunNice = func() int {
	const offset = 20 // the system call returns 20 - nice
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return offset - n
}()

// LowerNice lets gperf run before others, with a nice value that is lower by 10 than at its start, until restore is
// called. Where all CPUs are busy, it would otherwise take long to begin and to end, samples would wait, and rings
// overflow. That needs CAP_SYS_NICE, or RLIMIT_NICE: without it, nothing changes.
func LowerNice() (restore func()) {
	const lower = 10
	set := func(nice int) {
		_ = eachThread(func(tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, nice) })
	}
	if lowered.Add(1) == 1 {
		set(begunNice - lower)
	}
	return func() {
		if lowered.Add(-1) == 0 {
			set(begunNice)
		}
	}
}

// lowered is the number of calls of LowerNice without one of restore.
var lowered atomic.Int32

// eachThread calls set for all threads of this process, until it fails. Threads that they start
// inherit the settings.
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

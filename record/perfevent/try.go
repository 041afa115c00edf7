package perfevent

import (
	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
)

// Try opens a counter of this thread, or of all threads on CPU 0, and closes it.
// The error is perf_event_open's errno.
func Try(a format.Attr, everywhere bool) error {
	a.Flags |= format.FlagDisabled
	tid, cpu := 0, -1
	if everywhere {
		tid, cpu = -1, 0
	}
	fd, err := Open(&a, tid, cpu, -1, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// TryCgroup opens a counter for the cgroup at dir, on CPU 0, and closes it.
func TryCgroup(dir string) error {
	group, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(group)
	a := format.Attr{Type: format.TypeSoftware, Config: format.SWDummy, Flags: format.FlagDisabled}
	fd, err := Open(&a, group, 0, -1, unix.PERF_FLAG_PID_CGROUP)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Supported reports whether the machine supports an event, if only in user space. An event
// that this user may not open counts as supported.
func Supported(ev *event.Event) bool {
	a := format.Attr{Type: ev.Type, Config: ev.Config, SamplePeriod: 1 << 20,
		SampleType: format.SampleIP, Flags: ev.Flags}
	err := Try(a, false)
	if err == unix.EACCES {
		a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
		err = Try(a, false)
	}
	return err == nil || err == unix.EACCES || err == unix.EPERM
}

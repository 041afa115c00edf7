package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// ClockOffset returns what to add to times of CLOCK_MONOTONIC, which BPF programs use, to get those of the
// recording's clock, which is that of the event with attr like. The kernel shows its default clock
// only in records: Offset causes a sample, by a page fault. Results may be too early by some microseconds.
func ClockOffset(like *format.Attr) (uint64, error) {
	if like.Flags&format.FlagUseClockID != 0 && like.ClockID == unix.CLOCK_MONOTONIC {
		return 0, nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := format.Attr{Type: format.TypeSoftware, Config: format.SWPageFaults, SamplePeriod: 1,
		SampleType: format.SampleTime, ClockID: like.ClockID,
		Flags: like.Flags&format.FlagUseClockID | format.FlagExcludeKernel}
	fd, err := Open(&a, 0, -1, -1, 0)
	if err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	defer unix.Close(fd)
	page := os.Getpagesize()
	ring, err := unix.Mmap(fd, 0, 2*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("mapping the ring of the clock: %w", err)
	}
	defer unix.Munmap(ring)
	fresh, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("mapping a page: %w", err)
	}
	defer unix.Munmap(fresh)
	fresh[0] = 1
	le := binary.LittleEndian
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	if rec := ring[page:]; format.Type(le.Uint32(rec)) == format.TypeSample {
		return le.Uint64(rec[format.HeaderSize:]) - uint64(now.Nano()), nil
	}
	return 0, errors.New("reading the clock: no sample of a page fault")
}

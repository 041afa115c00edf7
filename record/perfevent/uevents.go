package perfevent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// FollowCPUs calls online, on another goroutine, for each CPU that comes online, until ctx is
// done. The kernel reports CPUs by kobject uevents; if these are unavailable, it does nothing.
func FollowCPUs(ctx context.Context, online func(cpu int)) {
	events, err := openUevents()
	if err != nil {
		return
	}
	context.AfterFunc(ctx, func() { events.Close() })
	go func() {
		b := make([]byte, maxUevent)
		for {
			n, err := events.Read(b)
			if errors.Is(err, unix.ENOBUFS) {
				continue // some uevents were lost
			}
			if err != nil {
				return
			}
			if cpu, ok := parseOnline(b[:n]); ok {
				online(cpu)
			}
		}
	}()
}

// maxUevent is larger than any message of the kernel, in bytes.
const maxUevent = 1 << 14

// openUevents opens a socket that receives the kernel's uevents.
func openUevents() (*os.File, error) {
	const kernelGroup = 1
	const kind = unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_NETLINK, kind, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// parseOnline returns the CPU of a uevent that reports a CPU online:
// "online@/devices/system/cpu/cpu1", a zero byte, and variables.
func parseOnline(uevent []byte) (cpu int, ok bool) {
	head, _, _ := bytes.Cut(uevent, []byte{0})
	number, ok := bytes.CutPrefix(head, []byte("online@/devices/system/cpu/cpu"))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(number), 10, 16)
	return int(n), err == nil
}

// Drops causes exactly n packet drops: UDP datagrams to a closed loopback port. The
// kernel frees each of them with skb:kfree_skb and reason NO_SOCKET. It is the workload of the demo, of the tests that
// count samples, and of the bench.
//
// The socket is not connected: the ICMP port-unreachable that answers a datagram would come back to a
// connected one as ECONNREFUSED on the next send, which then sends nothing.
//
// An overloaded kernel moves some of these drops to ksoftirqd. With -unix, each datagram goes to a Unix socket that is
// disconnected before it is read: the kernel always drops it in the sender's own context. With -full, they go to a
// socket without a reader whose buffer is full (SOCKET_RCVBUFF); with -port, to a port of the caller's choice, which is
// that socket's with -full.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// One thread sends everything, so that the samples carry one tid, the process's.
func init() { runtime.LockOSThread() }

func main() {
	n := flag.Int("n", 1000, "datagrams to send")
	rate := flag.Int("rate", 0, "datagrams per second; 0: as fast as possible")
	local := flag.Bool("unix", false, "send to Unix sockets that are disconnected before they are read")
	full := flag.Bool("full", false, "send to a socket whose buffer is full")
	port := flag.Int("port", 0, "send to this port of 127.0.0.1")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *rate < 0 {
		flag.Usage()
		os.Exit(2)
	}
	start := time.Now()
	where := "a closed port"
	var err error
	switch {
	case *local:
		where = "Unix sockets"
		err = drop(*n, *rate, unread)
	case *full:
		where = "a full socket"
		err = toFullSocket(*n, *rate, *port)
	case *port != 0:
		where = fmt.Sprintf("port %d", *port)
		err = dropAt(&syscall.SockaddrInet4{Port: *port, Addr: loopback}, *n, *rate)
	default:
		err = dropAt(nil, *n, *rate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drops:", err)
		os.Exit(1)
	}
	fmt.Printf("drops: sent %d datagrams to %s in %.3f s\n", *n, where, time.Since(start).Seconds())
}

// dropAt sends n datagrams to an address, or to a closed port.
func dropAt(to syscall.Sockaddr, n, rate int) error {
	fd, err := bound(0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if to == nil {
		closed, err := bound(0)
		if err != nil {
			return err
		}
		defer syscall.Close(closed)
		if to, err = closePort(closed); err != nil {
			return err
		}
	}
	return drop(n, rate, func() error { return sendto(fd, to) })
}

// unread sends a datagram to a Unix socket that is disconnected before it is read: unix_dgram_disconnected empties the
// socket's queue. To close the socket would not do: whoever lists /proc/PID/fd holds every file for a moment, so the
// drop could happen in that process.
func unread() error {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(pair[1])
	defer syscall.Close(pair[0])
	if _, err := syscall.Write(pair[0], payload); err != nil {
		return err
	}
	nobody := syscall.RawSockaddrUnix{Family: syscall.AF_UNSPEC}
	_, _, errno := syscall.Syscall(syscall.SYS_CONNECT, uintptr(pair[1]), uintptr(unsafe.Pointer(&nobody)),
		unsafe.Sizeof(nobody))
	if errno != 0 {
		return fmt.Errorf("disconnect a Unix socket: %w", errno)
	}
	return nil
}

var payload = []byte("x")

// drop sends n datagrams at rate per second, all of them or an error.
func drop(n, rate int, send func() error) error {
	start := time.Now()
	for sent := 0; sent < n; {
		due := n
		if rate > 0 {
			due = min(n, int(time.Since(start).Seconds()*float64(rate)))
		}
		for ; sent < due; sent++ {
			if err := send(); err != nil {
				return fmt.Errorf("send datagram %d of %d: %w", sent+1, n, err)
			}
		}
		if sent < n {
			time.Sleep(500 * time.Microsecond)
		}
	}
	return nil
}

func sendto(fd int, to syscall.Sockaddr) error {
	for {
		if err := syscall.Sendto(fd, payload, 0, to); err != syscall.EINTR {
			return err
		}
	}
}

var loopback = [4]byte{127, 0, 0, 1}

// bound returns a UDP socket with a loopback port: an unused one for 0.
func bound(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a UDP socket: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: loopback}); err != nil {
		syscall.Close(fd)
		return -1, fmt.Errorf("bind a UDP socket to loopback: %w", err)
	}
	return fd, nil
}

// closePort connects a UDP socket to a port from which nobody sends, and returns the socket's port: the socket holds
// the port, so that no other program gets it, and receives no datagram.
func closePort(fd int) (syscall.Sockaddr, error) {
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: 1, Addr: loopback}); err != nil {
		return nil, fmt.Errorf("connect a UDP socket: %w", err)
	}
	to, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("read the port of a UDP socket: %w", err)
	}
	return to, nil
}

// toFullSocket sends datagrams to a socket without a reader until it is full, and then until the kernel dropped n.
func toFullSocket(n, rate, port int) error {
	fd, err := bound(port)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 0); err != nil {
		return fmt.Errorf("shrink the buffer of a UDP socket: %w", err)
	}
	to, err := syscall.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("read the port of a UDP socket: %w", err)
	}
	sender, err := bound(0)
	if err != nil {
		return err
	}
	defer syscall.Close(sender)
	for range 1 << 16 {
		if err := sendto(sender, to); err != nil {
			return err
		}
		if lost, err := dropped(fd); err != nil {
			return err
		} else if lost > 0 {
			return drop(n-1, rate, func() error { return sendto(sender, to) })
		}
	}
	return errors.New("a UDP socket does not get full")
}

// dropped returns the number of datagrams that did not fit into the socket's buffer: SK_MEMINFO_DROPS of the option
// SO_MEMINFO (include/uapi/linux/sock_diag.h).
func dropped(fd int) (uint32, error) {
	const soMeminfo, drops = 55, 8
	var info [drops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, soMeminfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the drops of a UDP socket: %w", errno)
	}
	return info[drops], nil
}

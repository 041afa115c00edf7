// Drops provokes exactly n packet drops: UDP datagrams to a closed loopback port, each of which the
// kernel frees with skb:kfree_skb and reason NO_SOCKET. It is the workload of the demo, of the tests that
// count samples, and of the bench. With -full, the datagrams go to a socket that nobody reads from and whose
// buffer is full (SOCKET_RCVBUFF); with -port, to a port of the caller's choice, whatever drops them there.
//
// The socket is not connected: the ICMP port-unreachable that answers a datagram would come back to a
// connected one as ECONNREFUSED on the next send, which then sends nothing.
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
	rate := flag.Int("rate", 0, "datagrams per second; 0: as fast as it goes")
	full := flag.Bool("full", false, "send to a socket whose buffer is full")
	port := flag.Int("port", 0, "send to this port of 127.0.0.1")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *rate < 0 {
		flag.Usage()
		os.Exit(2)
	}
	start := time.Now()
	to, where, err := target(*full, *port)
	sent := *n
	if *full {
		sent-- // one has told that the socket is full
	}
	if err == nil {
		err = drop(to, sent, *rate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drops:", err)
		os.Exit(1)
	}
	fmt.Printf("drops: sent %d datagrams to %s in %.3f s\n", *n, where, time.Since(start).Seconds())
}

// target returns whom to send to; nil stands for a closed port.
func target(full bool, port int) (to syscall.Sockaddr, where string, err error) {
	switch {
	case full:
		to, err = fullSocket()
		return to, "a full socket", err
	case port != 0:
		return &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, fmt.Sprintf("port %d", port), nil
	}
	return nil, "a closed port", nil
}

// drop sends n datagrams at rate per second, all of them or an error.
func drop(to syscall.Sockaddr, n, rate int) error {
	fd, err := bound()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if to == nil {
		if to, err = closedPort(); err != nil {
			return err
		}
	}
	payload := []byte("x")
	start := time.Now()
	for sent := 0; sent < n; {
		due := n
		if rate > 0 {
			due = min(n, int(time.Since(start).Seconds()*float64(rate)))
		}
		for ; sent < due; sent++ {
			if err := sendto(fd, payload, to); err != nil {
				return fmt.Errorf("send datagram %d of %d: %w", sent+1, n, err)
			}
		}
		if sent < n {
			time.Sleep(500 * time.Microsecond)
		}
	}
	return nil
}

func sendto(fd int, payload []byte, to syscall.Sockaddr) error {
	for {
		if err := syscall.Sendto(fd, payload, 0, to); err != syscall.EINTR {
			return err
		}
	}
}

// bound returns a UDP socket with a loopback port of its own.
func bound() (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a UDP socket: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		syscall.Close(fd)
		return -1, fmt.Errorf("bind a UDP socket to loopback: %w", err)
	}
	return fd, nil
}

// closedPort returns a loopback port that nobody listens on: one that was free a moment ago. The sender
// must be bound already, lest the kernel give it this very port.
func closedPort() (syscall.Sockaddr, error) {
	fd, err := bound()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	to, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("read the port of a UDP socket: %w", err)
	}
	return to, nil
}

// fullSocket returns the address of a socket that has just dropped its first datagram.
func fullSocket() (syscall.Sockaddr, error) {
	sender, err := bound()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(sender)
	fd, err := bound() // stays open
	if err != nil {
		return nil, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 0); err != nil {
		return nil, fmt.Errorf("shrink the buffer of a UDP socket: %w", err)
	}
	to, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("read the port of a UDP socket: %w", err)
	}
	for range 1 << 16 {
		if err := sendto(sender, []byte("x"), to); err != nil {
			return nil, fmt.Errorf("fill a UDP socket: %w", err)
		}
		if n, err := dropped(fd); err != nil || n > 0 {
			return to, err
		}
	}
	return nil, errors.New("a UDP socket does not get full")
}

// dropped returns how many datagrams the socket had no place for: SK_MEMINFO_DROPS of the option SO_MEMINFO
// (include/uapi/linux/sock_diag.h).
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

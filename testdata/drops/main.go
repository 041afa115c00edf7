// Drops provokes exactly n packet drops: UDP datagrams to a closed loopback port, each of which the
// kernel frees with skb:kfree_skb and reason NO_SOCKET. It is the workload of the demo, of the tests that
// count samples, and of the bench.
//
// The socket is not connected: the ICMP port-unreachable that answers a datagram would come back to a
// connected one as ECONNREFUSED on the next send, which then sends nothing.
//
// A kernel short of time leaves some of these drops to ksoftirqd. With -unix, each datagram goes to a Unix socket that is
// closed before it is read: it is dropped in the sender's own context, whatever happens.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// One thread sends everything, so that the samples carry one tid, the process's.
func init() { runtime.LockOSThread() }

func main() {
	n := flag.Int("n", 1000, "datagrams to send")
	local := flag.Bool("unix", false, "send to Unix sockets that are closed unread")
	rate := flag.Int("rate", 0, "datagrams per second; 0: as fast as it goes")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *rate < 0 {
		flag.Usage()
		os.Exit(2)
	}
	start := time.Now()
	to := "a closed port"
	var err error
	if *local {
		to = "Unix sockets"
		err = drop(*n, *rate, unread)
	} else {
		err = withClosedPort(func(send func() error) error { return drop(*n, *rate, send) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drops:", err)
		os.Exit(1)
	}
	fmt.Printf("drops: sent %d datagrams to %s in %.3f s\n", *n, to, time.Since(start).Seconds())
}

// withClosedPort gives f what sends a datagram to a closed port.
func withClosedPort(f func(send func() error) error) error {
	fd, err := bound()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	to, err := closedPort()
	if err != nil {
		return err
	}
	return f(func() error { return sendto(fd, to) })
}

// unread sends a datagram to a Unix socket that is closed before it is read.
func unread() error {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(pair[1])
	defer syscall.Close(pair[0])
	_, err = syscall.Write(pair[0], payload)
	return err
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

// Drops provokes exactly n packet drops: UDP datagrams to a closed loopback port, each of which the
// kernel frees with skb:kfree_skb and reason NO_SOCKET. It is the workload of the demo, of the tests that
// count samples, and of the bench.
//
// The socket is not connected: the ICMP port-unreachable that answers a datagram would come back to a
// connected one as ECONNREFUSED on the next send, which then sends nothing.
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
	rate := flag.Int("rate", 0, "datagrams per second; 0: as fast as it goes")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *rate < 0 {
		flag.Usage()
		os.Exit(2)
	}
	start := time.Now()
	if err := drop(*n, *rate); err != nil {
		fmt.Fprintln(os.Stderr, "drops:", err)
		os.Exit(1)
	}
	fmt.Printf("drops: sent %d datagrams to a closed port in %.3f s\n", *n, time.Since(start).Seconds())
}

// drop sends n datagrams at rate per second, all of them or an error.
func drop(n, rate int) error {
	fd, err := bound()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	to, err := closedPort()
	if err != nil {
		return err
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

// Frames sends the Ethernet frames of its standard input, a line of hexadecimal digits each, on a
// network device. With -full, it first opens a UDP socket with this port, whose buffer has room for few
// datagrams, and prints how many the kernel has dropped there at the end.
package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	full := flag.Int("full", 0, "do not read the datagrams to this port")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: frames [-full PORT] DEVICE < FRAMES")
	}
	if *full > 0 {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: *full})
		if err == nil {
			err = conn.SetReadBuffer(1)
		}
		if err != nil {
			log.Fatal(err)
		}
		defer func() { fmt.Println(drops(*full)) }()
	}
	if err := send(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// send sends the frames of the input. A queue of the device that drops one is no error.
func send(device string) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrLinklayer{Ifindex: dev.Index}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		frame, err := hex.DecodeString(lines.Text())
		if err != nil {
			return err
		}
		if err := unix.Sendto(fd, frame, 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("send %d bytes: %w", len(frame), err)
		}
	}
	return lines.Err()
}

// drops returns the number of datagrams that the socket with this port had no room for: the last field
// of its line in /proc/net/udp.
func drops(port int) string {
	b, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return f[len(f)-1]
		}
	}
	return "no socket"
}

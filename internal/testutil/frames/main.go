// Frames sends the Ethernet frames of its standard input, a line of hexadecimal digits each, on a
// network device.
package main

import (
	"bufio"
	"encoding/hex"
	"log"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: frames DEVICE < FRAMES")
	}
	dev, err := net.InterfaceByName(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		log.Fatal(err)
	}
	to := &unix.SockaddrLinklayer{Ifindex: dev.Index}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		frame, err := hex.DecodeString(lines.Text())
		if err != nil {
			log.Fatal(err)
		}
		if err := unix.Sendto(fd, frame, 0, to); err != nil {
			log.Fatalf("send %d bytes: %v", len(frame), err)
		}
	}
}

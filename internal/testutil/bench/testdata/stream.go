// Stream sends bytes over a TCP connection on the loopback device for some seconds, and prints how many
// megabytes per second arrive. With -packets, it sends UDP datagrams of one byte instead, and prints how
// many per second arrive at an open port.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"time"
)

func main() {
	log.SetFlags(0)
	seconds := flag.Float64("seconds", 2, "duration")
	packets := flag.Bool("packets", false, "send datagrams of one byte")
	flag.Parse()
	measure := stream
	if *packets {
		measure = datagrams
	}
	rate, err := measure(time.Duration(*seconds * float64(time.Second)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f\n", rate)
}

// stream returns the megabytes per second that one connection carries.
func stream(d time.Duration) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	to, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	from, err := l.Accept()
	if err != nil {
		return 0, err
	}
	received := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, onlyReader{from})
		received <- n
	}()
	buf := make([]byte, 64<<10)
	start := time.Now()
	for time.Since(start) < d {
		if _, err := to.Write(buf); err != nil {
			return 0, err
		}
	}
	to.Close()
	return float64(<-received) / 1e6 / time.Since(start).Seconds(), nil
}

// onlyReader hides the other methods of a connection: bytes are copied as in most programs, not spliced.
type onlyReader struct{ io.Reader }

// datagrams returns the datagrams per second that arrive.
func datagrams(d time.Duration) (float64, error) {
	from, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	to, err := net.DialUDP("udp4", nil, from.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return 0, err
	}
	b := []byte{1}
	n := 0
	start := time.Now()
	for time.Since(start) < d {
		for range 64 {
			if _, err := to.Write(b); err != nil {
				return 0, err
			}
		}
		for range 64 {
			if _, err := from.Read(b); err != nil {
				return 0, err
			}
			n++
		}
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

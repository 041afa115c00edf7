package packets

import (
	"strconv"
	"testing"
)

// TestFlightsBounded: packets that never end take little memory, and none is missing from the log.
func TestFlightsBounded(t *testing.T) {
	const count = 400_000
	ended, largest := 0, 0
	l := newFlights([]*event{{kind: Dropped}, {kind: Passed}}, func(f *flight, _ end) {
		ended += len(f.hops) + f.omitted
	})
	for i := range uint64(count) {
		l.add(&Packet{SKB: i, Flow: "udp 10.0.0.1:1 > 10.0.0.2:2", Hop: "ip_rcv"}, i)
		largest = max(largest, l.size)
	}
	if largest > 2*maxSize || len(l.all) == 0 {
		t.Errorf("%d bytes, %d packets at the end", largest, len(l.all))
	}
	if l.endAll(); ended != count || l.size != 0 {
		t.Errorf("%d of %d packets, %d bytes at the end", ended, count, l.size)
	}
}

// TestFlightsIdle: a packet without samples for a long time is given up, while others go on.
func TestFlightsIdle(t *testing.T) {
	var ended []uint64
	l := newFlights([]*event{{kind: Dropped}, {kind: Passed}}, func(f *flight, _ end) { ended = append(ended, f.skb) })
	l.add(&Packet{SKB: 1}, 1e9)
	for i := range uint64(15) {
		l.add(&Packet{SKB: 2, Hop: strconv.Itoa(int(i))}, (2+i)*1e9)
	}
	if len(ended) != 1 || ended[0] != 1 {
		t.Errorf("ended: %v, want 1", ended)
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[uint64]string{0: "0us", 40: "0.0us", 50: "0.1us", 12_449: "12.4us", 999_949: "999.9us",
		1_000_000: "1.0ms", 1_999_999_500: "2.0s", 1<<64 - 1: "18446744073.7s"} {
		if got := duration(ns); got != want {
			t.Errorf("%d ns: %s, want %s", ns, got, want)
		}
	}
}

package packets

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"gperf/format/tracepoint"
	"gperf/internal/quantile"
	"gperf/internal/session"
)

// fuzzFormats are the fields that a fuzzed sample may have.
var fuzzFormats = []string{"name: kfree_skb\nID: 1\nformat:\n" + `
	field:void * skbaddr;	offset:8;	size:8;	signed:0;
	field:void * location;	offset:16;	size:8;	signed:0;
	field:int reason;	offset:24;	size:4;	signed:1;
	field:u32 len;	offset:28;	size:4;	signed:0;
	field:char dev[16];	offset:32;	size:16;	signed:0;
	field:__data_loc char[] flow;	offset:48;	size:4;	signed:0;
	field:__data_loc char[] sk;	offset:52;	size:4;	signed:0;
	field:__data_loc char[] verdict;	offset:56;	size:4;	signed:0;
	field:__data_loc u8[] bytes;	offset:60;	size:4;	signed:0;
	field:u8 bytes_at;	offset:64;	size:1;	signed:0;
	field:u64 packet;	offset:72;	size:8;	signed:0;

print fmt: "%s", __print_symbolic(REC->reason, { 3, "NO_SOCKET" })
`, "name: net_dev_xmit\nID: 2\nformat:\n" + `
	field:u64 func;	offset:8;	size:8;	signed:0;
	field:__rel_loc char[] flow;	offset:16;	size:4;	signed:0;
	field:__data_loc char[] name;	offset:20;	size:4;	signed:0;
	field:int rc;	offset:24;	size:4;	signed:1;
	field:u8 bytes[40];	offset:28;	size:40;	signed:0;

print fmt: "%s", __get_str(flow)
`}

// FuzzPacket decodes arbitrary raw data, and writes its packets as text and as pcapng.
func FuzzPacket(f *testing.F) {
	var events []*event
	for _, text := range fuzzFormats {
		t, err := tracepoint.Parse([]byte(text), "test")
		if err != nil {
			f.Fatal(err)
		}
		events = append(events, newEvent("test:"+t.Name, t))
	}
	whole := make([]byte, 120)
	copy(whole[48:], []byte{80, 0, 12, 0, 92, 0, 8, 0, 92, 0, 8, 0, 100, 0, 20, 0})
	copy(whole[80:], "tcp a > b\x00\x00\x00nginx/1\x00\x45")
	f.Add(whole)
	f.Add([]byte{})
	f.Add(append(whole[:48:48], 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := &decoder{events: events, functions: map[uint64]symbol{}, texts: map[string]string{}}
		var text strings.Builder
		l := &log{hops: map[string]*quantile.Durations{}, ends: map[string]int{}}
		flights := newFlights(events, func(fl *flight, e end) { text.WriteString(l.text(fl, e)) })
		capture := &pcapng{to: io.Discard, interfaces: map[netInterface]int{}}
		lines := 0
		for i, e := range events {
			var p Packet
			d.read(&p, e, raw)
			if len(p.Bytes) > len(raw) {
				t.Fatalf("%d bytes of a packet from %d", len(p.Bytes), len(raw))
			}
			flights.add(&p, uint64(i))
			if err := capture.write(&p, &session.Sample{Comm: "\xff"}); err != nil {
				t.Fatal(err)
			}
			lines += 3 // at most: the header, the hop, the end
		}
		flights.endAll()
		if got := text.String(); strings.Count(got, "\n") > lines || !utf8.ValidString(got) ||
			len(got) > lines*4*maxText || strings.ContainsAny(got, "\x1b\r\x00") {
			t.Fatalf("%q", got)
		}
	})
}

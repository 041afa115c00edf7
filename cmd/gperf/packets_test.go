package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// The times, flows and places of crafted packets.
const (
	sec  = 1_000_000_000
	syn  = "tcp 10.0.0.7:443 > 10.0.0.9:51044"
	nat  = "tcp 192.0.2.1:443 > 10.0.0.9:51044"
	dns  = "udp [::1]:53 > [::1]:9999"
	eth0 = "eth0"
)

// at adds fields to the fields of a packet.
func at(flow string, skb int, more fields) fields {
	f := fields{"flow": flow, "skbaddr": skb, "len": 60, "netns": 4026531840, "dev": eth0}
	if strings.HasPrefix(flow, "tcp ") {
		f["tcpflags"] = 0x12
	}
	for k, v := range more {
		f[k] = v
	}
	return f
}

var allPacketEvents = []string{"packet:hop", "net:netif_receive_skb", "net:net_dev_queue", "net:net_dev_xmit",
	"skb:consume_skb", "skb:kfree_skb"}

// packetCases are recordings, and the output of --packets for them.
var packetCases = []struct {
	name, flags string
	recording   packetRecording
	want        string
}{
	{"a drop after hops", "", packetRecording{events: allPacketEvents, samples: []packetSample{
		{"net:netif_receive_skb", 10 * sec, at(syn, 0x100, nil)},
		{"packet:hop", 10*sec + 12400, at(syn, 0x100, fields{"func": ipRcv})},
		{"skb:kfree_skb", 10*sec + 15500, at(syn, 0x100, fields{"location": nftDoChain + 0x3e, "reason": 12})},
	}}, `tcp 10.0.0.7:443 > 10.0.0.9:51044  10.000000  skb 0x100
      +0us  net:netif_receive_skb  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
   +12.4us  ip_rcv                 eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
    +3.1us  skb:kfree_skb          eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
            DROPPED at nft_do_chain+0x3e (NETFILTER_DROP) after 15.5us

# packets: 1, samples: 3
#
#   COUNT  END
#       1  DROPPED (NETFILTER_DROP)
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       1    12.4us    12.4us  ip_rcv
#       1     3.1us     3.1us  skb:kfree_skb
`},
	{"a followed packet with NAT and a clone", "--ns", packetRecording{events: allPacketEvents, samples: []packetSample{
		{"packet:hop", 5*sec + 1, at(syn, 0x100, fields{"packet": 7, "func": devXmit, "mark": 5})},
		{"packet:hop", 5*sec + 1001, at(nat, 0x200, fields{"packet": 7, "func": devXmit, "dev": "br0", "vlan": 3})},
		{"skb:kfree_skb", 5*sec + 2001, at(nat, 0x200, fields{"packet": 7, "location": nftDoChain, "reason": 3, "dev": "br0"})},
		{"net:net_dev_xmit", 5*sec + 1_002_001, at(nat, 0x100, fields{"packet": 7})},
		{"skb:consume_skb", 5*sec + 1_003_001, at(nat, 0x100, fields{"packet": 7})},
	}}, `tcp 10.0.0.7:443 > 10.0.0.9:51044  5.000000001  packet 7
      +0us  dev_hard_start_xmit  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60 mark 0x5
    +1.0us  dev_hard_start_xmit  br0   ns 4026531840  tcp 192.0.2.1:443 > 10.0.0.9:51044 S. len 60 vlan 3
    +1.0us  skb:kfree_skb        br0   ns 4026531840  tcp 192.0.2.1:443 > 10.0.0.9:51044 S. len 60  DROPPED at nft_do_chain+0x0 (NO_SOCKET)
    +1.0ms  net:net_dev_xmit     eth0  ns 4026531840  tcp 192.0.2.1:443 > 10.0.0.9:51044 S. len 60
    +1.0us  skb:consume_skb      eth0  ns 4026531840  tcp 192.0.2.1:443 > 10.0.0.9:51044 S. len 60
            SENT on eth0 after 1.0ms

# packets: 1, samples: 5
#
#   COUNT  END
#       1  SENT
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       1     1.0ms     1.0ms  net:net_dev_xmit
#       1     1.0us     1.0us  dev_hard_start_xmit
#       1     1.0us     1.0us  skb:consume_skb
#       1     1.0us     1.0us  skb:kfree_skb
`},
	{"delivered, consumed and not ended", "", packetRecording{events: allPacketEvents, samples: []packetSample{
		{"net:netif_receive_skb", sec, at(dns, 0x100, nil)},
		{"net:net_dev_queue", sec + 1000, at(syn, 0x200, nil)},
		{"skb:consume_skb", sec + 2000, at(dns, 0x100, fields{"sk": "nginx/812", "location": skbConsume + 4})},
		{"skb:consume_skb", sec + 3000, at(syn, 0x200, fields{"sk": "nginx/812", "location": devXmit + 4})},
		{"net:netif_receive_skb", sec + 4000, at(dns, 0x100, fields{"dev": "lo"})},
	}}, `udp [::1]:53 > [::1]:9999  1.000000  skb 0x100
      +0us  net:netif_receive_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
    +2.0us  skb:consume_skb        eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
            DELIVERED to nginx/812 after 2.0us

tcp 10.0.0.7:443 > 10.0.0.9:51044  1.000001  skb 0x200
      +0us  net:net_dev_queue  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
    +2.0us  skb:consume_skb    eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
            CONSUMED at dev_hard_start_xmit+0x4 after 2.0us

udp [::1]:53 > [::1]:9999  1.000004  skb 0x100
      +0us  net:netif_receive_skb  lo  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60

# packets: 3, samples: 5
#
#   COUNT  END
#       1  CONSUMED
#       1  DELIVERED
#       1  no end recorded
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       2     2.0us     2.0us  skb:consume_skb
`},
	{"packets freed without an event", "", packetRecording{events: allPacketEvents, samples: []packetSample{
		{"net:net_dev_queue", sec, at(syn, 0x100, nil)},
		{"packet:hop", sec + 1000, at(syn, 0x100, fields{"func": nftDoChain})},
		{"packet:hop", sec + 2000, at(syn, 0x100, fields{"func": nftDoChain})}, // at another hook
		{"net:netif_receive_skb", sec + 3000, at(syn, 0x100, nil)},
		{"net:net_dev_queue", sec + 4000, at(dns, 0x100, nil)},
		{"net:netif_receive_skb", sec + 5000, at(dns, 0x100, fields{"netns": 1})},
		{"net:netif_receive_skb", sec + 6000, at(dns, 0x100, nil)},
		{"net:netif_receive_skb", sec + 7000, at(syn, 0x100, nil)},
	}}, `tcp 10.0.0.7:443 > 10.0.0.9:51044  1.000000  skb 0x100
      +0us  net:net_dev_queue      eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
    +1.0us  nft_do_chain           eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
    +1.0us  nft_do_chain           eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
    +1.0us  net:netif_receive_skb  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60

udp [::1]:53 > [::1]:9999  1.000004  skb 0x100
      +0us  net:net_dev_queue      eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
    +1.0us  net:netif_receive_skb  eth0  ns 1           udp [::1]:53 > [::1]:9999 len 60
    +1.0us  net:netif_receive_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60

tcp 10.0.0.7:443 > 10.0.0.9:51044  1.000007  skb 0x100
      +0us  net:netif_receive_skb  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60

# packets: 3, samples: 8
#
#   COUNT  END
#       3  no end recorded
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       3     1.0us     1.0us  net:netif_receive_skb
#       2     1.0us     1.0us  nft_do_chain
`},
	{"one event", "", packetRecording{events: []string{"net:netif_receive_skb", "other:event"}, samples: []packetSample{
		{"net:netif_receive_skb", sec, at(dns, 0x100, nil)},
		{"other:event", sec, fields{"skbaddr": 0x100}},
		{"net:netif_receive_skb", sec + 4000, at(dns, 0x100, nil)},
	}}, `udp [::1]:53 > [::1]:9999  1.000000  skb 0x100
      +0us  net:netif_receive_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60

udp [::1]:53 > [::1]:9999  1.000004  skb 0x100
      +0us  net:netif_receive_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60

# packets: 2, samples: 2
#
#   COUNT  END
#       2  no end recorded
`},
	{"verdicts, and few fields", "", packetRecording{events: []string{"packet:verdict", "packet:hop"},
		without: []string{"packet", "dev", "netns", "len", "sk", "mark", "vlan", "bytes"}, samples: []packetSample{
			{"packet:verdict", sec, at(dns, 0x100, fields{"verdict": "table inet filter chain input rule 4 handle 7"})},
			{"packet:hop", sec + 2000, at("", 0x100, fields{"func": 0x1234})},
			{"packet:verdict", sec + 3000, at("", 0x100, fields{"verdict": "a\x1bb\nc"})}, // another packet: the event repeats
		}}, `udp [::1]:53 > [::1]:9999  1.000000  skb 0x100
      +0us  packet:verdict  udp [::1]:53 > [::1]:9999 len 0  table inet filter chain input rule 4 handle 7
    +2.0us  0x1234           len 0
            DROPPED by table inet filter chain input rule 4 handle 7 after 2.0us

unknown flow  1.000003  skb 0x100
      +0us  packet:verdict   len 0  a?b?c
            DROPPED by a?b?c

# packets: 2, samples: 3
#
#   COUNT  END
#       2  DROPPED
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       1     2.0us     2.0us  0x1234
`},
	{"a verdict before the drop", "", packetRecording{events: append(allPacketEvents, "packet:verdict"),
		samples: []packetSample{
			{"packet:verdict", sec, at(dns, 0x100, fields{"verdict": "table inet f chain i rule 1 handle 2"})},
			{"skb:kfree_skb", sec + 2000, at(dns, 0x100, fields{"location": nftDoChain + 0x3e, "reason": 12})},
		}}, `udp [::1]:53 > [::1]:9999  1.000000  skb 0x100
      +0us  packet:verdict  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60  table inet f chain i rule 1 handle 2
    +2.0us  skb:kfree_skb   eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
            DROPPED at nft_do_chain+0x3e by table inet f chain i rule 1 handle 2 (NETFILTER_DROP) after 2.0us

# packets: 1, samples: 2
#
#   COUNT  END
#       1  DROPPED (NETFILTER_DROP)
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       1     2.0us     2.0us  skb:kfree_skb
`},
	{"by latency", "--sort latency", packetRecording{events: allPacketEvents, samples: []packetSample{
		{"packet:hop", sec, at(dns, 0x100, fields{"func": ipRcv})},
		{"skb:consume_skb", sec + 500, at(dns, 0x100, nil)},
		{"packet:hop", sec + 1000, at(syn, 0x100, fields{"func": ipRcv})},
		{"skb:consume_skb", sec + 2_000_000_000, at(syn, 0x100, nil)},
	}}, `tcp 10.0.0.7:443 > 10.0.0.9:51044  1.000001  skb 0x100
      +0us  ip_rcv           eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
     +2.0s  skb:consume_skb  eth0  ns 4026531840  tcp 10.0.0.7:443 > 10.0.0.9:51044 S. len 60
            CONSUMED after 2.0s

udp [::1]:53 > [::1]:9999  1.000000  skb 0x100
      +0us  ip_rcv           eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
    +0.5us  skb:consume_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
            CONSUMED after 0.5us

# packets: 2, samples: 4
#
#   COUNT  END
#       2  CONSUMED
#
#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop
#       2     0.5us      2.0s  skb:consume_skb
`},
	{"a time filter", "--time 2,3", packetRecording{events: []string{"skb:kfree_skb"}, samples: []packetSample{
		{"skb:kfree_skb", sec, at(syn, 0x100, fields{"reason": 12})},
		{"skb:kfree_skb", 2*sec + 1000, at(dns, 0x100, fields{"reason": 77})},
	}}, `udp [::1]:53 > [::1]:9999  2.000001  skb 0x100
      +0us  skb:kfree_skb  eth0  ns 4026531840  udp [::1]:53 > [::1]:9999 len 60
            DROPPED (reason 77)

# packets: 1, samples: 1
#
#   COUNT  END
#       1  DROPPED (reason 77)
`},
	{"a process without packets", "--pid 1", packetRecording{events: []string{"skb:kfree_skb"}, samples: []packetSample{
		{"skb:kfree_skb", sec, at(syn, 0x100, nil)},
	}}, "# packets: 0, samples: 0\n"},
}

// TestPackets compares the blocks and the summary, of the file and of the archive.
func TestPackets(t *testing.T) {
	for _, c := range packetCases {
		t.Run(c.name, func(t *testing.T) {
			file := c.recording.save(t)
			args := append(strings.Fields("script --packets "+c.flags), "--kallsyms", craftedKallsyms(t))
			got, _ := gperf(t, append(args, "-i", file)...)
			sameText(t, "the file", got, c.want)
			archived := file + ".zip"
			gperf(t, "archive", "-i", file, "-o", archived)
			got, _ = gperf(t, append(args, "-i", archived)...)
			sameText(t, "the archive", got, c.want)
		})
	}
}

// TestPacketsLive: the block of a packet appears while the recording goes on.
func TestPacketsLive(t *testing.T) {
	rec := packetRecording{events: []string{"packet:hop", "skb:kfree_skb"}}
	const packets = 4
	for i := range packets {
		from := uint64(sec * (i + 1))
		rec.samples = append(rec.samples, packetSample{"packet:hop", from, at(syn, 0x100*i, fields{"func": ipRcv})},
			packetSample{"skb:kfree_skb", from + 1000, at(syn, 0x100*i, fields{"reason": 3})})
	}
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin; in.Close() }()
	out, print := io.Pipe()
	names, done := craftedKallsyms(t), make(chan int)
	go func() {
		code := run([]string{"script", "--packets", "-i", "-", "--kallsyms", names}, print, io.Discard)
		print.Close()
		done <- code
	}()
	text := make(chan string, 100)
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, err := out.Read(b)
			if err != nil {
				close(text)
				return
			}
			text <- string(b[:n])
		}
	}()
	got := ""
	rec.stream(t, feed, func(n int) {
		for n == 6 && !strings.Contains(got, "DROPPED") { // the first packets, before the last one ended
			got += <-text
		}
	})
	feed.Close()
	for s := range text {
		got += s
	}
	if code := <-done; code != exitOK || strings.Count(got, "DROPPED (NO_SOCKET) after 1.0us") != packets {
		t.Errorf("exit code %d:\n%s", code, got)
	}
}

// TestPacketsBounded: memory and output stay small for packets without an end, and packets with many hops.
func TestPacketsBounded(t *testing.T) {
	rec := packetRecording{events: []string{"packet:hop", "skb:kfree_skb"}}
	for i := range uint64(3000) {
		rec.samples = append(rec.samples, packetSample{"packet:hop", sec + i,
			at(syn, 0x100, fields{"packet": 1, "func": ipRcv})})
	}
	for i := range uint64(100) { // a second apart: the first ones are given up
		rec.samples = append(rec.samples, packetSample{"packet:hop", (i + 2) * sec, at(dns, int(0x1000+i), nil)})
	}
	got, _ := gperf(t, "script", "--packets", "--kallsyms", craftedKallsyms(t), "-i", rec.save(t))
	if !strings.Contains(got, "and 2000 more hops\n") || !strings.Contains(got, "# packets: 101, samples: 3100\n") ||
		strings.Count(got, "  skb 0x10") != 100 {
		t.Errorf("%.3000s", got[max(0, len(got)-3000):])
	}
}

// TestPacketsErrors: wrong use, and recordings without packets.
func TestPacketsErrors(t *testing.T) {
	none := packetRecording{events: []string{"other:event"}}
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"script --packets", exitError, "the recording has no events with packets: "},
		{"script --packets --tree", exitUsage, "--packets and --tree exclude each other"},
		{"script --sort latency", exitUsage, "--sort is for --packets"},
		{"script --packets --sort size", exitUsage, "--sort size: use time or latency"},
		{"script --packets --format json", exitUsage, "--packets is for --format text"},
	} {
		t.Run(c.line, func(t *testing.T) {
			var errs strings.Builder
			code := run(append(strings.Fields(c.line), "-i", none.save(t)), io.Discard, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
		})
	}
}

// hostileFields are contents that gperf record does not write.
var hostileFields = func() map[string]fields {
	long := strings.Repeat("\xff\x1b\n", 4000)
	return map[string]fields{
		"long texts": {"flow": long, "verdict": long, "sk": long, "dev": long, "name": long},
		"outside":    {"flow": 0xffffffff, "sk": 0x10000 << 8, "bytes": 0xffff0008, "verdict": 0x7fff7fff},
		"extreme numbers": {"packet": -1, "len": -1, "netns": -1, "bytes_at": 255, "reason": -1,
			"func": -1, "location": -1, "bytes": make([]byte, 60000)},
		"no header":              {"bytes": []byte{0x45}},
		"a part of the VLAN tag": {"bytes": append(make([]byte, 12), 0x81, 0, 0x81)},
		"nothing":                {},
	}
}()

// hostileRecording contains all events with these fields.
func hostileRecording(values fields) *packetRecording {
	rec := &packetRecording{events: append([]string{"packet:verdict"}, allPacketEvents...)}
	for i, e := range rec.events {
		v := fields{"skbaddr": 1}
		for name, value := range values {
			v[name] = value
		}
		rec.samples = append(rec.samples, packetSample{e, uint64(sec + i), v})
	}
	return rec
}

// TestPacketsHostile: no content of the fields makes gperf fail, or print much.
func TestPacketsHostile(t *testing.T) {
	for name, values := range hostileFields {
		file := hostileRecording(values).save(t)
		for _, flags := range []string{"--packets", "--packets --sort latency"} {
			t.Run(name+" "+flags, func(t *testing.T) {
				args := append(strings.Fields("script "+flags), "-i", file, "--kallsyms", craftedKallsyms(t))
				out, _ := gperf(t, args...)
				if len(out) > 10000 || strings.Contains(out, "\x1b") || !strings.Contains(out, "samples: 7\n") {
					t.Errorf("%d bytes: %.2000q", len(out), out)
				}
			})
		}
	}
}

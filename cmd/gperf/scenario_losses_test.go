package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Packets that get lost for different reasons, counted by flow and reason.

// lossPorts are the destination ports of the flows that are lost in one way.
const (
	portClosed   = 3000 // no socket has it
	portReset    = 3100 // of TCP
	portFull     = 3200 // a socket without space in its buffer has it
	portNft      = 3300 // a rule of nf_tables drops its packets
	portIptables = 3400 // a rule of iptables does
	portChecksum = 3500 // the packets have wrong checksums
	portQueue    = 3600 // a queue of the sender has no space for the packets
	portNetem    = 3700 // a queue of the sender loses the packets
	portXDP      = 3800 // an XDP program of the receiver's device drops the packets
)

const lossFlows = 7 // of each kind

// lossPair makes the way of the packets, from device va to vb.
const lossPair = "ip link add va type veth peer name vb\n"

// lossSetUp completes the way, and makes others from devices wa and xa with queues that drop all; kernels without
// netem have another one.
var lossSetUp = fmt.Sprintf(`
ip link add wa type veth peer name wb
ip link add xa type veth peer name xb
ip link set vb address 02:00:00:00:00:02
ip addr add 10.9.0.2/24 dev vb
for d in va vb wa wb xa xb; do ip link set $d up; done
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.vb.rp_filter=0 net.ipv4.conf.vb.accept_local=1 \
	net.ipv6.conf.all.disable_ipv6=1
nft add table inet t
nft 'add chain inet t in { type filter hook input priority 0; }'
nft add rule inet t in udp dport %d-%d counter drop
iptables-legacy -A INPUT -p udp --dport %d:%d -j DROP
tc qdisc add dev wa root tbf rate 8kbit burst 10 limit 1
tc qdisc add dev xa root netem loss 100%% 2>/dev/null || tc qdisc add dev xa root tbf rate 8kbit burst 10 limit 1
`, portNft, portNft+lossFlows-1, portIptables, portIptables+lossFlows-1)

// lossCounters prints the counters of the rules and of the queue.
const lossCounters = `
nft list table inet t | sed -n 's/.*counter packets \([0-9]*\).*/\1/p'
iptables-legacy -nvxL INPUT | awk '/DROP.*udp/ {print $1}'
for d in wa xa; do tc -s qdisc show dev $d | sed -n 's/.*dropped \([0-9]*\),.*/\1/p'; done
`

// lossFrame encodes a packet of one of the flows.
func lossFrame(t *testing.T, port, flow int) []byte {
	t.Helper()
	ip := ipv4(layers.IPProtocolUDP)
	var l4 gopacket.SerializableLayer
	if port == portReset {
		ip.Protocol = layers.IPProtocolTCP
		tcp := &layers.TCP{SrcPort: 40000, DstPort: layers.TCPPort(port + flow), SYN: true, Window: 100}
		tcp.SetNetworkLayerForChecksum(ip)
		l4 = tcp
	} else {
		udp := &layers.UDP{SrcPort: 40000, DstPort: layers.UDPPort(port + flow)}
		if port == portFull || port == portXDP {
			udp.SrcPort, udp.DstPort = layers.UDPPort(40000+flow), layers.UDPPort(port)
		}
		udp.SetNetworkLayerForChecksum(ip)
		l4 = udp
	}
	b := gopacket.NewSerializeBuffer()
	o := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	err := gopacket.SerializeLayers(b, o, ether(layers.EthernetTypeIPv4), ip, l4, gopacket.Payload("lost"))
	if err != nil {
		t.Fatal(err)
	}
	if port == portChecksum {
		b.Bytes()[14+20+6] ^= 0x55
	}
	return b.Bytes()
}

var lossLine = regexp.MustCompile(`^ *(\d+) +(?:udp|tcp) 10\.9\.0\.1:(\d+) > 10\.9\.0\.2:(\d+) +(\w+)$`)

// loss is a flow, by its ports, and how it is lost.
type loss struct {
	source, port int
	reason       string
}

// The ways to be lost, with their reasons.
var lossReasons = map[int]string{portClosed: "NO_SOCKET", portReset: "NO_SOCKET", portFull: "SOCKET_RCVBUFF",
	portNft: "NETFILTER_DROP", portIptables: "NETFILTER_DROP", portChecksum: "UDP_CSUM", portQueue: "QDISC_DROP",
	portNetem: "QDISC_DROP", portXDP: "XDP_DROP"}

// writeLosses writes the frames of so many packets of each flow, in turns, to the files frames, queue and netem of dir,
// and returns the flows.
func writeLosses(t *testing.T, dir string, each int, xdp bool) (want map[loss]int) {
	t.Helper()
	want = map[loss]int{}
	var frames, queue, netem strings.Builder
	for port, reason := range lossReasons {
		if port == portXDP && !xdp {
			continue
		}
		for flow := range lossFlows {
			frame := hex.EncodeToString(lossFrame(t, port, flow)) + "\n"
			switch port {
			case portQueue:
				queue.WriteString(strings.Repeat(frame, each))
				want[loss{40000, port + flow, reason}] = each
			case portNetem:
				netem.WriteString(strings.Repeat(frame, each))
				want[loss{40000, port + flow, reason}] = each
			case portFull, portXDP:
				frames.WriteString(frame)
				want[loss{40000 + flow, port, reason}] = each
			default:
				frames.WriteString(frame)
				want[loss{40000, port + flow, reason}] = each
			}
		}
	}
	all := strings.Repeat(frames.String(), each)
	for name, text := range map[string]string{"frames": all, "queue": queue.String(), "netem": netem.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// reportedLosses are the flows that report counts by reason.
func reportedLosses(t *testing.T, dir string) map[loss]int {
	t.Helper()
	got := map[loss]int{}
	out := mustGperf(t, "report", "--stdio", "-g", "none", "-F", "sample", "--sort", "flow,reason", "-i",
		filepath.Join(dir, "perf.data"))
	counted := false // the other events count packets again
	for line := range strings.Lines(out) {
		if _, event, ok := strings.Cut(line, "of event '"); ok {
			counted = strings.HasPrefix(event, "skb:kfree_skb'") || strings.HasPrefix(event, "xdp:drop'")
		}
		if !counted {
			continue
		}
		if m := lossLine.FindStringSubmatch(strings.TrimRight(line, "\n ")); m != nil {
			var n [3]int
			for i := range n {
				n[i], _ = strconv.Atoi(m[i+1])
			}
			got[loss{n[1], n[2], m[4]}] += n[0]
		}
	}
	return got
}

// report counts each flow and reason exactly as the sender, the socket, the rules and the queue do.
func TestScenarioLosses(t *testing.T) {
	needEmitted(t)
	if !strings.Contains(mustGperf(t, "list", "-v", "skb:kfree_skb"), "reason") {
		t.Skip("skb:kfree_skb has no reason (since Linux 5.17)")
	}
	netns(t, lossPair+lossSetUp, "nft", "iptables-legacy", "tc", "awk")
	t.Run("skb", func(t *testing.T) {
		testLosses(t, false, "unshare", "-n", "sh", "-ec", "{\n"+lossPair+lossSetUp+"} >/dev/null")
	})
	t.Run("skb and XDP", func(t *testing.T) {
		pid := startDropper(t, "-drop", strconv.Itoa(portXDP))
		recordDropper(t, t.TempDir(), pid, "-e", "xdp:drop") // skips if it cannot be recorded
		testLosses(t, true, "nsenter", "-n", "-t", pid, "sh", "-ec", "{\n"+lossSetUp+"} >/dev/null")
	})
}

// testLosses sends packets, some of them to the port of an XDP program, in a namespace that a shell's command line
// prepares.
func testLosses(t *testing.T, xdp bool, shell ...string) {
	each := 360
	if testing.Short() {
		each = 50
	}
	dir := t.TempDir()
	want := writeLosses(t, dir, each, xdp)
	shell[len(shell)-1] += `; cd "$1"; "$0" -full ` + strconv.Itoa(portFull) +
		` va < frames; "$0" wa < queue; "$0" xa < netem` + lossCounters
	args := append([]string{"-a", "-m", "4096", "-e", "packet:drops", "--packet", "src host 10.9.0.1", "--"}, shell...)
	r := mustRecord(t, dir, append(args, framesProgram.Path(t), dir)...)
	counters := strings.Fields(r.stdout)
	got := reportedLosses(t, dir)
	full, all := 0, strconv.Itoa(each*lossFlows)
	for k, n := range want {
		count := got[k]
		if k.port == portFull {
			full += count
			count += got[loss{k.source, k.port, "NOT_SPECIFIED"}] // those in the buffer when the socket is closed
		}
		if count != n {
			t.Errorf("%v: %d packets, %d were sent", k, count, n)
		}
	}
	if strings.Join(counters, " ") != fmt.Sprintf("%d %s %s %s %s", full, all, all, all, all) {
		t.Errorf("the socket, nft, iptables and tc have counted %v; report %d in the socket; %s each were sent",
			counters, full, all)
	}
}

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// Packets that are followed: one number from the sender to the receiver.

var betweenC = programs.C(ownPrograms+"between.c", "-O1")

// hop is a sample of a followed packet.
type hop struct {
	event, function, dev, flow string // event without its system
	netns                      uint32
}

// where returns the function, or the event and the device.
func (h hop) where() string {
	if h.function != "" {
		return h.function
	}
	return h.event + " " + h.dev
}

var hopLine = regexp.MustCompile(
	`^\w+:(\w+): (?:func=(\S+) )?.*\bpacket=(\d+) flow=(.*?) dev=(\S*) .*?netns=(\d+)`)

// followed returns the samples of each packet of a recording, in the order of time.
func followed(t *testing.T, path string) map[int][]hop {
	t.Helper()
	packets := map[int][]hop{}
	for line := range strings.Lines(mustGperf(t, "script", "-i", path, "-G", "-F", "event,trace")) {
		m := hopLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("not a followed packet: %s", line)
		}
		number, _ := strconv.Atoi(m[3])
		netns, _ := strconv.ParseUint(m[6], 10, 32)
		packets[number] = append(packets[number], hop{m[1], m[2], m[5], m[4], uint32(netns)})
	}
	return packets
}

// having returns the samples of the one packet that passes a place with a flow.
func having(t *testing.T, packets map[int][]hop, where, flow string) []hop {
	t.Helper()
	var found [][]hop
	for _, hops := range packets {
		if slices.ContainsFunc(hops, func(h hop) bool { return h.where() == where && strings.Contains(h.flow, flow) }) {
			found = append(found, hops)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d packets with %s pass %s: %v", len(found), flow, where, packets)
	}
	return found[0]
}

// checkWay expects samples at places, in this order, with others between them.
func checkWay(t *testing.T, hops []hop, places ...string) {
	t.Helper()
	left := places
	var way []string
	for _, h := range hops {
		way = append(way, h.where())
		if len(left) > 0 && h.where() == left[0] {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		t.Errorf("the packet does not pass %v in this order, %s is missing:\n%s", places, left[0],
			strings.Join(way, "\n"))
	}
}

// namespaces makes network namespaces for a test, runs commands that connect them, and returns their
// files. In the commands, @NAME is a namespace's name. It skips where a tool or a part of the kernel is missing.
func namespaces(t *testing.T, names, commands string, tools ...string) (file func(name string) string) {
	t.Helper()
	for _, tool := range append(tools, "ip") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing (Debian's iproute2, nftables)", tool)
		}
	}
	prefix := fmt.Sprintf("gperf%d", os.Getpid())
	t.Cleanup(func() {
		for name := range strings.FieldsSeq(names) {
			exec.Command("ip", "netns", "del", prefix+name).Run()
		}
	})
	setup := "for n in " + names + "; do ip netns add " + prefix + "$n; ip -n " + prefix + "$n link set lo up; done\n" +
		strings.ReplaceAll(commands, "@", prefix)
	if out, err := exec.Command("sh", "-ec", setup).CombinedOutput(); err != nil {
		t.Skipf("namespaces: %v\n%s", err, out)
	}
	return func(name string) string { return "/run/netns/" + prefix + name }
}

// inode returns the number of a namespace.
func inode(t *testing.T, file string) uint32 {
	t.Helper()
	out, err := exec.Command("stat", "-L", "-c", "%i", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// bridged is two namespaces a and b at a bridge in a third one.
const bridged = `
	ip -n @s link add br0 type bridge
	for n in a b; do
		ip link add ${n}0 netns @$n type veth peer name p$n netns @s
		ip -n @s link set p$n master br0 up
		ip -n @$n link set ${n}0 up
	done
	ip -n @s link set br0 up
	ip -n @a address add 10.99.0.1/24 dev a0
	ip -n @b address add 10.99.0.2/24 dev b0
`

// A packet keeps its number from one namespace through a bridge to another; two packets have two numbers.
func TestScenarioFollowBridge(t *testing.T) {
	needEmitted(t)
	file := namespaces(t, "a b s", bridged)
	dir := t.TempDir()
	mustRecord(t, dir, "--follow", "-m", "4096", "--", betweenC.Path(t), "udp", file("a"), file("b"), "10.99.0.2",
		"7777", "one", "message2")
	packets := followed(t, filepath.Join(dir, "perf.data"))
	var both [][]hop
	for _, hops := range packets {
		if slices.ContainsFunc(hops, func(h hop) bool {
			return h.where() == "net_dev_queue a0" && strings.Contains(h.flow, "> 10.99.0.2:7777")
		}) {
			both = append(both, hops)
		}
	}
	if len(both) != 2 {
		t.Fatalf("%d packets, want 2: %v", len(both), packets)
	}
	for _, hops := range both {
		checkWay(t, hops, "net_dev_queue a0", "net_dev_start_xmit a0", "netif_receive_skb pa", "net_dev_queue pb",
			"net_dev_start_xmit pb", "netif_receive_skb b0")
		checkWay(t, hops, "net_dev_start_xmit a0", "net_dev_xmit a0")
		for where, name := range map[string]string{"net_dev_queue a0": "a", "netif_receive_skb pa": "s",
			"netif_receive_skb b0": "b"} {
			n := 0
			for _, h := range hops {
				if h.where() != where {
					continue
				}
				if n++; h.netns != inode(t, file(name)) {
					t.Errorf("%s is in namespace %d, want that of %s", where, h.netns, name)
				}
			}
			if n != 1 {
				t.Errorf("%d samples of %s", n, where)
			}
		}
	}
}

// Numbers are not mixed up while the kernel uses the addresses of packets again: each belongs to one
// packet, and each packet has one.
func TestScenarioFollowMany(t *testing.T) {
	needEmitted(t)
	n := 100_000
	if os.Getenv("GPERF_SLOW") != "" {
		n = 5000
	}
	dir := t.TempDir()
	// Every 64th packet makes samples; all are followed.
	args := []string{"--follow=consume_skb", "-m", "256"}
	if _, err := os.Stat("/sys/kernel/tracing/kprobe_events"); err != nil {
		args[0] = "--follow"
	}
	for _, event := range []string{"net:net_dev_queue", "net:net_dev_start_xmit", "net:net_dev_xmit",
		"net:netif_receive_skb", "skb:skb_copy_datagram_iovec", "skb:consume_skb", "skb:kfree_skb",
		"qdisc:qdisc_dequeue"} {
		args = append(args, "-e", event+" packet flow dev len netns", "--filter", "!(packet & 63)")
	}
	r := mustRecord(t, dir, append(args, "--", datagramsC.Path(t), strconv.Itoa(n))...)
	complete := 0
	for number, hops := range followed(t, filepath.Join(dir, "perf.data")) {
		if number%64 != 0 || !strings.HasPrefix(hops[0].flow, "udp 127.0.0.1:") {
			continue
		}
		count := map[string]int{}
		for _, h := range hops {
			count[h.event]++
			if h.flow != hops[0].flow {
				t.Fatalf("packet %d is %s and %s", number, hops[0].flow, h.flow)
			}
		}
		whole := true
		for _, event := range []string{"net_dev_queue", "net_dev_start_xmit", "net_dev_xmit", "netif_receive_skb"} {
			if count[event] > 1 {
				t.Fatalf("packet %d passes %s %d times: %v", number, event, count[event], hops)
			}
			whole = whole && count[event] == 1
		}
		if whole {
			complete++
		}
	}
	if want := n / 64 * 95 / 100; complete < want && !strings.Contains(r.stderr, "Lost") {
		t.Errorf("%d packets have all samples, want at least %d", complete, want)
	}
}

// A packet that a network card receives in the sk_buff of a packet that was read is another one: the kernel keeps
// sk_buffs for that, and no tracepoint says so.
func TestScenarioFollowReused(t *testing.T) {
	needEmitted(t)
	if startLoudly(t, exec.Command(receivesC.Path(t))) != nil {
		t.Skip("no TAP device can be made here")
	}
	n := 30_000
	if os.Getenv("GPERF_SLOW") != "" {
		n = 5000
	}
	dir := t.TempDir()
	mustRecord(t, dir, "--follow", "-m", "1024", "--", datagramsC.Path(t), strconv.Itoa(n))
	packets, protocols := followed(t, filepath.Join(dir, "perf.data")), map[string]int{}
	for number, hops := range packets {
		for _, h := range hops {
			// Other packets, which go through tunnels, have more flows.
			if h.flow != hops[0].flow && strings.HasPrefix(hops[0].flow, "udp 127.0.0.1:") {
				t.Fatalf("packet %d is %s and %s", number, hops[0].flow, h.flow)
			}
		}
		protocol, _, _ := strings.Cut(hops[0].flow, " ")
		protocols[protocol]++
	}
	if protocols["udp"] < n/2 || protocols["arp"] == 0 {
		t.Errorf("%d packets: %v", len(packets), protocols)
	}
}

// routed is a namespace c whose packets a router r masquerades and sends through a VXLAN tunnel to s. The router's end
// of c's network is a bridge.
const routed = `
	ip -n @r link add br0 type bridge
	ip link add c0 netns @c type veth peer name rc netns @r
	ip link add rs netns @r type veth peer name s0 netns @s
	ip -n @r link set rc master br0 up
	for dev in br0 rs; do ip -n @r link set $dev up; done
	ip -n @c link set c0 up
	ip -n @s link set s0 up
	ip -n @c address add 10.99.1.2/24 dev c0
	ip -n @r address add 10.99.1.1/24 dev br0
	ip -n @r address add 10.99.2.1/24 dev rs
	ip -n @s address add 10.99.2.2/24 dev s0
	ip -n @r link add vx0 type vxlan id 42 dstport 4789 local 10.99.2.1 remote 10.99.2.2 dev rs
	ip -n @s link add vx1 type vxlan id 42 dstport 4789 local 10.99.2.2 remote 10.99.2.1 dev s0
	ip -n @r link set vx0 up
	ip -n @s link set vx1 up
	ip -n @r address add 10.99.3.1/24 dev vx0
	ip -n @s address add 10.99.3.2/24 dev vx1
	ip -n @c route add default via 10.99.1.1
	ip netns exec @r sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
	ip netns exec @r nft 'add table ip t'
	ip netns exec @r nft 'add chain ip t p { type nat hook postrouting priority 100; }'
	ip netns exec @r nft 'add rule ip t p oifname vx0 masquerade'
`

// One number from the sender's system call to the receiver's, through a bridge, NAT and a tunnel.
func TestScenarioFollowTunnel(t *testing.T) {
	needEmitted(t)
	file := namespaces(t, "c r s", routed, "nft")
	for proto, functions := range map[string][]string{
		"udp": {"udp_send_skb", "__ip_local_out", "ip_output", "__dev_queue_xmit", "net_dev_queue c0", "ip_rcv",
			"ip_forward", "nf_hook_slow", "__dev_queue_xmit", "net_dev_queue rs", "ip_rcv",
			"netif_receive_skb vx1", "udp_rcv", "udp_queue_rcv_skb", "skb_consume_udp"},
		"tcp": {"__tcp_transmit_skb", "__ip_local_out", "ip_output", "__dev_queue_xmit", "net_dev_queue c0", "ip_rcv",
			"ip_forward", "nf_hook_slow", "__dev_queue_xmit", "net_dev_queue rs", "ip_rcv",
			"netif_receive_skb vx1", "tcp_v4_rcv", "tcp_rcv_established", "skb_copy_datagram_iter"},
	} {
		t.Run(proto, func(t *testing.T) { testTunnel(t, proto, file, functions) })
	}
}

// testTunnel sends a message from the client to the server, and expects its way.
func testTunnel(t *testing.T, proto string, file func(string) string, functions []string) {
	dir := t.TempDir()
	data := filepath.Join(dir, "perf.data")
	r := mustRecord(t, dir, "-g", "--follow", "-m", "4096", "--", betweenC.Path(t), proto, file("c"), file("s"),
		"10.99.3.2", "7777", "message")
	packets := followed(t, data)
	maps.DeleteFunc(packets, func(_ int, hops []hop) bool { // TCP's without data
		return proto == "tcp" && !slices.ContainsFunc(hops, func(h hop) bool {
			return h.event == "skb_copy_datagram_iovec"
		})
	})
	hops := having(t, packets, "net_dev_queue c0", "> 10.99.3.2:7777")
	checkWay(t, hops, "net_dev_queue c0", "netif_receive_skb rc", "netif_receive_skb br0", "net_dev_queue vx0",
		"net_dev_start_xmit vx0", "net_dev_queue rs", "net_dev_start_xmit rs", "netif_receive_skb s0",
		"netif_receive_skb vx1")
	checkWay(t, hops, "net_dev_xmit rs", "net_dev_xmit vx0")
	atFunctions := !strings.Contains(r.stderr, "tracepoints only")
	if atFunctions {
		checkWay(t, hops, functions...)
		if !strings.Contains(r.stderr, "main functions instead") {
			// The way through a pair of devices in retis' documentation.
			checkWay(t, hops, "ip_output", "net_dev_queue c0", "skb_scrub_packet", "net_dev_xmit c0")
		}
		if _, err := os.Stat("/sys/kernel/btf/vxlan"); err == nil {
			checkWay(t, hops, "veth_xmit", "vxlan_xmit", "vxlan_rcv")
		}
	}
	addresses := func(from, to string) string {
		return proto + ` ` + regexp.QuoteMeta(from) + `:\d+ > ` + regexp.QuoteMeta(to) + `:7777`
	}
	masqueraded := addresses("10.99.3.1", "10.99.3.2")
	flows := map[string]string{"netif_receive_skb br0": `^` + addresses("10.99.1.2", "10.99.3.2") + `$`,
		"net_dev_queue vx0":     `^` + masqueraded + `$`,
		"net_dev_queue rs":      `^udp 10\.99\.2\.1:\d+ > 10\.99\.2\.2:4789 vxlan 42 \{ ` + masqueraded + ` \}$`,
		"netif_receive_skb vx1": `^` + masqueraded + `$`}
	for _, h := range hops {
		if want := flows[h.where()]; want != "" && !regexp.MustCompile(want).MatchString(h.flow) {
			t.Errorf("at %s the packet is %s, want %s", h.where(), h.flow, want)
		}
	}
	call := map[string]string{"udp": "udp_sendmsg", "tcp": "tcp_sendmsg"}[proto]
	stack := mustGperf(t, "script", "-i", data, "-F", "ip,sym,event,trace", "--max-stack", "64")
	if !regexp.MustCompile(`(?m)flow=` + addresses("10.99.1.2", "10.99.3.2") + `(.+\n)+.* ` + call).MatchString(stack) {
		t.Errorf("no sample has %s among its callers", call)
	}
	ways := mustGperf(t, "script", "-i", data, "--packets")
	// No tracepoint shows that a datagram is read.
	if (atFunctions || proto == "tcp") && !regexp.MustCompile(`DELIVERED to between/\d+ after`).MatchString(ways) {
		t.Errorf("no packet is delivered to the receiver:\n%s", ways)
	}
}

// Packets that cannot be followed are refused, with the remedy.
func TestScenarioFollowRefused(t *testing.T) {
	needEmitted(t)
	want := "did you mean ip_rcv"
	if _, err := os.Stat("/sys/kernel/tracing/kprobe_events"); err != nil {
		want = "--follow without functions follows packets at tracepoints"
	}
	for args, want := range map[string]string{"--follow=ip_rvc": want, "--follow --count": "packet:hop",
		"--follow=ip_rcv,,x": "a function's name is empty"} {
		t.Run(args, func(t *testing.T) {
			r := recordIn(t, t.TempDir(), append(strings.Fields(args), "--", "true")...)
			if r.code == exitOK || !strings.Contains(r.stderr, want) {
				t.Errorf("exit code %d, want a message with %q:\n%s", r.code, want, r.stderr)
			}
		})
	}
}

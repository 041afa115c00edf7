package main

import (
	"encoding/hex"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"gperf/internal/testutil/inputs"
	"gperf/internal/testutil/programs"
)

// The packets of samples: which flow, device and namespace.

var framesProgram = programs.Go("testdata/frames.go")

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 2} // no device's
	ipA  = net.IP{10, 9, 0, 1}
	ipB  = net.IP{10, 9, 0, 2}
	ip6A = net.ParseIP("fd00:9::1")
	ip6B = net.ParseIP("fd00:9::2")
)

// packetSetUp makes a pair of devices, that send nothing themselves.
const packetSetUp = "sysctl -qw net.ipv6.conf.default.disable_ipv6=1; ip link add va type veth peer name vb; " +
	"ip link set va up; ip link set vb up"

// frame encodes the layers of a frame.
func frame(t *testing.T, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, l...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ether(typ layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: typ}
}

func ipv4(proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: ipA, DstIP: ipB}
}

func ipv6(next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: next, SrcIP: ip6A, DstIP: ip6B}
}

// flowCase is a frame, and the flow in the sample.
type flowCase struct {
	name, flow string
	frame      []byte
}

func flowCases(t *testing.T) []flowCase {
	const ip4, ip6, vlan = layers.EthernetTypeIPv4, layers.EthernetTypeIPv6, layers.EthernetTypeDot1Q
	const udp, tcp = layers.IPProtocolUDP, layers.IPProtocolTCP
	ports := &layers.UDP{SrcPort: 5353, DstPort: 53}
	to := func(port layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: 40000, DstPort: port} }
	conn := &layers.TCP{SrcPort: 40001, DstPort: 443, SYN: true, ACK: true, Seq: 7, Ack: 8}
	later := ipv4(udp)
	later.FragOffset = 10
	text := gopacket.Payload("hello, world")
	inner := ipv4(tcp)
	inner.SrcIP, inner.DstIP = net.IP{172, 16, 0, 1}, net.IP{172, 16, 0, 2}
	vxlan := &layers.VXLAN{ValidIDFlag: true, VNI: 77}
	geneve := &layers.Geneve{VNI: 78, Protocol: layers.EthernetTypeTransparentEthernetBridging}
	return []flowCase{
		{"udp", "udp 10.9.0.1:5353 > 10.9.0.2:53 tcpflags=", frame(t, ether(ip4), ipv4(udp), ports, text)},
		{"tcp", "tcp 10.9.0.1:40001 > 10.9.0.2:443 tcpflags=SYN|ACK", frame(t, ether(ip4), ipv4(tcp), conn)},
		{"udp6", "udp [fd00:9::1]:5353 > [fd00:9::2]:53", frame(t, ether(ip6), ipv6(udp), ports, text)},
		{"tcp6", "tcp [fd00:9::1]:40001 > [fd00:9::2]:443", frame(t, ether(ip6), ipv6(tcp), conn)},
		{"icmp", "icmp 10.9.0.1 > 10.9.0.2 echo request", frame(t, ether(ip4), ipv4(layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}, text)},
		{"icmp6", "icmp6 fd00:9::1 > fd00:9::2 packet too big", frame(t, ether(ip6), ipv6(layers.IPProtocolICMPv6),
			&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(2, 0)}, text)},
		{"fragment", "udp 10.9.0.1 > 10.9.0.2 fragment", frame(t, ether(ip4), later, text)},
		{"unknown protocol", "proto 253 10.9.0.1 > 10.9.0.2", frame(t, ether(ip4), ipv4(253), text)},
		{"hop-by-hop", "udp [fd00:9::1]:5353 > [fd00:9::2]:53", frame(t, ether(ip6), ipv6(0),
			gopacket.Payload{17, 0, 1, 4, 0, 0, 0, 0}, ports, text)},
		{"vlan", "udp 10.9.0.1:5353 > 10.9.0.2:53", frame(t, ether(vlan),
			&layers.Dot1Q{VLANIdentifier: 9, Type: ip4}, ipv4(udp), ports, text)},
		{"vxlan", "udp 10.9.0.1:40000 > 10.9.0.2:4789 vxlan 77 { tcp 172.16.0.1:40001 > 172.16.0.2:443 }",
			frame(t, ether(ip4), ipv4(udp), to(4789), vxlan, ether(ip4), inner, conn)},
		{"geneve", "udp 10.9.0.1:40000 > 10.9.0.2:6081 geneve 78 { tcp 172.16.0.1:40001 > 172.16.0.2:443 }",
			frame(t, ether(ip4), ipv4(udp), to(6081), geneve, ether(ip4), inner, conn)},
		{"gre", "gre 10.9.0.1 > 10.9.0.2 gre 5 { tcp 172.16.0.1:40001 > 172.16.0.2:443 }", frame(t, ether(ip4),
			ipv4(layers.IPProtocolGRE), &layers.GRE{KeyPresent: true, Key: 5, Protocol: ip4}, inner, conn)},
		{"ipip", "ipip 10.9.0.1 > 10.9.0.2 ipip { tcp 172.16.0.1:40001 > 172.16.0.2:443 }", frame(t, ether(ip4),
			ipv4(layers.IPProtocolIPv4), inner, conn)},
		{"other ethertype", "ethertype 0x9000", frame(t, ether(0x9000), text)},
		{"truncated ip", "unknown", append(frame(t, ether(ip4)), 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 10, 9)},
		{"truncated tcp", "tcp 10.9.0.1:0 > 10.9.0.2:0", frame(t, ether(ip4), ipv4(tcp), text)[:14+20+2]},
	}
}

var flowOf = regexp.MustCompile(` flow=(.*?)( tcpflags=\S*)? dev=(\S*) len=(\d+) netns=(\d+)`)

// Frames to another host's address arrive at a device, and the kernel drops them. Each sample shows the
// packet in the frame.
func TestScenarioPacketFlow(t *testing.T) {
	needEmitted(t)
	netns(t, packetSetUp)
	cases := flowCases(t)
	var lines strings.Builder
	for _, c := range cases {
		lines.WriteString(hex.EncodeToString(c.frame) + "\n")
	}
	dir := t.TempDir()
	input := filepath.Join(dir, "frames")
	if err := os.WriteFile(input, []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, dir, "-a", "-m", "4096", "-e", "skb:kfree_skb", "--dev", "vb", "--snap=2048", "--",
		"unshare", "-n", "sh", "-ec", packetSetUp+`; readlink /proc/self/ns/net > "$2"; "$0" va < "$1"`,
		framesProgram.Path(t), input, dir+"/ns")
	ns, err := os.ReadFile(dir + "/ns")
	if err != nil {
		t.Fatal(err)
	}
	var got []string // the packets of other tests have another namespace
	for line := range strings.Lines(mustGperf(t, "script", "-F", "trace", "-i", filepath.Join(dir, "perf.data"))) {
		if m := flowOf.FindStringSubmatch(line); m != nil && "net:["+m[5]+"]" == strings.TrimSpace(string(ns)) {
			got = append(got, line)
		}
	}
	if len(got) != len(cases) {
		t.Fatalf("%d samples of %d frames:\n%s", len(got), len(cases), strings.Join(got, ""))
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := flowOf.FindStringSubmatch(got[i])
			if !strings.HasPrefix(m[1]+m[2], c.flow) || m[3] != "vb" {
				t.Errorf("%s\nwant flow=%s dev=vb", got[i], c.flow)
			}
		})
	}
}

// A tracepoint gets the named fields of the packet, and the tracepoint's own: also the
// process whose socket sends the packet. Filters know the others, too.
func TestScenarioPacketArguments(t *testing.T) {
	needEmitted(t)
	dir, port := t.TempDir(), strconv.Itoa(closedPort(t))
	mustRecord(t, dir, "-a", "-m", "4096", "-e", "net:net_dev_queue flow saddr daddr sk sport dport proto",
		"--filter", "dport == "+port+" && ifindex > 0", "--",
		binary(t, dropsProgram), "-n", "60", "-rate", "40", "-port", port)
	out := mustGperf(t, "script", "-F", "comm,pid,trace", "-i", filepath.Join(dir, "perf.data"))
	want := regexp.MustCompile(`^ *drops +(\d+) +dev=lo skbaddr=\S+ len=\d+ (?:net_cookie=\d+ )?flow=udp ` +
		`127.0.0.1:(\d+) > 127.0.0.1:` + port + ` saddr=127.0.0.1 daddr=127.0.0.1 ` +
		`sk=(?:drops/(\d+))? sport=(\d+) dport=` + port + ` proto=17\n$`)
	n, owned := 0, 0
	for line := range strings.Lines(out) {
		n++
		m := want.FindStringSubmatch(line)
		switch {
		case m == nil || m[2] != m[4] || m[3] != "" && m[3] != m[1]:
			t.Errorf("unexpected: %s", line)
		case m[3] != "":
			owned++
		}
	}
	if n != 60 || owned == 0 {
		t.Errorf("%d samples, %d with the process of the socket; want 60, and some", n, owned)
	}
	if perf := perfScript(t, filepath.Join(dir, "perf.data")); strings.Count(perf, " > 127.0.0.1:"+port+" ") != n {
		t.Errorf("perf script shows other flows:\n%s", perf)
	}
}

// Without the right to load BPF programs, or with settings that only the kernel's own event supports, drops
// contain no packet.
func TestScenarioPacketPlain(t *testing.T) {
	needEmitted(t)
	for name, args := range map[string][]string{
		"--no-packet": {"-e", "skb:kfree_skb", "--no-packet"},
		"modifier":    {"-e", "skb:kfree_skb:k"},
		"period":      {"-e", "skb:kfree_skb", "-c", "2"},
		"group":       {"-e", "{skb:kfree_skb,skb:consume_skb}"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, append(args, "-a", "--", binary(t, dropsProgram), "-n", "20")...)
			out := mustGperf(t, "script", "-F", "trace", "-i", filepath.Join(dir, "perf.data"))
			if !strings.Contains(out, "skbaddr=") || strings.Contains(out, "flow=") {
				t.Errorf("want drops without packets:\n%s", out)
			}
		})
	}
}

// Expressions of --packet: all kinds of words, and combinations.
var packetFilters = strings.Split(strings.TrimSpace(`
ip
ip6
arp
tcp
udp
icmp
icmp6
tcp or udp
not ip
ip and not tcp
host 10.0.0.1
src host 10.0.0.1
dst host 10.0.0.2
host 10.0.0.1 or host 10.0.0.2
net 10.0.0.0/24
net 10
src net 10.0.0.0 mask 255.255.255.248
host fe80::1 or net 2001:db8::/32
port 53
src port 53
dst port 443
tcp port 443
udp port 53
tcp port 80 or 443
portrange 50-500
tcp portrange 400-450
greater 100
less 60
len > 80 and len < 200
tcp[tcpflags] & tcp-syn != 0
tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src net 10
tcp[13] & 0x10 = 0x10
icmp[icmptype] = icmp-echo
ip[8] < 64
ip[6:2] & 0x1fff != 0
ip6[6] = 17
ether host 00:11:22:33:44:55
ether broadcast or ether multicast
vlan
vlan and ip
ip proto 47
ether proto 0x88cc or arp
(tcp or udp) and (port 53 or port 80) and not host 10.0.0.2
`), "\n")

// gperf refuses options that cannot select packets, because they would record other packets as well.
func TestScenarioPacketRefused(t *testing.T) {
	needEmitted(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"modifier":    {[]string{"-e", "skb:kfree_skb:k", "--packet", "icmp"}, "support no modifiers"},
		"group":       {[]string{"-e", "{skb:kfree_skb,skb:consume_skb}", "--dev", "lo"}, "support no modifiers"},
		"count":       {[]string{"--count", "-e", "skb:kfree_skb", "--packet", "icmp"}, "--count does not select packets"},
		"no packet":   {[]string{"-e", "skb:kfree_skb", "--no-packet", "--packet", "icmp"}, "--no-packet excludes --packet"},
		"other event": {[]string{"-e", "cpu-clock", "--packet", "icmp"}, "no event has a packet"},
		"wrong word":  {[]string{"--packet", "udp hots 1"}, "unknown word \"hots\" (at 5)"},
		"namespace":   {[]string{"--netns", "/nowhere"}, "no network namespace /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recordIn(t, t.TempDir(), append(c.args, "-a", "--", "true")...)
			if r.code == exitOK || !strings.Contains(r.stderr, c.want) {
				t.Errorf("exit code %d, want %q:\n%s", r.code, c.want, r.stderr)
			}
		})
	}
}

// Without the kernel's types, drops contain no packet, as a message says; packets cannot be selected.
func TestScenarioPacketWithoutTypes(t *testing.T) {
	needEmitted(t)
	hidden := []string{"-m", "sh", "-ec", `mount -t tmpfs none /sys/kernel/btf; exec "$@"`, "sh"}
	if out, err := exec.Command("unshare", append(hidden, "true")...).CombinedOutput(); err != nil {
		t.Skipf("/sys/kernel/btf cannot be hidden: %v\n%s", err, out)
	}
	for _, files := range []string{"/boot", "/usr/lib/debug/boot", "/lib/modules/*/build"} {
		if found, _ := filepath.Glob(files + "/vmlinux*"); slices.ContainsFunc(found, func(file string) bool {
			return !strings.Contains(file, "vmlinuz")
		}) {
			t.Skipf("the types can be read from %s", found)
		}
	}
	for _, c := range []struct {
		args string
		code int
	}{{"-e skb:kfree_skb", exitOK}, {"-e skb:kfree_skb --packet icmp", exitError}, {"--follow", exitError},
		{"-e xdp:drop", exitError}} {
		t.Run(c.args, func(t *testing.T) {
			record := []string{binary(t, "./cmd/gperf"), "record", "-a", "-o", filepath.Join(t.TempDir(), "perf.data")}
			cmd := exec.Command("unshare", slices.Concat(hidden, record, strings.Fields(c.args),
				[]string{"--", "true"})...)
			out, _ := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			if code != c.code || !strings.Contains(string(out), "This needs the kernel's types") {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, out)
			}
		})
	}
}

// --packet selects the packets that tcpdump does with the same expression.
func TestScenarioPacketFilter(t *testing.T) {
	needEmitted(t)
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("tcpdump is missing (tcpdump)")
	}
	netns(t, packetSetUp)
	filters := packetFilters
	if testing.Short() {
		filters = filters[len(filters)-8:]
	}
	var frames strings.Builder
	sent := 0
	for _, p := range inputs.EthernetPackets(1000, 1) {
		if len(p.Data) > 20 && sent < 500 { // the kernel sends no shorter ones
			frames.WriteString(hex.EncodeToString(p.Data) + "\n")
			sent++
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"frames": frames.String(),
		"filters": strings.Join(append([]string{""}, filters...), "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("unshare", "-n", "sh", "-ec", packetSetUp+`; cd "$2"; n=0; while read -r filter; do `+
		`"$0" record -q -o $n.data -a -m 1024 -e net:netif_receive_skb --dev vb --netns $$ --snap=2048 `+
		`--packet "$filter" -- "$1" va < frames; n=$((n+1)); done < filters`,
		binary(t, "./cmd/gperf"), framesProgram.Path(t), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := pcapngOf(t, filepath.Join(dir, "0.data"))
	if n := len(packetsIn(t, all)); n != sent {
		t.Fatalf("%d packets of %d", n, sent)
	}
	for i, filter := range filters {
		t.Run(filter, func(t *testing.T) {
			var got []string
			if file := pcapngOf(t, filepath.Join(dir, strconv.Itoa(i+1)+".data")); file != "" {
				got = packetsIn(t, file)
			}
			// Of truncated packets, libpcap's optimizer makes tcpdump select others for a few expressions.
			want, unoptimized := dumped(t, all, filter), dumped(t, all, filter, "-O")
			if len(got) == 0 || !slices.Equal(got, want) && !slices.Equal(got, unoptimized) {
				t.Errorf("%d packets, tcpdump selects %d, and %d without optimizing", len(got), len(want),
					len(unoptimized))
			}
		})
	}
}

// dumped returns the packets that tcpdump selects of a file.
func dumped(t *testing.T, file, filter string, args ...string) []string {
	t.Helper()
	selected := file + ".selected"
	args = append(args, "-r", file, "-w", selected, filter)
	if out, err := exec.Command("tcpdump", args...).CombinedOutput(); err != nil {
		t.Fatalf("tcpdump: %v\n%s", err, out)
	}
	return packetsIn(t, selected)
}

// pcapngOf converts a recording to pcapng; "" without packets.
func pcapngOf(t *testing.T, data string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	file := data + ".pcapng"
	switch code := run([]string{"script", "--format", "pcapng", "-i", data, "-o", file}, &stdout, &stderr); {
	case code == exitOK:
		return file
	case strings.Contains(stderr.String(), "--snap"):
		return ""
	}
	t.Fatal(stderr.String())
	return ""
}

// packetsIn returns the bytes of the packets in a file that Wireshark reads.
func packetsIn(t *testing.T, file string) (l []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r gopacket.PacketDataSource
	if filepath.Ext(file) == ".pcapng" {
		r, err = pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	} else {
		r, err = pcapgo.NewReader(f)
	}
	for err == nil {
		var b []byte
		if b, _, err = r.ReadPacketData(); err == nil {
			l = append(l, string(b))
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return l
}

// A kprobe gets the packet of the function's parameter.
func TestScenarioPacketProbe(t *testing.T) {
	needEmitted(t)
	needKprobes(t)
	dir, port := t.TempDir(), strconv.Itoa(closedPort(t))
	mustRecord(t, dir, "-a", "-e", "kprobe:ip_rcv flow dev", "--packet", "udp dst port "+port, "--",
		binary(t, dropsProgram), "-n", "20", "-port", port)
	want := regexp.MustCompile(`probe:ip_rcv: func=ip_rcv skbaddr=0x\w+ flow=udp 127.0.0.1:\d+ > 127.0.0.1:` + port +
		` dev=lo\n`)
	out := mustGperf(t, "script", "-F", "event,trace", "-i", filepath.Join(dir, "perf.data"))
	if n := len(want.FindAllString(out, -1)); n != 20 {
		t.Errorf("%d samples, want 20:\n%s", n, out)
	}
}

// The way of a packet names the rule that drops it, as nft lists it.
func TestScenarioFollowVerdict(t *testing.T) {
	needEmitted(t)
	needKprobes(t)
	port := strconv.Itoa(closedPort(t)) // for others
	rules := `ip link set lo up; nft add table inet t; ` +
		`nft "add chain inet t i { type filter hook input priority 0; }"; nft add rule inet t i udp dport 1 drop; ` +
		`nft add rule inet t i udp dport ` + port + ` counter drop; `
	netns(t, rules, "nft")
	dir := t.TempDir()
	r := mustRecord(t, dir, "-a", "--follow=ip_rcv,ip_local_deliver,nf_hook_slow", "-e", "nf:drop", "--packet",
		"udp dst port "+port, "--", "unshare", "-n", "sh", "-ec",
		rules+`"$0" -n 3 -port `+port+` >/dev/null; nft -a list table inet t`, binary(t, dropsProgram))
	rule := regexp.MustCompile(`udp dport ` + port + ` counter packets 3 bytes \d+ drop # (handle \d+)`)
	handle := rule.FindStringSubmatch(r.stdout)
	if handle == nil {
		t.Fatalf("nft: %s", r.stdout)
	}
	out := mustGperf(t, "script", "--packets", "-i", filepath.Join(dir, "perf.data"))
	blocks := strings.Split(out, "\n\n")
	for _, block := range blocks[:len(blocks)-1] {
		for _, want := range []string{" ip_rcv ", " nf_hook_slow ", " nf:drop ",
			"table inet t chain i rule 2 " + handle[1], "DROPPED at nf"} {
			if !strings.Contains(block, want) {
				t.Errorf("%q is missing in:\n%s", want, block)
			}
		}
	}
	if len(blocks) != 4 {
		t.Errorf("%d packets, want 3:\n%s", len(blocks)-1, out)
	}
}

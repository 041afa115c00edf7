package pcapfilter

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/bpf"

	"gperf/internal/testutil/inputs"
)

// common is expressions for packets with and without an Ethernet header.
var common = []string{
	"",
	"ip", "ip6", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "igrp", "pim", "vrrp", "ah", "esp", "arp", "rarp",
	"not tcp", "! tcp && ! udp", "not (tcp or udp)", "tcp or udp and ip6", "ip6 and (tcp or udp)", "not not udp",
	"not tcp and not udp or ip6",
	"host 10.0.0.1", "src host 10.0.0.1", "dst 10.0.0.1", "src or dst host 10.0.0.1", "dst or src 10.0.0.2",
	"src and dst host 10.0.0.1", "ip host 10.0.0.1", "ip src 10.0.0.2", "arp host 10.0.0.1",
	"host 10.0.0.1 or 10.0.0.2", "host 10.0.0.1 and 10.0.0.2", "host (10.0.0.1 or 192.168.1.1)",
	"host 10.0.0.1 and not 10.0.0.2", "src host 10.0.0.1 and (dst host 10.0.0.2 or 10.1.2.3)",
	"host 10", "host 10.1", "host fe80::1", "src host 2001:db8::1", "dst 2001:db8::1", "ip6 host ::1",
	"src and dst 2001:db8::1", "not host fe80::1",
	"net 10", "net 10.0", "net 10.0.0", "net 10.0.0.1", "net 10.0.0.0/8", "net 0.0.0.0/0", "net 10.0.0.0/30",
	"net 10.0.0.0 mask 255.0.0.0", "net 10.0 mask 255.255.0.0", "src net 192.168.0.0/16", "dst net 10.1",
	"net 10.0/16 or 192.168/16", "net 2001:db8::/32", "net 2001:db8::/48", "src net fe80::/10", "net ::1", "net ::/0",
	"ip net 10.0.0.0/8", "ip6 net fe80::/10",
	"port 80", "port 80 or 443", "port 80 or 443 and not 8080", "tcp port 80", "udp port 53", "sctp port 22", "src port 22",
	"dst port 443", "tcp src port 80", "udp dst port 53", "src and dst port 80", "src or dst port 443",
	"port (80 or 443)", "not port 22", "port 0", "port 65535", "port 010", "port 0x50",
	"port ssh", "port http", "port https", "port domain", "tcp port domain", "udp port domain", "port http or https",
	"portrange 0-100", "portrange 80-443", "portrange 443-80", "tcp portrange 80-443", "src portrange 1-1024",
	"udp dst portrange 53-53", "portrange ssh-http", "portrange 80", "portrange domain-http",
	"tcp port 80 and host 10.0.0.1", "tcp port 22 or udp port 53 or icmp", "host 10.0.0.1 and port 80 or 443",
	"proto 47", "ip proto 47", "ip proto gre", "proto gre", "ip6 proto 58", "ip proto \\tcp", "ip6 proto \\udp",
	"proto \\sctp or 17", "ip proto ospf", "ip proto \\tcp or \\udp",
	"ip multicast", "ip6 multicast",
	"less 60", "greater 60", "len > 100", "len <= 64 or len >= 128", "length = 60", "len != 60", "len % 2 = 0",
	"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "tcp[13] = 2", "tcp[tcpflags] == tcp-syn|tcp-ack",
	"tcp[tcpflags] & tcp-ack != 0 and tcp[tcpflags] & (tcp-push|tcp-rst|tcp-urg) = 0", "tcp[13] & 0xc0 = 0xc0",
	"tcp[0:2] = 80", "tcp[2:2] > 1023", "udp[4:2] < 20", "sctp[0:2] = 22", "not tcp[0:2] = 80", "tcp[0:2] != 80",
	"icmp[icmptype] = icmp-echo", "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
	"icmp[icmptype] = icmp-unreach && icmp[icmpcode] = 1", "icmp6[icmp6type] = icmp6-echo",
	"icmp6[icmp6type] = icmp6-neighborsolicit or icmp6[0] = icmp6-routeradvert",
	"ip[0] & 0xf > 5", "ip[0] & 0xf != 5", "ip[6:2] & 0x1fff != 0", "ip[8] < 10", "ip[2:2] > 100", "ip6[6] = 44",
	"ip[12:4] = 0x0a000001", "ip[16] >= 224", "ip6[8:4] = 0xfe800000",
	"tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
	"tcp[((tcp[12] & 0xf0) >> 2):1] & 1 = 0", "ip[ip[8]] & 1 = 1", "ip[(ip[0] & 0xf) << 2 : 2] = 80",
	"ip[ip[9] + 3] > 100", "ip[2:2] = len - 14", "ip[2:2] - len = -14", "ip[-1] = 1", "ip[0xffffffff] = 1", "ip[70000] = 1",
	"ip[8] * 3 > ip[9]", "ip[2:2] / 7 = 11", "ip[2:2] % 7 = 3", "ip[2:2] / ip[1] > 1", "ip[2:2] % ip[1] = 1", "ip[8] ^ 0x40 = 0",
	"ip[8] | 1 = 65", "ip[2:2] << 4 > 1000", "ip[12:4] >> 24 = 10", "ip[9] << ip[8] = 12", "ip[4:2] >> ip[9] = 0",
	"ip[4:4] * ip[10:2] > 0x80000000", "ip[8] + ip[9] = 70", "ip[4:2] > ip[10:2]", "ip[4:2] <= ip[10:2]",
	"(ip[8] + 1) * 2 = 130", "1 = 1", "not 1 = 1", "1 > 2 or tcp", "0x10 = 020",
	"-ip[8] = -64", "(ip[8]) = (64)", "((tcp))", "len > 5 + 6 * 7 - 3",
}

// onEthernet is expressions for packets with an Ethernet header.
var onEthernet = []string{
	"ether host 00:11:22:33:44:55", "ether src 00:11:22:33:44:55", "ether dst 0:11:22:33:44:66", "ether src or dst 00:11:22:33:44:55",
	"ether src and dst 00:11:22:33:44:55", "ether host 00-11-22-33-44-55", "ether host 0011.2233.4455", "link host 001122334455",
	"ether host 00:11:22:33:44:55 or 00:11:22:33:44:66",
	"broadcast", "multicast", "ether broadcast", "ether multicast", "not multicast", "ip and not broadcast",
	"ether proto 0x800", "ether proto \\ip6", "ether proto \\arp or \\rarp", "ether proto 2048 or 0x86dd", "ether proto 0x9000",
	"ether proto loopback", "ether proto 0x42", "ether proto 6", "stp", "iso", "netbeui", "decnet", "not stp",
	"arp", "rarp", "arp src host 10.0.0.1", "arp[6:2] = 1", "arp[7] = 2 or arp dst 10.0.0.2", "arp net 10.0.0.0/8", "rarp host 10.0.0.1",
	"ether[0] & 1 = 0 and ip[16] >= 224", "ether[12:2] = 0x800", "ether[6:4] = 0x00112233", "link[12:2] > 1500",
	"vlan", "vlan 5", "vlan and tcp", "vlan 5 and ip", "vlan and vlan", "vlan 100 and vlan 7 and udp", "not vlan", "vlan (7)",
	"vlan and host 10.0.0.1", "vlan and port 80 or 443", "tcp or vlan and tcp", "vlan and ether host 00:11:22:33:44:55", "vlan and ip[8] = 64",
	"vlan or ip", "not (vlan and tcp) and udp", "vlan and arp", "vlan and ether[12:2] = 0x8100", "vlan and tcp[13] & 2 != 0",
	"mpls", "mpls 5", "mpls 1000 and host 10.0.0.1", "mpls and mpls 7", "mpls and tcp", "mpls and ip6", "mpls and mpls and port 80", "mpls and not ip",
	"mpls and tcp[13] = 2",
	"pppoed", "pppoes", "pppoes 3", "pppoes 3 and ip", "pppoes and ip6", "pppoes and tcp port 80", "pppoes and host 10.0.0.1", "pppoes and ip[8] = 64",
	"vlan and pppoes and ip", "pppoes and ether proto \\ip",
}

// onRaw is expressions that mean something else without an Ethernet header.
var onRaw = []string{"arp or icmp", "not arp", "pim or arp host 10.0.0.1", "ether proto \\ip", "arp[0] = 1"}

// TestTcpdump compares the selected packets with tcpdump's. libpcap's optimizer omits and reorders
// loads, which changes the result for packets that end before the loaded bytes: for these, the
// result must be that with the optimizer or that without it.
func TestTcpdump(t *testing.T) {
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("tcpdump is missing (tcpdump)")
	}
	if _, err := os.Stat("/etc/services"); err != nil {
		t.Skip("/etc/services is missing (netbase)")
	}
	for _, link := range []struct {
		name     string
		typ      LinkType
		dlt      uint32
		packets  []inputs.Packet
		programs []string
	}{
		{"ethernet", Ethernet, 1, inputs.EthernetPackets(1000, 1), slices.Concat(common, onEthernet)},
		{"raw", Raw, 12, inputs.RawPackets(1000, 2), slices.Concat(common, onRaw)},
	} {
		file := filepath.Join(t.TempDir(), link.name)
		if err := os.WriteFile(file, inputs.Pcap(link.packets, link.dlt), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, expr := range link.programs {
			t.Run(link.name+"/"+expr, func(t *testing.T) {
				prog, err := Compile(expr, link.typ)
				if err != nil {
					t.Fatal(err)
				}
				plain := dumped(t, "-O", file, expr)
				optimized := sync.OnceValue(func() map[int]bool { return dumped(t, "-nn", file, expr) })
				for i, p := range link.packets {
					got := run(t, prog, p)
					if got != plain[i] && got != optimized()[i] {
						t.Fatalf("packet %d: selected %v, tcpdump: %v, with -O: %v\n% x\nlength %d of %d\n%v",
							i, got, optimized()[i], plain[i], p.Data, len(p.Data), p.Len, prog)
					}
				}
			})
		}
	}
}

// dumped returns the packets that tcpdump selects, by time.
func dumped(t *testing.T, option, file, expr string) map[int]bool {
	cmd := exec.Command("tcpdump", option, "-r", file, "-w", "-", "--", expr)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "expression rejects all packets") {
		return nil
	}
	if err != nil || len(out) < 24 {
		t.Fatalf("tcpdump: %v\n%s", err, stderr.String())
	}
	selected := map[int]bool{}
	for out = out[24:]; len(out) >= 16; {
		selected[int(binary.LittleEndian.Uint32(out))] = true
		out = out[16+binary.LittleEndian.Uint32(out[8:]):]
	}
	return selected
}

// run reports whether a program selects a packet. The VM knows only the length of the data.
func run(t *testing.T, prog []bpf.Instruction, p inputs.Packet) bool {
	prog = slices.Clone(prog)
	for i, ins := range prog {
		if ins == (bpf.LoadExtension{Num: bpf.ExtLen}) {
			prog[i] = bpf.LoadConstant{Dst: bpf.RegA, Val: uint32(p.Len)}
		}
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	return n != 0
}

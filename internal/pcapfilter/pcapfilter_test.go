package pcapfilter

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"gperf/internal/testutil/inputs"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		expr  string
		link  LinkType
		at    string // the rest of the expression from the error on
		error string // the begin of the text
	}{
		{"hots 10.0.0.1", Ethernet, "hots 10.0.0.1", `unknown word "hots" (at 1): did you mean host`},
		{"tcp and prot 80", Ethernet, "prot 80", `unknown word "prot" (at 9): did you mean proto, port`},
		{"tcp[tcpflag] = 1", Ethernet, "tcpflag] = 1", `unknown word "tcpflag" (at 5): did you mean tcpflags`},
		{"gre", Ethernet, "gre", `unknown word "gre": write "proto gre" (at 1)`},
		{"tcp 80", Ethernet, "80", `unexpected "80" (at 5)`},
		{"tcp or 80", Ethernet, "80", "a number needs a comparison"},
		{"ip[0] & 1 and tcp", Ethernet, "ip[0] & 1 and tcp", "a number needs a comparison"},
		{"10.0.0.1", Ethernet, "10.0.0.1", `10.0.0.1 needs a word before it, such as "host" (at 1)`},
		{"host example.com", Ethernet, "example.com", `unknown address "example.com": gperf does not look up names (at 6)`},
		{"host 10.0.0.1 or prot 80", Ethernet, "prot 80", `unknown address "prot": gperf does not look up names (at 18): did you mean proto, port`},
		{"net loopback", Ethernet, "loopback", `unknown address "loopback"`},
		{"host 256.0.0.1", Ethernet, "256.0.0.1", "256.0.0.1 is not an IPv4 address (at 6)"},
		{"host 00:11:22:33:44:55", Ethernet, "00:11:22:33:44:55", "an Ethernet address needs"},
		{"ether host 10.0.0.1", Ethernet, "10.0.0.1", `an IPv4 address cannot follow "ether"`},
		{"tcp host 10.0.0.1", Ethernet, "10.0.0.1", `an IPv4 address cannot follow "tcp"`},
		{"ip host ::1", Ethernet, "::1", `an IPv6 address cannot follow "ip"`},
		{"host 10.0.0.0/8", Ethernet, "/8", `only networks have a mask: write "net"`},
		{"net 10.1.0.0/8", Ethernet, "10.1.0.0/8", "the address has bits outside of the mask: write 10.0.0.0"},
		{"net fe80::1/64", Ethernet, "fe80::1/64", "the address has bits outside of the mask: write fe80::"},
		{"net 10.0.0.0/33", Ethernet, "33", "expected a prefix length from 0 to 32"},
		{"net ::/129", Ethernet, "129", "expected a prefix length from 0 to 128"},
		{"port 65536", Ethernet, "65536", "port 65536 is larger than 65535"},
		{"port httpz", Ethernet, "httpz", `unknown port "httpz" (at 6): did you mean http`},
		{"portrange 80-htp", Ethernet, "80-htp", `unknown port "htp"`},
		{"udp port ssh", Ethernet, "ssh", "ssh is not a port of udp"},
		{"icmp port 80", Ethernet, "80", `"icmp" has no ports`},
		{"port 1.2", Ethernet, "1.2", `an address cannot follow "port"`},
		{"port", Ethernet, "", "expected a port (at 5)"},
		{"port tcp", Ethernet, "tcp", "expected a port (at 6)"},
		{"proto 256", Ethernet, "256", "protocol 256 is larger than 255"},
		{"proto tpc", Ethernet, "tpc", `unknown protocol "tpc" (at 7): did you mean`},
		{"ether proto tcp", Ethernet, "tcp", `unknown EtherType "tcp"`},
		{"ether proto 0x10000", Ethernet, "0x10000", "EtherType 0x10000 is larger than 0xffff"},
		{"tcp proto 1", Ethernet, "1", `"tcp" carries no other protocol`},
		{"ip protochain 6", Ethernet, "protochain 6", `"protochain" is not supported: a program without loops`},
		{"gateway router", Ethernet, "gateway router", `"gateway" is not supported`},
		{"ip broadcast", Ethernet, "ip broadcast", `"ip broadcast" needs the network's mask`},
		{"tcp multicast", Ethernet, "tcp multicast", `"multicast" cannot follow "tcp"`},
		{"vlan 4096", Ethernet, "4096", "VLAN 4096 is larger than 4095"},
		{"mpls and vlan", Ethernet, "vlan", `no VLAN tag can follow "mpls"`},
		{"mpls and arp", Ethernet, "arp", "only IPv4 and IPv6 are recognized after an MPLS label"},
		{"pppoes and ether host 00:11:22:33:44:55", Ethernet, "00:11:22:33:44:55", `"00:11:22:33:44:55" needs an Ethernet header`},
		{"ip[0:3] = 1", Ethernet, "3] = 1", "a field has 1, 2 or 4 bytes"},
		{"ah[0] = 1", Ethernet, "ah[0] = 1", `fields of "ah" cannot be read`},
		{"len / 0 = 1", Ethernet, "/ 0 = 1", "division by zero"},
		{"len << 32 = 1", Ethernet, "<< 32 = 1", "a shift by more than 31 bits"},
		{"len > 0x100000000", Ethernet, "0x100000000", "number 0x100000000 is not in the range"},
		{"port 09", Ethernet, "09", "number 09 is not in the range"},
		{"(tcp", Ethernet, "", `expected ")" (at 5)`},
		{"tcp)", Ethernet, ")", `unexpected ")" (at 4)`},
		{"tcp and", Ethernet, "", "the expression is incomplete (at 8)"},
		{"not", Ethernet, "", "the expression is incomplete"},
		{"tcp ; udp", Ethernet, "; udp", "unknown character ';' (at 5)"},
		{"host é", Ethernet, "é", "unknown character 'é' (at 6)"},
		{"ether host 00:11:22:33:44:55", Raw, "00:11:22:33:44:55", `"00:11:22:33:44:55" needs a link-level header, which these packets do not have`},
		{"ether[0] = 1", Raw, "ether[0] = 1", `"ether" needs a link-level header`},
		{"tcp and vlan", Raw, "vlan", `"vlan" needs a link-level header`},
		{"mpls", Raw, "mpls", `"mpls" needs a link-level header`},
		{"pppoes", Raw, "pppoes", `"pppoes" needs a link-level header`},
		{"broadcast", Raw, "broadcast", `"broadcast" needs a link-level header`},
		{strings.Repeat("(", 200) + "tcp" + strings.Repeat(")", 200), Ethernet, "", "the expression is nested too deeply"},
		{strings.Repeat("not ", 500) + "tcp", Ethernet, "", "the expression is nested too deeply"},
		{"1 = " + strings.Repeat("ip[", 200), Ethernet, "", "the expression is nested too deeply"},
		{"1 = " + strings.Repeat("(1+", 200), Ethernet, "", "the expression is nested too deeply"},
		{"1 = " + strings.Repeat("(len+", 17) + "len" + strings.Repeat(")", 17), Ethernet, "", "the arithmetic is too complex"},
		{strings.Repeat("tcp or ", 1000) + "udp", Ethernet, "", "the expression is too long (at 4097)"},
		{"port 1" + strings.Repeat(" or 1", 500), Ethernet, "", "the expression requires too many instructions"},
	} {
		t.Run(c.expr[:min(len(c.expr), 60)], func(t *testing.T) {
			prog, err := Compile(c.expr, c.link)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("program %v, error %v", prog, err)
			}
			if !strings.HasPrefix(e.Error(), c.error) {
				t.Errorf("error %q, want %q", e.Error(), c.error)
			}
			if len(c.expr) < 60 && c.expr[e.Pos:] != c.at {
				t.Errorf("error at %q, want %q", c.expr[e.Pos:], c.at)
			}
		})
	}
}

func TestCaret(t *testing.T) {
	_, err := Compile("tcp\tand é", Ethernet)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if got, want := e.Caret(), "tcp and é\n        ^"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLongJumps checks expressions whose jumps do not fit in 8 bits.
func TestLongJumps(t *testing.T) {
	expr := "ip[8] = 0"
	for i := range 100 {
		expr += " or ip[8] = " + strconv.Itoa(i)
	}
	for _, c := range []struct {
		name, expr string
		want       func(ttl byte) bool
	}{
		{"or", expr, func(ttl byte) bool { return ttl < 100 }},
		{"not", "not (" + expr + ")", func(ttl byte) bool { return ttl >= 100 }},
		{"and", "not (" + expr + ") and (ip[8] & 1 = 0 or (" + expr + "))", func(ttl byte) bool { return ttl >= 100 && ttl&1 == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			prog, err := Compile(c.expr, Raw)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(prog, func(ins bpf.Instruction) bool { _, ok := ins.(bpf.Jump); return ok }) {
				t.Error("the program has no long jump")
			}
			for ttl := range 256 {
				p := make([]byte, 20)
				p[0], p[8] = 0x45, byte(ttl)
				if got := run(t, prog, inputs.Packet{Data: p, Len: 20}); got != c.want(byte(ttl)) {
					t.Errorf("TTL %d: selected %v", ttl, got)
				}
			}
		})
	}
}

// TestDifferences checks where programs intentionally differ from libpcap's.
func TestDifferences(t *testing.T) {
	arp := inputs.Packet{Data: append(append(make([]byte, 12), 8, 6), make([]byte, 28)...), Len: 42}
	ip := inputs.Packet{Data: append(append(make([]byte, 12), 8, 0, 0x45), make([]byte, 27)...), Len: 42}
	for _, c := range []struct {
		name, expr string
		p          inputs.Packet
		want       bool
	}{
		{"right operands need their protocol", "4 + ip[1] = 4", arp, false},
		{"right operands of this protocol", "4 + ip[1] = 4", ip, true},
		{"multiplication before modulo", "ether[14] * 3 % 2 = 1", ip, true}, // 69 * 3 % 2; libpcap: 69 * (3 % 2)
		{"modulo before addition", "ether[14] % 2 + 1 = 2", ip, true},
		{"and before exclusive or", "1 ^ ether[14] & 4 = 5", ip, true},
		{"exclusive or before or", "1 ^ 1 | ether[14] = 0x45", ip, true},
		{"keywords as protocols without a backslash", "ip proto tcp or \\udp or 2", ip, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			prog, err := Compile(c.expr, Ethernet)
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, prog, c.p); got != c.want {
				t.Errorf("selected %v, want %v", got, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	names := parseNames("# a comment\nssh 22/tcp\nhttp\t80/tcp www # WWW\ndomain 53/tcp\ndomain 53/udp\nbad\n" +
		"worse x/tcp\nicmp 1 ICMP\n")
	for _, c := range []struct {
		name, proto string
		want        uint32
	}{{"ssh", "tcp", 22}, {"www", "tcp", 80}, {"domain", "udp", 53}, {"ICMP", "", 1}, {"bad", "", 0}, {"worse", "tcp",
		0}} {
		if got := names[c.name][c.proto]; got != c.want {
			t.Errorf("%s/%s: %d, want %d", c.name, c.proto, got, c.want)
		}
	}
	names = readNames("/nonexistent", commonServices)
	for name, want := range map[string]uint32{"ssh": 22, "http": 80, "www": 80, "https": 443, "domain": 53} {
		if got := names[name]["tcp"]; got != want {
			t.Errorf("without a file, %s: %d, want %d", name, got, want)
		}
	}
}

// FuzzCompile checks that Compile returns a valid program or an error with a valid position.
func FuzzCompile(f *testing.F) {
	for _, expr := range slices.Concat(common, onEthernet, onRaw) {
		f.Add(expr, []byte{0x45, 0, 0, 20})
	}
	for _, expr := range []string{"((((", "ip[ip[", "not not", "port 1-", "\\", "host ::", "a:b:c", "1.2.3.4.5", "0x",
		"host (1", "len ^ -", "ether[a::b]"} {
		f.Add(expr, []byte{})
	}
	f.Fuzz(func(t *testing.T, expr string, packet []byte) {
		for _, link := range []LinkType{Ethernet, Raw} {
			prog, err := Compile(expr, link)
			var e *Error
			if errors.As(err, &e) {
				if e.Pos < 0 || e.Pos > len(expr) || e.Msg == "" {
					t.Errorf("position %d, message %q", e.Pos, e.Msg)
				}
				_ = e.Error() + e.Caret()
				continue
			}
			if err != nil {
				t.Fatalf("the error is no *Error: %v", err)
			}
			if _, err := bpf.Assemble(prog); err != nil {
				t.Fatal(err)
			}
			run(t, prog, inputs.Packet{Data: packet, Len: len(packet)})
		}
	})
}

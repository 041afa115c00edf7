package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Packets that rules drop: each sample's rule is one that counted the packet, and there are as many samples as
// the rule counted packets.

// sendTo sends three datagrams to each port of an address, in bash; a firewall may refuse them.
const sendTo = `send() {
	for port in $2 $2 $2; do (echo x >/dev/udp/$1/$port) 2>/dev/null || true; done
}
`

// verdictsOf runs commands of bash in a new network and mount namespace: setup, then gperf record -e nf:drop while send
// runs, then show. It returns the numbers of samples by the text of the verdict, the recording, and the output of show
// prints.
func verdictsOf(t *testing.T, setup, send, show string, args ...string) (counts map[string]int, file, shown string) {
	t.Helper()
	needProbes(t, "kprobe")
	needPrograms(t, "unshare", "bash", "ip")
	for _, m := range strings.Fields(`nf_tables nft_reject_inet nf_conntrack nft_ct nft_meta_bridge nft_queue xt_NFQUEUE
		nfnetlink_queue ip_tables iptable_filter
		iptable_raw ipt_REJECT xt_multiport ip6_tables ip6table_filter arp_tables arptable_filter ebtables
		ebtable_filter ebtable_nat ebt_ip bridge veth`) {
		exec.Command("modprobe", m).Run() // some are built with them, some load them when they are asked for
	}
	setup = "ip link set lo up\nmount -t tmpfs none /run; mkdir /run/netns\n" + sendTo + setup
	if out, err := exec.Command("unshare", "-n", "-m", "bash", "-ec", setup).CombinedOutput(); err != nil {
		t.Skipf("the rules cannot be made here: %v\n%s", err, out)
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "perf.data")
	script := setup + `
export -f send
"$0" record -a -e nf:drop --netns $$ "$@" -o ` + file + ` -- bash -c '` + send + `' >` + dir + `/record 2>&1 || { cat ` + dir +
		`/record; exit 1; }
` + show
	out, err := exec.Command("unshare", append([]string{"-n", "-m", "bash", "-ec", script, binary(t, "./cmd/gperf")},
		args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counts = map[string]int{}
	text := mustGperf(t, "script", "-F", "comm,event,trace", "-i", file)
	for _, m := range regexp.MustCompile(`nf:drop: verdict=(.*?) hook=`).FindAllStringSubmatch(text, -1) {
		counts[m[1]]++
	}
	return counts, file, string(out)
}

func sameCounts(t *testing.T, got, want map[string]int, shown string) {
	t.Helper()
	if len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("samples by verdict %v;\nby the rules' counters %v\n%s", got, want, shown)
	}
}

// nftCounts returns the packets that rules with a counter dropped, by verdict, from `nft -j -a list ruleset`. The
// last rule of a chain whose policy is to drop counts the packets that the policy drops.
func nftCounts(t *testing.T, list string) map[string]int {
	t.Helper()
	var l struct {
		Objects []map[string]struct {
			Family, Table, Chain, Name, Policy string
			Handle                             int
			Expr                               []map[string]json.RawMessage
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(list), &l); err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	counts, numbers, policies := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, o := range l.Objects {
		if chain, ok := o["chain"]; ok {
			policies["table "+chain.Family+" "+chain.Table+" chain "+chain.Name] = chain.Policy == "drop"
		}
		rule, ok := o["rule"]
		if !ok {
			continue
		}
		chain := "table " + rule.Family + " " + rule.Table + " chain " + rule.Chain
		numbers[chain]++
		var counter struct{ Packets int }
		verdict := chain + " policy"
		for _, e := range rule.Expr {
			for name, value := range e {
				switch name {
				case "counter":
					json.Unmarshal(value, &counter)
				case "drop", "reject", "vmap":
					verdict = chain + " rule " + strconv.Itoa(numbers[chain]) + " handle " + strconv.Itoa(rule.Handle)
				case "queue":
					verdict = chain + " rule " + strconv.Itoa(numbers[chain]) + " handle " +
						strconv.Itoa(rule.Handle) + " queue"
				case "jump", "goto", "accept":
					counter.Packets = 0
				}
			}
		}
		if counter.Packets > 0 && (policies[chain] || !strings.HasSuffix(verdict, " policy")) {
			counts[verdict] += counter.Packets
		}
	}
	return counts
}

const nftList = "\nnft -j -a list ruleset"

// nftRules are rules of all kinds that drop: verdicts of rules, of maps, in chains that others jump to; policies; and
// queues that nobody reads.
const nftRules = `modprobe dummy 2>/dev/null || true
nft -f - <<'RULES'
table inet gperf {
	chain user {
		udp dport 1001 counter drop
		udp dport 1002 counter reject
		udp dport 1003 jump deeper
		udp dport 1004 return
	}
	chain deeper {
		meta l4proto tcp drop
		counter drop
	}
	chain elsewhere {
		counter drop
	}
	chain input {
		type filter hook input priority 0; policy accept;
		udp dport 1000 counter drop
		udp dport 1000-1004 jump user
		udp dport 1004 counter drop
		udp dport 1005-1006 counter udp dport vmap { 1005 : drop, 1006 : drop }
		udp dport 1007 goto elsewhere
		udp dport 1008 accept
		udp dport 1013 counter queue num 7
		udp dport 1014 counter queue num 40000
	}
	chain output {
		type filter hook output priority 0; policy accept;
		udp dport 1009 counter drop
	}
}
table ip gperf {
	chain last {
		type filter hook input priority 10; policy drop;
		udp dport 1008 counter drop
		tcp dport 1 accept
		counter
	}
}
table ip6 gperf {
	chain last {
		type filter hook input priority 10; policy drop;
		ip6 daddr ::1 udp dport 1011 counter drop
		counter
	}
}
RULES
`

func TestScenarioVerdictNFT(t *testing.T) {
	needPrograms(t, "nft")
	got, file, shown := verdictsOf(t, nftRules,
		`send 127.0.0.1 "1000 1001 1002 1003 1004 1005 1006 1007 1008 1009 1010 1013 1014"; send ::1 "1011 1012"`,
		nftList, "-g")
	sameCounts(t, got, nftCounts(t, shown), shown)
	text := mustGperf(t, "script", "-i", file)
	for _, want := range []string{
		`chain user rule 1 handle \d+ hook=input flow=udp 127.0.0.1:\d+ > 127.0.0.1:1001 ` +
			`tcpflags= dev=lo len=30 netns=\d+ rule_text=udp dport 1001 counter drop\n\s+\w+ ip_local_deliver\+`,
		`chain output rule 1 handle \d+ hook=output flow=udp .*\n(\s+\w+ .*\n)+\s+\w+ udp_sendmsg\+`,
		`chain input rule 7 handle \d+ queue hook=input flow=udp \S+ > 127.0.0.1:1013 .*\n\s+\w+ ip_local_deliver\+`,
		`table ip6 gperf chain last policy hook=input flow=udp \[::1\]:\d+ > \[::1\]:1012`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no sample matches %s:\n%.3000s", want, text)
		}
	}
	if regexp.MustCompile(`nft_do_chain|nf_hook_slow`).MatchString(text) {
		t.Errorf("a stack has frames of netfilter:\n%.3000s", text)
	}
	t.Run("report", func(t *testing.T) {
		text := mustGperf(t, "report", "--stdio", "--no-children", "-g", "none", "--sort", "chain,rule", "-i", file)
		if !regexp.MustCompile(`%\s+deeper\s+2\s`).MatchString(text) {
			t.Errorf("%s", text)
		}
	})
}

// queueReader reads queues 8 to 10 of netfilter until it is killed. It drops the packets of 8; it leaves the packets of
// 9, which holds one, without an answer; it makes the packets of 10 larger and accepts them: the kernel copies such a
// packet and frees the original. Numbers are of linux/netfilter/nfnetlink_queue.h.
const queueReader = `import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
def attr(kind, value): return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
def send(kind, queue, value):
    body = struct.pack(">BBH", 0, 0, queue) + value
    s.send(struct.pack("=IHHII", 16 + len(body), 3 << 8 | kind, 1, 0, 0) + body)
VERDICT, CONFIG = 1, 2
for queue, room, size, copy in (8, 100, 0, 1), (9, 1, 0, 1), (10, 100, 65535, 2):
    send(CONFIG, queue, attr(1, struct.pack(">BBH", 1, 0, 2)))    # bind
    send(CONFIG, queue, attr(2, struct.pack(">IB", size, copy)))  # 1: no payload
    send(CONFIG, queue, attr(3, struct.pack(">I", room)))
print("ready", flush=True)
while True:
    b = s.recv(65536)
    if len(b) < 28 or struct.unpack_from("=H", b, 4)[0] != 3 << 8: continue
    queue, at, attrs = struct.unpack_from(">H", b, 18)[0], 20, {}
    while at + 4 <= len(b):
        size, kind = struct.unpack_from("=HH", b, at)
        attrs[kind & 0x3fff] = b[at + 4:at + size]
        at += size + -size % 4
    number = attrs[1][:4]
    if queue == 8:
        send(VERDICT, 8, attr(2, struct.pack(">I4s", 0, number)))     # NF_DROP
    if queue == 10:
        ip, udp = bytearray(attrs[10][:20]), bytearray(attrs[10][20:] + bytes(4000))
        struct.pack_into(">H", ip, 2, len(ip) + len(udp))             # lengths, and the checksums: 0 is none in UDP
        struct.pack_into(">HH", udp, 4, len(udp), 0)
        struct.pack_into(">H", ip, 10, 0)
        total = sum(struct.unpack(">10H", ip))
        total = (total & 0xffff) + (total >> 16)
        struct.pack_into(">H", ip, 10, ~total & 0xffff)
        send(VERDICT, 10, attr(2, struct.pack(">I4s", 1, number)) + attr(10, bytes(ip + udp))) # NF_ACCEPT
`

// TestScenarioVerdictQueues: one program reads three queues; it drops the packets of one, another is full, and no
// packet of the third is dropped.
func TestScenarioVerdictQueues(t *testing.T) {
	needPrograms(t, "nft", "python3")
	setup := `cat >/run/reader.py <<'END'
` + queueReader + `END
nft -f - <<'RULES'
table inet gperf {
	chain input {
		type filter hook input priority 0; policy accept;
		udp dport 1000 counter queue num 8
		udp dport 1001 counter queue num 9
		udp dport 1002 queue num 10
	}
}
RULES
`
	send := `coproc python3 /run/reader.py; read -r ready <&${COPROC[0]}
		send 127.0.0.1 "1000 1001 1002"; sleep 0.5; kill $COPROC_PID; wait`
	got, _, shown := verdictsOf(t, setup, send, nftList)
	sameCounts(t, got, nftCounts(t, shown), shown)
}

func TestScenarioVerdictFilter(t *testing.T) {
	needPrograms(t, "nft")
	got, _, shown := verdictsOf(t, nftRules, `send 127.0.0.1 "1000 1001 1003 1009"`, nftList, "--filter",
		`table == "gperf" && chain == "user" || hook == "output" && rule == 1`)
	if len(got) != 2 {
		t.Errorf("with a filter: %v, want the rules of user and output\n%s", got, shown)
	}
	for verdict, n := range got {
		if n != 3 || !regexp.MustCompile("chain (user|output) rule 1 handle").MatchString(verdict) {
			t.Errorf("%d samples of %s", n, verdict)
		}
	}
}

// TestScenarioVerdictReplaced: the rules change during the recording, so that handles name other rules.
func TestScenarioVerdictReplaced(t *testing.T) {
	needPrograms(t, "nft")
	rules := `table ip gperf { chain input { type filter hook input priority 0; udp dport PORT counter drop; }; }`
	_, file, _ := verdictsOf(t, "nft '"+strings.Replace(rules, "PORT", "1000", 1)+"'\n",
		`send 127.0.0.1 1000; sleep 0.5; nft "flush ruleset; `+strings.Replace(rules, "PORT", "1001", 1)+
			`"; send 127.0.0.1 1001; sleep 0.5`, nftList)
	text := mustGperf(t, "script", "-F", "trace", "-i", file)
	for _, port := range []string{"1000", "1001"} {
		want := regexp.MustCompile(`:` + port + ` .*rule_text=udp dport ` + port + ` counter drop`)
		if n := len(want.FindAllString(text, -1)); n != 3 {
			t.Errorf("%d samples with the rule of port %s, want 3:\n%s", n, port, text)
		}
	}
}

var savedRule = regexp.MustCompile(`^(?:\[(\d+):\d+\] -A (\S+) .*-j (\S+)|:(\S+) DROP \[(\d+):)`)

// iptablesCounts returns the packets that rules have dropped, by verdict, from `iptables-save -c`.
func iptablesCounts(save string) map[string]int {
	counts, numbers := map[string]int{}, map[string]int{}
	table := ""
	add := func(verdict, n string) {
		if n, _ := strconv.Atoi(n); n > 0 {
			counts[verdict] += n
		}
	}
	for line := range strings.Lines(save) {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = strings.TrimSpace(name)
			clear(numbers)
		}
		m := savedRule.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[4] != "" {
			add("table "+table+" chain "+m[4]+" policy", m[5])
			continue
		}
		numbers[m[2]]++
		rule := "table " + table + " chain " + m[2] + " rule " + strconv.Itoa(numbers[m[2]])
		switch m[3] {
		case "DROP", "REJECT":
			add(rule, m[1])
		case "NFQUEUE":
			add(rule+" queue", m[1])
		}
	}
	return counts
}

func TestScenarioVerdictIptables(t *testing.T) {
	needPrograms(t, "iptables-legacy")
	setup := `set() { iptables-legacy "$@"; }
set -N USER
set -A USER -p udp --dport 1001 -j DROP
set -A USER -p udp --dport 1002 -j REJECT
set -A USER -p udp --dport 1003 -j RETURN
set -A INPUT -p tcp --dport 9 -j ACCEPT
set -A INPUT -p udp --dport 1000 -j DROP
set -A INPUT -p udp -m multiport --dports 1001,1002,1003 -j USER
set -A INPUT -p udp --dport 1003 -j DROP
set -A INPUT -p udp --dport 1004 -j ACCEPT
set -A OUTPUT -p udp --dport 1005 -j DROP
set -A OUTPUT -p udp --dport 1006 -j REJECT
set -t raw -A PREROUTING -p udp --dport 1007 -j DROP
set -A INPUT -p udp --dport 1011 -j NFQUEUE --queue-num 6
set -A INPUT -p udp --dport 1012 -j NFQUEUE --queue-num 7
set -P INPUT DROP
ip6tables-legacy -A INPUT -p udp --dport 1009 -j ACCEPT
ip6tables-legacy -A INPUT -p udp -j DROP
`
	send := `for i in 1 2 3; do send 127.0.0.1 "1000 1001 1002 1003 1004 1005 1006 1007 1008 1012 1011"; done
		send ::1 "1009 1010"`
	show := "\niptables-legacy-save -c; ip6tables-legacy-save -c"
	got, file, shown := verdictsOf(t, setup, send, show)
	sameCounts(t, got, iptablesCounts(shown), shown)
	text := mustGperf(t, "script", "-F", "trace", "-i", file)
	for port, verdict := range map[string]string{"1000": "chain INPUT rule 2", "1001": "chain USER rule 1",
		"1002": "chain USER rule 2", "1003": "chain INPUT rule 4", "1005": "chain OUTPUT rule 1",
		"1006": "chain OUTPUT rule 2", "1007": "table raw chain PREROUTING rule 1", "1008": "chain INPUT policy",
		"1011": "chain INPUT rule 6 queue", "1012": "chain INPUT rule 7 queue",
		"1010": "chain INPUT rule 2"} {
		lines := regexp.MustCompile(`.*flow=udp \S+ > \S+:`+port+` `).FindAllString(text, -1)
		if len(lines) == 0 {
			t.Errorf("no sample of port %s:\n%s", port, text)
		}
		for _, line := range lines {
			if !strings.Contains(line, verdict+" hook=") {
				t.Errorf("port %s, which %s drops: %s", port, verdict, line)
			}
		}
	}
}

// TestScenarioVerdictIptablesReplaced: rules are added during the recording, which moves others and copies their
// counts.
func TestScenarioVerdictIptablesReplaced(t *testing.T) {
	needPrograms(t, "iptables-legacy")
	setup := "iptables-legacy -A INPUT -p udp --dport 1000 -j DROP\n"
	send := `send 127.0.0.1 1000; iptables-legacy -I INPUT -p udp --dport 1001 -j DROP; send 127.0.0.1 "1000 1001"
		iptables-legacy -D INPUT 1; send 127.0.0.1 "1000 1001"`
	got, _, shown := verdictsOf(t, setup, send, "\niptables-legacy-save -c")
	want := map[string]int{"table filter chain INPUT rule 1": 3 + 3 + 3, "table filter chain INPUT rule 2": 3}
	sameCounts(t, got, want, shown)
}

// bridgedNets connects two networks a and b to a bridge, whose address is 10.9.0.1.
const bridgedNets = `
ip link add br0 type bridge
ip link set br0 up
ip addr add 10.9.0.1/24 dev br0
for n in a b; do
	ip netns add $n
	ip link add v$n type veth peer name e0 netns $n
	ip link set v$n master br0
	ip link set v$n up
	ip -n $n link set e0 up
done
ip -n a addr add 10.9.0.2/24 dev e0
ip -n b addr add 10.9.0.3/24 dev e0
mac() { ip "$@" | sed -n 's/.*ether \([^ ]*\).*/\1/p'; }
for n in a b; do ip -n $n neigh add 10.9.0.1 lladdr $(mac link show br0) dev e0; done
ip -n a neigh add 10.9.0.3 lladdr $(mac -n b link show e0) dev e0
`

// sendFromA sends from network a.
func sendFromA(to, ports string) string {
	return `ip netns exec a bash -c "send ` + to + ` \"` + ports + `\"";`
}

func TestScenarioVerdictBridgeNFT(t *testing.T) {
	needPrograms(t, "nft")
	setup := bridgedNets + `sysctl -qw net.ipv4.ip_forward=1
ip netns add c
ip link add vc type veth peer name e0 netns c
ip link set vc up; ip addr add 10.10.0.1/24 dev vc
ip -n c link set e0 up; ip -n c addr add 10.10.0.2/24 dev e0
ip -n a route add 10.10.0.0/24 via 10.9.0.1
nft -f - <<'RULES'
table bridge gperf {
	chain forward { type filter hook forward priority 0; udp dport 1000 counter drop; }
	chain prerouting { type filter hook prerouting priority 0; udp dport 1001 counter drop; }
}
table netdev gperf {
	chain ingress { type filter hook ingress device "va" priority 0; udp dport 1002 counter drop; }
}
table inet gperf {
	chain forward { type filter hook forward priority 0; udp dport 1003 counter drop; }
	chain prerouting { type filter hook prerouting priority 0; udp dport 1004 counter drop; }
	chain postrouting { type filter hook postrouting priority 0; udp dport 1005 counter drop; }
}
RULES
`
	setup = strings.ReplaceAll(setup, "; }\n", ";\n}\n")
	got, file, shown := verdictsOf(t, setup, sendFromA("10.9.0.3", "1000 1001 1002")+
		sendFromA("10.10.0.2", "1003 1004 1005"), nftList)
	sameCounts(t, got, nftCounts(t, shown), shown)
	text := mustGperf(t, "script", "-F", "trace", "-i", file)
	for _, want := range []string{`table bridge gperf chain forward .* hook=forward .*:1000 tcpflags= dev=v`,
		`table netdev gperf chain ingress .* hook=ingress .*:1002 tcpflags= dev=va `,
		`table inet .* hook=postrouting .*:1005 `} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no sample matches %s:\n%s", want, text)
		}
	}
}

var bridgeRule = regexp.MustCompile(`^Bridge (?:table: (\S+)|chain: ([^,]+), )|-j (\S+) *, pcnt = (\d+)`)

// ebtablesCounts returns the packets that rules have dropped, by verdict, from `ebtables -L --Lc`.
func ebtablesCounts(list string) map[string]int {
	counts := map[string]int{}
	table, chain, number := "", "", 0
	for line := range strings.Lines(list) {
		switch m := bridgeRule.FindStringSubmatch(line); {
		case m == nil:
		case m[1] != "":
			table = m[1]
		case m[2] != "":
			chain, number = m[2], 0
		default:
			number++
			if n, _ := strconv.Atoi(m[4]); n > 0 && m[3] == "DROP" {
				counts["table "+table+" chain "+chain+" rule "+strconv.Itoa(number)] = n
			}
		}
	}
	return counts
}

func TestScenarioVerdictEbtables(t *testing.T) {
	needPrograms(t, "ebtables-legacy")
	setup := bridgedNets + `set() { ebtables-legacy "$@"; }
udp="-p ip --ip-protocol udp --ip-destination-port"
set -N USER -P RETURN
set -A USER $udp 1001 -j DROP
set -A FORWARD $udp 1009 -j ACCEPT
set -A FORWARD $udp 1000 -j DROP
set -A FORWARD -p ip -j USER
set -A FORWARD -p arp -j ACCEPT
set -P FORWARD DROP
set -A INPUT $udp 1003 -j DROP
set -t nat -A PREROUTING $udp 1004 -j DROP
`
	got, _, shown := verdictsOf(t, setup, sendFromA("10.9.0.3", "1000 1001 1002 1004")+sendFromA("10.9.0.1", "1003"),
		"\nebtables-legacy -L --Lc; ebtables-legacy -t nat -L --Lc")
	want := ebtablesCounts(shown)
	want["table filter chain FORWARD policy"] = got["table filter chain FORWARD policy"] // it has no counter
	sameCounts(t, got, want, shown)
	if n := got["table filter chain FORWARD policy"]; n < 3 { // those to port 1002, and the kernel's own
		t.Errorf("%d samples of the policy, want 3 or more: %v", n, got)
	}
}

func TestScenarioVerdictArptables(t *testing.T) {
	needPrograms(t, "arptables-legacy")
	setup := bridgedNets + `arptables-legacy -A INPUT -s 10.9.0.8 -j DROP
arptables-legacy -A INPUT -s 10.9.0.9 -j DROP
ip -n a addr add 10.9.0.9/24 dev e0
ip -n a neigh flush all; ip -n a neigh del 10.9.0.1 dev e0 2>/dev/null || true
ip -n a addr del 10.9.0.2/24 dev e0; ip -n a addr add 10.9.0.9/24 dev e0 2>/dev/null || true
`
	got, file, shown := verdictsOf(t, setup, sendFromA("10.9.0.1", "1000")+"sleep 2",
		"\narptables-legacy -L -v -n")
	m := regexp.MustCompile(`10\.9\.0\.9.*pcnt=(\d+)`).FindStringSubmatch(shown)
	if m == nil {
		t.Fatalf("no counter:\n%s", shown)
	}
	n, _ := strconv.Atoi(m[1])
	sameCounts(t, got, map[string]int{"table filter chain INPUT rule 2": n}, shown)
	text := mustGperf(t, "script", "-F", "trace", "-i", file)
	if !strings.Contains(text, "hook=input flow=arp who-has 10.9.0.1 from 10.9.0.9") {
		t.Errorf("%s", text)
	}
}

// Connection tracking drops the packets of new connections when its table is full. Its size is the same in all network
// namespaces.
func TestScenarioVerdictConntrackAlone(t *testing.T) {
	needProbes(t, "kprobe")
	needPrograms(t, "nft")
	max, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		exec.Command("modprobe", "nf_conntrack").Run()
		if max, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max"); err != nil {
			t.Skipf("connections are not tracked here: %v", err)
		}
	}
	restore := func(s string) { os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_max", []byte(s), 0) }
	restore("1")
	defer restore(string(max))
	setup := "nft 'table ip gperf { chain output { type filter hook output priority 0; ct state new accept; }; }'\n"
	got, _, shown := verdictsOf(t, setup, `send 127.0.0.1 "1000 1001 1002 1003 1004 1005"`,
		"\nconntrack -S 2>/dev/null || cat /proc/net/stat/nf_conntrack")
	if got["connection tracking"] < 3 || len(got) != 1 {
		t.Errorf("samples by verdict %v\n%s", got, shown)
	}
}

// TestScenarioVerdictWithoutKprobes: the error names the event that shows where packets are dropped.
func TestScenarioVerdictWithoutKprobes(t *testing.T) {
	needTracepoints(t)
	if _, err := os.Stat(filepath.Join(tracefsRoot, "kprobe_events")); err == nil {
		t.Skip("this kernel has kprobes")
	}
	checkWrong(t, "nf:drop", []wrong{{[]string{"-a", "-e", "nf:drop"}, exitError, []string{
		"nf:drop: this kernel has no kprobes", "skb:kfree_skb shows where packets are dropped, reason NETFILTER_DROP",
		"CONFIG_KPROBE_EVENTS"}}})
}

func TestScenarioErrorsOfVerdicts(t *testing.T) {
	checkWrong(t, "words", []wrong{
		{[]string{"-a", "-e", "nf:drops"}, exitUsage, []string{"did you mean nf:drop?"}},
		{[]string{"-a", "-e", "nf:drop:u"}, exitUsage, []string{"neither modifiers nor terms"}},
		{[]string{"-a", "-e", "nf:drop dport colour"}, exitUsage,
			[]string{"a packet has no field colour; it has ", "flow"}},
	})
}

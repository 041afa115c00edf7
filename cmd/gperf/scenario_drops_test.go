package main

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Drops of each of the usual causes, with reasons and stacks: the output that gperf
// is there for.

// dropped is a sample of skb:kfree_skb as gperf script prints it.
type dropped struct {
	comm, reason string
	flow         string   // protocol and addresses, "" where gperf may not read packets
	stack        []string // functions, innermost first
}

var dropLine = regexp.MustCompile(
	`^(.+?) +\d+ \[\d+\] .* skb:kfree_skb: (?:.* reason: (\w+))?(?:.* flow=(.*?) tcpflags=)?`)

// drops returns the drops in a recording in dir.
func drops(t *testing.T, dir string) (l []dropped) {
	t.Helper()
	for _, block := range strings.Split(mustGperf(t, "script", "-i", filepath.Join(dir, "perf.data")), "\n\n") {
		first, frames, _ := strings.Cut(block, "\n")
		m := dropLine.FindStringSubmatch(first)
		if m == nil {
			continue
		}
		d := dropped{comm: m[1], reason: m[2], flow: m[3]}
		for line := range strings.Lines(frames) {
			if f := strings.Fields(line); len(f) > 1 {
				name, _, _ := strings.Cut(f[1], "+0x")
				d.stack = append(d.stack, name)
			}
		}
		l = append(l, d)
	}
	return l
}

// checkDrops expects n drops of packets sent to a port, for a reason (kernels before 5.17 know none) at a function
// (any of them), of which drops on the sender's behalf show the sender's stack. Others send to other ports meanwhile.
func checkDrops(t *testing.T, dir string, n, port int, reason string, functions ...string) {
	t.Helper()
	own, all := 0, 0
	to := fmt.Sprintf(" > 127.0.0.1:%d", port)
	for _, d := range drops(t, dir) {
		stack := strings.Join(d.stack, " ")
		if d.reason != "" && d.reason != reason || !slices.ContainsFunc(functions, func(f string) bool {
			return slices.Contains(d.stack, f)
		}) {
			continue
		}
		switch {
		case d.flow != "" && !strings.HasSuffix(d.flow, to), d.flow == "" && d.comm != "drops":
			continue // another's
		case d.comm != "drops": // a softirq of ksoftirqd, or on top of another process
		case !strings.Contains(stack, "syscall.Sendto") || !strings.Contains(stack, "main.main"):
			t.Errorf("the stack does not reach the sender's main:\n%s", stack)
		default:
			own++
		}
		all++
	}
	if all != n || own == 0 {
		t.Errorf("%d drops by %s in %s, %d of them in the sender's context; want %d", all, reason, functions, own, n)
	}
}

func TestScenarioDropsClosedPort(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	port := closedPort(t)
	mustRecord(t, dir, "-g", "-a", "-m", "4096", "-e", "skb:kfree_skb", "--", binary(t, dropsProgram), "-n", "20",
		"-port", strconv.Itoa(port))
	// Either function is compiled into the other.
	checkDrops(t, dir, 20, port, "NO_SOCKET", "udp_rcv", "__udp4_lib_rcv")
}

func TestScenarioDropsFullBuffer(t *testing.T) {
	needTracepoints(t)
	netns(t, "true")
	dir := t.TempDir()
	port := closedPort(t) // for others than the sender, which binds it in a network namespace of its own
	mustRecord(t, dir, "-g", "-a", "-m", "4096", "-e", "skb:kfree_skb", "--", "unshare", "-n", "sh", "-ec",
		`ip link set lo up; exec "$0" "$@"`, binary(t, dropsProgram), "-n", "20", "-full", "-port", strconv.Itoa(port))
	checkDrops(t, dir, 20, port, "SOCKET_RCVBUFF", "udp_queue_rcv_one_skb")
}

// closedPort returns a UDP port of 127.0.0.1 that is closed to all senders. Until the test ends, no other program gets
// it: a socket holds it, which is connected to a port from which nobody sends.
func closedPort(t *testing.T) int {
	t.Helper()
	loopback := net.IPv4(127, 0, 0, 1)
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: loopback}, &net.UDPAddr{IP: loopback, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.UDPAddr).Port
}

// A rule of the firewall drops the sender's packets to a port, in a network
// namespace of their own.
func TestScenarioDropsByRule(t *testing.T) {
	needTracepoints(t)
	port := closedPort(t) // for others
	for tool, rules := range map[string]string{
		"nft": `nft add table inet t && nft "add chain inet t i { type filter hook input priority 0; }" &&
			nft add rule inet t i udp dport %d drop`,
		"iptables": `iptables -A INPUT -p udp --dport %d -j DROP`,
	} {
		t.Run(tool, func(t *testing.T) {
			netns(t, strings.ReplaceAll(rules, "%d", strconv.Itoa(port)), tool)
			dir := t.TempDir()
			run := strings.ReplaceAll(rules, "%d", strconv.Itoa(port)) + ` && exec "$0" "$@"`
			mustRecord(t, dir, "-g", "-a", "-m", "4096", "-e", "skb:kfree_skb", "--", "unshare", "-n", "sh", "-ec",
				"ip link set lo up; "+run,
				binary(t, dropsProgram), "-n", "20", "-port", strconv.Itoa(port))
			checkDrops(t, dir, 20, port, "NETFILTER_DROP", "nf_hook_slow")
		})
	}
}

// netns skips where a command, run by the shell in a new network namespace, fails:
// where a tool, a right or a part of the kernel is missing.
func netns(t *testing.T, command string, tools ...string) {
	t.Helper()
	for _, tool := range append(tools, "unshare", "ip") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing (Debian's nftables, iptables, util-linux, iproute2)", tool)
		}
	}
	if out, err := exec.Command("unshare", "-n", "sh", "-ec",
		"ip link set lo up; "+command).CombinedOutput(); err != nil {
		t.Skipf("in a network namespace of its own, %s: %v\n%s", command, err, out)
	}
}

// `-F 99 -a -g`: the whole machine, sampled by time, kernel and user stacks.
func TestScenarioWholeMachine(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "-F", "99", "-a", "-g", "--", binary(t, dropsProgram), "-n", "60000")
	c := read(t, filepath.Join(dir, "perf.data"))
	if c.total == 0 {
		t.Fatalf("no samples\n%s", r.stderr)
	}
	folded := mustGperf(t, "script", "--format", "folded", "-i", filepath.Join(dir, "perf.data"))
	whole := regexp.MustCompile(`(?m)^drops;.*main\.main;.*main\.drop;.*udp_sendmsg`)
	if !whole.MatchString(folded) {
		t.Errorf("no stack reaches from the sender's main into the kernel:\n%s", folded)
	}
}

package main

import (
	"bufio"
	"encoding/hex"
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

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"gperf/internal/testutil/programs"
)

// The packets that BPF programs drop: at a device (XDP) and at traffic control.

var dropperProgram = programs.Go("testdata/dropper.go")

// dropperFunction is the program's function: longer than the names that the kernel keeps of programs.
const dropperFunction = "drop_some_packets_of_a_test"

// dropperFlow is frames of one flow, longer than Ethernet's minimum, and the reason of their drops: "" if the program
// passes them.
type dropperFlow struct {
	n         int
	from, to  layers.UDPPort
	size      int // of the payload
	xdp, text string
}

var dropperFlows = []dropperFlow{
	{7, 1000, 53, 25, "XDP_DROP", "udp 10.9.0.1:1000 > 10.9.0.2:53"},
	{5, 1001, 53, 20, "XDP_DROP", "udp 10.9.0.1:1001 > 10.9.0.2:53"},
	{3, 1002, 54, 30, "XDP_ABORTED", "udp 10.9.0.1:1002 > 10.9.0.2:54"},
	{4, 1003, 55, 40, "", ""},
}

// sample is the text that the samples of a flow have in common.
func (f *dropperFlow) sample(reason string) string {
	return fmt.Sprintf("reason: %s prog=%s flow=%s dev=vb len=%d", reason, dropperFunction, f.text, 14+20+8+f.size)
}

// dropperFrames writes the frames of flows into a file, one flow after the other.
func dropperFrames(t *testing.T, flows []dropperFlow) (path string) {
	t.Helper()
	var b strings.Builder
	for _, f := range flows {
		line := hex.EncodeToString(frame(t, ether(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolUDP),
			&layers.UDP{SrcPort: f.from, DstPort: f.to}, gopacket.Payload(make([]byte, f.size)))) + "\n"
		b.WriteString(strings.Repeat(line, f.n))
	}
	path = filepath.Join(t.TempDir(), "frames")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// startDropper attaches a program to the device vb of a new network namespace, and returns the PID of a process
// in it. It skips the test if the kernel refuses.
func startDropper(t *testing.T, args ...string) (pid string) {
	t.Helper()
	needEmitted(t)
	mtu := 1500
	if slices.Contains(args, "-frags") {
		mtu = 9000
	}
	setUp := fmt.Sprintf("ip link add va mtu %d type veth peer name vb mtu %[1]d; ip link set va up; "+
		"ip link set vb up; sysctl -qw net.ipv6.conf.all.disable_ipv6=1", mtu)
	netns(t, setUp, "nsenter")
	var errs strings.Builder
	cmd := exec.Command("unshare", append([]string{"-n", "sh", "-ec", setUp + `; exec "$0" "$@" vb`,
		dropperProgram.Path(t)}, args...)...)
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		in.Close()
		cmd.Wait()
		t.Skipf("dropper %s: %q, %v\n%s", strings.Join(args, " "), line, err, errs.String())
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// recordDropper records an event while the frames arrive in the namespace of pid. It skips the test if BPF
// programs cannot run at the return of others here.
func recordDropper(t *testing.T, dir, pid string, args ...string) result {
	t.Helper()
	return recordFlows(t, dir, pid, dropperFlows, args...)
}

func recordFlows(t *testing.T, dir, pid string, flows []dropperFlow, args ...string) result {
	t.Helper()
	args = append(args, "-a", "--netns", pid, "--", "nsenter", "-n", "-t", pid, "sh", "-c", `exec "$0" va < "$1"`,
		framesProgram.Path(t), dropperFrames(t, flows))
	r := recordIn(t, dir, args...)
	if strings.Contains(r.stderr, "operation not permitted") {
		t.Skipf("BPF programs may not run at the return of others here:\n%s", r.stderr)
	}
	if r.code != exitOK {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	return r
}

var dropperSample = regexp.MustCompile(`reason: \S+ prog_id=\d+ prog=\S+ flow=.* dev=\S+ len=\d+`)

// dropperSamples counts the samples in a recording by their text, without the parts that vary.
func dropperSamples(t *testing.T, dir string) map[string]int {
	t.Helper()
	n := map[string]int{}
	vary := regexp.MustCompile(` (prog_id=\d+|tcpflags=\S*)`)
	for line := range strings.Lines(mustGperf(t, "script", "-F", "trace", "-i", filepath.Join(dir, "perf.data"))) {
		if s := dropperSample.FindString(line); s != "" {
			n[vary.ReplaceAllString(s, "")]++
		}
	}
	return n
}

func TestScenarioXDPDrop(t *testing.T) {
	for name, args := range map[string][]string{"driver": nil, "generic": {"-generic"}} {
		t.Run(name, func(t *testing.T) {
			pid := startDropper(t, append(args, "-drop", "53", "-abort", "54")...)
			want := map[string]int{}
			for _, f := range dropperFlows {
				if f.xdp != "" {
					want[f.sample(f.xdp)] = f.n
				}
			}
			dir := t.TempDir()
			recordDropper(t, dir, pid, "-e", "xdp:drop")
			if got := dropperSamples(t, dir); !maps.Equal(got, want) {
				t.Errorf("samples %v\nwant %v", got, want)
			}
			data := filepath.Join(dir, "perf.data")
			report := mustGperf(t, "report", "--stdio", "-n", "-s", "flow,reason", "-i", data)
			for _, f := range dropperFlows {
				if f.xdp == "" {
					continue
				}
				row := regexp.MustCompile(fmt.Sprintf(`(?m)%% +%d +%s +%s\s*$`, f.n, regexp.QuoteMeta(f.text), f.xdp))
				if !row.MatchString(report) {
					t.Errorf("no row of %d %s %s:\n%s", f.n, f.text, f.xdp, report)
				}
			}
			if perf := perfScript(t, data); strings.Count(perf, dropperFlows[0].text) != dropperFlows[0].n {
				t.Errorf("perf script shows other samples:\n%s", perf)
			}
		})
	}
}

// The length of a packet includes the part outside of its first buffer.
func TestScenarioXDPFrags(t *testing.T) {
	pid := startDropper(t, "-frags", "-drop", "53")
	dir := t.TempDir()
	f := dropperFlow{2, 1000, 53, 8000, "XDP_DROP", "udp 10.9.0.1:1000 > 10.9.0.2:53"}
	recordFlows(t, dir, pid, []dropperFlow{f}, "-e", "xdp:drop")
	if got := dropperSamples(t, dir); len(got) != 1 || got[f.sample(f.xdp)] != f.n {
		t.Errorf("samples %v\nwant %d of %s", got, f.n, f.sample(f.xdp))
	}
}

// Filters of the event and of packets apply; stacks begin with the caller of the XDP program, or with the program.
func TestScenarioXDPSelect(t *testing.T) {
	pid := startDropper(t, "-drop", "53", "-abort", "54")
	for name, c := range map[string]struct {
		args []string
		flow int // index of the only flow
	}{
		"filter":         {[]string{"--filter", "reason == XDP_ABORTED && prog == " + dropperFunction}, 2},
		"filter by port": {[]string{"--filter", "sport == 1001 && prog_id > 0"}, 1},
		"packet":         {[]string{"--packet", "ether src 02:00:00:00:00:01 and udp src port 1000", "--snap", "64"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			recordDropper(t, dir, pid, append([]string{"-g", "-e", "xdp:drop"}, c.args...)...)
			f := dropperFlows[c.flow]
			if got := dropperSamples(t, dir); len(got) != 1 || got[f.sample(f.xdp)] != f.n {
				t.Errorf("samples %v\nwant %d of %s", got, f.n, f.sample(f.xdp))
			}
			out := mustGperf(t, "script", "-F", "ip,sym", "-i", filepath.Join(dir, "perf.data"))
			// Older kernels, such as 6.1, do not unwind beyond the XDP program.
			whole := strings.Contains(out, "veth_poll") || strings.Contains(out, "_"+dropperFunction+"\n")
			if !whole || strings.Contains(out, "bpf_trampoline") || strings.Contains(out, "on_drop") {
				t.Errorf("want the stacks of the driver's receiving functions, without gperf's program:\n%s", out)
			}
		})
	}
}

// packet:drops has the drops of XDP programs, with the other events of the same packets.
func TestScenarioXDPPacketDrops(t *testing.T) {
	pid := startDropper(t, "-drop", "53")
	dir := t.TempDir()
	recordDropper(t, dir, pid, "-e", "packet:drops")
	got := dropperSamples(t, dir)
	for _, f := range dropperFlows[:2] {
		if got[f.sample("XDP_DROP")] != f.n {
			t.Errorf("samples %v\nwant %d of %s", got, f.n, f.sample("XDP_DROP"))
		}
	}
}

func TestScenarioTCDrop(t *testing.T) {
	pid := startDropper(t, "-tc", "-drop", "53")
	dir := t.TempDir()
	recordDropper(t, dir, pid, "-e", "tc:drop")
	want := map[string]int{}
	for _, f := range dropperFlows[:2] {
		want[f.sample("TC_ACT_SHOT")] = f.n
	}
	if got := dropperSamples(t, dir); !maps.Equal(got, want) {
		t.Errorf("samples %v\nwant %v", got, want)
	}
}

// Without a program that can be watched, an event by name is an error with a remedy, and packet:drops goes on. Other
// tests load such programs.
func TestScenarioXDPNoneAlone(t *testing.T) {
	needEmitted(t)
	record := func(event string) result { return recordIn(t, t.TempDir(), "-a", "-e", event, "--", "true") }
	r := record("xdp:drop")
	if !strings.Contains(r.stderr, "no BPF program of its type is loaded") || r.code == exitOK {
		t.Skipf("there are XDP programs on this machine: exit code %d\n%s", r.code, r.stderr)
	}
	if r := record("packet:drops"); r.code != exitOK || strings.Contains(r.stderr, "xdp:drop") {
		t.Errorf("packet:drops: exit code %d\n%s", r.code, r.stderr)
	}
	startDropper(t, "-untyped", "-drop", "53")
	if r := record("xdp:drop"); r.code == exitOK || !strings.Contains(r.stderr, "clang -g") {
		t.Errorf("xdp:drop: exit code %d\n%s", r.code, r.stderr)
	}
	if r := record("packet:drops"); r.code != exitOK || !strings.Contains(r.stderr, "drops of 1 of 1 programs") {
		t.Errorf("packet:drops: exit code %d\n%s", r.code, r.stderr)
	}
}

// Words that the events do not support.
func TestRecordDropWords(t *testing.T) {
	for event, want := range map[string]string{
		"xdp:drop/name=x/":    "neither modifiers nor terms",
		"xdp:drop flow color": "no field color",
		"{xdp:drop,tc:drop}":  "xdp:drop and tc:drop support no",
	} {
		r := recordIn(t, t.TempDir(), "-a", "-e", event, "--", "true")
		if r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", event, r.code, want, r.stderr)
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests place probes in the running kernel, and in the gperf that is tested.

const tracefsRoot = "/sys/kernel/tracing"

// needProbes skips where this user may not define probes of the kind, "kprobe" or "uprobe".
func needProbes(t *testing.T, kind string) {
	t.Helper()
	needTracepoints(t)
	f, err := os.OpenFile(filepath.Join(tracefsRoot, kind+"_events"), os.O_WRONLY|os.O_APPEND, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		t.Skipf("this kernel has no %ss (CONFIG_%s_EVENTS)", kind, strings.ToUpper(kind))
	case err != nil:
		t.Skipf("%ss may not be defined: %v", kind, err)
	}
	f.Close()
}

// needPrograms skips where one of the programs is missing.
func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			t.Skipf("%s is missing", n)
		}
	}
}

// needModule loads a module of the kernel, or skips.
func needModule(t *testing.T, name string) {
	t.Helper()
	if out, err := exec.Command("modprobe", name).CombinedOutput(); err != nil {
		t.Skipf("modprobe %s: %v: %s", name, err, bytes.TrimSpace(out))
	}
}

// runGperf runs gperf to its end.
func runGperf(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary(t, "./cmd/gperf"), args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// mustGperf runs gperf and returns its output.
func mustGperf(t *testing.T, args ...string) string {
	t.Helper()
	r := runGperf(t, args...)
	if r.code != exitOK {
		t.Fatalf("gperf %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stdout
}

// definitions are the lines of tracefs' probes with the text.
func definitions(t *testing.T, text string) (l []string) {
	t.Helper()
	for _, file := range []string{"kprobe_events", "uprobe_events"} {
		b, err := os.ReadFile(filepath.Join(tracefsRoot, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, text) {
				l = append(l, line)
			}
		}
	}
	return l
}

// noneOf checks that a recording left no probes.
func noneOf(t *testing.T, pid int) {
	t.Helper()
	if l := definitions(t, fmt.Sprintf("gperf_%d_", pid)); len(l) > 0 {
		t.Errorf("%d probes are left: %s…", len(l), l[0])
	}
}

const sendUDP = "for i in 1 2 3; do echo $i > /dev/udp/127.0.0.1/9; done"

func TestScenarioKprobe(t *testing.T) {
	needProbes(t, "kprobe")
	needPrograms(t, "bash")
	dir := t.TempDir()
	// The return is probed of another function on the same way: kernels before 5.15
	// do not walk stacks beyond the trampoline that a return probe puts there.
	mustRecord(t, dir, "-g", "-e", "kprobe:udp_sendmsg,kretprobe:udp_send_skb", "--", "bash", "-c", sendUDP)
	file := filepath.Join(dir, "perf.data")
	text := mustGperf(t, "script", "-i", file)
	for _, name := range []string{"probe:udp_sendmsg:", "probe:udp_send_skb__return:"} {
		if n := strings.Count(text, name); n != 3 {
			t.Errorf("%d samples of %s, want 3:\n%s", n, name, text)
		}
	}
	if !regexp.MustCompile(
		`(?m)^\s+[0-9a-f]+ udp_sendmsg\+0x[0-9a-f]+ .*\n(\s+[0-9a-f]+ .*\n)*\s+[0-9a-f]+ \S*(ksys_write|vfs_write)`).
		MatchString(text) {
		t.Errorf("no stack leads from write to udp_sendmsg:\n%s", text)
	}
	if left := definitions(t, "gperf_"); len(left) > 0 {
		t.Logf("of others: %s", left)
	}
	t.Run("perf", func(t *testing.T) {
		needPrograms(t, "perf")
		out, err := exec.Command("perf", "script", "-f", "-i", file).Output()
		if err != nil {
			t.Fatalf("perf script: %v", err)
		}
		if n := strings.Count(string(out), "probe:udp_sendmsg: ("); n != 3 {
			t.Errorf("perf shows %d samples, want 3:\n%s", n, out)
		}
	})
}

// TestScenarioKprobeOffset: an instruction starts after the call that the compiler adds for
// ftrace, but none starts at the second byte of a function.
func TestScenarioKprobeOffset(t *testing.T) {
	needProbes(t, "kprobe")
	needPrograms(t, "bash")
	dir := t.TempDir()
	begin, inside := 5, 1
	if runtime.GOARCH == "arm64" {
		begin, inside = 12, 2
	}
	event := func(off int) string { return fmt.Sprintf("kprobe:udp_sendmsg+%d", off) }
	r := recordIn(t, dir, "-e", event(begin), "--", "bash", "-c", sendUDP)
	if r.code != exitOK { // where indirect jumps are tracked, the call comes 4 bytes later
		if !strings.Contains(r.stderr, fmt.Sprintf("udp_sendmsg+%#x is inside an instruction", begin)) {
			t.Errorf("%s: %s", event(begin), r.stderr)
		}
		mustRecord(t, dir, "-e", event(begin+4), "--", "bash", "-c", sendUDP)
	}
	text := mustGperf(t, "script", "-i", filepath.Join(dir, "perf.data"))
	if n := strings.Count(text, "probe:udp_sendmsg: ("); n != 3 {
		t.Errorf("%d samples, want 3:\n%s", n, text)
	}
	r = recordIn(t, dir, "-e", event(inside), "--", "true")
	if r.code == exitOK || !strings.Contains(r.stderr, "is inside an instruction") &&
		!strings.Contains(r.stderr, "udp_sendmsg") {
		t.Errorf("%s: exit code %d\n%s", event(inside), r.code, r.stderr)
	}
}

// TestScenarioGeneratedCode checks that a recording names code that the kernel generated before it
// for kprobes and ftrace.
func TestScenarioGeneratedCode(t *testing.T) {
	needTracepoints(t)
	if f, err := os.OpenFile(filepath.Join(tracefsRoot, "kprobe_events"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		defer f.Close()
		for _, off := range []int{0, 4, 5, 8, 9, 12} { // at least one of these is the second instruction
			name := fmt.Sprintf("gperf_generated/at%d", off)
			if _, err := fmt.Fprintf(f, "p:%s udp_sendmsg+%d\n", name, off); err != nil {
				continue
			}
			enable := filepath.Join(tracefsRoot, "events", name, "enable")
			os.WriteFile(enable, []byte("1"), 0)
			defer fmt.Fprintf(f, "-:%s\n", name)
			defer os.WriteFile(enable, []byte("0"), 0)
		}
	}
	kallsyms, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Skip(err)
	}
	generated := regexp.MustCompile(`(?m)^([0-9a-f]*[1-9a-f]0*) t (\S+)\t\[__builtin__(kprobes|ftrace)\]$`).
		FindAllStringSubmatch(string(kallsyms), -1)
	if len(generated) == 0 {
		t.Skip("this kernel has generated no code for kprobes or ftrace")
	}
	dir := t.TempDir()
	mustRecord(t, dir, "-a", "-e", "cpu-clock", "-F", "99", "--", "sleep", "0.1")
	file := filepath.Join(dir, "perf.data")
	text := mustGperf(t, "script", "--show-bpf-events", "-i", file)
	after, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range generated {
		if !strings.Contains(string(after), g[0]) {
			continue // of another test, whose probe is gone
		}
		want := regexp.MustCompile("KSYMBOL addr " + strings.TrimLeft(g[1], "0") + ` len \d+ type 2 flags 0x0 name ` +
			g[2])
		if !want.MatchString(text) {
			t.Errorf("no record matches %s:\n%.2000s", want, text)
		}
	}
}

// namespace is a script's beginning: it runs in a network of its own.
func namespace(script string) []string {
	return []string{"unshare", "-n", "bash", "-ec", script}
}

func needNamespace(t *testing.T) {
	t.Helper()
	needPrograms(t, "unshare", "bash", "ip")
	if out, err := exec.Command("unshare", "-n", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("a network namespace cannot be made: %v: %s", err, bytes.TrimSpace(out))
	}
}

// TestScenarioConntrack: the stacks on which connections are tracked, in a module's function.
func TestScenarioConntrack(t *testing.T) {
	needProbes(t, "kprobe")
	needNamespace(t)
	needModule(t, "nf_conntrack")
	// Not every machine loads these when they are asked for; some are built with them.
	for _, m := range []string{"nf_tables", "nft_ct", "xt_conntrack", "iptable_filter", "nft_compat"} {
		exec.Command("modprobe", m).Run()
	}
	const nft = "add table ip t; add chain ip t out { type filter hook output priority 0; }; add rule ip t out ct " +
		"state new counter"
	rule := ""
	switch {
	case exec.Command("unshare", "-n", "nft", nft).Run() == nil:
		rule = "nft '" + nft + "';"
	case exec.Command("unshare", "-n", "iptables", "-A", "OUTPUT", "-m", "conntrack", "--ctstate", "NEW").Run() == nil:
		rule = "iptables -A OUTPUT -m conntrack --ctstate NEW;"
	default:
		t.Skip("neither nft nor iptables makes a rule here")
	}
	dir := t.TempDir()
	mustRecord(t, dir, append([]string{"-g", "-e", "kprobe:nf_conntrack_in", "--"},
		namespace("ip link set lo up; "+rule+sendUDP)...)...)
	text := mustGperf(t, "script", "-i", filepath.Join(dir, "perf.data"))
	if n := strings.Count(text, "probe:nf_conntrack_in:"); n < 3 {
		t.Errorf("%d samples, want 3 or more:\n%s", n, text)
	}
	for _, want := range []string{`nf_conntrack_in\+\S+ \((\[nf_conntrack\]|/\S+/nf_conntrack\.ko\S*)\)`,
		`nf_hook_slow\+`, `udp_sendmsg\+`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is in no stack:\n%s", want, text)
		}
	}
}

// TestScenarioLinkDown: a connected socket's route is good, until its link goes down.
func TestScenarioLinkDown(t *testing.T) {
	needProbes(t, "kprobe")
	needNamespace(t)
	exec.Command("modprobe", "dummy").Run()
	if out, err := exec.Command("unshare", "-n", "ip", "link", "add", "d0", "type",
		"dummy").CombinedOutput(); err != nil {
		t.Skipf("no dummy network device: %v: %s", err, bytes.TrimSpace(out))
	}
	script := `ip link add d0 type dummy; ip addr add 10.9.9.1/24 dev d0; ip link set d0 up
		exec 3<>/dev/udp/10.9.9.2/9
		echo before >&3
		ip link set d0 down
		echo after >&3 2>/dev/null || true`
	dir := t.TempDir()
	mustRecord(t, dir, append([]string{"-e", "kretprobe:sk_dst_check ret=$retval", "--"}, namespace(script)...)...)
	text := mustGperf(t, "script", "-F", "comm,event,trace", "-i", filepath.Join(dir, "perf.data"))
	var values []string
	for _, m := range regexp.MustCompile(`bash .*ret=(0x[0-9a-f]+)`).FindAllStringSubmatch(text, -1) {
		values = append(values, m[1])
	}
	if len(values) < 2 || values[0] == "0x0" || values[len(values)-1] != "0x0" {
		t.Errorf("sk_dst_check returned %v; want a route first, 0x0 in the end:\n%s", values, text)
	}
}

// TestScenarioKprobeGlob: a module's functions, each an event.
func TestScenarioKprobeGlob(t *testing.T) {
	needProbes(t, "kprobe")
	needModule(t, "nf_conntrack")
	dir := t.TempDir()
	funcs := strings.Fields(mustGperf(t, "probe", "--funcs", "-m", "nf_conntrack", "nf_ct_ex*"))
	if len(funcs) < 2 {
		t.Fatalf("functions nf_ct_ex* of nf_conntrack: %v", funcs)
	}
	mustRecord(t, dir, "-e", "kprobe:nf_conntrack:nf_ct_ex*", "--", "true")
	events := mustGperf(t, "evlist", "-i", filepath.Join(dir, "perf.data"))
	for _, f := range funcs {
		if name, _, _ := strings.Cut(f, "."); !strings.Contains(events, "probe:"+name) {
			t.Errorf("%s is no event:\n%s", f, events)
		}
	}
}

// someProbe is one that is hit by nothing while a recording waits.
func someProbe(t *testing.T, kind string) string {
	if kind == "uprobe" {
		return "uprobe:" + binary(t, "./cmd/gperf") + ":main.unknown"
	}
	return "kprobe:tcp_v4_c*"
}

// startProbing records in the background until it receives a signal, and returns when the
// probes exist.
func startProbing(t *testing.T, kind string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-a", "-q", "-o", filepath.Join(t.TempDir(), "perf.data"),
		"-e", someProbe(t, kind))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if len(definitions(t, fmt.Sprintf("gperf_%d_", cmd.Process.Pid))) > 0 {
			return cmd
		}
		if time.Now().After(end) {
			t.Fatal("no probe within a minute")
		}
	}
}

// TestScenarioProbesVanish: a recording removes its probes at the end, for every signal,
// early or late.
func TestScenarioProbesVanish(t *testing.T) {
	for _, kind := range []string{"uprobe", "kprobe"} {
		t.Run(kind, func(t *testing.T) {
			needProbes(t, kind)
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
				cmd := startProbing(t, kind)
				cmd.Process.Signal(sig)
				cmd.Wait()
				noneOf(t, cmd.Process.Pid)
			}
		})
	}
}

// TestScenarioKilled: the next recording reports the leftover probes of a killed one, and
// gperf probe --del removes them, but no probes in use.
func TestScenarioKilled(t *testing.T) {
	for _, kind := range []string{"uprobe", "kprobe"} {
		t.Run(kind, func(t *testing.T) {
			needProbes(t, kind)
			killed, living := startProbing(t, kind), startProbing(t, kind)
			killed.Process.Kill()
			killed.Wait()
			left := definitions(t, fmt.Sprintf("gperf_%d_", killed.Process.Pid))
			if len(left) == 0 {
				t.Fatal("a killed recording has left nothing: there is nothing to test")
			}
			if r := recordIn(t, t.TempDir(), "-e", someProbe(t, kind), "--", "true"); !strings.Contains(r.stderr,
				"killed recordings have left") ||
				!strings.Contains(r.stderr, "gperf probe --del") {
				t.Errorf("the next recording does not report the leftover probes:\n%s", r.stderr)
			}
			r := runGperf(t, "probe", "--del")
			if n := strings.Count(r.stderr, fmt.Sprintf("Removed event: gperf_%d_", killed.Process.Pid)); r.code !=
				exitOK || n != len(left) {
				t.Errorf("exit code %d, %d of %d removed:\n%s", r.code, n, len(left), r.stderr)
			}
			noneOf(t, killed.Process.Pid)
			if len(definitions(t, fmt.Sprintf("gperf_%d_", living.Process.Pid))) == 0 {
				t.Error("the probes of a recording that lives are gone")
			}
			living.Process.Signal(syscall.SIGINT)
			living.Wait()
			noneOf(t, living.Process.Pid)
		})
	}
}

// TestScenarioProbeCommand: gperf probe and perf probe list and delete each other's probes.
func TestScenarioProbeCommand(t *testing.T) {
	needProbes(t, "uprobe")
	prog := binary(t, "./cmd/gperf")
	const group = "gperf_test"
	forget := func() { runGperf(t, "probe", "-q", "--del", group+":*") }
	forget()
	t.Cleanup(forget)
	add := []string{"probe", "-x", prog, "--add", group + ":usage=main.newRoot"}
	r := runGperf(t, add...)
	if want := "Added new event:\n  gperf_test:usage     (on main.newRoot in " + prog +
		")\n\nYou can now use it"; r.code != exitOK || !strings.Contains(r.stderr, want) {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	if r := runGperf(t, add...); r.code != exitError || !strings.Contains(r.stderr, "already exists") ||
		!strings.Contains(r.stderr, "-f") {
		t.Errorf("added twice: exit code %d\n%s", r.code, r.stderr)
	}
	mustGperf(t, append(add, "--force")...)
	list := mustGperf(t, "probe", "--list", group+":*")
	for _, want := range []string{"  gperf_test:usage     (on main.newRoot in " + prog + ")\n",
		"  gperf_test:usage_1   (on main.newRoot in " + prog + ")\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not listed:\n%s", want, list)
		}
	}
	dir := t.TempDir()
	mustRecord(t, dir, "-e", group+":usage", "--", prog, "--help")
	if text := mustGperf(t, "script", "-i", filepath.Join(dir, "perf.data")); strings.Count(text,
		group+":usage:") != 1 {
		t.Errorf("want one sample:\n%s", text)
	}
	if out := mustGperf(t, "probe", "-x", prog, "-D", "main.newRoot"); !regexp.MustCompile(`^p:probe_gperf/\S+ ` +
		regexp.QuoteMeta(prog) + `:0x[0-9a-f]+\n$`).MatchString(out) {
		t.Errorf("definition: %q", out)
	}
	t.Run("perf", func(t *testing.T) {
		needPrograms(t, "perf")
		out, err := exec.Command("perf", "probe", "-l", group+":*").Output()
		// Some perfs find the source line, and others another name.
		listed := regexp.MustCompile(`gperf_test:usage_1   \(on (main\.newRoot(@\S+)? in ` +
			regexp.QuoteMeta(prog) + `\)|cli.PrintHelp)`)
		if err != nil || !listed.Match(out) {
			t.Errorf("perf probe -l: %v\n%s", err, out)
		}
		if out, err := exec.Command("perf", "probe", "-d", group+":usage_1").CombinedOutput(); err != nil {
			t.Errorf("perf probe -d: %v\n%s", err, out)
		}
		if l := definitions(t, group+"/usage_1"); len(l) > 0 {
			t.Errorf("perf has not removed %s", l)
		}
	})
	r = runGperf(t, "probe", "--del", group+":usage")
	if r.code != exitOK || r.stderr != "Removed event: gperf_test:usage\n" {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	if r := runGperf(t, "probe", "--del", group+":nosuch"); r.code != exitError ||
		!strings.Contains(r.stderr, "does not hit any event") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	funcs := strings.Fields(mustGperf(t, "probe", "-x", prog, "--funcs", "main.new*"))
	if !slices.Contains(funcs, "main.newRoot") {
		t.Errorf("functions: %v", funcs)
	}
}

// TestScenarioKprobeCommand: probes of the kernel that stay.
func TestScenarioKprobeCommand(t *testing.T) {
	needProbes(t, "kprobe")
	needPrograms(t, "bash")
	const group = "gperf_kern"
	forget := func() { runGperf(t, "probe", "-q", "--del", group+":*") }
	forget()
	t.Cleanup(forget)
	mustGperf(t, "probe", "--add", group+":send=udp_sendmsg")
	mustGperf(t, "probe", "--add", group+":sent=udp_sendmsg%return ret=$retval:s32")
	list := mustGperf(t, "probe", "-l", group+":*")
	for _, want := range []string{"  gperf_kern:send      (on udp_sendmsg)\n",
		"  gperf_kern:sent      (on udp_sendmsg%return with ret)\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not listed:\n%s", want, list)
		}
	}
	dir := t.TempDir()
	mustRecord(t, dir, "-e", group+":*", "--", "bash", "-c", sendUDP)
	if text := mustGperf(t, "script", "-i", filepath.Join(dir, "perf.data")); strings.Count(text, "ret=2") != 3 {
		t.Errorf("each of three sends is of two bytes:\n%s", text)
	}
	if needle := "udp_sendmsg"; exec.Command("perf", "--version").Run() == nil {
		out, err := exec.Command("perf", "probe", "-l", group+":*").Output()
		if err != nil || !strings.Contains(string(out), needle) {
			t.Errorf("perf probe -l: %v\n%s", err, out)
		}
	}
	mustGperf(t, "probe", "--del", group+":*")
	if l := definitions(t, group+"/"); len(l) > 0 {
		t.Errorf("%s are left", l)
	}
}

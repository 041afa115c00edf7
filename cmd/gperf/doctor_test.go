package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
	"gperf/record/programs"
	"gperf/record/tracefs"
)

func TestDoctor(t *testing.T) {
	var out, errs strings.Builder
	code := run([]string{"doctor"}, &out, &errs)
	if code == exitUsage || errs.Len() > 0 {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	for line := range strings.Lines(out.String()) {
		verdict := strings.TrimRight(line[:min(6, len(line))], " ")
		if verdict != "ok" && verdict != "part" && verdict != "no" || len(line) < 25 || line[22:24] != "  " ||
			line[24] == ' ' {
			t.Errorf("not verdict, check and detail: %q", line)
		}
	}
	var js strings.Builder
	run([]string{"doctor", "--json"}, &js, &errs)
	var checks []struct{ Verdict, Check, Detail, Remedy string }
	if err := json.Unmarshal([]byte(js.String()), &checks); err != nil ||
		len(checks) != strings.Count(out.String(), "\n") {
		t.Errorf("%d checks in JSON, %d lines: %v", len(checks), strings.Count(out.String(), "\n"), err)
	}
	if code := run([]string{"doctor", "everything"}, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d for an argument", code)
	}
}

// TestDoctorInterrupted: Ctrl-C leaves no probe that a check defined.
func TestDoctorInterrupted(t *testing.T) {
	const events = "/sys/kernel/tracing/uprobe_events"
	if _, err := os.ReadFile(events); err != nil {
		t.Skipf("no uprobes: %v", err)
	} else if os.Geteuid() != 0 {
		t.Skip("not root: no check defines a probe")
	}
	for i := range 30 {
		cmd := exec.Command(binary(t, "./cmd/gperf"), "doctor")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience(time.Duration(i) * 3 * time.Millisecond))
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		left, err := os.ReadFile(events)
		if own := fmt.Sprintf(":gperf_%d_", cmd.Process.Pid); err != nil || strings.Contains(string(left), own) {
			t.Fatalf("after Ctrl-C at moment %d: %v\n%s", i, err, left)
		}
	}
}

// commandEnv names the environment variable that makes TestMain run gperf with these arguments instead of the tests.
const commandEnv = "GPERF_TEST_COMMAND"

// runAs runs gperf as this very program, in a process with other rights.
func runAs(t *testing.T, attr *syscall.SysProcAttr, args string) (output string, code int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: another user cannot be tried")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, program := nobodys(t, self)
	cmd := exec.Command(program)
	cmd.Dir, cmd.SysProcAttr = dir, attr
	cmd.Env = append(os.Environ(), commandEnv+"="+args)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("a process with such rights cannot be made here: %v", err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

var nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}

// A user without rights gets the cause, and doctor reports the same cause as record.
func TestDoctorUnprivileged(t *testing.T) {
	if p := perfevent.Paranoid(); p <= 0 {
		t.Skipf("kernel.perf_event_paranoid is %d: it lets everybody record everything", p)
	}
	out, _ := runAs(t, nobody, "doctor")
	for _, want := range []string{"part  user ", "uid 65534 with no capabilities", "no    all processes ",
		"sysctl kernel.perf_event_paranoid=0", "no    BPF ", "CAP_BPF"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"record -a -e cpu-clock true", "sysctl kernel.perf_event_paranoid=0, or run gperf as root"},
		{"record -e skb:kfree_skb true", "run gperf as root"},
		{"list skb:*", "run gperf as root"},
		{"record -e cpu-clock:u -p 1 true", "another user's"},
	} {
		t.Run(c.args, func(t *testing.T) {
			if strings.Contains(c.want, "another") && perfevent.Paranoid() > 2 {
				return // nothing at all is allowed, whosever it is
			}
			out, code := runAs(t, nobody, c.args)
			if strings.HasPrefix(c.args, "list ") && code == exitOK && strings.Contains(out, "skb:kfree_skb ") {
				return // Linux 6.18 shows everybody the folders of tracefs
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if code != exitError || !strings.Contains(lines[len(lines)-1], c.want) {
				t.Errorf("%s: exit code %d, want %q at last:\n%s", c.args, code, c.want, out)
			}
		})
	}
}

// For root of a user namespace, the error says that this root does not help.
func TestDoctorUserNamespace(t *testing.T) {
	if p := perfevent.Paranoid(); p <= 0 {
		t.Skipf("kernel.perf_event_paranoid is %d: it lets everybody record everything", p)
	}
	out, code := runAs(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}}, "record -a -e cpu-clock true")
	if code != exitError || !strings.Contains(out, "does not apply in a user namespace") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// Hints name the way on.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&event.UnknownError{Spec: "skb:kfree_skp", Near: []string{"skb:kfree_skb"}}, "gperf list 'skb:*'"},
		{&event.UnknownError{Spec: "L1-dcache-loadz", Near: []string{"L1-dcache-loads"}}, "gperf list 'L1*'"},
		{&event.UnknownError{Spec: "skb:nothing"}, "gperf list 'skb:*'"},
		{&event.UnknownError{Spec: "zzz"}, "`gperf list`"},
		{&probe.AccessError{File: "kprobe_events", Err: syscall.ENOENT}, "CONFIG_KPROBE_EVENTS"},
		{&kernel.NoFunctionError{Name: "tcp_sendmgs", Loaded: true}, "gperf list 'kprobe:*tcp_sendmgs*'"},
		{&kernel.NoFunctionError{Name: "nf_hook", Module: "nf_conntrack"}, "modprobe nf_conntrack"},
		{&program.FunctionError{File: "/bin/x", Name: "f"}, "gperf list 'uprobe:/bin/x:*'"},
		{&perfevent.OpenError{Err: syscall.ENOENT}, "cpu-clock"},
		{&programs.SamplerError{Event: "raw_tracepoint:x", Err: syscall.EMFILE}, "ulimit -Hn"},
		{&tracefs.NotFoundError{Err: syscall.ENOENT}, "CONFIG_TRACING"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := hintOf(c.err); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "\n") {
				t.Errorf("%v: %q; want %q", c.err, got, c.want)
			}
		})
	}
}

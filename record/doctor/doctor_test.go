package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/tracefs"
)

// first are links to the machine's initial namespaces.
var first = map[string]string{"user": "user:[4026531837]", "pid": "pid:[4026531836]"}

// fake makes a machine of files, on which all events can be opened and all programs loaded.
func fake(t *testing.T, files map[string]string, ns map[string]string) *Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "proc/self/ns")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for kind, link := range ns {
		if err := os.Symlink(link, filepath.Join(dir, kind)); err != nil {
			t.Fatal(err)
		}
	}
	fine := func() error { return nil }
	return &Machine{
		Root: root, Tracefs: &tracefs.FS{Root: filepath.Join(root, "tracing")},
		open:       func(format.Attr, bool) error { return nil },
		openCgroup: func(string) error { return nil },
		loadBPF:    fine, loadWalker: fine, manyProbes: fine,
		interpreters: func() []string { return nil },
	}
}

// status is /proc/self/status of a user with these capabilities.
func status(uid int, seccomp int, caps ...int) string {
	var set uint64
	for _, c := range caps {
		set |= 1 << c
	}
	return fmt.Sprintf("Name:\tgperf\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%016x\nSeccomp:\t%d\n", uid, uid, uid, uid, set,
		seccomp)
}

// refusing fails to open events, with this errno.
func refusing(errno error) func(format.Attr, bool) error {
	return func(format.Attr, bool) error { return errno }
}

// refusingIf fails to open the events that match, with this errno.
func refusingIf(errno error, match func(format.Attr) bool) func(format.Attr, bool) error {
	return func(a format.Attr, _ bool) error {
		if match(a) {
			return errno
		}
		return nil
	}
}

// TestWhyNotOpened checks that each refusal is explained by its cause.
func TestWhyNotOpened(t *testing.T) {
	for _, c := range []struct {
		name     string
		status   string
		paranoid string
		lockdown string
		userNS   bool
		least    error // of opening leastPrivileged
		need     Need
		errno    error
		want     string
	}{
		{"a user", status(1000, 0), "2", "", false, nil, paranoidKernel, unix.EACCES,
			"sysctl kernel.perf_event_paranoid=1, or run gperf as root or with CAP_PERFMON"},
		{"a user, everything", status(1000, 0), "2", "", false, nil, paranoidAllProcesses, unix.EACCES,
			"sysctl kernel.perf_event_paranoid=0"},
		{"a user, tracepoints", status(1000, 0), "1", "", false, nil, paranoidTracepoints, unix.EPERM,
			"sysctl kernel.perf_event_paranoid=-1"},
		{"Debian's 3", status(1000, 0), "3", "", false, unix.EACCES, paranoidUser, unix.EACCES,
			"sysctl kernel.perf_event_paranoid=2, or run gperf as root."},
		{"Debian's 3 with CAP_PERFMON", status(1000, 0, unix.CAP_PERFMON), "3", "", false, unix.EACCES, paranoidUser,
			unix.EACCES, "only CAP_SYS_ADMIN"},
		{"root in a container", status(0, 0, unix.CAP_SYSLOG), "2", "", false, nil, paranoidAllProcesses, unix.EACCES,
			"root lacks the capability CAP_PERFMON here"},
		{"root of a user namespace", status(0, 0, unix.CAP_SYS_ADMIN), "2", "", true, nil, paranoidAllProcesses,
			unix.EACCES, "does not apply in a user namespace"},
		{"seccomp", status(0, 2), "2", "", false, unix.EPERM, paranoidAllProcesses, unix.EPERM, "seccomp"},
		{"seccomp with ENOSYS", status(0, 2), "2", "", false, unix.ENOSYS, paranoidAllProcesses, unix.ENOSYS,
			"seccomp"},
		{"a filter that lets it through", status(0, 2), "2", "", false, nil, paranoidAllProcesses, unix.EACCES,
			"root lacks the capability"},
		{"no perf events", status(0, 0, unix.CAP_SYS_ADMIN), "2", "", false, unix.ENOSYS, paranoidUser, unix.ENOSYS,
			"CONFIG_PERF_EVENTS"},
		{"lockdown", status(0, 0, unix.CAP_SYS_ADMIN), "2", "none integrity [confidentiality]", false, nil,
			paranoidTracepoints, unix.EPERM, "locked down"},
		{"less lockdown", status(1000, 0), "2", "none [integrity] confidentiality", false, nil, paranoidKernel,
			unix.EACCES, "sysctl kernel.perf_event_paranoid=1"},
		{"a security module", status(0, 0, unix.CAP_SYS_ADMIN), "2", "", false, nil, paranoidAllProcesses,
			unix.EACCES, "one of capability, selinux"},
	} {
		files := map[string]string{"proc/self/status": c.status, "proc/sys/kernel/perf_event_paranoid": c.paranoid +
			"\n",
			"sys/kernel/security/lockdown": c.lockdown + "\n", "sys/kernel/security/lsm": "capability,selinux"}
		ns := first
		if c.userNS {
			ns = map[string]string{"user": "user:[4026532500]", "pid": first["pid"]}
		}
		m := fake(t, files, ns)
		m.open = refusing(c.least)
		got := m.WhyNotOpened(c.need, 0, c.errno)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

func TestWhyNotOpenedOthers(t *testing.T) {
	m := fake(t, map[string]string{"proc/self/status": status(1000, 0), "proc/sys/kernel/perf_event_paranoid": "1",
		"proc/77/status": ""}, first)
	if s := m.WhyNotOpened(paranoidKernel, 77, unix.EACCES); os.Geteuid() != 1000 &&
		!strings.Contains(s, "Thread 77 is another user's") {
		t.Error(s)
	}
}

func TestNeedOf(t *testing.T) {
	for _, c := range []struct {
		typ        format.EventType
		flags      format.AttrFlags
		everywhere bool
		want       Need
	}{
		{format.TypeTracepoint, format.FlagExcludeKernel, false, paranoidTracepoints},
		{format.TypeSoftware, format.FlagExcludeKernel, true, paranoidAllProcesses},
		{format.TypeHardware, 0, false, paranoidKernel},
		{format.TypeHardware, format.FlagExcludeKernel, false, paranoidUser},
	} {
		if got := NeedOf(c.typ, c.flags, c.everywhere); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestWhyNoBPF(t *testing.T) {
	for _, c := range []struct{ name, status, want string }{
		{"a user", status(1000, 0), "It requires root, or CAP_BPF and CAP_PERFMON"},
		{"root in a container", status(0, 0), "--cap-add BPF"},
		{"half of it", status(1000, 0, unix.CAP_BPF), "It requires root"},
		{"an old kernel", status(0, 0, unix.CAP_SYS_ADMIN), "ulimit -l"},
		{"a filter", status(0, 2, unix.CAP_SYS_ADMIN), "seccomp"},
	} {
		m := fake(t, map[string]string{"proc/self/status": c.status}, first)
		if got := m.WhyNoBPF(fmt.Errorf("loading: %w", unix.EPERM)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		if got := m.WhyNoBPF(unix.EINVAL); got != "" {
			t.Errorf("%s: of EINVAL %q", c.name, got)
		}
	}
}

const kprobeEvents = `p:gperf_1/ip_rcv ip_rcv
r4:gperf_99999999_1_effffffc/tcp_ack__return tcp_ack
p:probe/mine vfs_read
p:gperf_bench/target vfs_read
`

// healthy are the files of a machine without problems.
func healthy() map[string]string {
	return map[string]string{
		"proc/self/status": status(0, 0, unix.CAP_PERFMON, unix.CAP_BPF, unix.CAP_SYS_ADMIN, unix.CAP_SYSLOG,
			unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH),
		"proc/1/status": "", fmt.Sprintf("proc/%d/status", os.Getpid()): "",
		"proc/self/mounts":          "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"proc/version":              "Linux version 6.1.0-9-amd64 (debian-kernel@lists.debian.org)",
		"proc/sys/kernel/osrelease": "6.1.0-9-amd64\n", "proc/sys/kernel/perf_event_paranoid": "2\n",
		"proc/sys/kernel/kptr_restrict":              "0\n",
		"proc/sys/kernel/perf_event_max_sample_rate": "100000\n", "proc/sys/kernel/perf_event_mlock_kb": "516\n",
		"proc/kallsyms":              "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n",
		"etc/os-release":             "NAME=x\nID=debian\n",
		"tracing/events/header_page": "", "tracing/events/skb/kfree_skb/id": "7\n",
		"tracing/kprobe_events": kprobeEvents, "tracing/uprobe_events": "",
		"sys/bus/event_source/devices/uprobe/type":                  "9\n",
		"sys/bus/event_source/devices/uprobe/format/ref_ctr_offset": "config:32-63\n",
		"sys/kernel/btf/vmlinux":                                    "",
	}
}

func byName(l []Check) map[string]Check {
	m := map[string]Check{}
	for _, c := range l {
		m[c.Name] = c
	}
	return m
}

// TestAll runs the checks on a machine made of files.
func TestAll(t *testing.T) {
	m := fake(t, healthy(), first)
	l := m.All(t.Context())
	got := byName(l)
	for _, name := range []string{"kernel", "user", "container", "lockdown", "paranoid", "cpu-clock", "all processes",
		"PMU", "tracefs", "tracepoints",
		"kprobe-multi", "USDT", "BPF", "BTF", "whole stacks", "kernel symbols", "build IDs", "lost samples",
		"cgroups"} {
		if f := got[name]; f.Verdict != OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := got["leftovers"]; f.Verdict != Part || !strings.Contains(f.Detail, "1 probes") ||
		!strings.Contains(f.Detail, "gperf_99999999_1_effffffc:tcp_ack__return") {
		t.Errorf("leftovers: %+v", f)
	}
	if f := got["kernel debuginfo"]; f.Remedy != "apt install linux-image-6.1.0-9-amd64-dbg" {
		t.Errorf("kernel debuginfo: %+v", f)
	}
	if !CanRecord(l) {
		t.Error("nothing can be recorded")
	}
	var back []map[string]string
	b, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || len(back) != len(l) || back[0]["verdict"] != "ok" || back[0]["check"] != "kernel" {
		t.Errorf("JSON: %v\n%s", err, b)
	}
}

// TestProblems checks that each problem shows in its own check, with a remedy.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, check string
		change      func(files map[string]string)
		broken      func(m *Machine)
		want        Check
	}{
		{"an old kernel", "kernel", func(f map[string]string) { f["proc/sys/kernel/osrelease"] = "4.19.0" }, nil, Check{
			Verdict: Part,
			Detail:  "4.19.0 on " + runtime.GOARCH,
			Remedy:  "gperf is tested from 5.10 on",
		}},
		{"no kprobes", "kprobes", func(f map[string]string) { delete(f, "tracing/kprobe_events") }, nil, Check{
			Verdict: No,
			Detail:  "this kernel has none (no kprobe_events)",
			Remedy:  "requires a kernel with CONFIG_KPROBE_EVENTS",
		}},
		{"no uprobes", "uprobes", func(f map[string]string) { delete(f, "tracing/uprobe_events") }, nil, Check{
			Verdict: No,
			Detail:  "this kernel has none (no uprobe_events)",
			Remedy:  "requires a kernel with CONFIG_UPROBE_EVENTS",
		}},
		{"no BTF", "BTF", func(f map[string]string) { delete(f, "sys/kernel/btf/vmlinux") }, nil, Check{
			Verdict: No,
			Detail:  "open /sys/kernel/btf/vmlinux: no such file or directory",
			Remedy:  "a kernel with CONFIG_DEBUG_INFO_BTF: whole stacks, and arguments of kprobes by name, need it",
		}},
		{"hidden addresses", "kernel symbols", func(f map[string]string) {
			f["proc/kallsyms"] = "0000000000000000 T _stext\n"
			f["proc/sys/kernel/kptr_restrict"] = "1"
		}, nil, Check{
			Verdict: No,
			Detail:  "/proc/kallsyms hides addresses from this user: kernel frames will have no names",
			Remedy: "kernel.kptr_restrict is 1: run gperf as root or with CAP_SYSLOG, or: " +
				"sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
		}},
		{"addresses hidden from all", "kernel symbols", func(f map[string]string) {
			f["proc/kallsyms"] = "0000000000000000 T _stext\n"
			f["proc/sys/kernel/kptr_restrict"] = "2"
		}, nil, Check{
			Verdict: No,
			Detail:  "/proc/kallsyms hides addresses from this user: kernel frames will have no names",
			Remedy:  "kernel.kptr_restrict is 2, which hides them even from root: sysctl kernel.kptr_restrict=1",
		}},
		{"lockdown", "lockdown", func(f map[string]string) {
			f["sys/kernel/security/lockdown"] = "none integrity [confidentiality]"
		}, nil, Check{
			Verdict: No,
			Detail: "confidentiality: the kernel refuses kprobes, tracefs, and BPF that reads its memory, even to " +
				"root",
			Remedy: "boot with lockdown=integrity, or with Secure Boot off",
		}},
		{"a slowed kernel", "sample rate", func(f map[string]string) {
			f["proc/sys/kernel/perf_event_max_sample_rate"] = "1000"
		}, nil, Check{
			Verdict: Part,
			Detail:  "at most 1000 Hz, since sampling took too long before",
			Remedy:  "sysctl kernel.perf_event_max_sample_rate=100000",
		}},
		{"no PMU", "PMU", nil, func(m *Machine) {
			m.open = refusingIf(unix.ENOENT, func(a format.Attr) bool { return a.Type == format.TypeHardware })
		}, Check{
			Verdict: No,
			Detail:  "no hardware events: no such file or directory",
			Remedy:  "gperf uses cpu-clock instead of cycles",
		}},
		{"no cgroups", "cgroups", func(f map[string]string) { f["proc/self/mounts"] = "proc /proc proc rw 0 0\n" },
			nil, Check{
				Verdict: No,
				Detail:  "no hierarchy with perf events is mounted",
				Remedy:  "mount -t cgroup2 cgroup2 /sys/fs/cgroup, if the kernel has CONFIG_CGROUP_PERF",
			}},
		{"no kprobe-multi", "kprobe-multi", nil, func(m *Machine) {
			m.manyProbes = func() error { return bpf.ErrNotSupported }
		}, Check{
			Verdict: Part,
			Detail:  "this kernel cannot (Linux 5.18, with CONFIG_FPROBE): a glob's functions are attached one by one",
		}},
		{"no build IDs", "build IDs", nil, func(m *Machine) {
			m.open = refusingIf(unix.EINVAL, func(a format.Attr) bool { return a.Flags&format.FlagBuildID != 0 })
		}, Check{
			Verdict: Part,
			Detail:  "this kernel does not record them (Linux 5.12 does): gperf reads them at the end of the recording",
		}},
		{"another vmlinux", "kernel debuginfo", func(f map[string]string) {
			f["usr/lib/debug/boot/vmlinux-6.1.0-9-amd64"] = "not an ELF"
		}, nil, Check{
			Verdict: Part,
			Detail:  "not installed (/usr/lib/debug/boot/vmlinux-6.1.0-9-amd64 is of another build)",
			Remedy:  "apt install linux-image-6.1.0-9-amd64-dbg",
		}},
		{"a kernel of one's own", "kernel debuginfo", func(f map[string]string) {
			f["proc/version"] = "Linux version 6.1.0 (me@home)"
		}, nil, Check{
			Verdict: Part,
			Detail:  "not installed",
			Remedy:  "this kernel is not the distribution's: get its vmlinux from its builder",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := healthy()
			if c.change != nil {
				c.change(files)
			}
			m := fake(t, files, first)
			if c.broken != nil {
				c.broken(m)
			}
			c.want.Name = c.check
			got := byName(m.All(t.Context()))[c.check]
			got.Detail = strings.ReplaceAll(got.Detail, m.Root, "")
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestEmptyMachine checks that all checks run on a machine without any files, and that nothing
// can be recorded if no event can be opened.
func TestEmptyMachine(t *testing.T) {
	m := fake(t, nil, nil)
	m.open = refusing(unix.ENOSYS)
	l := m.All(t.Context())
	if n := len(fake(t, healthy(), first).All(t.Context())); len(l) != n {
		t.Errorf("%d checks instead of %d", len(l), n)
	}
	if CanRecord(l) {
		t.Errorf("something can be recorded: %+v", l)
	}
}

// TestThis checks that on the live kernel no probes remain, and that the check of cpu-clock is
// right.
func TestThis(t *testing.T) {
	m := This()
	got := byName(m.All(t.Context()))
	a := sampling(format.TypeSoftware, format.SWCPUClock)
	a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
	if err := m.open(a, false); (err == nil) != (got["cpu-clock"].Verdict != No) {
		t.Errorf("opening cpu-clock:u: %v; the check: %+v", err, got["cpu-clock"])
	}
	if got["tracefs"].Verdict != OK {
		t.Skip("tracefs cannot be written to (root is missing): probes were not tried")
	}
	for _, file := range []string{"kprobe_events", "uprobe_events"} {
		b, _ := os.ReadFile(filepath.Join(m.Tracefs.Root, file))
		if mine := fmt.Sprintf("gperf_%d/", os.Getpid()); strings.Contains(string(b), mine) {
			t.Errorf("left in %s: %s", file, b)
		}
	}
}

func TestDistributions(t *testing.T) {
	m := fake(t, map[string]string{"etc/os-release": "PRETTY_NAME=\"Rocky Linux\"\nID_LIKE=\"rhel centos " +
		"fedora\"\nID=\"rocky\"\n"}, nil)
	if got := m.distributions(); !slices.Equal(got, []string{"rocky", "rhel", "centos", "fedora"}) {
		t.Error(got)
	}
}

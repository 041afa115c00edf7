package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// TestMissedHits: each line of kprobe_profile belongs to the line of kprobe_events at the same place, although events
// of several groups may have one name.
func TestMissedHits(t *testing.T) {
	const events = "p:other/f f\np:own/f f\nr3:own/g__return g\np:own/h h a=%di\n"
	for _, test := range []struct {
		name, profile string
		want          map[string]uint64
	}{
		{"all", "  f   9   5\n  f   7   2\n  g__return   3   4\n  h   8   0\n",
			map[string]uint64{"own/f": 2, "own/g__return": 4}},
		{"changed meanwhile", "  f   9   5\n  f   7   2\n  h   8   3\n", map[string]uint64{"own/f": 2}},
		{"empty", "", map[string]uint64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{kprobeEvents: events, kprobeProfile: test.profile} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := &Set{tracefs: &tracefs.FS{Root: dir}, group: "own", l: []Installed{{Kind: Kprobe}}}
			if got, err := s.Missed(); err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestParseInstalled(t *testing.T) {
	text := "p:probe/ip_rcv ip_rcv+4 dev=%si len=+112(%di):u32\n" +
		"r3:probe/dst nf_conntrack:nf_conntrack_in\n" +
		"r:probe/dst nf_conntrack:nf_conntrack_find\n" +
		"nonsense\np:nogroup here\np:\n"
	want := []Installed{
		{Kind: Kprobe, Group: "probe", Event: "ip_rcv", Place: "ip_rcv+4", Args: []string{"dev=%si", "len=+112(%di):u32"}},
		{Kind: Kretprobe, Group: "probe", Event: "dst", Place: "nf_conntrack:nf_conntrack_in", Args: []string{},
			More: []string{"nf_conntrack:nf_conntrack_find"}},
	}
	if got := parseInstalled(text, false); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	got := parseInstalled("r:probe_x/f__return /bin/x:0x0000000000001139\n", true)
	if len(got) != 1 || got[0].Kind != Uretprobe || got[0].Place != "/bin/x:0x0000000000001139" {
		t.Errorf("got %+v", got)
	}
}

func TestOwner(t *testing.T) {
	for group, want := range map[string]owner{
		"gperf_12_345_f00": {12, 345, 0xf00},
		groupOfProcess():   {os.Getpid(), 0, pidNamespace("self")},
	} {
		t.Run(group, func(t *testing.T) {
			o, ok := ownerOf(group)
			if want.start == 0 {
				want.start = o.start
			}
			if !ok || o != want {
				t.Errorf("%+v, %v", o, ok)
			}
		})
	}
	for _, group := range []string{"probe", "gperf_", "gperf_12", "gperf_bench", "gperf_1_2_3_4", "gperf_x_1_1"} {
		t.Run(group, func(t *testing.T) {
			if o, ok := ownerOf(group); ok {
				t.Errorf("%+v", o)
			}
		})
	}
	if len(groupOfProcess()) > 63 {
		t.Errorf("%s is too long a name", groupOfProcess())
	}
}

// TestExited checks that a process with a reused pid is not the owner.
func TestExited(t *testing.T) {
	self, _ := ownerOf(groupOfProcess())
	if self.exited() {
		t.Error("this process has gone")
	}
	if later := (owner{self.pid, self.start - 1, self.namespace}); !later.exited() {
		t.Error("one that began earlier and had this process's number lives")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if ended := (owner{cmd.Process.Pid, self.start, self.namespace}); !ended.exited() {
		t.Error("one that has ended lives")
	}
}

// fakeTracefs returns a tracefs with files by name.
func fakeTracefs(t *testing.T, files map[string]string) *tracefs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &tracefs.FS{Root: dir}
}

func TestLeftovers(t *testing.T) {
	mine := groupOfProcess()
	o, _ := ownerOf(mine)
	o.start-- // the previous process with this process's number
	left := groupName(o)
	fs := fakeTracefs(t, map[string]string{
		kprobeEvents: "p:probe/kept ip_rcv\np:" + mine + "/used ip_rcv\np:" + left + "/a ip_rcv\n",
		uprobeEvents: "p:" + left + "/b /bin/x:0x12\n",
	})
	l, err := Leftovers(fs)
	if err != nil {
		t.Fatal(err)
	}
	if len(l) != 2 || l[0].Event != "a" || l[1].Event != "b" || !l[1].Kind.User() {
		t.Errorf("%+v", l)
	}
}

func TestLastError(t *testing.T) {
	log := `[   43.891596] trace_kprobe: error: Failed to register probe event
  Command: p:tst/do_int3 do_int3
                         ^
[   44.000000] trace_probe: error: Unknown type is specified
  Command: p:tst/x ip_rcv a=%di:nosuch
                                ^
`
	for _, c := range []struct {
		line, msg string
		column    int
	}{
		{"p:tst/do_int3 do_int3", "Failed to register probe event", 14},
		{"p:tst/x ip_rcv a=%di:nosuch", "Unknown type is specified", 21},
		{"p:tst/y ip_rcv", "", -1},
	} {
		t.Run(c.line, func(t *testing.T) {
			if msg, column := lastError(log, c.line); msg != c.msg || column != c.column {
				t.Errorf("%q at %d", msg, column)
			}
		})
	}
}

// liveTracefs is the kernel's tracefs, if this user may define uprobes there.
func liveTracefs(t *testing.T) *tracefs.FS {
	t.Helper()
	fs := new(tracefs.FS)
	path, err := fs.Path(uprobeEvents)
	if err != nil {
		t.Skip(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Skipf("uprobes may not be defined: %v", err)
	}
	f.Close()
	return fs
}

// TestInstallLive checks that if the kernel rejects one line of many, the others are defined,
// and if it rejects all lines, no probe remains.
func TestInstallLive(t *testing.T) {
	fs := liveTracefs(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const group = "gperf_test_persist"
	mine := func() (l []Installed) {
		all, err := List(fs)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(p Installed) bool { return !p.Matches(group + ":*") })
	}
	t.Cleanup(func() { Delete(fs, mine(), nil) })
	var probes []*Probe
	for i := range 150 {
		p := &Probe{Kind: Uprobe, Group: group, Event: fmt.Sprintf("e%d", i), Path: exe, Off: uint64(0x1000 + i),
			Glob: "uprobe:x:*"}
		if i%50 == 7 {
			p.Args = []args.Arg{{Name: "a", Fetch: "%nosuch"}}
		}
		probes = append(probes, p)
	}
	var notices []error
	taken, err := Install(fs, probes, func(err error) { notices = append(notices, err) })
	if err != nil || len(taken) != 147 || len(mine()) != 147 {
		t.Fatalf("%d taken, %d there: %v", len(taken), len(mine()), err)
	}
	if len(notices) != 1 || !strings.Contains(notices[0].Error(), "3 of 150 functions cannot be probed") {
		t.Errorf("warned: %v", notices)
	}
	// A probe that is already removed does not prevent removing the others.
	all := mine()
	if gone, err := Delete(fs, all[2:3], nil); err != nil || len(gone) != 1 {
		t.Fatalf("%v gone: %v", gone, err)
	}
	if gone, err := Delete(fs, all, nil); err != nil || len(gone) != len(all) || len(mine()) != 0 {
		t.Fatalf("%d of %d gone, %d left: %v", len(gone), len(all), len(mine()), err)
	}
	probes = probes[:8]
	for _, p := range probes {
		p.Glob = ""
	}
	var install *InstallError
	if _, err := Install(fs, probes, nil); !errors.As(err, &install) || install.Probe != probes[7] || len(mine()) != 0 {
		t.Errorf("%d left: %v", len(mine()), err)
	}
	if install != nil && install.Log != "" && (install.Column < 0 ||
		!strings.HasPrefix(install.Line[install.Column:], "%nosuch")) {
		t.Errorf("%q points at %d of %q", install.Log, install.Column, install.Line)
	}
}

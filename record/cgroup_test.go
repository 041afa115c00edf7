package record

import (
	"slices"
	"testing"

	"gperf/format"
	"gperf/record/event"
)

func TestCgroupRoot(t *testing.T) {
	const (
		v1     = "cgroup /sys/fs/cgroup/perf_event cgroup rw,relatime,perf_event 0 0\n"
		other  = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n"
		named  = "cgroup /sys/fs/cgroup/x cgroup rw,name=perf_event2 0 0\n"
		v2     = "cgroup2 /sys/fs/cgroup\\040unified cgroup2 rw,relatime 0 0\n"
		second = "cgroup2 /mnt cgroup2 rw 0 0\n"
	)
	for mounts, want := range map[string]string{
		other + v2 + v1:     "/sys/fs/cgroup/perf_event",
		other + v2 + second: "/sys/fs/cgroup unified",
		other + named:       "",
		"":                  "",
		"short line\n" + v1: "/sys/fs/cgroup/perf_event",
	} {
		if got, _ := CgroupRoot(mounts); got != want {
			t.Errorf("%q: %q, want %q", mounts, got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	events := []event.Event{{}, {Group: "g"}, {Member: true}, {Member: true}, {}, {Member: true}, {}}
	want := []format.Group{{Name: "g", Leader: 1, Members: 3}, {Name: "{anon_group}", Leader: 4, Members: 2}}
	if got := groups(events); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestDisband checks that events that cannot be grouped are opened individually.
func TestDisband(t *testing.T) {
	command := Target{Command: []string{"true"}}
	group := []event.Event{{Name: "a", Type: format.TypeRaw, SampleRead: true, Weak: true},
		{Name: "b", Type: format.TypeRaw, SampleRead: true, Member: true, Terms: event.Terms{Period: 3}}, {Name: "c", Type: format.TypeSoftware}}
	opts := &Options{Events: group, Target: command}
	o := opener{opts: opts}
	o.events, o.attrs = opts.attrs()
	if o.attrs[0].ReadFormat&format.ReadGroup == 0 || o.attrs[1].Flags&format.FlagEnableOnExec != 0 || o.leader(1) != 0 || o.leader(2) != 2 {
		t.Fatalf("%+v", o.attrs)
	}
	told := false
	opts.Notice = func(error) { told = true }
	o.disband(0)
	for _, a := range o.attrs[:2] {
		if a.ReadFormat&format.ReadGroup != 0 || a.Flags&format.FlagEnableOnExec == 0 || a.Flags&format.FlagDisabled == 0 {
			t.Errorf("%+v", a)
		}
	}
	if o.leader(1) != 1 || !told {
		t.Errorf("leader %d, told %v", o.leader(1), told)
	}
}

package procfs

import "testing"

func TestCgroupRoot(t *testing.T) {
	const (
		v1     = "cgroup /sys/fs/cgroup/perf_event cgroup rw,relatime,perf_event 0 0\n"
		other  = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n"
		named  = "cgroup /sys/fs/cgroup/x cgroup rw,name=perf_event2 0 0\n"
		v2     = "cgroup2 /sys/fs/cgroup\\040unified cgroup2 rw,relatime 0 0\n"
		second = "cgroup2 /mnt cgroup2 rw 0 0\n"
	)
	for _, c := range []struct{ name, mounts, want string }{
		{"version 1", other + v2 + v1, "/sys/fs/cgroup/perf_event"},
		{"version 2", other + v2 + second, "/sys/fs/cgroup unified"},
		{"neither", other + named, ""},
		{"empty", "", ""},
		{"a short line", "short line\n" + v1, "/sys/fs/cgroup/perf_event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := CgroupRoot(c.mounts); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

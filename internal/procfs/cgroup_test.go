package procfs

import (
	"math"
	"testing"
)

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

func TestMemoryLimit(t *testing.T) {
	const (
		v1   = "cgroup /cg/memory cgroup rw,memory 0 0\n"
		v2   = "cgroup2 /cg cgroup2 rw 0 0\n"
		none = "9223372036854771712\n" // of version 1
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"version 2", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/a/b\n", "/cg/a/b/memory.max": "64\n",
			"/cg/a/memory.max": "max\n"}, 64},
		{"of the parent", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/a/b\n",
			"/cg/a/b/memory.max": "64\n", "/cg/a/memory.max": "32\n"}, 32},
		{"a container's", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/\n", "/cg/memory.max": "8\n"}, 8},
		{"a name with a colon", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/a:b\n",
			"/cg/a:b/memory.max": "8\n"}, 8},
		{"version 1", map[string]string{"/proc/mounts": v2 + v1, "/proc/self/cgroup": "4:cpu:/x\n3:memory:/a\n0::/y\n",
			"/cg/memory/a/memory.limit_in_bytes": "64\n", "/cg/memory/memory.limit_in_bytes": none,
			"/cg/memory/x/memory.limit_in_bytes": "1\n", "/cg/y/memory.max": "2\n"}, 64},
		{"outside", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/../../x\n", "/cg/memory.max": "8\n"}, 8},
		{"no limit", map[string]string{"/proc/mounts": v2, "/proc/self/cgroup": "0::/a\n", "/cg/a/memory.max": "max\n"},
			math.MaxUint64},
		{"no cgroups", nil, math.MaxUint64},
	} {
		if got := memoryLimit(func(path string) string { return c.files[path] }); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

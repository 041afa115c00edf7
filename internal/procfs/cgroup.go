package procfs

import (
	"errors"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// CgroupRoot returns the mount point, from the text of /proc/mounts, of the cgroup hierarchy that perf
// events refer to: version 1's perf_event if it is mounted, else version 2's. It returns "" if neither is
// mounted.
func CgroupRoot(mounts string) (root string, version int) { return cgroupRoot(mounts, "perf_event") }

func cgroupRoot(mounts, controller string) (root string, version int) {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), controller):
			return strings.ReplaceAll(f[1], `\040`, " "), 1
		case f[2] == "cgroup2" && root == "":
			root, version = strings.ReplaceAll(f[1], `\040`, " "), 2
		}
	}
	return root, version
}

// MemoryLimit returns how many bytes of memory this process may use: its cgroups' limit, or the room left by ulimit -v.
// math.MaxUint64 if that is unknown or not limited.
func MemoryLimit() uint64 {
	read := func(path string) string {
		b, _ := os.ReadFile(path)
		return string(b)
	}
	return min(memoryLimit(read), spaceLeft(read("/proc/self/statm")))
}

// memoryLimit reads files with a function that returns "" for those that do not exist.
func memoryLimit(read func(path string) string) uint64 {
	limit := uint64(math.MaxUint64)
	root, version := cgroupRoot(read("/proc/mounts"), "memory")
	if root == "" {
		return limit
	}
	controller, name := "", "memory.max"
	if version == 1 {
		controller, name = "memory", "memory.limit_in_bytes"
	}
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number:controllers:path
		if len(f) < 3 || !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) { // a limit of a parent holds, too
			if n, err := strconv.ParseUint(strings.TrimSpace(read(path.Join(root, dir, name))), 10, 64); err == nil {
				limit = min(limit, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}

// Cgroups returns the mount point of the cgroup hierarchy that perf events refer to.
func Cgroups() (root string, err error) {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "", err
	}
	if root, _ = CgroupRoot(string(mounts)); root == "" {
		return "", errors.New("no cgroup file system for perf events is mounted")
	}
	return root, nil
}

package procfs

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// CgroupRoot returns the mount point, from the text of /proc/mounts, of the cgroup hierarchy that perf
// events refer to: version 1's perf_event if it is mounted, else version 2's. It returns "" if neither is
// mounted.
func CgroupRoot(mounts string) (root string, version int) {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "perf_event"):
			return strings.ReplaceAll(f[1], `\040`, " "), 1
		case f[2] == "cgroup2" && root == "":
			root, version = strings.ReplaceAll(f[1], `\040`, " "), 2
		}
	}
	return root, version
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

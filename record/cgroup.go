package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupRoot is where /proc/mounts says that the control groups are by which perf
// events tell: version 1's hierarchy perf_event, if it is mounted, else version 2's.
// "" if neither is.
func cgroupRoot(mounts string) (root string) {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "perf_event"):
			return strings.ReplaceAll(f[1], `\040`, " ")
		case f[2] == "cgroup2" && root == "":
			root = strings.ReplaceAll(f[1], `\040`, " ")
		}
	}
	return root
}

// openCgroup opens a control group's folder, by which perf_event_open knows it.
func openCgroup(name string) (*os.File, error) {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, &CgroupError{name, err}
	}
	root := cgroupRoot(string(mounts))
	if root == "" {
		return nil, &CgroupError{name, errors.New("no cgroup file system is mounted that perf events know")}
	}
	f, err := os.Open(filepath.Join(root, filepath.Join("/", name)))
	var p *fs.PathError
	if errors.As(err, &p) {
		return nil, &CgroupError{name, &fs.PathError{Op: "open", Path: p.Path, Err: p.Err}}
	}
	return f, err
}

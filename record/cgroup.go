package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// CgroupRoot is where /proc/mounts says that the control groups are by which perf
// events tell: version 1's hierarchy perf_event, if it is mounted, else version 2's.
// "" if neither is.
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

// openCgroup opens a control group's folder, by which perf_event_open knows it.
func openCgroup(name string) (*os.File, error) {
	root, err := findCgroups()
	if err != nil {
		return nil, &CgroupError{name, err}
	}
	path := filepath.Join(root, filepath.Join("/", name))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CgroupError{name, fmt.Errorf("%s: %w", path, unix.ENOENT)}
	}
	if err != nil {
		return nil, &CgroupError{name, err}
	}
	return f, nil
}

func findCgroups() (root string, err error) {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "", err
	}
	if root, _ = CgroupRoot(string(mounts)); root == "" {
		return "", errors.New("no cgroup file system is mounted that perf events know")
	}
	return root, nil
}

// cgroups makes the records of the control groups that there are. A group's number
// is what the kernel has for a handle of its folder.
func (s *synth) cgroups() error {
	root, err := findCgroups()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // one that has gone, or is not for us
		}
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
		if err != nil || h.Size() < 8 {
			return nil
		}
		g := format.Cgroup{CgroupID: binary.LittleEndian.Uint64(h.Bytes()), Path: "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")}
		s.buf = g.Append(s.buf, s.idSize)
		return s.flush(flushSize)
	})
}

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

// CgroupRoot returns the mount point, from the text of /proc/mounts, of the cgroup hierarchy
// that perf events refer to: version 1's perf_event if it is mounted, else version 2's. It
// returns "" if neither is mounted.
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

// openCgroup opens a cgroup's directory, by which perf_event_open identifies it.
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
		return "", errors.New("no cgroup file system for perf events is mounted")
	}
	return root, nil
}

// cgroups makes records of the existing cgroups. A cgroup's ID is the kernel's file handle of
// its directory.
func (s *synth) cgroups() error {
	root, err := findCgroups()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it was removed, or we have no permission
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

package perfevent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// openCgroup opens a cgroup's directory, by which perf_event_open identifies it.
func openCgroup(name string) (*os.File, error) {
	root, err := procfs.Cgroups()
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

// CgroupID returns the ID of a cgroup of the hierarchy that perf events refer to.
func CgroupID(name string) (uint64, error) {
	f, err := openCgroup(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	id, err := procfs.CgroupID(f.Name())
	if err != nil {
		return 0, &CgroupError{name, err}
	}
	return id, nil
}

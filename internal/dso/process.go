package dso

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gperf/internal/procfs"
	"gperf/internal/untrusted"
)

// ErrOwner means that the file belongs to neither the user nor root, so that gperf does not trust it.
var ErrOwner = untrusted.ErrOwner

// proc is the mount point of procfs.
const proc = "/proc"

// OpenOf opens a file that process pid wrote: the copy that was kept for the recording, or the file in the
// process's mount namespace. name is the file's path, with %d for the process's PID in its own PID namespace. As in
// perf the file must belong to the user or root, unless Force is set.
func (l *Locator) OpenOf(pid int32, name string) (fs.File, error) {
	numbered := func(n int32) string { return strings.ReplaceAll(name, "%d", fmt.Sprint(n)) }
	if l.files != nil {
		return l.OpenFile(numbered(pid))
	}
	if l.Root != "" {
		return l.openOwned(l.Rooted(numbered(pid)))
	}
	if l.Generated != "" {
		if file, err := l.openOwned(keptPath(l.Generated, pid, name)); err == nil {
			return file, nil
		}
	}
	dir := filepath.Join(proc, fmt.Sprint(pid))
	if own := innerPID(pid); own != pid || !sameNamespace(dir) {
		if file, err := l.openOwned(filepath.Join(dir, "root", numbered(own))); err == nil {
			return file, nil
		}
	}
	return l.openOwned(numbered(pid))
}

func (l *Locator) openOwned(path string) (fs.File, error) {
	file, err := untrusted.OpenOwned(path, l.Force)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// PathOf returns a path at which gperf can open the file that a process maps at start..end-1 under a name: the
// process may see another file under that name than gperf does. It is below the process's root if the name leads to
// the mapped inode there, else the path of the mapping itself, which requires root.
func PathOf(pid int, name string, inode, start, end uint64) string {
	path := fmt.Sprintf("/proc/%d/root%s", pid, name)
	if st, err := untrusted.Stat(path); err == nil {
		if numberOf(st) == inode {
			return path
		}
	}
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, start, end)
}

// innerPID returns a process's PID in its own PID namespace.
func innerPID(pid int32) int32 {
	st, err := procfs.StatusOf(int(pid))
	if n := len(st.NStgid); err == nil && n > 0 {
		return int32(st.NStgid[n-1])
	}
	return pid
}

// sameNamespace reports whether the process with directory dir in /proc shares this process's mount namespace.
func sameNamespace(dir string) bool {
	theirs, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	own, ownErr := os.Readlink(filepath.Join(proc, "self/ns/mnt"))
	return err != nil || ownErr != nil || theirs == own
}

// deleted is the suffix that the kernel appends to the paths of deleted files.
const deleted = " (deleted)"

// IsDeleted reports whether the name of a mapping is a deleted file's.
func IsDeleted(name string) bool { return strings.HasSuffix(name, deleted) }

// TrimDeleted returns the path of a mapped file before it was deleted.
func TrimDeleted(name string) string { return strings.TrimSuffix(name, deleted) }

// mapped returns a path at which root can read a deleted file, through a process that maps it, or "".
func mapped(path string) string {
	for dir, m := range allMappings {
		if m.Path == path {
			return mapFile(dir, m.Start, m.End)
		}
	}
	return ""
}

// mapFile returns the path at which root can read the file of a mapping, by the process's directory.
func mapFile(dir string, start, end uint64) string {
	return fmt.Sprintf("%s/map_files/%x-%x", dir, start, end)
}

// allMappings yields the mappings of all processes, by the processes' directories.
func allMappings(yield func(dir string, m procfs.Mapping) bool) {
	dirs, _ := filepath.Glob(proc + "/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		maps, err := procfs.Maps(pid)
		if err != nil {
			continue
		}
		for m := range maps {
			if !yield(dir, m) {
				return
			}
		}
	}
}

package procfs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Processes returns the ids of all processes, in ascending order.
func Processes() ([]int, error) { return numberedDirs("/proc") }

// Threads returns the ids of a process's threads, in ascending order.
func Threads(pid int) ([]int, error) { return numberedDirs(fmt.Sprintf("/proc/%d/task", pid)) }

// Sockets returns the inode numbers of the open sockets of a process (proc_pid_fd(5)): none if the process exited,
// or this user may not inspect it.
func Sockets(pid int) (l []uint64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, _ := numberedDirs(dir)
	for _, fd := range files {
		target, _ := os.Readlink(dir + "/" + strconv.Itoa(fd))
		number, ok := strings.CutPrefix(target, "socket:[")
		if !ok {
			continue
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
			l = append(l, inode)
		}
	}
	return l
}

// numberedDirs returns the numeric entries of dir.
func numberedDirs(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var l []int
	for _, n := range names {
		if id, err := strconv.Atoi(n); err == nil {
			l = append(l, id)
		}
	}
	slices.Sort(l)
	return l, nil
}

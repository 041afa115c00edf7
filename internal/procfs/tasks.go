package procfs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Processes returns the ids of all processes, in ascending order.
func Processes() ([]int, error) { return numberedDirs("/proc") }

// Threads returns the ids of a process's threads, in ascending order.
func Threads(pid int) ([]int, error) { return numberedDirs(fmt.Sprintf("/proc/%d/task", pid)) }

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

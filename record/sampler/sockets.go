package sampler

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"gperf/internal/procfs"
)

// sockets finds the processes that sockets belong to, by the sockets' inode numbers.
type sockets struct {
	owners map[uint64]string // COMM/PID; "": no process
	read   time.Time
}

// rereadSockets is the shortest time between two readings of all processes' files.
const rereadSockets = time.Second

// owner returns "COMM/PID" of the first process that has the socket open; "" if none is known.
func (s *sockets) owner(inode uint64) string {
	if inode == 0 {
		return ""
	}
	if _, ok := s.owners[inode]; !ok && time.Since(s.read) >= rereadSockets {
		s.readAll()
	}
	return s.owners[inode]
}

// readAll reads which sockets the processes have. Processes that have exited, or that gperf may
// not look into, have none.
func (s *sockets) readAll() {
	s.owners = map[uint64]string{}
	pids, _ := procfs.Processes()
	for _, pid := range pids {
		owner := ""
		for _, inode := range socketsOf(pid) {
			if owner == "" {
				owner = fmt.Sprintf("%s/%d", commOf(pid), pid)
			}
			if s.owners[inode] == "" {
				s.owners[inode] = owner
			}
		}
	}
	s.read = time.Now()
}

// socketsOf returns the inode numbers of a process's sockets (proc_pid_fd(5)).
func socketsOf(pid int) (l []uint64) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		to, _ := os.Readlink(dir + name)
		number, ok := strings.CutPrefix(to, "socket:[")
		if !ok {
			continue
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
			l = append(l, inode)
		}
	}
	return l
}

func commOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(b), "\n")
}

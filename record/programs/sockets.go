package programs

import (
	"fmt"
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

// owner returns "COMM/PID" of the first process in which the socket is open; "" if none is known.
func (s *sockets) owner(inode uint64) string {
	if inode == 0 {
		return ""
	}
	if _, ok := s.owners[inode]; !ok && time.Since(s.read) >= rereadSockets {
		s.readAll()
	}
	return s.owners[inode]
}

// readAll reads which sockets are open in the processes. Processes that exited, or that gperf may not look into,
// are skipped.
func (s *sockets) readAll() {
	s.owners = map[uint64]string{}
	pids, _ := procfs.Processes()
	for _, pid := range pids {
		owner := ""
		for _, inode := range procfs.Sockets(pid) {
			if owner == "" {
				st, _ := procfs.StatusOf(pid)
				owner = fmt.Sprintf("%s/%d", st.Name, pid)
			}
			if s.owners[inode] == "" {
				s.owners[inode] = owner
			}
		}
	}
	s.read = time.Now()
}

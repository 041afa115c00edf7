package synth

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// namespaceFiles are the files of /proc/TID/ns, in the order of PERF_RECORD_NAMESPACES.
var namespaceFiles = [...]string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"}

// namespaces returns the namespaces of a thread. Unreadable ones are 0.
func namespaces(pid, tid int32) format.Namespaces {
	n := format.Namespaces{PID: pid, TID: tid, NS: make([]format.Namespace, len(namespaceFiles))}
	for i, name := range namespaceFiles {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", tid, name), &st) == nil {
			n.NS[i] = format.Namespace{Dev: st.Dev, Ino: st.Ino}
		}
	}
	return n
}

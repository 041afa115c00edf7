package session

import (
	"strconv"

	"gperf/format"
	"gperf/internal/session/track"
)

// Thread is a thread at one moment of the recording.
type Thread struct {
	PID, TID int32
	// Comm is the thread's name, or ":TID" while Named is false: no record named the thread yet.
	Comm  string
	Named bool
	// FirstComm is the thread's first name, or ":TID".
	FirstComm string

	space      *process
	leader     *Thread // the first thread of the process; nil: itself
	parent     int32   // TID of the thread that started it, -1 if unknown
	namespaces []format.Namespace
}

// process is the state that threads of a process share: the present mappings.
type process struct {
	threads track.Threads[struct{}]
	maps    *maps
}

func newProcess(pid int32, ms *maps) *process {
	return &process{track.Threads[struct{}]{pid: {}}, ms}
}

func newThread(pid, tid int32) *Thread {
	number := ":" + strconv.Itoa(int(tid))
	return &Thread{PID: pid, TID: tid, Comm: number, FirstComm: number, parent: -1}
}

func (th *Thread) setComm(name string) {
	if !th.Named {
		th.Named, th.FirstComm = true, name
	}
	th.Comm = name
}

// Leader returns the first thread of the process.
func (th *Thread) Leader() *Thread {
	if th.leader == nil {
		return th
	}
	return th.leader
}

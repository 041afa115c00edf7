package record

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/perfevent"
)

// Closing the last counter of a tracepoint waits for two RCU grace periods
// (perf_trace_event_unreg in kernel/trace), some 50 ms for each tracepoint. The kernel holds
// a lock, so these waits add up to half a minute for all tracepoints, and an exiting process
// cannot be killed during that time. The closer does it instead: a child that inherits the
// counters and closes them after the recorder has exited.

// closerName is the closer's argv[0].
const closerName = "gperf-close"

// manyTracepoints is the number of tracepoints whose closing takes longer than starting a
// closer (some 10 ms).
const manyTracepoints = 4

// init runs the closer before anything else runs in its process.
func init() {
	if len(os.Args) == 2 && os.Args[0] == closerName {
		outlive(os.Args[1])
	}
}

// outlive waits until the recorder has exited and closed its counters, so that the closer's
// are the last ones, and then exits.
func outlive(recorder string) {
	closeInherited()
	for strconv.Itoa(os.Getppid()) == recorder {
		time.Sleep(20 * time.Millisecond)
	}
	os.Exit(0)
}

// closeInherited closes the recorder's other inherited files, such as a lock or a pipe,
// because other processes wait for these to be closed. Perf events are anonymous inodes.
func closeInherited() {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		to, err := os.Readlink(link)
		fd, _ := strconv.Atoi(filepath.Base(link))
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			unix.Close(fd)
		}
	}
}

// closer is started once, at the recording's end or in a hurry.
type closer struct {
	mu      sync.Mutex
	process *os.Process // nil: the recorder closes the counters
}

// start starts the closer of these counters. If that fails, the recorder closes them, slowly.
func (c *closer) start(fds []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		return true
	}
	for _, fd := range fds { // the child inherits these
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	argv := []string{closerName, strconv.Itoa(os.Getpid())}
	c.process, _ = os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	return c.process != nil
}

// leaveToCloser starts the closer if there are many counters of tracepoints. Probes are
// excluded: they cannot be removed while any process has a counter of theirs open.
func (r *recorder) leaveToCloser() {
	fds, tracepoints := slowToClose(r.set, &r.programs)
	if tracepoints >= manyTracepoints && r.closer.start(fds) {
		r.sum.Closing = tracepoints
	}
}

// hurryToCloser starts the closer as soon as the caller is in a hurry: the recorder may be blocked in a write then,
// and the process be about to exit. It lasts until the caller calls done.
func (r *recorder) hurryToCloser() (done func()) {
	fds, tracepoints := slowToClose(r.set, &r.programs)
	if tracepoints < manyTracepoints {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-r.opts.Hurry:
			r.closer.start(fds)
		case <-ended:
		}
	}()
	return func() { close(ended) }
}

// slowToClose returns the counters of tracepoints, and the number of these tracepoints.
func slowToClose(set *perfevent.Set, p *bpfPrograms) (fds []int, tracepoints int) {
	slow := map[uint64]bool{} // by config
	for i := range set.Events {
		ev := &set.Events[i]
		if ev.Type == format.TypeTracepoint && ev.Tracepoint != "" && !set.Tracefs.IsProbe(ev.Tracepoint) {
			slow[ev.Config] = true
		}
	}
	for _, c := range set.Counters {
		if a := &set.Attrs[c.Event]; a.Type == format.TypeTracepoint && slow[a.Config] {
			fds = append(fds, c.FD)
		}
	}
	own, others := p.all.Tracepoints()
	for config, fd := range own {
		if slow[config] {
			fds = append(fds, fd)
		}
	}
	return append(fds, others...), len(slow) + len(others)
}

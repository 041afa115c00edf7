package record

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// Closing the last counter of a tracepoint waits for two RCU grace periods
// (perf_trace_event_unreg in kernel/trace), some 50 ms for each tracepoint, one
// after another, for the kernel holds a lock. That is half a minute for all of
// them, and a process that ends cannot be killed while it lasts. So a closer does
// it: a child that holds the counters, too, and closes them when the recorder has
// gone.

// closerName is the closer's argv[0].
const closerName = "gperf-close"

// manyTracepoints is how many tracepoints take long enough to close to start a
// closer, which takes some 10 ms.
const manyTracepoints = 4

// init is where the closer is caught, before anything else runs in it.
func init() {
	if len(os.Args) == 2 && os.Args[0] == closerName {
		outlive(os.Args[1])
	}
}

// outlive waits until the recorder has ended and with it has given up its counters,
// so that the ones held here are the last, and then ends.
func outlive(recorder string) {
	closeInherited()
	for strconv.Itoa(os.Getppid()) == recorder {
		time.Sleep(20 * time.Millisecond)
	}
	os.Exit(0)
}

// closeInherited closes what the recorder got from its caller, such as a lock or a
// pipe, which others wait for to be closed. Perf events are anonymous inodes.
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

// leaveToCloser starts a closer for the counters of tracepoints if there are many
// of them, once. Probes are not left to it: they cannot be removed while a counter
// of theirs is open anywhere.
func (r *recorder) leaveToCloser() {
	if r.closer != nil {
		return
	}
	fds, tracepoints := r.slowToClose()
	if tracepoints < manyTracepoints {
		return
	}
	for _, fd := range fds { // what the child is to inherit
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	argv := []string{closerName, strconv.Itoa(os.Getpid())}
	proc, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return // then ending takes as long as it takes
	}
	r.closer = proc
	r.sum.Closing = tracepoints
}

// slowToClose returns the counters of tracepoints, and how many tracepoints these are.
func (r *recorder) slowToClose() (fds []int, tracepoints int) {
	slow := map[uint64]bool{} // by config
	for i := range r.events {
		ev := &r.events[i]
		if ev.Type == format.TypeTracepoint && ev.Tracepoint != "" && !r.opts.Tracefs.IsProbe(ev.Tracepoint) {
			slow[ev.Config] = true
		}
	}
	for i := range r.counters {
		if a := &r.attrs[r.counters[i].event]; a.Type == format.TypeTracepoint && slow[a.Config] {
			fds = append(fds, r.counters[i].fd)
		}
	}
	if r.dwarf != nil {
		for config, fd := range r.dwarf.tracepoints {
			if slow[config] {
				fds = append(fds, fd)
			}
		}
	}
	tracepoints = len(slow)
	if r.emit != nil {
		fds = append(fds, r.emit.fds...)
		tracepoints += len(r.emit.fds)
	}
	return fds, tracepoints
}

package overview

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Events returns the arguments of gperf record for an overview of this machine.
func Events() []string {
	args := []string{"-g", "--off-cpu", "--waker=long",
		"-e", "cpu-clock/freq=99,name=cpu-clock/", // -F is of all events
		"-e", faultsName + "/period=100,name=" + faultsName + "/",
		"-e", majorFaultsName + "/period=1,name=" + majorFaultsName + "/"}
	if hasTracepoint("raw_syscalls", "sys_exit", "") {
		const exits = "raw_syscalls:sys_exit/call-graph=no,"
		args = append(args, "-e", exits+"name="+errorsName+"/", "--filter", unexpected(),
			"-e", fmt.Sprintf("%speriod=%d,name=%s/", exits, failingPeriod, failingName), "--filter", failing)
	}
	if hasTracepoint("skb", "kfree_skb", "reason") { // without a reason are mostly packets that have been used
		args = append(args, "-e", "skb:kfree_skb", "--filter", "reason != NOT_SPECIFIED")
	} else {
		args = append(args, "-e", "skb:kfree_skb")
	}
	for _, name := range segmentEvents {
		if system, name, _ := strings.Cut(name, ":"); hasTracepoint(system, name, "") {
			args = append(args, "-e", system+":"+name)
		}
	}
	for _, e := range []struct{ system, name, event string }{
		{"block", "block_rq_issue",
			"span:block:block_rq_issue..block:block_rq_complete/key=dev,sector,hist=dev,name=" + diskName + "/"},
		{"block", "block_rq_issue", issueName + "/period=8/"},
		{"vmscan", "mm_vmscan_direct_reclaim_begin", "span:vmscan:mm_vmscan_direct_reclaim_begin.." +
			"vmscan:mm_vmscan_direct_reclaim_end/hist,name=" + reclaimName + "/"},
		{"vmscan", "mm_vmscan_memcg_reclaim_begin", "span:vmscan:mm_vmscan_memcg_reclaim_begin.." +
			"vmscan:mm_vmscan_memcg_reclaim_end/hist,name=" + groupReclaimName + "/"},
		{"sched", "sched_process_exec", "sched:sched_process_exec/name=" + execName + "/"},
	} {
		if hasTracepoint(e.system, e.name, "") {
			args = append(args, "-e", e.event)
		}
	}
	return args
}

// failing is the filter of failed system calls, except those in which nothing came in time.
const failing = "ret < 0 && ret > -4096 && ret != -EAGAIN && ret != -ETIMEDOUT && ret != -EINTR && " +
	"ret != -EINPROGRESS"

// Of failed system calls, every failingPeriod-th is recorded; a process with manyFailed is worth a line.
const (
	failingPeriod = 50
	manyFailed    = 4 * failingPeriod
)

// unexpected returns the filter of system calls with errors that programs mostly do not expect. Its first comparison
// ends it for the many calls without an error.
func unexpected() string {
	var l []string
	for _, errno := range []string{"EIO", "ENOMEM", "ENFILE", "EMFILE", "ENOSPC", "EROFS", "EDQUOT", "ECONNREFUSED",
		"EHOSTUNREACH", "ENETUNREACH"} {
		l = append(l, "ret == -"+errno)
	}
	return "ret < 0 && (" + strings.Join(l, " || ") + ")"
}

// hasTracepoint reports whether the machine has a tracepoint, with a field unless that is empty.
func hasTracepoint(system, name, field string) bool {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		format, err := os.ReadFile(filepath.Join(dir, "events", system, name, "format"))
		if err == nil {
			return bytes.Contains(format, []byte(" "+field))
		}
	}
	return false
}

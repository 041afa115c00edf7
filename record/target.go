package record

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"gperf/internal/procfs"
	"gperf/record/synth"
)

// Target defines the scope of a recording: all CPUs, some CPUs, processes, threads, users' processes,
// or a command. A command in addition to others only limits the duration. The zero value
// means all CPUs.
type Target struct {
	All  bool
	CPUs []int
	PIDs []int
	TIDs []int
	UIDs []int // users, whose processes running at the start are recorded
	// Cgroup limits what is recorded of CPUs to the tasks of a cgroup, and of those below it: its path, relative to the
	// mount point of the hierarchy that perf events refer to.
	Cgroup  string
	Command []string
	// PerThread uses a ring for each thread rather than for each CPU. Threads that the target
	// starts are then not recorded.
	PerThread bool
}

// perThread reports whether a counter counts a thread on all CPUs.
func (t *Target) perThread() bool { return t.PerThread && !t.byCPU() }

// SystemWide reports whether everything that runs on the CPUs is recorded.
func (t *Target) SystemWide() bool { return t.byCPU() }

// byCPU reports whether everything that runs on the CPUs is recorded.
func (t *Target) byCPU() bool {
	return !t.byTask() && (t.All || len(t.CPUs) > 0 || len(t.Command) == 0)
}

// byTask reports whether running processes or threads are recorded.
func (t *Target) byTask() bool { return len(t.PIDs)+len(t.TIDs)+len(t.UIDs) > 0 }

// ownCommand reports whether the command is recorded.
func (t *Target) ownCommand() bool { return !t.byTask() && !t.byCPU() }

// cpus returns the CPUs that counters are opened on, -1 for any, and all online CPUs.
func (t *Target) cpus() (cpus, online []int, err error) {
	if t.perThread() {
		return []int{-1}, []int{-1}, nil
	}
	online, err = synth.OnlineCPUs()
	if err != nil || !t.byCPU() || len(t.CPUs) == 0 {
		return online, online, err
	}
	for _, c := range t.CPUs {
		if !slices.Contains(online, c) {
			return nil, nil, &NoTargetError{"CPU", c}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(t.CPUs))), online, nil
}

// threads returns the threads that counters are opened for: -1 for all.
func (t *Target) threads() ([]int, error) {
	if t.byCPU() {
		return []int{-1}, nil
	}
	if !t.byTask() {
		return nil, nil // the command's threads are known later
	}
	l := slices.Clone(t.TIDs)
	for _, tid := range t.TIDs {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", tid)); err != nil {
			return nil, &NoTargetError{"thread", tid}
		}
	}
	for _, pid := range t.PIDs {
		tids, err := procfs.Threads(pid)
		if err != nil {
			return nil, &NoTargetError{"process", pid}
		}
		l = append(l, tids...)
	}
	for _, uid := range t.UIDs {
		for _, pid := range processesOf(uid) {
			tids, _ := procfs.Threads(pid) // it may have exited
			l = append(l, tids...)
		}
	}
	if len(t.UIDs) > 0 && len(l) == 0 {
		return nil, &NoTargetError{"user", t.UIDs[0]}
	}
	slices.Sort(l)
	return slices.Compact(l), nil
}

// startedSince returns the running threads of the target that are not among threads.
func (t *Target) startedSince(threads []int) []int {
	if !t.byTask() {
		return nil
	}
	now, _ := t.threads() // an error means that they have exited
	return slices.DeleteFunc(now, func(tid int) bool { return slices.Contains(threads, tid) })
}

// processesOf returns the ids of a user's processes, except this one.
func processesOf(uid int) (l []int) {
	pids, _ := procfs.Processes()
	for _, pid := range pids {
		st, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err == nil && st.Sys().(*syscall.Stat_t).Uid == uint32(uid) && pid != os.Getpid() {
			l = append(l, pid)
		}
	}
	return l
}

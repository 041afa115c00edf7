package key

import (
	"strings"

	"gperf/internal/session"
)

// The kinds of waits: what the thread waits for.
const (
	waitLock    = "lock"    // a futex, or a lock of the kernel
	waitDisk    = "disk"    // a block device, or a file system
	waitNetwork = "network" // a socket, also a Unix one
	waitPipe    = "pipe"    // a pipe, FIFO or eventfd
	waitPoll    = "poll"    // any of several files: epoll, select, poll, io_uring; or a signal
	waitTimer   = "timer"
	waitFault   = "fault" // memory of the process, which the kernel reads from a file or swap
	waitChild   = "child" // another process to end, or to call exec after vfork
	waitStopped = "stopped"
	waitIdle    = "idle"  // work: in a thread of a pool, or in an event loop
	waitOther   = "other" // something else in the kernel
)

// waitFunctions are functions of the kernel in which threads wait, by kind. They begin with one of these names. The
// innermost one that is known decides.
var waitFunctions = []struct {
	kind  string
	names []string
}{
	{waitLock, []string{"futex_wait", "futex_do_wait", "__futex_wait", "futex_lock_pi", "__mutex_lock", "mutex_lock",
		"rwsem_down_", "__down", "down_", "rt_mutex_", "__rt_mutex", "rt_spin_lock", "__rwbase_", "rwbase_",
		"percpu_rwsem_wait", "__percpu_down_read", "__lock_sock", "ww_mutex_", "__ww_mutex", "fcntl_setlk",
		"flock_lock_inode", "locks_lock_inode_wait"}},
	{waitDisk, []string{"io_schedule", "blk_", "__blk_", "rq_qos_wait", "wbt_wait", "submit_bio_wait", "jbd2_",
		"do_get_write_access", "xfs_", "xlog_", "btrfs_", "ext4_", "balance_dirty_pages", "__wait_on_buffer",
		"wait_on_page", "folio_wait_", "read_events", "do_io_getevents", "sync_inodes_sb", "wb_wait_for_completion"}},
	{waitNetwork, []string{"inet_", "tcp_", "sk_", "sock_", "__sk_", "udp_", "__skb_", "unix_", "netlink_", "vsock_",
		"rpc_", "svc_", "mptcp_", "smc_", "packet_recvmsg"}},
	{waitPipe, []string{"pipe_", "anon_pipe_", "wait_for_partner", "eventfd_read"}},
	{waitPoll, []string{"ep_poll", "do_epoll_wait", "do_select", "core_sys_select", "do_poll", "do_sys_poll",
		"poll_schedule_timeout", "io_cqring_wait", "do_sigtimedwait", "signalfd_", "sigsuspend", "__do_sys_pause",
		"inotify_read", "n_tty_read"}},
	{waitTimer, []string{"hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "timerfd_read"}},
	{waitFault, []string{"handle_userfault"}},
	{waitChild, []string{"do_wait", "kernel_wait", "wait_for_vfork_done", "kernel_clone"}},
	{waitStopped, []string{"do_signal_stop", "ptrace_stop", "ptrace_do_notify", "do_freezer_trap", "__refrigerator",
		"cgroup_enter_frozen"}},
}

// faultFunctions are functions of the kernel that handle page faults.
var faultFunctions = []string{"exc_page_fault", "do_user_addr_fault", "do_page_fault", "do_mem_abort",
	"handle_mm_fault"}

// idleFunctions are functions in which threads of pools wait for work.
var idleFunctions = setOf(
	// Go: threads without goroutines to run, and the runtime's own.
	"runtime.findRunnable", "runtime.findrunnable", "runtime.stopm", "runtime.sysmon", "runtime.templateThread",
	"runtime.stoplockedm",
	// Java.
	"GCTaskManager::get_task", "CompileQueue::get", "ServiceThread::service_thread_entry",
	"MonitorDeflationThread::monitor_deflation_thread_entry", "WatcherThread::sleep",
	"VMThread::wait_for_vm_operations", "SemaphoreGangTaskDispatcher::worker_wait_for_task",
	"WorkerTaskDispatcher::worker_run_task", "G1ConcurrentRefineThread::wait_for_completed_buffers",
	"G1ServiceThread::wait_for_task", "java.util.concurrent.ThreadPoolExecutor.getTask",
	"java.util.concurrent.ForkJoinPool.awaitWork", "java.lang.ref.ReferenceQueue.remove",
	"java.lang.ref.Reference.waitForReferencePendingList",
	// Node.js: the pool of V8.
	"node::WorkerThreadsTaskRunner::DelayedTaskScheduler::Run", "node::TaskQueue<v8::Task>::BlockingPop",
	// Rust: tokio and rayon.
	"tokio::runtime::scheduler::multi_thread::worker::Context::park_timeout",
	"tokio::runtime::scheduler::multi_thread::worker::Context::park",
	"tokio::runtime::scheduler::multi_thread::park::Inner::park",
	"tokio::runtime::scheduler::current_thread::Context::park", "rayon_core::sleep::Sleep::sleep",
)

// loopFunctions are functions in which event loops wait for events of files, of libuv, nginx, redis, PostgreSQL, GLib,
// libevent and libev. Some call what handles an event, too: a wait is idle only if they wait themselves.
var loopFunctions = setOf("uv__io_poll", "ngx_epoll_process_events", "aeApiPoll", "WaitEventSetWait",
	"WaitEventSetWaitBlock", "g_main_context_poll_unlocked", "g_main_context_poll", "epoll_dispatch", "epoll_poll")

func setOf(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// loopDepth is in how many of the innermost frames of a process an event loop waits: below it are the C library's.
const loopDepth = 3

// isIdle reports whether a thread waits for work.
func isIdle(user session.Part) bool {
	for i, f := range user.All() {
		name, _, _ := strings.Cut(f.Symbol(), "(")
		if idleFunctions[name] || i < loopDepth && loopFunctions[name] {
			return true
		}
	}
	return false
}

// waitKind returns the kind of a wait, from its stack.
func waitKind(s *session.Sample) string {
	if isIdle(s.User) {
		return waitIdle
	}
	kind, fault := "", false
	for _, f := range s.Kernel.All() {
		name := f.Symbol()
		if kind == "" {
			kind = kindOf(name)
		}
		fault = fault || hasAnyPrefix(name, faultFunctions)
	}
	switch {
	case fault && (kind == "" || kind == waitDisk):
		return waitFault
	case kind == "" && s.Kernel.Len() == 0:
		return Missing
	case kind == "":
		return waitOther
	}
	return kind
}

// kindOf returns the kind of waits in a function of the kernel, "" if it is not known.
func kindOf(function string) string {
	for _, w := range waitFunctions {
		if hasAnyPrefix(function, w.names) {
			return w.kind
		}
	}
	return ""
}

func hasAnyPrefix(name string, list []string) bool {
	for _, prefix := range list {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

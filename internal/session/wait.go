package session

import (
	"path"
	"slices"
	"strings"

	"gperf/format"
)

// The kinds of waits: what the thread waits for.
const (
	waitLock    = "lock"    // a futex, or a lock of the kernel
	waitDisk    = "disk"    // a block device, or a file system
	WaitNetwork = "network" // a socket, also a Unix one
	waitPipe    = "pipe"    // a pipe, FIFO or eventfd
	WaitPoll    = "poll"    // any of several files: epoll, select, poll, io_uring; or a signal
	waitTimer   = "timer"
	waitFault   = "fault" // memory of the process, which the kernel reads from a file or swap
	waitChild   = "child" // another process or thread to end, or to call exec after vfork
	waitStopped = "stopped"
	waitChannel = "channel" // of Go
	waitGC      = "gc"      // Go's garbage collector
	waitIdle    = "idle"    // work: in a thread of a pool, or in an event loop
	waitOther   = "other"   // something else in the kernel
)

// RunQueue is the kind of waits for a CPU, of threads that were woken, or preempted.
const RunQueue = "runqueue"

// WaitKinds returns all kinds of waits.
func WaitKinds() []string {
	return []string{waitLock, waitDisk, WaitNetwork, waitPipe, WaitPoll, waitTimer, waitFault, waitChild, waitStopped,
		waitChannel, waitGC, RunQueue, waitIdle, waitOther}
}

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
	{WaitNetwork, []string{"inet_", "tcp_", "sk_", "sock_", "__sk_", "udp_", "__skb_", "unix_", "netlink_", "vsock_",
		"rpc_", "svc_", "mptcp_", "smc_", "packet_recvmsg"}},
	{waitPipe, []string{"pipe_", "anon_pipe_", "wait_for_partner", "eventfd_read"}},
	{WaitPoll, []string{"ep_poll", "do_epoll_wait", "do_select", "core_sys_select", "do_poll", "do_sys_poll",
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

// poolFunctions are functions in which threads of pools wait for work.
var poolFunctions = setOf(
	// Go: threads without goroutines to run, and the runtime's own.
	"runtime.findRunnable", "runtime.findrunnable", "runtime.stopm", "runtime.sysmon", "runtime.templateThread",
	"runtime.stoplockedm", "os/signal.signal_recv",
	// Java.
	"GCTaskManager::get_task", "CompileQueue::get", "ServiceThread::service_thread_entry",
	"MonitorDeflationThread::monitor_deflation_thread_entry", "WatcherThread::sleep",
	"VMThread::wait_for_vm_operations", "SemaphoreGangTaskDispatcher::worker_wait_for_task",
	"WorkerTaskDispatcher::worker_run_task", "G1ConcurrentRefineThread::wait_for_completed_buffers",
	"G1ServiceThread::wait_for_task", "java.util.concurrent.ThreadPoolExecutor.getTask",
	"java.util.concurrent.ForkJoinPool.awaitWork", "java.lang.ref.ReferenceQueue.remove",
	"java.lang.ref.Reference.waitForReferencePendingList",
	"GangWorker::loop", "VMThread::wait_for_operation", "JVM_WaitForReferencePendingList",
	"NMethodSweeper::sweeper_loop",
	"ConcurrentGCThread::run", "os::signal_wait", "NotificationThread::notification_thread_entry",
	"CallJavaMainInNewThread",
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

// conditionFunctions are the functions of the C library that wait for a condition: pools wait so. They begin with one
// of these names.
var conditionFunctions = []string{"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait",
	"___pthread_cond_wait", "___pthread_cond_timedwait", "___pthread_cond_clockwait", "__pthread_cond_wait",
	"__pthread_cond_timedwait", "__pthread_cond_clockwait", "sem_wait", "__new_sem_wait", "sem_timedwait",
	"sem_clockwait"}

// throughFunctions are functions of libraries between the C library's and a thread's own: those that call these, and
// those that call the thread's first function. They begin with one of these names.
var throughFunctions = []string{"std::", "void std::", "__gthread_", "execute_native_thread_routine", "uv_cond_",
	"uv_sem_", "uv__thread_start", "boost::", "g_cond_", "g_thread_proxy", "apr_thread_cond_", "dummy_worker", "absl::",
	"__tsan_", "asan_thread_start"}

// throughFiles are libraries whose functions count as throughFunctions, also without names.
var throughFiles = []string{"libstdc++.so", "libc++.so", "libapr-1.so", "libjemalloc.so"}

// threadStarts are functions in which threads of the C library start.
var threadStarts = setOf("start_thread", "clone", "clone3", "__clone", "__clone3", "thread_start")

// queueWords are parts of names of functions that take work from a queue.
var queueWords = []string{"pop", "dequeue", "take", "fetch", "get_task", "gettask", "get_job", "getjob", "get_work",
	"next_task", "next_job", "wait_for_work", "wait_for_task", "wait_for_job", "idle"}

// inPool reports whether a thread waits for a condition in its first function, or in one that this calls to take work
// from a queue.
func inPool(user Part) bool {
	waits, own := false, 0
	for _, f := range user.All() {
		name := withoutArguments(f.Symbol())
		switch {
		case threadStarts[name]:
			return waits
		case hasAnyPrefix(name, conditionFunctions):
			waits = true
		case !waits, passesThrough(f), own == 0 && takesWork(name):
		case own > 0:
			return false
		default:
			own++
		}
	}
	return false
}

// passesThrough reports whether a frame is of a function that only calls another one.
func passesThrough(f *Frame) bool {
	name := f.Symbol()
	return hasAnyPrefix(name, throughFunctions) || strings.Contains(name, "{lambda(") &&
		strings.Contains(name, "::operator()(") || isIn(f, throughFiles)
}

// isIn reports whether a frame is in one of these files, which begin with the names.
func isIn(f *Frame, files []string) bool {
	return f.Map != nil && hasAnyPrefix(path.Base(f.Map.DSO.Name), files)
}

func takesWork(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(queueWords, func(word string) bool { return strings.Contains(name, word) })
}

// withoutArguments returns the name of a function of C++ without its arguments.
func withoutArguments(name string) string {
	name, _, _ = strings.Cut(strings.ReplaceAll(name, "(anonymous namespace)::", ""), "(")
	return name
}

// loopDepth is in how many of the innermost frames of a process an event loop waits: below it are the C library's.
const loopDepth = 3

// loopFiles are files of event loops, whose functions mostly have no names: those of nginx, redis, PostgreSQL, and
// libraries.
var loopFiles = []string{"nginx", "redis-server", "redis-check-rdb", "valkey-server", "postgres",
	"libevent", "libev.so", "libuv.so", "libglib-2.0.so"}

// isSyscallCancel reports whether a function is one of those with which glibc, from 2.41 on, calls the kernel where a
// thread can be cancelled.
func isSyscallCancel(name string) bool {
	return strings.HasPrefix(name, "__syscall_cancel") || name == "__internal_syscall_cancel"
}

// inLoop reports whether an event loop waits for events.
func inLoop(user Part) bool {
	depth := 0
	for _, f := range user.All() {
		name := withoutArguments(f.Symbol())
		switch {
		case isSyscallCancel(name):
			continue
		case loopFunctions[name] || isIn(f, loopFiles):
			return true
		}
		if depth++; depth == loopDepth {
			break
		}
	}
	return false
}

// userFunctions are functions of processes that say more than the kernel's, by kind: PostgreSQL waits for locks in an
// event loop, and Java sleeps with a futex.
var userFunctions = []struct {
	kind      string
	functions map[string]bool
}{
	{waitLock, setOf("ProcSleep", "ConditionVariableTimedSleep", "ConditionVariableSleep", "SyncRepWaitForLSN")},
	{waitTimer, setOf("JavaThread::sleep", "JVM_Sleep", "java.lang.Thread.sleep", "pg_sleep")},
	{waitChild, setOf("pthread_join", "__pthread_clockjoin_ex", "__pthread_timedjoin_ex")},
}

// javaThreads are threads of Java's virtual machine that wait for work as others wait for a monitor: the methods that
// they interpret may have no names.
var javaThreads = setOf("Finalizer", "Common-Cleaner")

// javaMonitor are functions in which threads of Java wait for a monitor.
var javaMonitor = setOf("JVM_MonitorWait")

// inPython reports whether a thread of Python waits for work: of concurrent.futures' pool, or for events of asyncio.
func inPython(user Part) bool {
	for _, f := range user.All() {
		if f.Kind() != KindRuntime {
			continue
		}
		name := f.Symbol()
		switch name = name[strings.LastIndexByte(name, '.')+1:]; name { // Python before 3.11 has no names of classes
		case "_worker", "_run_once":
			return true
		case "run", "_run": // of what has been taken from the queue
			return false
		}
	}
	return false
}

// hasFunction reports whether a function is one of these, or called by one.
func hasFunction(user Part, functions map[string]bool) bool {
	for _, f := range user.All() {
		if functions[withoutArguments(f.Symbol())] {
			return true
		}
	}
	return false
}

// WaitKind returns the kind of a wait, from its stack, "" if that is not known.
func (s *Sample) WaitKind() string {
	if s.Runnable() {
		return RunQueue
	}
	if s.Kernel.Len() == 0 {
		if kind := goroutineKind(s.User); kind != "" {
			return kind
		}
	}
	kind := kernelKind(s.Kernel)
	unknown := kind == "" || kind == waitOther
	polls, locks := kind == WaitPoll || unknown, kind == waitLock || unknown
	switch {
	case kind == waitFault:
		return kind
	case hasFunction(s.User, poolFunctions):
		return waitIdle
	case !polls && !locks:
		return kind
	}
	for _, u := range userFunctions {
		if hasFunction(s.User, u.functions) {
			return u.kind
		}
	}
	if polls && inLoop(s.User) || locks && inPool(s.User) || inPython(s.User) ||
		javaThreads[s.Comm] && hasFunction(s.User, javaMonitor) {
		return waitIdle
	}
	return kind
}

// Runnable reports, for a wait or its waker, whether the thread waited for a CPU.
func (s *Sample) Runnable() bool { return s.Misc&format.MiscRunnable != 0 }

// kernelKind returns the kind of a wait, from the kernel's part of its stack.
func kernelKind(kernel Part) string {
	kind, fault := "", false
	for _, f := range kernel.All() {
		name := f.Symbol()
		if kind == "" {
			kind = kindOf(name)
		}
		fault = fault || hasAnyPrefix(name, faultFunctions)
	}
	switch {
	case fault && (kind == "" || kind == waitDisk):
		return waitFault
	case kind == "" && kernel.Len() > 0:
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

// EndOfWaits finds the samples that have the last time of all waits: several are sums of short waits, or waits that did
// not end, and no single waits of their durations. The last wait of a recording without them is alone.
type EndOfWaits struct {
	time uint64
	n    int
}

// Add takes a wait.
func (e *EndOfWaits) Add(s *Sample) {
	if s.Time > e.time {
		*e = EndOfWaits{time: s.Time}
	}
	if s.Time == e.time {
		e.n++
	}
}

// Has reports, after all waits, whether a sample with this time is one of them.
func (e *EndOfWaits) Has(time uint64) bool { return e.n > 1 && time == e.time }

// HasWaits reports whether a recording contains waits.
func HasWaits(f *format.File) bool {
	return slices.ContainsFunc(f.Attrs, func(a format.Attr) bool { return IsWait(&a) })
}

// idleWaits remembers for stacks that occur often whether their waits are for work.
type idleWaits map[ChainKey]bool

// is reports whether a sample is a wait for work.
func (w idleWaits) is(a *format.Attr, s *Sample) bool {
	if !IsWait(a) || s.Runnable() {
		return false
	}
	key := s.Key()
	if key.kernel == 0 && !IsGoroutineWait(a) || key.user == 0 || javaThreads[s.Comm] {
		return s.WaitKind() == waitIdle
	}
	idle, known := w[key]
	if !known {
		idle = s.WaitKind() == waitIdle
		w[key] = idle
	}
	return idle
}

// hidesWaits reports whether the session leaves out waits for work.
func (s *Session) hidesWaits() bool { return (s.NoIdle || s.NoIdleWaits) && HasWaits(s.File) }

// ReadsChains reports whether the options need the callchains of samples.
func (s *Session) ReadsChains() bool { return s.Select != nil || s.NoNative || s.hidesWaits() }

// Waits is the time of waits, and the part of those that are left out, for work, in ns.
type Waits struct{ All, Idle uint64 }

// hideIdleWaits removes waits for work from the batch, and the samples of their wakers.
func (w *walk) hideIdleWaits() {
	type wait struct{ time, period uint64 }
	l, sum := w.batch.Samples, &w.session.Waits
	hidden, ended := make([]bool, len(l)), map[uint32]wait{} // by CPU: the wait that is hidden
	for i := range slices.Backward(l) {
		s := &l[i]
		switch a := &w.file.Attrs[s.Event]; {
		case IsWaker(a):
			hidden[i] = ended[s.CPU] == wait{s.Time, s.Period} && s.Time != 0
		case IsWait(a):
			delete(ended, s.CPU)
			sum.All += s.Period
			if hidden[i] = w.session.idleWaits.is(a, s); hidden[i] {
				sum.Idle += s.Period
				ended[s.CPU] = wait{s.Time, s.Period}
			}
		}
	}
	i := -1
	w.batch.Keep(func(*Sample) bool { i++; return !hidden[i] })
}

// endsWithWaker reports whether the last record is the sample of a waker, whose wait follows.
func endsWithWaker(f *format.File, l []format.Raw) bool {
	if len(l) == 0 || l[len(l)-1].Type != format.TypeSample {
		return false
	}
	_, event := f.RecordID(l[len(l)-1])
	return IsWaker(&f.Attrs[event])
}

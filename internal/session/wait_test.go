package session

import (
	"testing"

	"gperf/symbolize"
)

// TestWaitKind gives functions, innermost first.
func TestWaitKind(t *testing.T) {
	frames := func(kernel bool, names []string) (list []*Frame) {
		for i, name := range names {
			if !kernel {
				i += 1 << 8 // IDs of the chain differ
			}
			list = append(list, NamedFrame(i, uint64(i), kernel, nil, &symbolize.Symbol{Name: name}))
		}
		return list
	}
	type stack []string
	parked := func(names ...string) stack { return append(append(stack{gopark}, names...), "runtime.goexit") }
	for _, tt := range []struct {
		kernel, user stack
		want         string
	}{
		{stack{"__schedule", "schedule", "futex_do_wait", "__futex_wait", "do_futex"}, stack{"pthread_mutex_lock", "main"},
			"lock"},
		{stack{"schedule", "schedule_preempt_disabled", "__mutex_lock", "ext4_file_write_iter"}, nil, "lock"},
		{stack{"schedule", "io_schedule", "folio_wait_bit_common", "filemap_read"}, stack{"read"}, "disk"},
		{stack{"schedule", "io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault", "exc_page_fault"},
			stack{"main"}, "fault"},
		{stack{"schedule", "schedule_timeout", "__skb_wait_for_more_packets", "udp_recvmsg"}, stack{"recv"}, "network"},
		{stack{"schedule", "anon_pipe_read", "vfs_read"}, stack{"read"}, "pipe"},
		{stack{"schedule", "schedule_hrtimeout_range", "ep_poll", "do_epoll_wait"}, stack{"epoll_wait", "serve"}, "poll"},
		{stack{"schedule", "schedule_hrtimeout_range", "ep_poll"}, stack{"epoll_pwait", "uv__io_poll", "uv_run"}, "idle"},
		{stack{"schedule", "schedule_hrtimeout_range", "ep_poll"}, stack{"epoll_wait", "a", "b", "c", "aeApiPoll"}, "poll"},
		{stack{"schedule", "schedule_hrtimeout_range", "ep_poll"}, stack{"__syscall_cancel_arch", "__internal_syscall_cancel",
			"__syscall_cancel", "epoll_wait", "aeApiPoll"}, "idle"},
		{nil, parked("time.Sleep", "main.main", "runtime.main"), "timer"},
		{nil, parked("runtime.semacquire1", "sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.f"), "lock"},
		{nil, parked("runtime.chansend", "runtime.chansend1", "main.f"), "channel"},
		{nil, parked("runtime.chanrecv", "runtime.chanrecv1", "main.f", "main.main"), "channel"},
		{nil, parked("runtime.chanrecv", "runtime.chanrecv2", "main.worker", "main.main.gowrap1"), "idle"},
		{nil, parked("runtime.netpollblock", "net.(*netFD).Read", "main.ask"), "network"},
		{nil, parked("runtime.netpollblock", "net.(*netFD).accept", "main.serve"), "idle"},
		{nil, parked("runtime.netpollblock", "internal/poll.(*FD).Read", "os.(*File).Read", "main.f"), "pipe"},
		{nil, parked("runtime.netpollblock", "net.(*conn).Read", "net/http.(*conn).serve"), "idle"},
		{nil, parked("runtime.netpollblock", "net.(*conn).Read", "main.ask", "net/http.serverHandler.ServeHTTP",
			"net/http.(*conn).serve"), "network"},
		{nil, parked("runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.ask"), "network"},
		{nil, parked("runtime.selectgo", "net/http.(*persistConn).writeLoop"), "idle"},
		{nil, parked("runtime.gcBgMarkWorker"), "idle"},
		{nil, parked("runtime.gcParkAssist", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.f"), "gc"},
		{nil, parked(), "other"},
		{stack{"schedule", "futex_do_wait"}, stack{"futex", "runtime.futexsleep", "runtime.stopm",
			"runtime.findRunnable"}, "idle"},
		{stack{"schedule", "futex_do_wait"}, stack{"__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2",
			"uv_cond_wait", "node::(anonymous namespace)::PlatformWorkerThread(void*)", "start_thread", "clone3"}, "idle"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_cond_wait@@GLIBC_2.3.2",
			"void std::condition_variable::wait<Pool::run()::{lambda()#1}>(std::unique_lock<std::mutex>&)", "Pool::run()",
			"Pool::Pool(int)::{lambda()#1}::operator()() const", "std::thread::_State_impl<>::_M_run()", "start_thread"},
			"idle"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_cond_wait", "queue_pop", "worker", "start_thread"}, "idle"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_cond_wait", "request", "worker", "start_thread"}, "lock"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_mutex_lock", "worker", "start_thread"}, "lock"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_cond_wait", "main", "__libc_start_main"}, "lock"},
		{stack{"schedule", "futex_do_wait"}, stack{"pthread_cond_timedwait", "os::PlatformEvent::park",
			"JavaThread::sleep", "JVM_Sleep"}, "timer"},
		{stack{"schedule", "futex_do_wait"}, stack{"__pthread_clockjoin_ex", "main"}, "child"},
		{stack{"schedule", "ep_poll"}, stack{"epoll_wait", "WaitEventSetWait", "WaitLatch", "ProcSleep"}, "lock"},
		{stack{"schedule", "ep_poll"}, stack{"epoll_wait", "WaitEventSetWait", "secure_read"}, "idle"},
		{stack{"io_schedule", "filemap_fault", "handle_mm_fault", "exc_page_fault"}, stack{"aeApiPoll"}, "fault"},
		{stack{"schedule", "do_nanosleep", "hrtimer_nanosleep"}, stack{"sleep"}, "timer"},
		{stack{"schedule", "do_wait", "kernel_wait4"}, stack{"waitpid"}, "child"},
		{stack{"schedule", "do_signal_stop", "get_signal"}, nil, "stopped"},
		{stack{"schedule", "worker_thread", "kthread"}, nil, "other"},
		{nil, stack{"main"}, ""},
	} {
		s := &Sample{Chain: NewChain(frames(true, tt.kernel), frames(false, tt.user))}
		if got := s.WaitKind(); got != tt.want {
			t.Errorf("%v, %v: %s, want %s", tt.kernel, tt.user, got, tt.want)
		}
	}
}

// TestEndOfWaits: several waits with the last time are sums, one is not.
func TestEndOfWaits(t *testing.T) {
	var e EndOfWaits
	for _, tt := range []struct {
		time uint64
		has  bool // once it was added
	}{{5, false}, {5, true}, {7, false}, {6, false}, {7, true}} {
		s := &Sample{}
		s.Time = tt.time
		if e.Add(s); e.Has(tt.time) != tt.has {
			t.Errorf("%d: %t", tt.time, !tt.has)
		}
	}
	if e.Has(5) {
		t.Error("an earlier time")
	}
}

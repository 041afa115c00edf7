package key

import (
	"testing"

	"gperf/internal/session"
	"gperf/symbolize"
)

// TestWaitKind gives functions, innermost first.
func TestWaitKind(t *testing.T) {
	frames := func(kernel bool, names []string) (list []*session.Frame) {
		for i, name := range names {
			if !kernel {
				i += 1 << 8 // IDs of the chain differ
			}
			list = append(list, session.NamedFrame(i, uint64(i), kernel, nil, &symbolize.Symbol{Name: name}))
		}
		return list
	}
	type stack []string
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
		{stack{"schedule", "futex_do_wait"}, stack{"futex", "runtime.futexsleep", "runtime.stopm",
			"runtime.findRunnable"}, "idle"},
		{stack{"schedule", "do_nanosleep", "hrtimer_nanosleep"}, stack{"sleep"}, "timer"},
		{stack{"schedule", "do_wait", "kernel_wait4"}, stack{"waitpid"}, "child"},
		{stack{"schedule", "do_signal_stop", "get_signal"}, nil, "stopped"},
		{stack{"schedule", "worker_thread", "kthread"}, nil, "other"},
		{nil, stack{"main"}, Missing},
	} {
		s := &session.Sample{Chain: session.NewChain(frames(true, tt.kernel), frames(false, tt.user))}
		if got := waitKind(s); got != tt.want {
			t.Errorf("%v, %v: %s, want %s", tt.kernel, tt.user, got, tt.want)
		}
	}
}

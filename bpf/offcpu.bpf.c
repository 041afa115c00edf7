//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Off-CPU time: how long threads wait, and where. A wait begins when a thread stops running because it sleeps, and
 * ends when another thread or an interrupt wakes it. From then on, or from when it is preempted, until it runs, it is
 * runnable: it waits for a CPU, which is a record of its own.
 *
 * Stacks are sent once: a new stack goes to the CPU's ring with a hash, and waits refer to the stack by the hash.
 * A user stack that the recorder must walk follows as a copy.
 *
 * A waker makes a waiting thread ready to run: a thread, or an interrupt.
 *
 * Goroutines wait, too, while their threads run others: see goroutine.h.
 */
#include "probe.h"
#include "stacks.h"

char _license[] SEC("license") = "GPL";

/* Set when the programs are loaded. */
const volatile __u64 threshold = 0;   /* ns: shorter waits are summed by thread and stack */
const volatile __u32 with_wakers = 0; /* waits include the wakers */
const volatile __u32 long_wakers = 0; /* only waits that are not summed do */

struct range { /* of code */
	__u64 start, end;
};
/* The kernel code where interrupts begin, and that after which the kernel works for the thread again; then 0. */
const volatile struct range interrupts[MAX_RANGES] = {}, returns[MAX_RANGES] = {};

struct waker { /* package bpf's Waker */
	__u64 stack;    /* hash of the stack */
	__u32 known;    /* 0: no waker is known */
	__u32 pid, tid; /* in the recorder's PID namespace; 0 for an interrupt */
	__u32 tgid, exec;
	enum end end;
	char comm[16]; /* of a thread that is not recorded */
};

struct wait { /* package bpf's Wait */
	__u64 start;    /* CLOCK_MONOTONIC, in ns */
	__u64 woken;    /* when the thread became runnable; 0: it sleeps. Not 0: duration is from then on */
	__u64 duration; /* in ns, once the wait ends */
	__u64 cpu_time; /* of the thread before it, in ns */
	__u64 since;    /* for how long the thread has run since the end of the wait, in ns */
	__u64 stack;    /* hash of the stack */
	__u64 goroutine; /* that waits: its number, or else the address of its struct g; 0: a thread waits */
	__u32 pid, tid;  /* in the recorder's PID namespace, at the start */
	__u32 tgid;      /* the key in processes */
	__u32 exec;
	enum end end; /* why the walk of the user stack ended */
	__u32 copied; /* the recorder gets a copy of the user stack */
	struct waker waker;
};

/* By tid: the threads that wait now. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct wait);
	__uint(max_entries, MAX_WAITS);
} waits SEC(".maps");

struct sum_key { /* package bpf's sumKey */
	__u64 stack, goroutine;
	__u32 pid, tid, tgid;
	enum end end;
	__u32 runnable, unused;
	struct waker waker;
};

struct sum { /* package bpf's sum */
	__u64 duration, waits;
};

/* The sums of short waits. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct sum_key);
	__type(value, struct sum);
	__uint(max_entries, MAX_WAITS);
} sums SEC(".maps");

/* By CPU: the events for waits. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} waits_to SEC(".maps") PER_RECORDER;

/* The number of waits that did not fit into the map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} unrecorded SEC(".maps");

/* The programs' memory, because BPF stacks are small. */
struct scratch {
	struct wait begun; /* without a waker, which only the end of a wait contains */
	struct wait ended;
	struct sum_key key;
};

/*
 * By slot, as walks. The programs of threads run with interrupts disabled, and not within each other: theirs is the
 * CPU's.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

static inline_always void lose_wait(void)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&unrecorded, &zero);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* is_in reports whether a return address is in one of the ranges. */
static inline_always int is_in(const volatile struct range *ranges, __u64 ip)
{
	for (int i = 0; i < MAX_RANGES; i++) {
		if (!ranges[i].end)
			break;
		if (ranges[i].start < ip && ip <= ranges[i].end)
			return 1;
	}
	return 0;
}

/*
 * cut_interrupt leaves only the frames of an interrupt, if one runs, in the CPU's stack: the other frames belong
 * to the interrupted code. It returns whether an interrupt runs. The verifier checks it separately, as it does
 * step.
 */
__attribute__((noinline)) int cut_interrupt(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct stack *s = bpf_map_lookup_elem(&stacks, &cpu);

	if (!s)
		return 0;
	for (int i = 0; i < MAX_KERNEL; i++) {
		if (i >= s->kernel || is_in(returns, s->frames[i]))
			break;
		if (is_in(interrupts, s->frames[i])) {
			s->kernel = i + 1;
			return 1;
		}
	}
	return 0;
}

/* cpu_time returns the CPU time of a task in ns. cpu_time is not inlined, because the callers' stack is full. */
static __attribute__((noinline)) __u64 cpu_time(struct task_struct *task)
{
	return read_field(task, se.sum_exec_runtime);
}

/* States of tasks, in include/linux/sched.h. */
#define EXITING 0xb0 /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
#define WAKING 0x200 /* TASK_WAKING: another CPU is making the task runnable */

/* state_of returns the state of a task, 0 if it is runnable. */
static __attribute__((noinline)) __u64 state_of(struct task_struct *task)
{
	__u64 state;

	if (field_exists(((struct task_struct___state *)0)->__state))
		state = read_field((struct task_struct___state *)task, __state);
	else
		state = read_field((struct task_struct___long_state *)task, state);
	return state & ~WAKING;
}

/*
 * set_waiter stores the current task, and its stack after the kernel's frames, and sends the stack. It fails for tasks
 * whose samples would belong to an unknown thread.
 */
static inline_always int set_waiter(void *ctx, struct wait *w, struct stack *s, __u32 slot, struct task_struct *task,
				    __u32 level, int in_user)
{
	w->tgid = bpf_get_current_pid_tgid() >> 32;
	w->exec = read_field(task, self_exec_id);
	w->end = END_NO_USER;
	w->copied = 0;
	w->pid = pid_of(read_field(task, group_leader), level);
	w->tid = pid_of(task, level);
	if (w->tid == NO_PID)
		return -1;
	if (user_stacks != USER_NONE && user_frames(ctx, s, slot, in_user, &w->end)) {
		w->copied = 1;
		copy_frames(ctx, s, slot);
	}
	w->stack = keep_stack(ctx, s, slot);
	return 0;
}

/* begin_wait stores that the current task waits from now on: for a CPU, if it is runnable. */
static inline_always void begin_wait(void *ctx, struct task_struct *task, __u32 level, int runnable)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *m = bpf_map_lookup_elem(&scratch, &cpu);
	struct stack *s = bpf_map_lookup_elem(&stacks, &cpu);
	struct wait *w;

	if (!m || !s)
		return;
	w = &m->begun;
	kernel_frames(ctx, s, ALL_KERNEL);
	if (set_waiter(ctx, w, s, cpu, task, level, 0))
		return;
	w->cpu_time = cpu_time(task);
	w->start = bpf_ktime_get_ns(); /* the thread's perf events still count the time of the walk */
	if (!runnable && !state_of(task))
		runnable = 1; /* it was woken during the walk */
	w->woken = runnable ? w->start : 0;
	if (bpf_map_update_elem(&waits, &tid, w, BPF_NOEXIST)) {
		lose_wait();
		bpf_map_update_elem(&waits, &tid, w, 0);
	}
}

/* add adds a short wait to the sum, and returns whether there is one. */
static inline_always int add(struct wait *w, struct sum_key *k)
{
	struct sum first = {w->duration, 1}, *s;

	k->stack = w->stack;
	k->goroutine = w->goroutine;
	k->pid = w->pid;
	k->tid = w->tid;
	k->tgid = w->tgid;
	k->end = w->end;
	k->runnable = w->woken != 0;
	k->waker = w->waker;
	s = bpf_map_lookup_elem(&sums, k);
	if (!s)
		return bpf_map_update_elem(&sums, k, &first, 0) == 0;
	__sync_fetch_and_add(&s->duration, w->duration);
	__sync_fetch_and_add(&s->waits, 1);
	return 1;
}

/* send reports a wait that ended, or adds a short one to its sum. */
static inline_always void send(void *ctx, struct scratch *m)
{
	struct wait *w = &m->ended;

	if (w->duration < threshold && !w->copied && add(w, &m->key))
		return;
	bpf_perf_event_output(ctx, &waits_to, BPF_F_CURRENT_CPU, w, sizeof(*w));
}

/* name_waker stores the current task as a waker, with the user stack. */
static inline_always void name_waker(void *ctx, struct waker *w, struct stack *s, __u32 slot, __u32 level, int in_user)
{
	struct task_struct *task = bpf_get_current_task();

	w->tgid = bpf_get_current_pid_tgid() >> 32;
	if (!w->tgid)
		return; /* the idle task */
	w->pid = pid_of(read_field(task, group_leader), level);
	w->tid = pid_of(task, level);
	w->exec = read_field(task, self_exec_id);
	if (w->tid == NO_PID || !is_target(PERF_EVENT_STATE_INACTIVE))
		bpf_get_current_comm(w->comm, sizeof(w->comm)); /* the recorder does not know the waker's mappings */
	else if (user_stacks != USER_NONE)
		user_frames(ctx, s, slot, in_user, &w->end);
}

static inline_always int wants_waker(struct wait *w)
{
	return with_wakers && !(long_wakers && w->duration < threshold);
}

/* find_waker stores the current task, or the interrupt that runs, as the waker of a wait, if that is recorded. */
static inline_always void find_waker(void *ctx, struct wait *w, __u32 level)
{
	struct waker *by = &w->waker;
	__u32 cpu = bpf_get_smp_processor_id();
	struct stack *s = bpf_map_lookup_elem(&stacks, &cpu);

	if (!s || !wants_waker(w))
		return;
	kernel_frames(ctx, s, ALL_KERNEL);
	by->known = 1;
	by->end = END_NO_USER;
	if (!cut_interrupt())
		name_waker(ctx, by, s, cpu, level, 0);
	by->stack = keep_stack(ctx, s, cpu);
}

/*
 * end_wait ends the wait of a task, if any: of a task that runs next, or of a task that ran since, because some
 * kernels do not report all switches. The time since the end of the wait is the CPU time that the task used since.
 * A wait that ends while nothing is recorded is dropped. The waker of a wait for a CPU is the task that leaves it.
 */
static __attribute__((noinline)) int end_wait(void *ctx, struct task_struct *task, struct control_value *c, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = read_field(task, pid);
	struct wait *at = bpf_map_lookup_elem(&waits, &tid), *w;
	struct scratch *m = bpf_map_lookup_elem(&scratch, &cpu);

	if (!at || !m)
		return 0;
	w = &m->ended;
	*w = *at;
	bpf_map_delete_elem(&waits, &tid);
	if (!c->on)
		return 0;
	w->duration = now - (w->woken ? w->woken : w->start);
	w->since = cpu_time(task) - w->cpu_time;
	if (w->since > w->duration)
		w->since = w->duration;
	w->duration -= w->since;
	if (w->woken && task != bpf_get_current_task() && bpf_get_current_pid_tgid())
		find_waker(ctx, w, c->level);
	send(ctx, m);
	return 0;
}

/* wanted reports whether waits of the current task are recorded. */
static inline_always int wanted(struct control_value *c, struct task_struct *task)
{
	if (!is_wanted_cpu() || is_recorder(c) || read_field(task, flags) & PF_KTHREAD)
		return 0;
	return is_target(PERF_EVENT_STATE_INACTIVE);
}

/*
 * The tracepoint's arguments: bool preempt, struct task_struct *prev, struct task_struct *next.
 * A wait ends before the walk of the next one begins: the scheduler counts that time as the next task's.
 */
SEC("raw_tp")
int on_switch(__u64 *args)
{
	struct task_struct *task = bpf_get_current_task();
	struct control_value *c = controls();
	__u64 now = bpf_ktime_get_ns(), state;
	int runnable;

	if (!c)
		return 0;
	end_wait(args, task, c, now);
	state = state_of(task);
	runnable = args[0] & 1 || !state;
	if (c->on && (runnable || !(state & EXITING)) && wanted(c, task))
		begin_wait(args, task, c->level, runnable);
	end_wait(args, (struct task_struct *)args[2], c, now);
	return 0;
}

/*
 * The tracepoint's argument: struct task_struct *woken, which is runnable from now on. Copies of user stacks, for the
 * recorder to walk, are made for waits only: the stack of a waker ends where tables are missing.
 */
SEC("raw_tp")
int on_waking(__u64 *args)
{
	struct task_struct *woken = (struct task_struct *)args[0];
	__u32 cpu = bpf_get_smp_processor_id(), tid = read_field(woken, pid);
	struct wait *at = bpf_map_lookup_elem(&waits, &tid), *w;
	struct scratch *m = bpf_map_lookup_elem(&scratch, &cpu);
	struct control_value *c = controls();

	if (!at || at->woken || !m || !c)
		return 0;
	w = &m->ended;
	*w = *at;
	if (c->on) {
		w->duration = bpf_ktime_get_ns() - w->start;
		find_waker(args, w, c->level);
		send(args, m);
	}
	at->woken = bpf_ktime_get_ns(); /* the task is put on a run queue after this program */
	return 0;
}

#include "goroutine.h"

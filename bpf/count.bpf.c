//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of perf's events, in place of samples: by event, thread and stack. One program for each type of event.
 * Tracepoints and probes use counters without samples; the counters of other events take samples, which the
 * programs drop (return 0).
 */
#define WALKS PER_RECORDER
#include "probe.h"
#include "stacks.h"

char _license[] SEC("license") = "GPL";

/* Set when the programs are loaded. */
const volatile __u32 event = 0;        /* index of the event */
const volatile __u32 kernel_bytes = 0; /* of kernel frames, at most */
const volatile __u32 user_ip = 0;      /* of the user stack, only the ip is wanted */

struct count_key { /* package bpf's CountKey */
	__u64 stack; /* hash of the stack */
	__u32 tgid, thread; /* in the initial PID namespace */
	__u32 exec;
	__u16 event;
	__u16 end; /* why the walk of the user stack ended */
};

struct count { /* package bpf's Count */
	struct count_key key;
	__u64 weight;   /* number of events */
	__u64 first;    /* CLOCK_MONOTONIC of the first one, in ns */
	__u32 pid, tid; /* in the recorder's PID namespace */
};

#define MAX_COUNTS 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct count_key);
	__type(value, struct count);
	__uint(max_entries, MAX_COUNTS);
} counts SEC(".maps") PER_RECORDER;

/* By CPU: the events for counts of stacks that the recorder walks. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} counts_to SEC(".maps") PER_RECORDER;

/* The programs' memory. */
struct work {
	struct count count;
	__u32 kernel_bytes, user_ip; /* the variables of these names */
};

/* By slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct work);
	__uint(max_entries, 1);
} current SEC(".maps") PER_RECORDER;

/* The number of events without space in the map, or without a free slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} uncounted SEC(".maps") PER_RECORDER;

static inline_always void lose(__u64 weight)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&uncounted, &zero);

	if (lost)
		__sync_fetch_and_add(lost, weight);
}

/* name_thread stores when a thread causes the event, and which thread the recorder sees. */
static inline_always void name_thread(struct count *c)
{
	struct task_struct *task = bpf_get_current_task();
	struct control_value *control = controls();

	c->first = bpf_ktime_get_ns();
	if (!control)
		return;
	c->pid = pid_of(read_field(task, group_leader), control->level);
	c->tid = pid_of(task, control->level);
}

/* add adds a slot's count to the count of the stack, and sends the stack if it is new. */
static inline_always void add(void *ctx, struct count *c, struct stack *s)
{
	struct count *sum = bpf_map_lookup_elem(&counts, &c->key);
	__u64 weight = c->weight;

	if (!sum) {
		send_stack(ctx, s);
		name_thread(c);
		c->weight = 0;
		bpf_map_update_elem(&counts, &c->key, c, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&counts, &c->key);
	}
	if (!sum) {
		lose(weight);
		return;
	}
	__sync_fetch_and_add(&sum->weight, weight);
}

/*
 * tracepoint_ip returns where a tracepoint is: perf's record begins with the address of these registers. It is not
 * inlined, because the walk needs the stack after it.
 */
static __attribute__((noinline)) __u64 tracepoint_ip(void *record)
{
	struct pt_regs *at = NULL, regs = {};

	bpf_probe_read_kernel(&at, sizeof(at), record);
	bpf_probe_read_kernel(&regs, sizeof(regs), at);
	return ip_of(&regs);
}

/* describe_event stores in the memory of a slot the values that differ between events. */
static inline_always struct work *describe_event(__u32 slot)
{
	struct work *w = bpf_map_lookup_elem(&current, &slot);

	if (w) {
		w->count.key.event = event;
		w->kernel_bytes = kernel_bytes;
		w->user_ip = user_ip;
	}
	return w;
}

/*
 * count_event counts events of the current task, which describe_event described. ip is not 0 in user mode, place is the
 * only kernel frame if just one is wanted; 0: unknown.
 */
static inline_always void count_event(void *ctx, struct work *work, __u32 slot, __u64 weight, __u64 ip, __u64 place)
{
	struct count *c = &work->count;
	__u64 bytes = work->kernel_bytes;
	struct stack *s = bpf_map_lookup_elem(&stacks, &slot);
	struct task_struct *task = bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid();
	enum end end = END_NO_USER;
	int copy = 0;

	if (!s)
		return;
	if (bytes > ALL_KERNEL)
		bytes = ALL_KERNEL;
	keep_whole(bytes); /* so that the verifier of 5.10 sees the limit */
	if (place && bytes == sizeof(__u64)) {
		s->frames[0] = place;
		s->kernel = 1;
		s->user = s->interpreted = 0;
	} else {
		kernel_frames(ctx, s, ip ? 0 : bytes);
	}
	if (user_stacks != USER_NONE) {
		copy = user_frames(ctx, s, slot, ip != 0, &end);
		if (copy)
			copy_frames(ctx, s, slot);
	} else if (work->user_ip && ip) {
		s->frames[0] = ip;
		s->user = 1;
	}
	c->key.tgid = id >> 32;
	c->key.thread = id;
	c->key.exec = read_field(task, self_exec_id);
	c->key.end = end;
	c->weight = weight;
	hash_stack(slot);
	c->key.stack = s->hash;
	if (!copy) {
		add(ctx, c, s);
		return;
	}
	send_stack(ctx, s);
	name_thread(c);
	if (bpf_perf_event_output(ctx, &counts_to, BPF_F_CURRENT_CPU, c, sizeof(*c)))
		lose(weight);
}

/* The thread that caused the last counted event on a CPU. */
struct recent {
	struct task_struct *task;
	__u64 id;    /* pid and tid */
	__u64 until; /* in jiffies; until then, it is counted without reading the task's perf events again */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct recent);
	__uint(max_entries, 1);
} recent SEC(".maps") PER_RECORDER;

#define TRUST_JIFFIES 2

/*
 * is_recorded_task reports whether the current task is recorded. The result is reused for some milliseconds,
 * because reading the task's perf events takes long.
 */
static inline_always int is_recorded_task(void)
{
	struct task_struct *task = bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_jiffies64();
	__u32 zero = 0;
	struct recent *r = bpf_map_lookup_elem(&recent, &zero);

	if (!r)
		return 0;
	if (r->task == task && r->id == id && now < r->until)
		return 1;
	if (!recorded(PERF_EVENT_STATE_INACTIVE))
		return 0;
	r->task = task;
	r->id = id;
	r->until = now + TRUST_JIFFIES;
	return 1;
}

/* is_recorded reports whether an event at a tracepoint or probe belongs to the recording. */
static inline_always int is_recorded(void)
{
	struct control_value *c = controls();

	if (!c || !c->on || is_recorder(c))
		return 0;
	return per_task ? is_recorded_task() : is_wanted_cpu() && in_cgroup();
}

SEC("perf_event")
int count_sample(struct bpf_perf_event_data *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();
	struct control_value *c = controls();
	int in_user = in_user_mode(&ctx->regs);
	__u64 ip = ip_of(&ctx->regs);
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct work *work = describe_event(slot);

	if (!c || !c->on || !w || !work)
		return 0;
	if (in_user && user_stacks == USER_BY_TABLES)
		keep_regs(w, &ctx->regs);
	count_event(ctx, work, slot, ctx->sample_period, in_user ? ip : 0, in_user ? 0 : ip);
	return 0;
}

/* count_here counts an event at a tracepoint, where the task is in the kernel. */
static inline_always void count_here(void *ctx, struct work *work, __u32 slot)
{
	if (work)
		count_event(ctx, work, slot, 1, 0, work->kernel_bytes == sizeof(__u64) ? tracepoint_ip(ctx) : 0);
}

SEC("tracepoint")
int count_tracepoint(void *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();

	if (is_recorded())
		count_here(ctx, describe_event(slot), slot);
	return 1;
}

/*
 * The walk takes the verifier long, for each program again, and there may be hundreds of tracepoints. So the program
 * of each only describes the event, and continues with tracepoint_counts, by a tail call. If the kernel does not
 * support that (selected.h), count_tracepoint does both.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} counts_tracepoints SEC(".maps") PER_RECORDER;

SEC("tracepoint")
int tracepoint_begins(void *ctx)
{
	if (!is_recorded())
		return 1;
	describe_event(bpf_get_smp_processor_id());
	bpf_tail_call(ctx, &counts_tracepoints, 0);
	lose(1);
	return 1;
}

SEC("tracepoint")
int tracepoint_counts(void *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();

	count_here(ctx, bpf_map_lookup_elem(&current, &slot), slot);
	return 1;
}

/* A kprobe runs in the kernel, a uprobe in user mode. */
SEC("kprobe")
int count_probe(struct pt_regs *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();
	int in_user = in_user_mode(ctx);
	struct work *work;
	struct walk *w;

	if (!is_recorded())
		return 1;
	w = in_user ? take_walk(&slot) : bpf_map_lookup_elem(&walks, &slot);
	if (!w) {
		lose(1);
		return 1;
	}
	if (in_user && user_stacks == USER_BY_TABLES)
		keep_regs(w, ctx);
	work = describe_event(slot);
	if (work)
		count_event(ctx, work, slot, 1, in_user ? ip_of(ctx) : 0, 0);
	if (in_user)
		leave_walk(w);
	stay_on_stack(ctx);
	return 1;
}

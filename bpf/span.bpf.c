//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of spans: the time between two events with the same key. The program at the
 * first event stores the time and the fields, the program at the second one makes the
 * sample. There are spans of system calls, whose key is the task, of two tracepoints, and of
 * calls of functions.
 */
#include "histogram.h"
#include "probe.h"

char _license[] SEC("license") = "GPL";

/* Set when the programs are loaded. */
const volatile __u64 min_duration = 0; /* ns: shorter spans are not sampled */
const volatile __s64 no_return[4] = {-1, -1, -1, -1}; /* system calls that never return */

#define COMPAT (1LL << 32) /* of numbers: package fields: CompatSyscall */

struct syscall {
	struct span span;
	__s64 id;
	__u64 args[6];
	__s64 ret;
	__u64 ip; /* where user mode continues: in the caller, and after exec in the new program */
};

struct task_calls {
	struct syscall last;
	__u64 enabled; /* the task's event was enabled at the end of a system call */
};

/* The system calls of tasks, in place of a sample: a task's element stays until it exits. */
#define MAX_TASKS 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct task_calls);
	__uint(max_entries, MAX_TASKS);
} syscalls SEC(".maps");

ARRAY(span_counts, struct span_counts);

static inline_always struct span_counts *counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&span_counts, &zero);
}

/* count counts a span in the histogram of key. */
static inline_always void count(struct bucket_key *key, struct span *span, int failed)
{
	struct span_counts *n = counts();

	if (is_counted() && !count_duration(key, span, failed) && n)
		__sync_fetch_and_add(&n->uncounted, 1);
}

/* elapsed returns the ns from start to now: 0 if the kernel's clock, read on two CPUs, ran backwards. */
static inline_always __u64 elapsed(__u64 start, __u64 now)
{
	return now > start ? now - start : 0;
}

/* add_task returns a new element for a task of the recording, NULL for others. */
static inline_always struct task_calls *add_task(__u64 task)
{
	struct task_calls empty = {};
	struct span_counts *n = counts();

	/* The task's event may be disabled until exec, which is a system call itself. */
	if (!sampled((void *)task) || !is_target(PERF_EVENT_STATE_OFF))
		return NULL;
	if (bpf_map_update_elem(&syscalls, &task, &empty, BPF_NOEXIST) && n)
		__sync_fetch_and_add(&n->full, 1);
	return bpf_map_lookup_elem(&syscalls, &task);
}

SEC("raw_tp")
int syscall_begins(__u64 *args)
{
	__u64 task = (__u64)bpf_get_current_task();
	struct control_value *c = controls();
	struct task_calls *t;
	struct pt_regs regs;
	int compat;

	if (!c || !c->on || is_recorder(c))
		return 0;
	compat = in_compat_syscall((void *)task);
	t = bpf_map_lookup_elem(&syscalls, &task);
	if (!t)
		t = add_task(task);
	if (!t)
		return 0;
	if (!histograms || filtered) {
		if (bpf_probe_read_kernel(&regs, sizeof(regs), (void *)args[0]))
			return 0;
		get_syscall_args(t->last.args, &regs, compat);
	}
	t->last.id = args[1];
	if (compat)
		t->last.id |= COMPAT;
	t->last.span.start = bpf_ktime_get_ns();
	return 0;
}

/* use_syscall makes a sample of a completed system call, or counts it. */
static inline_always void use_syscall(__u64 *args, struct syscall *s)
{
	__u64 size = sizeof(*s);

	keep_whole(size); /* so that the compiler passes it to fetch, which does not use it yet */
	if (!histograms || filtered) {
		s->ip = read_user_ip((struct pt_regs *)args[0]);
		begin(&s->span.common, raw_id);
		if (!fetch(args, (__u8 *)s, size))
			return;
	}
	if (histograms) {
		struct bucket_key key = {.thread = bpf_get_current_pid_tgid(), .words = {s->id}};

		count(&key, &s->span, s->ret < 0 && s->ret >= -MAX_ERRNO);
		return;
	}
	walk_first(args);
	put(args, s, sizeof(*s));
}

SEC("raw_tp")
int syscall_ends(__u64 *args)
{
	__u64 now = bpf_ktime_get_ns(), task = (__u64)bpf_get_current_task();
	struct task_calls *t = bpf_map_lookup_elem(&syscalls, &task);

	if (!t || !t->last.span.start)
		return 0;
	t->last.span.duration = elapsed(t->last.span.start, now);
	t->last.ret = args[1];
	if (!t->enabled)
		t->enabled = wanted(raw_id);
	if (t->last.span.duration >= min_duration && t->enabled && is_enabled())
		use_syscall(args, &t->last);
	t->last.span.start = 0;
	return 0;
}

static inline_always int never_returns(__s64 id)
{
	return id == no_return[0] || id == no_return[1] || id == no_return[2] || id == no_return[3];
}

/* syscall_task_exits removes the task's element: another task may get the same address. */
SEC("raw_tp")
int syscall_task_exits(void *ctx)
{
	__u64 task = (__u64)bpf_get_current_task();
	struct task_calls *t = bpf_map_lookup_elem(&syscalls, &task);
	struct span_counts *n = counts();

	if (!t)
		return 0;
	if (n && t->last.span.start && !never_returns(t->last.id))
		__sync_fetch_and_add(&n->exited, 1);
	bpf_map_delete_elem(&syscalls, &task);
	return 0;
}

/*
 * Spans between two tracepoints, with a common key: some fields of the tracepoints, or the task. The programs run
 * from perf's function at the tracepoint, one at a time on each CPU.
 */
#define MAX_RECORD 256 /* bytes of a tracepoint's fields */
#define MAX_OPEN 16384

const volatile __u32 num_keys = 0; /* 0: the key is the task */
const volatile __u64 group_by[MAX_KEYS] = {}; /* masks of the key's words, for histograms */
const volatile struct key_field begin_keys[MAX_KEYS] = {}, end_keys[MAX_KEYS] = {};
const volatile __u32 begin_size = 0, end_size = 0; /* bytes of the fields, without the common ones */

struct key {
	__u64 words[MAX_KEYS];
};

struct pair {
	struct span span;
	__u64 start_pid; /* thread at the start */
	__u8 begin[MAX_RECORD], end[MAX_RECORD];
	/* The following field is not in the sample. */
	struct key key; /* of spans of functions */
};

#define PAIR_HEAD __builtin_offsetof(struct pair, begin) /* bytes before the fields */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct key);
	__type(value, struct pair);
	__uint(max_entries, MAX_OPEN);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct pair);
	__uint(max_entries, 1);
} new_pair SEC(".maps"), ended_pair SEC(".maps");

/* get_key reads the key from a tracepoint's record. */
static inline_always void get_key(struct key *k, void *record, const volatile struct key_field *fields)
{
	if (!num_keys)
		k->words[0] = (__u64)bpf_get_current_task();
#pragma unroll
	for (int i = 0; i < MAX_KEYS; i++) {
		if (i < num_keys)
			bpf_probe_read_kernel(&k->words[i], fields[i].size & 15, record + fields[i].at);
	}
}

SEC("tracepoint")
int pair_begins(void *record)
{
	struct control_value *c = controls();
	struct span_counts *n = counts();
	struct key key = {};
	__u32 zero = 0;
	struct pair *p = bpf_map_lookup_elem(&new_pair, &zero);

	if (!p || !n || !c || is_recorder(c) || !wanted(raw_id))
		return 1;
	get_key(&key, record, begin_keys);
	p->start_pid = (__u32)bpf_get_current_pid_tgid();
	bpf_probe_read_kernel(p->begin, begin_size & (MAX_RECORD - 1), record + sizeof(struct common));
	p->span.start = bpf_ktime_get_ns();
	if (bpf_map_lookup_elem(&pairs, &key))
		__sync_fetch_and_add(&n->again, 1);
	if (bpf_map_update_elem(&pairs, &key, p, 0))
		__sync_fetch_and_add(&n->full, 1);
	return 1;
}

#define ENOENT 2

/*
 * take_pair moves a span out of the map. It fails if there is none, and if another span with this key begins
 * meanwhile: then the kernel may have reused the element while it was copied. A span that the kernel cannot
 * delete, for example because a lock takes too long, was still copied.
 */
static __attribute__((noinline)) int take_pair(struct pair *to, struct key *key)
{
	struct pair *open = bpf_map_lookup_elem(&pairs, key), *still;
	struct span_counts *n = counts();

	if (!open || !n)
		return -1;
	bpf_probe_read_kernel(to, sizeof(*to), open);
	still = bpf_map_lookup_elem(&pairs, key);
	if (!still || still != open || still->span.start != to->span.start) {
		__sync_fetch_and_add(&n->again, 1);
		return -1;
	}
	return bpf_map_delete_elem(&pairs, key) == -ENOENT ? -1 : 0;
}

/* count_pair counts a span in the histogram of the thread, or of some of the key's fields. */
static inline_always void count_pair(struct key *key, struct span *span)
{
	struct bucket_key b = {};

	if (!num_keys)
		b.thread = bpf_get_current_pid_tgid();
#pragma unroll
	for (int i = 0; i < MAX_KEYS; i++) {
		if (i < num_keys)
			b.words[i] = key->words[i] & group_by[i];
	}
	count(&b, span, 0);
}

SEC("tracepoint")
int pair_ends(void *record)
{
	__u64 now = bpf_ktime_get_ns(), size = PAIR_HEAD;
	struct key key = {};
	struct pair *p;
	__u32 zero = 0;

	get_key(&key, record, end_keys);
	p = bpf_map_lookup_elem(&ended_pair, &zero);
	if (!p || take_pair(p, &key))
		return 1;
	p->span.duration = elapsed(p->span.start, now);
	size += begin_size + end_size;
	if (p->span.duration >= min_duration && is_enabled()) {
		begin(&p->span.common, raw_id);
		bpf_probe_read_kernel((void *)p->begin + (begin_size & (MAX_RECORD - 1)), end_size & (MAX_RECORD - 1),
				      record + sizeof(struct common));
		if (fetch(record, (__u8 *)p, size)) {
			if (histograms) {
				count_pair(&key, &p->span);
				return 1;
			}
			walk_first(record);
			keep_whole(size);
			if (size <= sizeof(*p))
				put(record, p, size);
		}
	}
	return 1;
}

/* pair_task_exits removes the element of a task: another task may get the same address. */
SEC("raw_tp")
int pair_task_exits(void *ctx)
{
	struct key key = {.words = {(__u64)bpf_get_current_task()}};
	struct span_counts *n = counts();

	if (!bpf_map_delete_elem(&pairs, &key) && n)
		__sync_fetch_and_add(&n->exited, 1);
	return 0;
}

/*
 * Spans of functions, of the kernel and of programs: from the entry of a call to its return. There is a stack of
 * unfinished calls for each thread; each goroutine, in Go programs.
 */
#define MAX_DEPTH 64 /* the kernel's own limit of nested return probes is the same */
#define MAX_CALLS 16384
#define MAX_THREADS 16384
#define NUM_ARGS 6

/* Set when the programs are loaded. */
const volatile __u32 own_function = 0; /* the function's event; 0: the cookie contains it */
const volatile __u32 by_entry = 0;     /* the map entries contains it: the function is unknown at the return */
const volatile __u32 in_kernel = 0;    /* functions of the kernel */
const volatile __u32 in_go = 0;        /* functions of a Go program */
const volatile __u32 go_number = 0;    /* offset of a goroutine's number in its struct g; 0: unknown */
const volatile __u32 no_frames = 0;    /* sp is unknown at the return */
const volatile __u32 at_ret = 0;       /* the program at the end runs before the return instruction */

struct call_key {
	__u64 task;  /* or goroutine */
	__u32 tgid;  /* of the goroutine */
	__u16 kind;  /* there is a second stack for the kernel's calls */
	__u16 depth; /* of threads: 0 */
};

struct thread_calls {
	__u32 depth;   /* unfinished calls */
	__u32 deepest; /* elements of the map calls */
};

struct call {
	struct span span;
	__u64 ip; /* of the function, if it is a program's */
	__u64 args[NUM_ARGS];
	__u64 retval;
	__u64 goroutine; /* its number, 0 if it is unknown */
	/* The following fields are not in the sample. */
	__u64 frame;    /* sp at the entry; 0: unknown */
	__u64 function; /* event of the function */
};

#define CALL_SIZE (sizeof(struct call) - 2 * sizeof(__u64))

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct call_key);
	__type(value, struct thread_calls);
	__uint(max_entries, MAX_THREADS);
} threads SEC(".maps") PER_RECORDER;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct call_key);
	__type(value, struct call);
	__uint(max_entries, MAX_CALLS);
} calls SEC(".maps") PER_RECORDER;

/* The events of functions by address, for kernels without cookies. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 1);
} entries SEC(".maps");

/* function_of returns the event of the function: 0 if it is unknown. */
static inline_always __u32 function_of(struct pt_regs *ctx, int returned)
{
	__u64 ip, *event;

	if (!by_entry)
		return own_function ? own_function : bpf_get_attach_cookie(ctx);
	if (returned)
		return 0;
	ip = probed_ip(ctx);
	event = bpf_map_lookup_elem(&entries, &ip);
	return event ? *event : 0;
}

/*
 * get_caller identifies the stack of calls, and returns the frame: the sp at the function's entry. Go moves
 * stacks: there the frame is counted from the end of the goroutine's stack, so that callees' frames are lower, as
 * elsewhere.
 */
static inline_always __u64 get_caller(struct call_key *key, struct pt_regs *ctx, int returned)
{
	__u64 frame = returned && !at_ret ? returned_sp(ctx) : entry_sp(ctx), end = 0;

	key->kind = in_kernel;
	if (!in_go) {
		key->task = (__u64)bpf_get_current_task();
		return no_frames ? 0 : frame;
	}
	key->task = current_goroutine(ctx);
	key->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_probe_read_user(&end, sizeof(end), (void *)(key->task + 8)); /* runtime.g's stack.hi */
	return frame - end;
}

/* open_call returns the element of a thread's innermost call. */
static inline_always struct call *open_call(struct thread_calls *t, struct call_key *key)
{
	key->depth = t->depth - 1;
	return bpf_map_lookup_elem(&calls, key);
}

/*
 * by_jump reports whether a function begins by a jump, at the end of another one, whose frame it
 * takes over: then it returns to the trampoline of the return probe. If this cannot be seen
 * there, the same function cannot jump to itself.
 */
static inline_always int by_jump(struct pt_regs *ctx, struct call *top, __u64 function)
{
	if (in_kernel || at_ret)
		return top->function != function;
	return !called(return_address(ctx));
}

/*
 * drop_left removes the calls that never returned, when a new call begins in the same frame or in a caller's
 * frame. The kernel forgets return probes by the same rule.
 */
static __attribute__((noinline)) int drop_left(struct pt_regs *ctx, struct thread_calls *t, struct call_key *key,
					       __u64 function, __u64 frame)
{
	struct span_counts *n = counts();

	for (int i = 0; i < MAX_DEPTH; i++) {
		struct call *c;

		if (!t->depth || !n)
			break;
		c = open_call(t, key);
		if (c && (c->frame > frame || (c->frame == frame && (no_frames || by_jump(ctx, c, function)))))
			break;
		if (c)
			c->span.start = 0;
		t->depth--;
		if (!in_go || !c || c->frame != frame || c->function != function) /* Go begins again on a larger stack */
			__sync_fetch_and_add(&n->left, 1);
	}
	return 0;
}

/* add_thread returns a new element for a thread of the recording, NULL for others. */
static inline_always struct thread_calls *add_thread(struct call_key *key)
{
	struct thread_calls empty = {};
	struct span_counts *n = counts();

	if (!wanted(raw_id))
		return NULL;
	if (bpf_map_update_elem(&threads, key, &empty, BPF_NOEXIST) && n)
		__sync_fetch_and_add(&n->full, 1);
	return bpf_map_lookup_elem(&threads, key);
}

/* push_call returns the element for another call of a thread. */
static __attribute__((noinline)) struct call *push_call(struct thread_calls *t, struct call_key *key)
{
	struct call empty = {}, *c;
	struct span_counts *n = counts();

	if (!n)
		return NULL;
	if (t->depth >= MAX_DEPTH) {
		__sync_fetch_and_add(&n->deep, 1);
		return NULL;
	}
	key->depth = t->depth;
	c = bpf_map_lookup_elem(&calls, key);
	if (!c) {
		if (bpf_map_update_elem(&calls, key, &empty, BPF_NOEXIST))
			__sync_fetch_and_add(&n->full, 1);
		c = bpf_map_lookup_elem(&calls, key);
	}
	if (!c)
		return NULL;
	t->depth++;
	if (t->depth > t->deepest)
		t->deepest = t->depth;
	return c;
}

/* begin_call returns 0 if the program is to run at the return too. */
static __attribute__((noinline)) int begin_call(struct pt_regs *ctx)
{
	__u64 frame, function = function_of(ctx, 0);
	struct control_value *control = controls();
	struct call_key key = {};
	struct thread_calls *t;
	struct call *c;

	if (!function || !control || !control->on || is_recorder(control))
		return 1;
	frame = get_caller(&key, ctx, 0);
	t = bpf_map_lookup_elem(&threads, &key);
	if (!t)
		t = add_thread(&key);
	if (!t)
		return 1;
	if (t->depth)
		drop_left(ctx, t, &key, function, frame);
	c = push_call(t, &key);
	if (!c)
		return 1;
	c->frame = frame;
	c->function = function;
	c->ip = in_kernel ? 0 : ip_of(ctx);
	c->goroutine = in_go && go_number ? read_user(key.task + go_number) : 0;
	get_call_args(c->args, ctx, in_go);
	c->span.start = bpf_ktime_get_ns();
	return 0;
}

/*
 * take_call removes the innermost call of a function, and the calls that this call made and that did not return.
 * It returns NULL if the call began before the recording.
 */
static __attribute__((noinline)) struct call *take_call(struct thread_calls *t, struct call_key *key,
							__u64 function, __u64 frame)
{
	struct span_counts *n = counts();

	for (__u32 i = 0; i < MAX_DEPTH; i++) {
		struct call *c;

		if (i >= t->depth)
			break;
		key->depth = t->depth - 1 - i;
		c = bpf_map_lookup_elem(&calls, key);
		if (!c || c->frame > frame)
			break;
		if ((function && c->function != function) || c->frame != frame)
			continue;
		t->depth -= i + 1;
		if (i && n)
			__sync_fetch_and_add(&n->left, i);
		return c;
	}
	return NULL;
}

/* walk_call writes the user stack of the next sample. */
static inline_always void walk_call(struct pt_regs *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();
	struct walk *w;

	if (in_kernel) {
		walk_first(ctx);
		return;
	}
	if (!walk_user)
		return;
	w = take_walk(&slot);
	if (!w)
		return;
	keep_regs(w, ctx);
	start(ctx, w, slot, 1);
	leave_walk(w);
}

/* use_call makes a sample of a completed call, or counts it. */
static inline_always void use_call(struct pt_regs *ctx, struct call *c)
{
	if (histograms) {
		struct bucket_key key = {.thread = bpf_get_current_pid_tgid(), .words = {c->function}};

		count(&key, &c->span, 0);
		return;
	}
	walk_call(ctx);
	put(ctx, c, CALL_SIZE);
}

static inline_always void end_call(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), function = function_of(ctx, 1), frame;
	struct call_key key = {};
	struct thread_calls *t;
	struct call *c;

	frame = get_caller(&key, ctx, 1);
	t = bpf_map_lookup_elem(&threads, &key);
	if (!t || !t->depth)
		return;
	c = take_call(t, &key, function, frame);
	if (!c)
		return;
	c->span.duration = elapsed(c->span.start, now);
	c->retval = returned_value(ctx);
	if (c->span.duration >= min_duration && is_enabled() && !is_paused(c->function)) {
		begin(&c->span.common, c->function);
		if (fetch((__u64 *)ctx, (__u8 *)c, CALL_SIZE))
			use_call(ctx, c);
	}
	c->span.start = 0;
}

SEC("kprobe")
int call_begins(struct pt_regs *ctx)
{
	begin_call(ctx);
	stay_on_stack(ctx);
	return 0;
}

SEC("kprobe")
int call_ends(struct pt_regs *ctx)
{
	end_call(ctx);
	stay_on_stack(ctx);
	return 0;
}

/* FTRACE_ENTRY limits the bytes from a function's start to the end of the call by which ftrace runs programs. */
#define FTRACE_ENTRY 16

/*
 * A session's program runs at the entry, and if it returns 0 there, at the return of the same call, where ip is in
 * the caller. The kernel's own answer, bpf_session_is_return, takes other parameters from Linux 7.0 on.
 */
SEC("kprobe.session")
int call_both(struct pt_regs *ctx)
{
	if (ip_of(ctx) - bpf_get_func_ip(ctx) < FTRACE_ENTRY)
		return begin_call(ctx);
	end_call(ctx);
	return 0;
}

/* drop_calls removes the stack of a task, and returns how many calls the stack contained. */
static __attribute__((noinline)) __u64 drop_calls(__u64 task)
{
	struct call_key key = {.task = task, .kind = in_kernel};
	struct thread_calls *t = bpf_map_lookup_elem(&threads, &key);
	__u64 depth, deepest;

	if (!t)
		return 0;
	depth = t->depth;
	deepest = t->deepest;
	bpf_map_delete_elem(&threads, &key);
	for (__u32 i = 0; i < MAX_DEPTH; i++) {
		if (i >= deepest)
			break;
		key.depth = i;
		bpf_map_delete_elem(&calls, &key);
	}
	return depth;
}

/* call_task_exits runs when a task exits or, for functions of the kernel, is freed. */
SEC("raw_tp")
int call_task_exits(__u64 *args)
{
	struct span_counts *n = counts();
	__u64 dropped = drop_calls(args[0]);

	if (n && dropped)
		__sync_fetch_and_add(&n->exited, dropped);
	return 0;
}

SEC("raw_tp")
int call_task_execs(__u64 *args)
{
	struct span_counts *n = counts();
	__u64 dropped = drop_calls(args[0]);

	if (n && dropped)
		__sync_fetch_and_add(&n->execs, dropped);
	return 0;
}

/*
 * Spans between calls of two functions of a program: pairs, whose fields are the functions' arguments. A task may be
 * preempted in these programs: they work in the map.
 */
struct probe_record {
	struct common common;
	__u64 args[NUM_ARGS];
	__u64 goroutine;
};

ARRAY(no_pair, struct pair); /* zeros */

static inline_always void read_args(struct probe_record *r, struct pt_regs *ctx)
{
	get_call_args(r->args, ctx, in_go);
	r->goroutine = in_go && go_number ? read_user(current_goroutine(ctx) + go_number) : 0;
}

static __attribute__((noinline)) int begin_probed(struct pt_regs *ctx)
{
	struct control_value *c = controls();
	struct span_counts *n = counts();
	struct probe_record r = {};
	struct key key = {};
	__u32 zero = 0;
	struct pair *p = bpf_map_lookup_elem(&no_pair, &zero);

	if (!p || !n || !c || !c->on || is_recorder(c) || !wanted(raw_id))
		return 0;
	read_args(&r, ctx);
	get_key(&key, &r, begin_keys);
	if (bpf_map_lookup_elem(&pairs, &key))
		__sync_fetch_and_add(&n->again, 1);
	if (bpf_map_update_elem(&pairs, &key, p, 0))
		__sync_fetch_and_add(&n->full, 1);
	p = bpf_map_lookup_elem(&pairs, &key);
	if (!p)
		return 0;
	p->start_pid = (__u32)bpf_get_current_pid_tgid();
	bpf_probe_read_kernel(p->begin, begin_size & (MAX_RECORD - 1), &r.args);
	p->span.start = bpf_ktime_get_ns();
	return 0;
}

/* use_probed makes a sample of a span, or counts it. */
static inline_always void use_probed(struct pt_regs *ctx, struct pair *p)
{
	__u64 size = PAIR_HEAD + begin_size + end_size;

	begin(&p->span.common, raw_id);
	if (!fetch((__u64 *)ctx, (__u8 *)p, size))
		return;
	if (histograms) {
		count_pair(&p->key, &p->span);
		return;
	}
	walk_call(ctx);
	keep_whole(size);
	if (size <= sizeof(*p))
		put(ctx, p, size);
}

/* end_probed returns the span that ends, NULL if there is none. */
static __attribute__((noinline)) struct pair *end_probed(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct probe_record r = {};
	struct key key = {};
	struct pair *p;

	read_args(&r, ctx);
	get_key(&key, &r, end_keys);
	p = bpf_map_lookup_elem(&pairs, &key);
	if (!p || !p->span.start)
		return NULL;
	p->key = key;
	p->span.duration = elapsed(p->span.start, now);
	bpf_probe_read_kernel((void *)p->begin + (begin_size & (MAX_RECORD - 1)), end_size & (MAX_RECORD - 1), &r.args);
	return p;
}

SEC("kprobe")
int probed_begins(struct pt_regs *ctx)
{
	begin_probed(ctx);
	stay_on_stack(ctx);
	return 0;
}

SEC("kprobe")
int probed_ends(struct pt_regs *ctx)
{
	struct pair *p = end_probed(ctx);

	if (p) {
		if (p->span.duration >= min_duration && is_enabled())
			use_probed(ctx, p);
		if (bpf_map_lookup_elem(&pairs, &p->key) == p) /* not if another span with this key has begun */
			bpf_map_delete_elem(&pairs, &p->key);
	}
	stay_on_stack(ctx);
	return 0;
}

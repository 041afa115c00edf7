/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits of goroutines: from when one parks (runtime.gopark) until a thread runs it again (runtime.execute). From when
 * it is made ready (runtime.ready, or runtime.injectglist for what the network poller finds) it waits for a thread, as
 * it does when it is preempted (runtime.goschedImpl), or returns from a system call and no thread may run it
 * (runtime.exitsyscallNoP).
 *
 * The programs run at the entries of these functions of Go programs, or directly after the functions have compared the
 * stack's limit. Their cookie is struct g's offsets.
 */
#ifndef GOROUTINE_H
#define GOROUTINE_H

/* Set when the programs are loaded. */
const volatile __u32 with_cookies = 0; /* the kernel has them */

struct goroutine_key {
	__u64 g; /* address of the struct g */
	__u32 tgid, unused;
};

/* The goroutines that wait now. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct goroutine_key);
	__type(value, struct wait);
	__uint(max_entries, MAX_WAITS);
} parked SEC(".maps");

/* By tgid: when a thread of the process ended last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 4096);
} exits SEC(".maps");

#define MAX_LIST 64 /* goroutines that are made ready at once */

/* Bits of the cookie with the offsets of fields. */
#define GOID 0  /* goid, which schedlink follows */
#define GOBP 16 /* sched.bp */

/* field_of reads a field of a goroutine, and so many bytes after it, 0 if its offset is unknown. */
static inline_always __u64 field_of(struct pt_regs *ctx, __u64 g, int field, __u64 after)
{
	__u64 offset = with_cookies ? bpf_get_attach_cookie(ctx) >> field & 0xffff : 0;

	return offset ? read_user(g + offset + after) : 0;
}

/* argument returns the first argument of a function of Go. */
static inline_always __u64 argument(struct pt_regs *ctx)
{
	__u64 args[6];

	get_call_args(args, ctx, 1);
	return args[0];
}

static inline_always void clear_stack(struct stack *s)
{
	s->kernel = s->user = s->interpreted = s->generation = 0;
}

/*
 * park stores that a goroutine waits from now on: for a thread, if it is runnable. The walk contains the registers of
 * its stack, on which the thread does not run then.
 */
static __attribute__((noinline)) int park(struct pt_regs *ctx, __u64 g, int runnable, __u32 slot, __u32 level)
{
	struct goroutine_key key = {g, bpf_get_current_pid_tgid() >> 32};
	struct scratch *m = bpf_map_lookup_elem(&scratch, &slot);
	struct stack *s = bpf_map_lookup_elem(&stacks, &slot);

	if (!m || !s)
		return 0;
	clear_stack(s);
	if (set_waiter(ctx, &m->begun, s, slot, bpf_get_current_task(), level, runnable ? AWAY : AT_ENTRY))
		return 0;
	m->begun.goroutine = field_of(ctx, g, GOID, 0) ?: g;
	m->begun.start = bpf_ktime_get_ns();
	m->begun.woken = runnable ? m->begun.start : 0;
	if (bpf_map_update_elem(&parked, &key, &m->begun, 0))
		lose_wait();
	return 0;
}

/* keep_sched stores the registers with which a goroutine continues. */
static inline_always void keep_sched(struct pt_regs *ctx, struct walk *walk, __u64 g)
{
	__builtin_memset(walk->regs, 0, sizeof(walk->regs));
	walk->regs[SP] = read_user(g + GO_SCHED_SP);
	walk->regs[IP] = read_user(g + GO_SCHED_PC);
	walk->regs[FP] = field_of(ctx, g, GOBP, 0);
	walk->regs[GO_G] = g;
	walk->compat = 0;
}

/* find_readier stores the current task, which makes a goroutine ready, as the waker. */
static inline_always void find_readier(struct pt_regs *ctx, struct wait *w, struct walk *walk, __u32 slot, __u32 level)
{
	struct stack *s = bpf_map_lookup_elem(&stacks, &slot);
	struct waker *by = &w->waker;

	if (!s || !wants_waker(w))
		return;
	keep_regs(walk, ctx);
	clear_stack(s);
	by->known = 1;
	by->end = END_NO_USER;
	name_waker(ctx, by, s, slot, level, AT_ENTRY);
	by->stack = keep_stack(ctx, s, slot);
}

/* wait_of returns the wait of a goroutine of this process, NULL if there is none. */
static inline_always struct wait *wait_of(__u64 g)
{
	struct goroutine_key key = {g, bpf_get_current_pid_tgid() >> 32};

	return bpf_map_lookup_elem(&parked, &key);
}

/* make_ready reports the wait of a goroutine, which waits for a thread from now on. */
static __attribute__((noinline)) int make_ready(struct pt_regs *ctx, __u64 g, struct walk *walk, __u32 slot, __u32 level)
{
	struct scratch *m = bpf_map_lookup_elem(&scratch, &slot);
	struct wait *at = wait_of(g);
	__u64 now = bpf_ktime_get_ns();

	if (!at || at->woken || !m)
		return 0;
	m->ended = *at;
	m->ended.duration = now - at->start;
	if (walk)
		find_readier(ctx, &m->ended, walk, slot, level);
	send(ctx, m);
	at->woken = now;
	return 0;
}

/* run reports the rest of the wait of a goroutine, which a thread runs from now on. */
static inline_always void run(struct pt_regs *ctx, struct control_value *c, __u32 slot)
{
	struct goroutine_key key = {argument(ctx), bpf_get_current_pid_tgid() >> 32};
	struct wait *at = bpf_map_lookup_elem(&parked, &key);
	struct scratch *m = bpf_map_lookup_elem(&scratch, &slot);

	if (!at || !m)
		return;
	m->ended = *at;
	bpf_map_delete_elem(&parked, &key);
	if (!c->on)
		return;
	m->ended.duration = bpf_ktime_get_ns() - (m->ended.woken ? m->ended.woken : m->ended.start);
	send(ctx, m);
}

/*
 * AT_GOROUTINES defines a program that does something with a slot, on a condition, where a thread of Go calls a
 * function. Waits without a free slot are not recorded, and counted.
 */
#define AT_GOROUTINES(name, condition, action)                                     \
	SEC("kprobe")                                                              \
	int name(struct pt_regs *ctx)                                              \
	{                                                                          \
		struct control_value *c = controls();                              \
		struct walk *walk;                                                 \
		__u32 slot;                                                        \
                                                                                   \
		if (!c || !(condition))                                            \
			return 0;                                                  \
		walk = take_walk(&slot);                                           \
		if (walk) {                                                        \
			action;                                                    \
			leave_walk(walk);                                          \
		} else {                                                           \
			lose_wait();                                               \
		}                                                                  \
		stay_on_stack(ctx);                                                \
		return 0;                                                          \
	}

AT_GOROUTINES(on_gopark, c->on && wanted(c, bpf_get_current_task()), {
	keep_regs(walk, ctx);
	park(ctx, current_goroutine(ctx), 0, slot, c->level);
})
AT_GOROUTINES(on_yield, c->on && wanted(c, bpf_get_current_task()), {
	keep_sched(ctx, walk, argument(ctx));
	park(ctx, argument(ctx), 1, slot, c->level);
})
AT_GOROUTINES(on_ready, c->on && wait_of(argument(ctx)), make_ready(ctx, argument(ctx), walk, slot, c->level))
AT_GOROUTINES(on_execute, wait_of(argument(ctx)), run(ctx, c, slot))

/* inject makes the goroutines of a list ready, whose first one is at an address. */
static inline_always void inject(struct pt_regs *ctx, __u32 slot)
{
	__u64 g = read_user(argument(ctx));

	for (int i = 0; i < MAX_LIST && g; i++) {
		make_ready(ctx, g, NULL, slot, 0);
		g = field_of(ctx, g, GOID, 8);
	}
}
AT_GOROUTINES(on_injectglist, c->on, inject(ctx, slot))

SEC("raw_tp")
int on_exit(void *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&exits, &tgid, &now, 0);
	return 0;
}

#endif

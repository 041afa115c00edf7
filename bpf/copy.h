/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of the stack, for the recorder to walk.
 */
#ifndef COPY_H
#define COPY_H

#include "state.h"

/*
 * By CPU: how much of the CPU's ring copies of stacks may take. User space sets room and low after draining the
 * ring.
 */
struct copy_room {
	__s64 room;  /* bytes that copies may still take */
	__s64 low;   /* a copy wakes the recorder once room is less */
	__u64 woken; /* when a copy last woke the recorder, in ns */
};

ARRAY(copies, struct copy_room) PER_RECORDING;

/*
 * The interval between two wake-ups, in ns. Where processes live for less than a
 * millisecond, nearly every sample is a copy.
 */
#define WAKE_INTERVAL 50000000

/* wakes reports whether a copy must wake the recorder, rather than wait for the next copy to do so. */
static inline_always int wakes(struct copy_room *c)
{
	__u64 now = bpf_ktime_get_ns();

	if (c->room >= c->low && now - c->woken < WAKE_INTERVAL)
		return 0;
	c->woken = now;
	c->low = -MAX_STACK * 2; /* less than any room: once is enough */
	return 1;
}

/* The intervals between two wake-ups for new functions and for new blocks of code, in ns. */
#define FUNCTIONS_INTERVAL 5000000
#define BLOCKS_INTERVAL 50000000

/* may_wake reports whether a stack with something new on this CPU wakes the recorder, which reads the name. */
static inline_always int may_wake(struct walk *w)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct copy_room *c = bpf_map_lookup_elem(&copies, &cpu);
	__u64 now = bpf_ktime_get_ns();

	if (!c || now - c->woken < (w->new_code & NEW_FUNCTION ? FUNCTIONS_INTERVAL : BLOCKS_INTERVAL))
		return 0;
	c->woken = now;
	return 1;
}

/*
 * copy_chunk copies the next page of the stack, and returns whether there is more to copy. Pages that are not
 * mapped yet are read as zeros: pages of a stack that just grew, and unused space in a frame, such as the reserve
 * of Haskell programs. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int copy_chunk(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 done, from, n;

	if (!w)
		return 0;
	done = w->copied;
	from = w->out.stack.head.from + done;
	if (from >= w->top)
		return 0;
	n = CHUNK - (from & (CHUNK - 1));
	if (n > w->top - from)
		n = w->top - from;
	keep_whole(n);
	keep_whole(done);
	if (done >= MAX_STACK || n > CHUNK)
		return 0;
	w->copied = done + n;
	if (bpf_probe_read_user(&w->out.stack.bytes[done], n, (void *)from) == 0)
		w->readable = w->copied;
	return 1;
}

/* end_of returns the end of a goroutine's stack if sp is in it, with which Go's struct g begins. */
static inline_always __u64 end_of(struct walk *w, __u64 g)
{
	__u64 bounds[2];

	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)g))
		return 0;
	return bounds[0] <= w->regs[SP] && w->regs[SP] < bounds[1] ? bounds[1] : 0;
}

/*
 * goroutine_end returns the end of the stack that contains sp if it is a goroutine's: of the current one, or of one
 * that waits, whose address is in its register. It returns 0 if it is none.
 */
static inline_always __u64 goroutine_end(struct walk *w, __u64 tls)
{
	return end_of(w, goroutine(w->regs, tls)) ?: end_of(w, w->regs[GO_G]);
}

/*
 * copy_stack copies the used part of the stack: from sp up to the end, which is known for a process's first stack,
 * for threads' stacks, because glibc places a thread's own data directly above the stack, and for Go's stacks.
 */
static inline_always __u32 copy_stack(struct walk *w, __u32 slot, struct task_struct *task)
{
	struct mm_struct *mm = read_field(task, mm);
	__u64 sp = w->regs[SP] - BELOW_SP, stack = read_field(mm, start_stack) + 8, tls = thread_data(task), end;

	w->top = sp + MAX_STACK;
	if (stack - sp > NEAR && tls - sp > NEAR) {
		end = goroutine_end(w, tls);
		if (!end)
			w->top = sp + MAX_OTHER_STACK; /* another kind of stack, such as a signal's: these are small */
		else if (end < w->top)
			w->top = end;
	}
	if (stack > sp && stack < w->top)
		w->top = stack;
	if (tls > sp && tls < w->top)
		w->top = tls;
	w->out.stack.head.from = sp;
	w->copied = w->readable = 0;
	for (int i = 0; i <= MAX_STACK / CHUNK; i++)
		if (!copy_chunk(slot))
			break;
	return w->readable & ~7;
}

/*
 * restore_return replaces the address of the return trampoline of w->instance, in the copy, by the return address that
 * the uretprobe has replaced, and goes to the next instance. It returns 1 after the last one. The verifier checks it
 * separately, as it does step.
 */
__attribute__((noinline)) int restore_return(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct return_instance *ri;
	__u64 at, *word;

	if (!w || !w->instance)
		return 1;
	ri = (void *)w->instance;
	at = read_field(ri, stack) - w->out.stack.head.from;
	keep_whole(at);
	if (at < MAX_STACK && at + sizeof(*word) <= w->readable) {
		word = (__u64 *)&w->out.stack.bytes[at];
		if (*word == w->trampoline)
			*word = read_field(ri, orig_ret_vaddr);
	}
	w->instance = (__u64)read_field(ri, next);
	return 0;
}

/*
 * restore_returns replaces, in the copy, the addresses of the return trampoline by the return addresses that
 * uretprobes have replaced, which only the kernel knows.
 */
static inline_always void restore_returns(struct walk *w, __u32 slot)
{
	struct task_struct *task = bpf_get_current_task();
	struct uprobe_task *u = read_field(task, utask);
	struct mm_struct *mm = read_field(task, mm);
	struct xol_area *area;

	if (!u)
		return;
	area = read_field(mm, uprobes_state.xol_area);
	w->trampoline = read_field(area, vaddr);
	w->instance = (__u64)read_field(u, return_instances);
	for (int i = 0; i < 64; i++) /* MAX_URETPROBE_DEPTH */
		if (restore_return(slot))
			break;
}

/*
 * send_copy sends registers and stack to the recorder, which walks the stack as soon as it knows the missing table
 * or mapping.
 */
static inline_always void send_copy(void *ctx, struct walk *w, __u32 slot, struct task_struct *task)
{
	__u64 size = sizeof(struct head) + sizeof(struct copy_head);

	__builtin_memcpy(w->out.stack.head.regs, w->regs, sizeof(w->regs));
	w->out.stack.head.at = w->returned ? w->ip - 1 : w->ip;
	w->out.head.frames = w->out.head.interpreted = 0;
	w->out.head.stack = copy_stack(w, slot, task);
	if (RETURN_AT_ENTRY && w->out.head.stack)
		restore_returns(w, slot);
	size += w->out.head.stack;
	__u32 cpu = bpf_get_smp_processor_id();
	struct copy_room *c = bpf_map_lookup_elem(&copies, &cpu);
	if (!c)
		return;
	c->room -= size;
	int wake = wakes(c);
	keep_whole(size);
	if (size > sizeof(w->out) - sizeof(__u32))
		return;
	if (wake)
		bpf_perf_event_output(ctx, &waking, BPF_F_CURRENT_CPU, &w->out.head, size);
	else
		bpf_perf_event_output(ctx, &quiet, BPF_F_CURRENT_CPU, &w->out.head, size);
}

#define GARBAGE 8

/*
 * may_ask reports whether a copy may ask for the mapping of an address. Code that runs is mapped, recently if its
 * mapping is unknown; a return address may as well be garbage, and so costs GARBAGE times as much of the process's
 * remaining budget.
 */
static inline_always int may_ask(struct walk *w, struct process *p)
{
	__u32 cost = w->n ? GARBAGE : 1;

	if (!p || p->copies < cost)
		return 0;
	p->copies -= cost;
	return 1;
}

/*
 * may_copy reports whether the recorder can walk further with registers and stack. In a
 * burst of samples, stacks that cannot be walked yet must not take the ring's space
 * from the samples themselves.
 */
static inline_always int may_copy(struct walk *w, int end, struct process *p)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct copy_room *c = bpf_map_lookup_elem(&copies, &cpu);

	if (!c || c->room <= 0)
		return 0;
	switch (end) {
	case END_NO_PROCESS:
	case END_NO_TABLE:
	case END_UNSUPPORTED:
		return 1;
	case END_NO_MAPPING:
		return may_ask(w, p);
	}
	return 0;
}

#endif

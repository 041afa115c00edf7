/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks that are sent once: a new stack goes to the CPU's ring with a hash, and records refer to the stack by the
 * hash. A user stack that the recorder must walk is sent as a copy.
 */
#ifndef STACKS_H
#define STACKS_H

#include "recorded.h"

/* Set when the programs are loaded. */
const volatile __u32 user_stacks = 0; /* how user stacks are found: USER_NONE and so on */
#define MAX_STACK_WORDS (MAX_KERNEL + MAX_FRAMES + 2 * MAX_INTERPRETED)
#define ALL_KERNEL (MAX_KERNEL * sizeof(__u64)) /* bytes */

struct stack { /* package bpf's Stack */
	__u64 hash;
	__u32 kernel, user; /* numbers of frames */
	__u32 interpreted;  /* number of interpreted frames, of two words each, after them */
	__u32 generation;   /* struct head's */
	__u64 frames[MAX_STACK_WORDS];
};

/* By slot, as walks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct stack);
	__uint(max_entries, 1);
} stacks SEC(".maps") PER_RECORDER;

/* The hashes of stacks that the recorder already knows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 32768);
} sent SEC(".maps") PER_RECORDER;

/* By CPU: the events for stacks. Those for copies are in quiet and waking. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} stacks_to SEC(".maps") PER_RECORDER;

/* By CPU: 1 if it is recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} wanted_cpus SEC(".maps") PER_RECORDER;

#define HASHED_WORDS 64 /* by one call of hash_words */

/*
 * hash_words adds words of a slot's stack to the hash, and returns 1 after the last one. The verifier checks it
 * separately, as it does step, and needs less time for a loop of functions with loops than for a long one.
 */
__attribute__((noinline)) int hash_words(__u32 slot, __u32 from)
{
	struct stack *s = bpf_map_lookup_elem(&stacks, &slot);
	__u32 n;
	__u64 h;

	if (!s)
		return 1;
	n = s->kernel + s->user + 2 * s->interpreted;
	h = s->hash;
	for (int i = 0; i < HASHED_WORDS; i++) {
		__u64 at = (__u64)from + i;

		keep_whole(at);
		if (at >= n || at >= MAX_STACK_WORDS)
			break;
		h = (h ^ s->frames[at]) * 0x9e3779b97f4a7c15;
		h ^= h >> 32;
	}
	s->hash = h;
	return from + HASHED_WORDS >= n;
}

/* hash_stack hashes the frames of a slot's stack. */
static inline_always void hash_stack(__u32 slot)
{
	struct stack *s = bpf_map_lookup_elem(&stacks, &slot);

	if (!s)
		return;
	s->hash = s->kernel ^ (__u64)s->generation << 32;
	if (s->interpreted) /* the code objects belong to this process */
		s->hash ^= bpf_get_current_pid_tgid() & ~0xffffffffULL;
	for (int i = 0; i < MAX_STACK_WORDS / HASHED_WORDS + 1; i++)
		if (hash_words(slot, i * HASHED_WORDS))
			break;
}

/* send_stack sends a stack to the recorder, unless the recorder already knows it. */
static inline_always void send_stack(void *ctx, struct stack *s)
{
	__u64 size = s->kernel + s->user + 2 * s->interpreted;
	__u8 one = 1;

	if (bpf_map_lookup_elem(&sent, &s->hash))
		return;
	size = sizeof(*s) - sizeof(s->frames) + size * sizeof(__u64);
	keep_whole(size);
	if (size > sizeof(*s))
		return;
	if (!bpf_perf_event_output(ctx, &stacks_to, BPF_F_CURRENT_CPU, s, size))
		bpf_map_update_elem(&sent, &s->hash, &one, 0);
}

/* keep_stack hashes the frames of a slot's stack, sends new ones to the recorder, and returns the hash. */
static inline_always __u64 keep_stack(void *ctx, struct stack *s, __u32 slot)
{
	hash_stack(slot);
	send_stack(ctx, s);
	return s->hash;
}

#define FEW_KERNEL 32 /* most stacks contain fewer frames: the helper clears the remaining memory, which takes time */

/* kernel_frames finds the kernel's part of the current stack, up to size bytes. */
static inline_always void kernel_frames(void *ctx, struct stack *s, __u64 size)
{
	const __u64 few = FEW_KERNEL * sizeof(__u64);
	long n = size ? bpf_get_stack(ctx, s->frames, size < few ? size : few, 0) : 0;

	if (n == few && size > few)
		n = bpf_get_stack(ctx, s->frames, size, 0);
	s->kernel = n > 0 ? n / sizeof(__u64) : 0;
	s->user = s->interpreted = s->generation = 0;
}

#define AT_ENTRY 2 /* in user mode, where a function begins: ctx is its registers */
#define AWAY 3     /* the walk's registers are of a stack that the task does not run on */

/* entry_frames finds the user stack by frame pointers where a function begins, and has not stored its caller's. */
static inline_always void entry_frames(struct pt_regs *ctx, struct stack *s)
{
	long n = bpf_get_stack(ctx, &s->frames[1], MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);

	if (n <= 0)
		return;
	s->frames[0] = s->frames[1];
	s->frames[1] = return_address(ctx);
	s->user = n / sizeof(__u64) + 1;
}

/*
 * user_frames finds the user stack of the current task, from the walk's registers if it is in user mode, and
 * returns whether the recorder must walk a copy instead. Then it stores the frames up to the one that the programs
 * cannot walk. end is why the walk ended.
 */
static inline_always int user_frames(void *ctx, struct stack *s, __u32 slot, int in_user, enum end *end)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 at = s->kernel, size;
	int copy;

	keep_whole(at);
	if (!w || at > MAX_KERNEL)
		return 0;
	if (user_stacks == USER_BY_FP && in_user == AT_ENTRY) {
		entry_frames(ctx, s);
		return 0;
	}
	if (user_stacks == USER_BY_FP && in_user == AWAY) {
		s->frames[at] = w->regs[IP];
		s->user = 1;
		return 0;
	}
	if (user_stacks == USER_BY_FP) {
		long n = bpf_get_stack(ctx, &s->frames[at], MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);

		s->user = n > 0 ? n / sizeof(__u64) : 0;
		return 0;
	}
	copy = collect(w, slot, in_user);
	if (!copy)
		functions(slot);
	*end = w->out.head.end;
	size = w->out.head.frames;
	s->user = size;
	s->interpreted = w->out.head.interpreted;
	s->generation = w->out.head.generation;
	size = (size + 2 * s->interpreted) * sizeof(__u64);
	keep_whole(size);
	if (size <= sizeof(w->out.words))
		bpf_probe_read_kernel(&s->frames[at], size, w->out.words);
	return copy;
}

/* copy_frames sends a copy of the current task's user stack in place of the frames, after user_frames. */
static inline_always void copy_frames(void *ctx, struct stack *s, __u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);

	s->user = s->interpreted = 0;
	if (w)
		send_copy(ctx, w, slot, bpf_get_current_task());
}

/* is_wanted_cpu reports whether this CPU is recorded. */
static inline_always int is_wanted_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *here = bpf_map_lookup_elem(&wanted_cpus, &cpu);

	return here && *here;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Making samples in a BPF program: how a sample and the user stack before it are written.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "recorded.h"

/* Set when the programs are loaded. */
const volatile __u32 walk_user = 0;  /* a user stack precedes each sample */
const volatile __u32 raw_id = 0;     /* the event's number */

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} samples_to SEC(".maps") PER_RECORDER;

/* The common header of all tracepoints' raw data: struct trace_entry. */
struct common {
	__u16 type;
	__u8 flags, preempt_count;
	__s32 pid;
};

static inline_always int is_enabled(void)
{
	struct control_value *c = controls();

	return c && c->on;
}

/* The numbers of the events that are disabled while others are enabled. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 4096);
} paused SEC(".maps") PER_RECORDER;

/* is_paused reports whether the event with this number is disabled. */
static inline_always int is_paused(__u32 id)
{
	struct control_value *c = controls();

	return c && c->paused && bpf_map_lookup_elem(&paused, &id);
}

/* wanted reports whether the current task is to be sampled for the event with this number. */
static inline_always int wanted(__u32 id)
{
	return is_enabled() && !is_paused(id) && is_target(PERF_EVENT_STATE_INACTIVE);
}

/* walk_at writes the user stack of the next sample. Programs that interrupt each other use different levels. */
static inline_always void walk_at(void *ctx, __u32 level)
{
	__u32 slot = bpf_get_smp_processor_id() + level * cpus;
	struct control_value *c = controls();
	struct walk *w;

	if (!walk_user || !c || is_recorder(c))
		return;
	w = bpf_map_lookup_elem(&walks, &slot);
	if (w)
		start(ctx, w, slot, 0);
}

static inline_always void walk_first(void *ctx) { walk_at(ctx, 0); }

static inline_always void begin(struct common *c, __u32 id)
{
	c->type = id;
	c->flags = c->preempt_count = 0;
	c->pid = bpf_get_current_pid_tgid();
}

static inline_always void put(void *ctx, void *data, __u64 size)
{
	bpf_perf_event_output(ctx, &samples_to, BPF_F_CURRENT_CPU, data, size);
}

/*
 * fetch adds the event's arguments to the sample of size bytes, and returns the new size: 0 if the filter rejects
 * it. Package bpf replaces this body (fetch.go).
 */
static __attribute__((noinline)) __u64 fetch(__u64 *args, __u8 *data, __u64 size)
{
	asm volatile("%0 = 0" : "+r"(size) : "r"(args), "r"(data) : "memory");
	return size;
}


#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Histograms of durations, in place of samples. A bucket counts the durations with the same first bits.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include "sample.h"

/* Set when the programs are loaded. */
const volatile __u32 histograms = 0;
const volatile __u32 filtered = 0;  /* fetch contains a filter */
const volatile __u32 some_cpus = 0; /* only spans that end on counted_cpus are counted */

/* By CPU: 1 if spans that end there are counted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 1);
} counted_cpus SEC(".maps");

/* is_counted reports whether spans that end on this CPU are counted. */
static inline_always int is_counted(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u8 *on = bpf_map_lookup_elem(&counted_cpus, &cpu);

	return !some_cpus || (on && *on);
}

#define MAX_ERRNO 4095 /* include/linux/err.h */

#define MAX_BUCKETS 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct bucket_key);
	__type(value, struct bucket);
	__uint(max_entries, MAX_BUCKETS);
} buckets SEC(".maps");

/* The raw data of all spans begins with this. */
struct span {
	struct common common;
	__u64 duration; /* ns */
	__u64 start;    /* ns of CLOCK_MONOTONIC; 0: no span is open */
};

/* bucket_of returns the number of a duration's bucket. */
static inline_always __u64 bucket_of(__u64 ns)
{
	__u64 shift = 0, rest = ns >> (SUB_BITS + 1);

#pragma unroll
	for (int n = 32; n > 0; n /= 2) {
		if (rest >> n) {
			shift += n;
			rest >>= n;
		}
	}
	shift += rest; /* 0 or 1 */
	return (shift << SUB_BITS) + (ns >> shift);
}

/* add_bucket adds an empty bucket. */
static __attribute__((noinline)) int add_bucket(struct bucket_key *key)
{
	struct task_struct *task = bpf_get_current_task();
	struct control_value *c = controls();
	struct bucket b = {.min = ~0ULL};

	if (c && key->thread) {
		b.pid = pid_of(read_field(task, group_leader), c->level);
		b.tid = pid_of(task, c->level);
	}
	return bpf_map_update_elem(&buckets, key, &b, BPF_NOEXIST);
}

/*
 * count_duration adds a duration to the histogram. It returns 0 if there is no space. A minimum or maximum may be
 * lost if two CPUs set it at the same time; counts and totals are exact.
 */
static __attribute__((noinline)) int count_duration(struct bucket_key *key, struct span *span, __u32 failed)
{
	__u64 ns = span->duration;
	struct bucket *b;

	key->bucket = bucket_of(ns);
	b = bpf_map_lookup_elem(&buckets, key);
	if (!b) {
		add_bucket(key);
		b = bpf_map_lookup_elem(&buckets, key);
	}
	if (!b)
		return 0;
	__sync_fetch_and_add(&b->count, 1);
	__sync_fetch_and_add(&b->total, ns);
	if (failed)
		__sync_fetch_and_add(&b->failed, 1);
	if (ns < b->min)
		b->min = ns;
	if (ns > b->max)
		b->max = ns;
	b->last = span->start + ns;
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples that may contain a packet: the memory of samples, the selection of packets, and the packet's first
 * bytes.
 */
#ifndef SELECTED_H
#define SELECTED_H

#include "sample.h"
#include "packet.h"

/* Set when the programs are loaded. */
const volatile __u32 packet_at = 0;  /* position of struct packet in the sample */
const volatile __u32 bytes_at = 0;   /* position of the __data_loc of the packet's first bytes */
const volatile __u32 snap = 0;       /* number of these bytes; 0: none */
const volatile __u32 filtered = 0;   /* ethernet_filter and network_filter select packets */
const volatile __u32 only_netns = 0; /* 0: all */
const volatile char only_dev[16] = {}; /* "": all */

/*
 * The raw data of samples. The programs nest when one interrupts another: there is a stack of samples for each
 * CPU, and the first depth samples are in use.
 */
#define SAMPLE_SLACK 512 /* a string that begins before SAMPLE_SIZE ends within this */

/* How an event uses the packet of an argument. */
struct usage {
	__u64 arg;              /* the sk_buff, the socket or the xdp_buff */
	__u64 dev;              /* the device, if the packet is kept; 0: unknown */
	__u32 at;               /* position of struct packet in the sample */
	__u32 is_sock;          /* the argument is a socket */
	__u32 point;            /* follow.h's variables: point, */
	__u32 keep_as, kept_as; /* keep_as and kept_as, */
	__u32 ends;             /* and ends */
};

struct sample {
	__u64 task; /* the task that it belongs to */
	__u64 size;
	struct usage usage;
	__u32 next;           /* the stage after the packet is read */
	__u32 snap, bytes_at; /* the variables of these names */
	struct skb_copy skb; /* the packet's */
	struct linear first; /* the headers */
	__u64 sock;          /* of a packet that does not refer to the socket yet; 0: unknown */
	__u64 known_only;    /* no packet begins to be followed here */
	__u64 args[6];       /* of an event that is no tracepoint, or of a function */
	__u64 hop[2];        /* arguments of the event of a function that packets pass */
	__u8 headers[FILTER_BYTES];
	__u8 data[SAMPLE_SIZE + SAMPLE_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct sample);
	__uint(max_entries, LEVELS);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} depths SEC(".maps");

/*
 * These report whether a packet is to be sampled, from the first caplen bytes and the length: one of packets that
 * begin with an Ethernet header, one of those that begin with an IP header. Package bpf replaces these bodies
 * (packetfilter.go).
 */
static __attribute__((noinline)) __u64 ethernet_filter(__u8 *data, __u64 caplen, __u64 len)
{
	__u64 selected = 1;

	asm volatile("" : "+r"(selected) : "r"(data), "r"(caplen), "r"(len) : "memory");
	return selected;
}

static __attribute__((noinline)) __u64 network_filter(__u8 *data, __u64 caplen, __u64 len)
{
	__u64 selected = 2;

	asm volatile("" : "+r"(selected) : "r"(data), "r"(caplen), "r"(len) : "memory");
	return selected;
}

/* readable returns the number of the packet's first bytes that can be read, up to a limit. */
static inline_always __u64 readable(struct sample *s, __u64 limit)
{
	__u64 n = s->first.end - s->first.at;

	if (s->first.at >= s->first.end)
		n = 0;
	keep_whole(n);
	return n > limit ? limit : n;
}

/* copy_headers copies the packet's first bytes for filters, and returns the number of bytes. */
static inline_always __u64 copy_headers(struct sample *s, struct packet *p)
{
	__u64 n;

	if (p->from_sock)
		return make_headers(p, s->headers);
	n = readable(s, FILTER_BYTES);
	if (n && bpf_probe_read_kernel(s->headers, n, s->first.head + s->first.at))
		return 0;
	return n;
}

/* passes_filter reports whether the filter of the recording selects a packet, which must be located before. */
static inline_always int passes_filter(struct sample *s, struct packet *p)
{
	__u64 n;

	if (!filtered)
		return 1;
	n = copy_headers(s, p);
	if (p->network)
		return network_filter(s->headers, n, p->wire_len) != 0;
	return ethernet_filter(s->headers, n, p->wire_len) != 0;
}

/* is_in_place reports whether a packet is in the namespace and at the device that the recording selects. */
static inline_always int is_in_place(struct packet *p)
{
	if (only_netns && p->netns != only_netns)
		return 0;
	for (int i = 0; only_dev[0] && i < sizeof(only_dev); i++) {
		if (p->dev[i] != only_dev[i])
			return 0;
		if (!only_dev[i])
			break;
	}
	return 1;
}

static inline_always int is_selected(struct sample *s, struct packet *p)
{
	return is_in_place(p) && passes_filter(s, p);
}

/* read_selected reads the packet of skb into p, which is zero, and reports whether it is selected. */
static inline_always int read_selected(__u64 skb, struct sample *s, struct packet *p)
{
	copy_skb(&s->skb, skb);
	locate_packet(&s->skb, p, &s->first);
	if (!passes_filter(s, p)) /* most packets; a whole description takes longer */
		return 0;
	describe_packet(&s->skb, p, &s->first);
	return is_in_place(p);
}

/* add_bytes adds the packet's first bytes, up to limit, to a sample of size bytes, and returns the new size. */
static inline_always __u64 add_bytes(struct sample *s, __u64 size, __u32 limit, __u32 loc_at)
{
	__u64 n = readable(s, limit);

	if (size > SAMPLE_SIZE - MAX_SNAP || n > MAX_SNAP)
		return size;
	if (n && bpf_probe_read_kernel(s->data + size, n, s->first.head + s->first.at))
		n = 0;
	*(__u32 *)&s->data[loc_at & (SAMPLE_SIZE - 1)] = n << 16 | size;
	return (size + n + 7) & ~7ULL;
}

/* walk_apart is not inlined: the walk and the reading of a packet before it need the stack one after the other. */
static __attribute__((noinline)) void walk_apart(void *ctx) { walk_first(ctx); }

/* finish_sample adds the event's arguments to a selected sample, and writes it. */
static inline_always void finish_sample(void *ctx, __u64 *args, struct sample *s, int has_packet)
{
	__u64 size;

	begin((struct common *)s->data, raw_id);
	size = fetch(args, s->data, s->size);
	if (!size)
		return;
	if (has_packet && snap)
		size = add_bytes(s, size, snap, bytes_at);
	walk_apart(ctx);
	keep_whole(size);
	if (size <= sizeof(s->data))
		put(ctx, s->data, size);
}

/*
 * Reading packets and walking stacks takes the verifier long, for each program again. So the programs of raw
 * tracepoints share two programs that do it, by tail calls. An event's own programs do the remaining parts, in this
 * order:
 *
 *	raw_begins                                      -> sample_ends
 *	packet_begins  -> packet_read -> packet_fetches -> sample_ends
 *	verdict_begins                                  -> sample_ends
 *
 * One program for all events could not find out which event it runs for: raw tracepoints have cookies since Linux
 * 6.10 only. Programs with functions can make tail calls on x86-64 from 5.10 on and on arm64 from 6.0 on, if the JIT
 * compiles them. Elsewhere, the programs on_raw, on_packet and on_drop do everything.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, MAX_STAGES);
} stages SEC(".maps") PER_RECORDER;

/* The samples in work on a CPU: programs of several events may interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct sample);
	__uint(max_entries, LEVELS);
} shared_samples SEC(".maps") PER_RECORDER;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} shared_depths SEC(".maps") PER_RECORDER;

/* The number of samples that were lost because LEVELS was reached, or a tail call failed. */
ARRAY(lost_samples, __u64) PER_RECORDER;

static inline_always void count_lost(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&lost_samples, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* take_sample returns the memory for a new sample: NULL if there is none. */
static inline_always struct sample *take_sample(__u32 *level)
{
	__u32 zero = 0, *depth = bpf_map_lookup_elem(&shared_depths, &zero);
	struct sample *s;

	if (!depth)
		return NULL;
	*level = *depth;
	s = bpf_map_lookup_elem(&shared_samples, level);
	if (s)
		*depth = *level + 1;
	else
		count_lost();
	return s;
}

/* taken_sample returns the sample that the previous program prepared. */
static inline_always struct sample *taken_sample(__u32 *level)
{
	__u32 zero = 0, *depth = bpf_map_lookup_elem(&shared_depths, &zero);

	if (!depth)
		return NULL;
	*level = *depth - 1;
	return bpf_map_lookup_elem(&shared_samples, level);
}

/* leave_sample releases the memory of the sample. */
static inline_always void leave_sample(void)
{
	__u32 zero = 0, *depth = bpf_map_lookup_elem(&shared_depths, &zero);

	if (depth)
		*depth -= 1;
}

/* go_on continues with the program of a stage. It returns only if the sample is lost. */
static inline_always void go_on(void *ctx, __u32 stage)
{
	bpf_tail_call(ctx, &stages, stage);
	count_lost();
	leave_sample();
}

/* fetch_shared adds the event's arguments to a selected sample, and continues with sample_ends. */
static inline_always void fetch_shared(__u64 *args, struct sample *s)
{
	begin((struct common *)s->data, raw_id);
	s->size = fetch(args, s->data, s->size);
	if (s->size)
		go_on(args, STAGE_SEND);
	else
		leave_sample();
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The places that a packet passed in netfilter: the functions that run rules store them, until the packet is
 * dropped or passes the next hook.
 */
#ifndef NETFILTER_H
#define NETFILTER_H

#include "packet.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nf_hook_state {
	__u8 hook; /* an unsigned int before 5.12 */
	__u8 pf;
	struct net_device *in, *out;
	struct net *net;
};

#pragma clang attribute pop

static long (*bpf_probe_read_kernel_str)(void *dst, __u32 size, const void *from) = (void *)115;

#define NF_DROP 0
#define NF_QUEUE 3
#define PF_ARP 3 /* enum of include/uapi/linux/netfilter.h: NFPROTO_* */
#define PF_NETDEV 5
#define PF_BRIDGE 7

#define MAX_NAME 256 /* NFT_NAME_MAXLEN */
#define MAX_JUMPS 32 /* a power of 2 */

struct range {
	__u64 start, size;
};

enum decision {
	UNDECIDED,
	DROPPED,
	QUEUED,
	ENDED,    /* otherwise */
	REPLACED, /* by a copy, because the queue's reader made it larger */
};

/* A packet at a hook, and the functions that ran there: by, the last one. */
struct passage {
	struct net_device *in, *out;
	struct net *net;
	__u64 chain; /* of nf_tables: the hook's chain */
	__u64 expr;  /* source of the verdict: the expression of nf_tables, or the data of a target that queues */
	__u64 table, info; /* of x_tables */
	__u32 cpu;         /* that ran the table */
	__u8 hook, pf;
	__u8 by, decision;
	__u32 jumps; /* number of chains that were jumped to */
	__u64 jumped[MAX_JUMPS]; /* the last of these */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64); /* address of the sk_buff */
	__type(value, struct passage);
	__uint(max_entries, 8192);
} passages SEC(".maps");

/* A call of a function whose result gives a verdict, by the sp at its entry. */
struct call {
	__u64 skb;
	__u64 expr, regs; /* of nf_tables */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, struct call);
	__uint(max_entries, 4096);
} verdict_calls SEC(".maps");

/* The rule that was found for a dropped packet, and the state of the search for it. */
struct found {
	__u64 table, chain_name; /* addresses of names; 0: unknown */
	__u64 handle;
	__u32 rule;
	__u8 by, family, is_policy, is_queue;
	__u64 expr; /* that the rule contains; 0 for x_tables: count decides */
	__u64 at;   /* the next rule, or where the array of rules points to it */
	__u64 chain, skb;
	__u32 tried; /* number of chains, twice for the two generations */
	__u32 searching;
	__u64 info; /* of x_tables */
	__u32 cpu;
	__u32 n; /* number of rules that drop */
	__u8 hook, passed; /* of the rule's chain, and of the packet */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct found);
	__uint(max_entries, LEVELS);
} founds SEC(".maps");

static inline_always __u64 read_word(__u64 addr)
{
	__u64 v = 0;

	bpf_probe_read_kernel(&v, sizeof(v), (void *)addr);
	return v;
}

static inline_always __u32 read_int(__u64 addr)
{
	__u32 v = 0;

	bpf_probe_read_kernel(&v, sizeof(v), (void *)addr);
	return v;
}

/* generation counts changes: of the rules of nf_tables, and of the tables of the other firewalls. */
static inline_always __u64 generation(void *of)
{
	__u32 zero = 0;
	__u64 *g = bpf_map_lookup_elem(of, &zero);

	return g ? *g : 0;
}

static inline_always void next_generation(void *of)
{
	__u32 zero = 0;
	__u64 *g = bpf_map_lookup_elem(of, &zero);

	if (g)
		__sync_fetch_and_add(g, 1);
}

/* is_drop reports whether a verdict drops: the upper half may be an errno. */
static inline_always int is_drop(__u32 verdict) { return (verdict & 0xff) == NF_DROP; }

/* is_queued reports whether a verdict gives the packet to a queue, whose number and flags are in the upper half. */
static inline_always int is_queued(__u32 verdict) { return (verdict & 0xff) == NF_QUEUE; }

static inline_always struct passage *passage_of(__u64 skb) { return bpf_map_lookup_elem(&passages, &skb); }

/* enter begins the passage of a packet through a hook, or through the next function there. */
static inline_always struct passage *enter(__u64 skb, struct nf_hook_state *state)
{
	struct passage *p = passage_of(skb);

	if (!p) {
		struct passage none = {};

		bpf_map_update_elem(&passages, &skb, &none, 0);
		p = passage_of(skb);
		if (!p)
			return NULL;
	}
	p->in = read_field(state, in);
	p->out = read_field(state, out);
	p->net = read_field(state, net);
	p->hook = read_field(state, hook);
	p->pf = read_field(state, pf);
	p->by = BY_UNKNOWN;
	p->decision = UNDECIDED;
	p->jumps = 0;
	return p;
}

/* leave ends the passage of a packet that is freed. */
static inline_always void leave(__u64 skb) { bpf_map_delete_elem(&passages, &skb); }

static inline_always void begin_call(struct pt_regs *ctx, __u64 skb, __u64 expr, __u64 regs)
{
	struct call c = { skb, expr, regs };
	__u64 sp = entry_sp(ctx);

	bpf_map_update_elem(&verdict_calls, &sp, &c, 0);
}

/* end_call finds the call that returns, and the packet's passage: NULL if one of them is unknown. */
static inline_always struct passage *end_call(struct pt_regs *ctx, struct call *c)
{
	__u64 sp = returned_sp(ctx);
	struct call *begun = bpf_map_lookup_elem(&verdict_calls, &sp);

	if (!begun)
		return NULL;
	*c = *begun;
	bpf_map_delete_elem(&verdict_calls, &sp);
	return passage_of(c->skb);
}

/* read_hook completes the data about a packet: the hook contains the namespace and the devices of each packet. */
static inline_always void read_hook(struct passage *p, struct packet *packet)
{
	__u32 netns = netns_of(p->net);

	if (!packet->ifindex)
		read_device(p->in ? p->in : p->out, packet);
	if (netns)
		packet->netns = netns;
}

#endif

//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of packets that netfilter drops, with the rule that gave the verdict.
 *
 * Netfilter frees a packet that it drops in a few functions: a program at the tracepoint kfree_skb makes the
 * sample there. Before that, programs at the functions that run rules store the passage of a packet, by the
 * address of the sk_buff, which one CPU handles at a time. The rules are searched when a packet is dropped, not
 * for each packet.
 */
#include "follow.h"
#include "netfilter.h"
#include "nft.h"
#include "xt.h"
#include "ebt.h"

char _license[] SEC("license") = "GPL";

/* Set when the programs are loaded. */
const volatile __u32 fixed_size = 0; /* bytes of the samples before dynamic data */
const volatile __u32 verdict_at = 0; /* position of struct verdict, */
const volatile __u32 table_at = 0;   /* and of the __data_loc of the table's */
const volatile __u32 chain_at = 0;   /* and the chain's name */
const volatile struct range hook_code[MAX_RANGES] = {};   /* functions that free dropped packets of a hook, */
const volatile struct range chain_code[MAX_RANGES] = {};  /* of a chain of nf_tables, */
const volatile struct range queue_code[MAX_RANGES] = {};  /* of a queue, */
const volatile struct range bridge_code[MAX_RANGES] = {}; /* and of bridges, where packets are freed also by others */

SEC("kprobe")
int hook_begins(struct pt_regs *ctx)
{
	__u64 args[6];

	get_call_args(args, ctx, 0);
	enter(args[0], (void *)args[1]);
	return 0;
}

SEC("kprobe")
int chain_begins(struct pt_regs *ctx)
{
	__u64 args[6];
	struct passage *p;

	get_call_args(args, ctx, 0);
	p = enter(skb_of(args[0]), (void *)read_word(args[0] + pkt_state));
	if (p) {
		p->by = BY_NFT;
		p->chain = args[1];
	}
	return 0;
}

/* immediate_begins stores the verdict of a rule. */
SEC("kprobe")
int immediate_begins(struct pt_regs *ctx)
{
	__u64 args[6];

	get_call_args(args, ctx, 0);
	immediate(args[0], skb_of(args[2]));
	return 0;
}

/* reject_begins stores the verdict of an expression that drops all packets. */
SEC("kprobe")
int reject_begins(struct pt_regs *ctx)
{
	__u64 args[6];
	struct passage *p;

	get_call_args(args, ctx, 0);
	p = passage_of(skb_of(args[2]));
	if (p)
		decide(p, args[0], NF_DROP, 0);
	return 0;
}

SEC("kprobe")
int eval_begins(struct pt_regs *ctx)
{
	__u64 args[6];

	get_call_args(args, ctx, 0);
	begin_call(ctx, skb_of(args[2]), args[0], args[1]);
	return 0;
}

/* eval_ends stores the verdict of an expression that gives one to some packets. */
SEC("kretprobe")
int eval_ends(struct pt_regs *ctx)
{
	struct call c;
	struct passage *p = end_call(ctx, &c);

	if (p)
		decide(p, c.expr, read_int(c.regs), read_word(c.regs + 8));
	return 0;
}

/* rules_change runs before and after the rules change. */
SEC("kprobe")
int rules_change(void *ctx)
{
	change_rules();
	return 0;
}

SEC("kprobe")
int conntrack_begins(struct pt_regs *ctx)
{
	__u64 args[6];

	get_call_args(args, ctx, 0);
	begin_call(ctx, args[0], 0, 0);
	return 0;
}

SEC("kretprobe")
int conntrack_ends(struct pt_regs *ctx)
{
	struct call c;
	struct passage *p = end_call(ctx, &c);

	if (p && is_drop(returned_value(ctx))) {
		p->by = BY_CONNTRACK;
		p->decision = DROPPED;
	}
	return 0;
}

SEC("kprobe")
int ipt_begins(struct pt_regs *ctx)
{
	begin_xt_table(ctx, IPT_TARGET_OFFSET, IPT_COUNTERS);
	return 0;
}

SEC("kprobe")
int ip6t_begins(struct pt_regs *ctx)
{
	begin_xt_table(ctx, IP6T_TARGET_OFFSET, IP6T_COUNTERS);
	return 0;
}

/* queue_begins stores that a target queues a packet. */
SEC("kprobe")
int queue_begins(struct pt_regs *ctx)
{
	__u64 args[6];
	struct passage *p;

	get_call_args(args, ctx, 0);
	p = passage_of(args[0]);
	if (p && p->by == BY_XT) {
		p->decision = QUEUED;
		p->expr = read_word(args[1] + TARGET_INFO);
	}
	return 0;
}

SEC("kprobe")
int arpt_begins(struct pt_regs *ctx)
{
	begin_xt_table(ctx, ARPT_TARGET_OFFSET, ARPT_COUNTERS);
	return 0;
}

SEC("kprobe")
int ebt_begins(struct pt_regs *ctx)
{
	begin_bridge_table(ctx);
	return 0;
}

/* tables_change runs before a table gets other rules, and after the table's counts change. */
SEC("kprobe")
int tables_change(void *ctx)
{
	change_tables();
	return 0;
}

/*
 * copy_begins runs before a packet gets a larger copy: the original, if it is in a queue, is freed then and not
 * dropped.
 */
SEC("kprobe")
int copy_begins(struct pt_regs *ctx)
{
	__u64 args[6];
	struct passage *p;

	get_call_args(args, ctx, 0);
	p = passage_of(args[0]);
	if (p && p->decision == QUEUED)
		p->decision = REPLACED;
	return 0;
}

static inline_always int is_in(const volatile struct range *l, __u64 addr)
{
	for (int i = 0; i < MAX_RANGES; i++) {
		if (addr - l[i].start < l[i].size)
			return 1;
	}
	return 0;
}

/* The place where a packet is freed. */
enum place { ELSEWHERE, IN_HOOK, IN_CHAIN, IN_QUEUE, IN_BRIDGE };

static inline_always enum place place_of(__u64 location)
{
	if (is_in(hook_code, location))
		return IN_HOOK;
	if (is_in(chain_code, location))
		return IN_CHAIN;
	if (is_in(queue_code, location))
		return IN_QUEUE;
	return is_in(bridge_code, location) ? IN_BRIDGE : ELSEWHERE;
}

static const char hooks[][16] = { "prerouting", "input", "forward", "output", "postrouting", "ingress" };
static const char arp_hooks[][16] = { "input", "output", "forward", "" };
static const char netdev_hooks[][16] = { "ingress", "egress" };
static const char chains[][16] = { "PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING", "", "", "" };
static const char arp_chains[][16] = { "INPUT", "OUTPUT", "FORWARD", "" };
static const char families[][8] = { "", "inet", "ip", "arp", "", "netdev", "", "bridge", "", "", "ip6", "", "", "", "",
				    "" };

/* name_hook writes the names of a hook, whose numbers depend on the protocol, and of the family. */
static inline_always void name_hook(struct verdict *v, __u8 pf, __u8 hook, __u8 family)
{
	const char *name = hooks[5];

	if (pf == PF_ARP)
		name = arp_hooks[hook & 3];
	else if (pf == PF_NETDEV)
		name = netdev_hooks[hook & 1];
	else if (pf == PF_BRIDGE && hook == 5)
		name = hooks[0]; /* brouting, before prerouting */
	else if (hook < 5)
		name = hooks[hook];
	__builtin_memcpy(v->hook, name, sizeof(v->hook));
	__builtin_memcpy(v->family, families[(family ? family : pf) & 15], sizeof(v->family));
}

/* add_name adds a name to a sample of size bytes, the __data_loc at this position, and returns the new size. */
static inline_always __u64 add_name(struct sample *s, __u64 size, __u32 at, __u64 name)
{
	long n = 0;

	keep_whole(size);
	if (size > SAMPLE_SIZE)
		return size;
	if (name)
		n = bpf_probe_read_kernel_str(s->data + size, MAX_NAME, (void *)name);
	if (n <= 0) {
		s->data[size] = 0;
		n = 1;
	}
	*(__u32 *)&s->data[at & (SAMPLE_SIZE - 1)] = n << 16 | size;
	return size + n;
}

/* find_verdict finds the rule or policy that dropped a packet at this place: 0 if nothing did that is known. */
static inline_always int find_verdict(struct passage *p, struct found *f, __u32 level, enum place place)
{
	f->by = p->by;
	f->is_queue = place == IN_QUEUE && p->decision == QUEUED;
	switch (p->by) {
	case BY_NFT:
		return find_nft(p, f, level, place == IN_CHAIN);
	case BY_XT:
		if (!find_xt(p, f, level))
			return 0;
		if (!f->chain_name)
			f->chain_name = (__u64)(p->pf == PF_ARP ? arp_chains[f->hook & 3] : chains[f->hook & 7]);
		return 1;
	case BY_EBT:
		return find_ebt(p, f, level);
	case BY_CONNTRACK:
		return p->decision == DROPPED;
	}
	return 0;
}

/* judge finds the verdict that dropped a packet: NULL if the packet's hook did not drop it. */
static __attribute__((noinline)) struct found *judge(__u64 skb, __u32 level, __u32 place)
{
	struct found *f = bpf_map_lookup_elem(&founds, &level);
	struct passage *p = passage_of(skb);

	if (!f)
		return NULL;
	__builtin_memset(f, 0, sizeof(*f));
	f->skb = skb;
	if (p && place == IN_QUEUE && p->decision == REPLACED)
		return NULL;
	if (p && !find_verdict(p, f, level, place))
		f->by = BY_UNKNOWN;
	return f->by == BY_UNKNOWN && place == IN_BRIDGE ? NULL : f;
}

/* read_dropped reads the packet of skb into p, which is zero, and reports whether it is to be sampled. */
static inline_always int read_dropped(__u64 skb, struct sample *s, struct packet *p)
{
	if (!following)
		return read_selected(skb, s, p);
	copy_skb(&s->skb, skb);
	locate_packet(&s->skb, p, &s->first);
	if (!may_be_followed(skb, (__u64)s->first.head))
		return 0;
	describe_packet(&s->skb, p, &s->first);
	p->id = find_number(skb, (__u64)s->first.head, NULL, POINT_NONE);
	return p->id != 0;
}

/* add_verdict adds packet and verdict to a sample: 0 if it is not to be sampled. */
static __attribute__((noinline)) int add_verdict(__u64 skb, struct sample *s, struct found *f)
{
	struct passage *p = passage_of(skb);
	struct packet *packet;
	struct verdict *v;

	if (!s || !f)
		return 0;
	packet = (void *)&s->data[packet_at & (SAMPLE_SIZE - 1)];
	__builtin_memset(packet, 0, sizeof(*packet));
	if (!read_dropped(skb, s, packet))
		return 0;
	v = (void *)&s->data[verdict_at & (SAMPLE_SIZE - 1)];
	v->handle = f->handle;
	v->rule = f->rule;
	v->by = f->by;
	v->is_policy = f->is_policy;
	v->is_queue = f->is_queue;
	v->generation = generation_of_rules();
	v->skb = skb;
	if (p) {
		name_hook(v, p->pf, p->hook, f->family);
		read_hook(p, packet);
	} else {
		__builtin_memset(v->hook, 0, sizeof(v->hook) + sizeof(v->family));
	}
	s->size = add_name(s, fixed_size, table_at, f->table);
	s->size = (add_name(s, s->size, chain_at, f->chain_name) + 7) & ~7ULL;
	return 1;
}

SEC("raw_tp")
int on_drop(__u64 *args)
{
	__u32 zero = 0, at, *depth = bpf_map_lookup_elem(&depths, &zero);
	__u64 skb = args[0];
	enum place place = place_of(args[1]);
	struct sample *s;
	struct found *f;

	if (place == ELSEWHERE || !depth)
		return 0;
	at = *depth;
	s = bpf_map_lookup_elem(&samples, &at);
	if (!s)
		return 0;
	*depth = at + 1;
	f = judge(skb, at, place); /* of all packets, because counts of rules are compared */
	if (f && wanted(raw_id) && add_verdict(skb, s, f))
		finish_sample(args, args, s, 1);
	leave(skb);
	*depth = at;
	return 0;
}

/* verdict_begins is on_drop for kernels where programs of raw tracepoints share the walk (selected.h). */
SEC("raw_tp")
int verdict_begins(__u64 *args)
{
	enum place place = place_of(args[1]);
	__u64 skb = args[0];
	struct sample *s;
	struct found *f;
	__u32 level;

	if (place == ELSEWHERE)
		return 0;
	s = take_sample(&level);
	if (!s)
		return 0;
	f = judge(skb, level, place);
	if (!f || !wanted(raw_id) || !add_verdict(skb, s, f)) {
		leave(skb);
		leave_sample();
		return 0;
	}
	leave(skb);
	s->snap = snap;
	s->bytes_at = bytes_at;
	fetch_shared(args, s);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rules of iptables, ip6tables and arptables. The kernel counts the packets that match a rule, on each CPU,
 * and runs no function for one that drops: the rule whose count has changed since the last dropped packet is the
 * one that dropped this packet. So the programs keep, for each CPU, a list of a table's rules that drop, with
 * counts. It is made when the CPU first runs the table.
 */
#ifndef XT_H
#define XT_H

#include "netfilter.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xt_table_info {
	unsigned int size; /* of the entries, in bytes */
	unsigned int hook_entry[5], underflow[5];
	unsigned char entries[0];
};

#pragma clang attribute pop

/* Set when the programs are loaded: the types of x_tables may be in a module's BTF. */
const volatile __u32 xt_table_private = 0;
const volatile __u32 xt_table_af = 0;
const volatile __u32 xt_table_name = 0;
const volatile __u32 xt_target_name = 0;
const volatile __u32 xt_target_function = 0;
const volatile __u32 xt_table_first = 0; /* the table is the first argument: from 5.16 on */
const volatile __u64 per_cpu_offset = 0; /* address of the offsets of the CPUs' memory; 0: one CPU */

/* Positions in entries, which are ABI: include/uapi/linux/netfilter_ipv4/ip_tables.h and others. */
#define IPT_TARGET_OFFSET 88
#define IPT_COUNTERS 96
#define IP6T_TARGET_OFFSET 140
#define IP6T_COUNTERS 152
#define ARPT_TARGET_OFFSET 164
#define ARPT_COUNTERS 176
#define HOOKS_AFTER 4   /* from target_offset to comefrom, where the kernel keeps the hooks of an entry */
#define TARGET_KERNEL 8 /* xt_entry_target: the xt_target */
#define TARGET_DATA 32  /* the verdict of a standard target, or the name of a user's chain */

#define TARGET_INFO 8   /* xt_action_param: the target's data */

#define XT_DROP (-NF_DROP - 1) /* the verdict of a standard target that drops */
#define XT_HOOKS 5
#define ENTRIES_AT_ONCE 32
#define MAX_SCANS 1024 /* of so many entries of a table each */
#define DROPS_AT_ONCE 64
#define MAX_DROPS (DROPS_AT_ONCE * 64) /* rules of a table that drop */

/* A rule that drops, on a CPU. */
struct xt_drop {
	__u64 counter;    /* address of the rule's count on the CPU */
	__u64 count;      /* of the packets that are known */
	__u64 chain_name; /* address of the name of a user's chain; 0: the name of the hook's chain */
	__u64 queue;      /* address of the target's data if it queues; 0: it drops */
	__u32 rule;
	__u8 hook, is_policy;
	__u8 hooks; /* bits of those whose packets come here */
};

struct xt_drop_key {
	__u64 info;
	__u32 cpu, index;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct xt_drop_key);
	__type(value, struct xt_drop);
	__uint(max_entries, 8192);
} xt_drops SEC(".maps");

/* The rules of a table that drop, on a CPU. */
struct xt_list {
	__u64 generation; /* of all tables, when the list was made */
	__u32 n;
	__u32 last; /* index of the rule that dropped last */
};

struct xt_list_key {
	__u64 info;
	__u64 cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct xt_list_key);
	__type(value, struct xt_list);
	__uint(max_entries, 8192);
} xt_lists SEC(".maps");

ARRAY(xt_generation, __u64);

/* The state of a scan of a table. */
struct xt_scan {
	__u64 base, at, end; /* of entries */
	__u64 chain_name;
	__u64 hooks; /* of ebtables: the chains of hooks */
	__u32 target_offset, counters;
	__u32 rule, hook;
	__u32 hook_entry[XT_HOOKS], underflow[XT_HOOKS];
	struct xt_drop_key key;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct xt_scan);
	__uint(max_entries, 1);
} xt_scans SEC(".maps");

static inline_always __u64 generation_of_tables(void) { return generation(&xt_generation); }

/* change_tables invalidates the lists: a table or counts changed. */
static inline_always void change_tables(void) { next_generation(&xt_generation); }

/*
 * has_text reports whether the name of a target equals a name of 5 or 6 characters, given as a number with the
 * NUL.
 */
static inline_always int has_text(__u64 name, __u64 text, int bytes)
{
	__u64 mask = bytes == 8 ? ~0ULL : (1ULL << 8 * bytes) - 1;

	return (name & mask) == text;
}

#define TEXT_ERROR 0x524f525245ULL     /* "ERROR" */
#define TEXT_REJECT 0x5443454a4552ULL  /* "REJECT" */
#define TEXT_NFQUEUE 0x4555455551464eULL /* "NFQUEUE" */

/* add_drop adds a rule to the list. */
static inline_always void add_drop(struct xt_scan *s, __u64 entry, __u64 queue)
{
	struct xt_drop d = {};

	d.counter = entry + s->counters;
	if (per_cpu_offset)
		d.counter = read_word(d.counter) + read_word(per_cpu_offset + 8 * s->key.cpu);
	d.count = read_word(d.counter);
	d.chain_name = s->chain_name;
	d.queue = queue;
	d.rule = s->rule;
	d.hook = s->hook;
	d.hooks = read_int(entry + s->target_offset + HOOKS_AFTER);
	for (int h = 0; h < XT_HOOKS; h++)
		d.is_policy |= !s->chain_name && entry - s->base == s->underflow[h];
	bpf_map_update_elem(&xt_drops, &s->key, &d, 0);
	s->key.index++;
}

/* scan_entry adds an entry to the list if it drops: 0 at the end of the table. */
static inline_always int scan_entry(struct xt_scan *s)
{
	__u64 entry = s->at, target, data, name;
	__u32 offsets;

	if (entry >= s->end || s->key.index >= MAX_DROPS)
		return 0;
	offsets = read_int(entry + s->target_offset);
	if (offsets >> 16 == 0)
		return 0;
	s->at += offsets >> 16;
	data = entry + (offsets & 0xffff);
	target = read_word(data + TARGET_KERNEL);
	data += TARGET_DATA;
	name = read_word(target + xt_target_name);
	if (has_text(name, TEXT_ERROR, 6)) { /* a user's chain begins */
		s->chain_name = data;
		s->rule = 0;
		return 1;
	}
	for (int h = 0; h < XT_HOOKS; h++) {
		if (entry - s->base == s->hook_entry[h]) {
			s->chain_name = 0;
			s->rule = 0;
			s->hook = h;
		}
	}
	s->rule++;
	if (has_text(name, TEXT_REJECT, 7) ||
	    (!read_word(target + xt_target_function) && (__s32)read_int(data) == XT_DROP))
		add_drop(s, entry, 0);
	else if (has_text(name, TEXT_NFQUEUE, 8))
		add_drop(s, entry, data);
	return 1;
}

/* scan_entries is scan_entry for several. The verifier checks it separately, as it does step. */
__attribute__((noinline)) int scan_entries(__u32 zero)
{
	struct xt_scan *s = bpf_map_lookup_elem(&xt_scans, &zero);

	if (!s)
		return 0;
	for (int i = 0; i < ENTRIES_AT_ONCE; i++) {
		if (!scan_entry(s))
			return 0;
	}
	return 1;
}

/* list_drops makes the list of a table's rules that drop, for this CPU. */
static inline_always void list_drops(struct xt_table_info *info, __u32 cpu, __u32 target_offset, __u32 counters)
{
	__u32 zero = 0;
	struct xt_scan *s = bpf_map_lookup_elem(&xt_scans, &zero);
	struct xt_list_key key = { (__u64)info, cpu };
	struct xt_list list = { generation_of_tables() };

	if (!s)
		return;
	__builtin_memset(s, 0, sizeof(*s));
	s->key.info = (__u64)info;
	s->key.cpu = cpu;
	s->base = s->at = (__u64)info + field_offset(((struct xt_table_info *)0)->entries);
	s->end = s->base + read_field(info, size);
	s->target_offset = target_offset;
	s->counters = counters;
	bpf_probe_read_kernel(s->hook_entry, sizeof(s->hook_entry), &info->hook_entry);
	bpf_probe_read_kernel(s->underflow, sizeof(s->underflow), &info->underflow);
	for (int i = 0; i < MAX_SCANS; i++) {
		if (!scan_entries(zero))
			break;
	}
	list.n = s->key.index;
	bpf_map_update_elem(&xt_lists, &key, &list, 0);
}

/* begin_table stores that a packet passes a table, whose position in the arguments depends on the kernel. */
static inline_always struct passage *begin_table(struct pt_regs *ctx, __u8 by, int table_first, __u32 private)
{
	__u64 args[6], table, state, skb;
	struct passage *p;

	get_call_args(args, ctx, 0);
	table = table_first ? args[0] : args[2];
	skb = table_first ? args[1] : args[0];
	state = table_first ? args[2] : args[1];
	p = enter(skb, (void *)state);
	if (!p)
		return NULL;
	p->by = by;
	p->table = table;
	p->info = read_word(table + private);
	p->cpu = bpf_get_smp_processor_id();
	return p;
}

/* has_list reports whether the list of a table's rules that drop is valid. */
static inline_always int has_list(struct passage *p)
{
	struct xt_list_key key = { p->info, p->cpu };
	struct xt_list *list = bpf_map_lookup_elem(&xt_lists, &key);

	return list && list->generation == generation_of_tables();
}

static inline_always void begin_xt_table(struct pt_regs *ctx, __u32 target_offset, __u32 counters)
{
	struct passage *p = begin_table(ctx, BY_XT, xt_table_first, xt_table_private);

	if (p && !has_list(p))
		list_drops((void *)p->info, p->cpu, target_offset, counters);
}

/*
 * has_counted reports whether a rule dropped a packet of the hook that is not known yet, and counts this packet.
 * An interrupt may drop other packets between this packet's verdict and end, mostly at other hooks. Of targets
 * that queue, whose packets others read, it is the one that ran.
 */
static inline_always int has_counted(struct found *f, struct xt_drop_key *key)
{
	struct xt_drop *d = bpf_map_lookup_elem(&xt_drops, key);

	if (!d || d->queue != f->expr || !(d->hooks >> (f->passed & 7) & 1))
		return 0;
	if (!f->expr && read_word(d->counter) == d->count)
		return 0;
	d->count++;
	f->chain_name = d->chain_name;
	f->hook = d->hook;
	f->is_policy = d->is_policy;
	f->rule = d->is_policy ? 0 : d->rule;
	return 1;
}

/* search_drops looks at some rules that drop: as search. */
__attribute__((noinline)) int search_drops(__u32 level)
{
	struct found *f = bpf_map_lookup_elem(&founds, &level);
	struct xt_drop_key key;

	if (!f)
		return -1;
	key.info = f->info;
	key.cpu = f->cpu;
	for (int i = 0; i < DROPS_AT_ONCE; i++) {
		key.index = f->tried;
		if (f->tried >= f->n)
			return -1;
		if (has_counted(f, &key))
			return 1;
		f->tried++;
	}
	return 0;
}

/* find_counted finds the rule of a table that dropped a packet. */
static inline_always int find_counted(struct passage *p, struct found *f, __u32 level)
{
	struct xt_list_key key = { p->info, p->cpu };
	struct xt_list *list = bpf_map_lookup_elem(&xt_lists, &key);
	int r = 0;

	if (!list)
		return 0;
	f->info = p->info;
	f->cpu = p->cpu;
	f->n = list->n;
	f->passed = p->hook;
	f->expr = f->is_queue ? p->expr : 0;

	struct xt_drop_key last = { p->info, p->cpu, list->last };

	if (has_counted(f, &last))
		return 1;
	for (int i = 0; i < MAX_DROPS / DROPS_AT_ONCE && !r; i++)
		r = search_drops(level);
	list->last = f->tried;
	return r > 0;
}

/* find_xt finds the rule or policy of a table that dropped a packet. */
static inline_always int find_xt(struct passage *p, struct found *f, __u32 level)
{
	if (!find_counted(p, f, level))
		return 0;
	f->table = p->table + xt_table_name;
	bpf_probe_read_kernel(&f->family, sizeof(f->family), (void *)p->table + xt_table_af);
	return 1;
}

#endif

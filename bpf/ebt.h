/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rules of ebtables. They are found by their counts, like the rules of iptables; policies are not counted.
 */
#ifndef EBT_H
#define EBT_H

#include "xt.h"

/* Set when the programs are loaded: positions in structs of the module ebtables. */
const volatile __u32 ebt_table_private = 0;
const volatile __u32 ebt_table_name = 0;
const volatile __u32 ebt_entries_size = 0; /* of ebt_table_info, as the next ones */
const volatile __u32 ebt_nentries = 0;
const volatile __u32 ebt_hook_entry = 0;
const volatile __u32 ebt_entries = 0;
const volatile __u32 ebt_counters = 0;
const volatile __u32 ebt_table_first = 0; /* the table is the first argument: from 5.16 on */

/* Positions in chains and rules, which are ABI: include/uapi/linux/netfilter_bridge/ebtables.h. */
#define CHAIN_NAME 4 /* after a number that is 0 for a chain, and not 0 for a rule */
#define CHAIN_COUNTERS 36
#define CHAIN_POLICY 40
#define CHAIN_SIZE 48
#define EBT_TARGET_OFFSET 104
#define EBT_NEXT_OFFSET 108
#define EBT_TARGET_DATA 40

#define EBT_DROP -2
#define EBT_HOOKS 6
#define COUNTER_SIZE 16
#define ANY_HOOK 0xff

/* scan_rule adds a rule to the list if it drops: 0 at the end of the table. */
static inline_always int scan_rule(struct xt_scan *s)
{
	struct xt_drop d = {};
	__u64 at = s->at, target;
	__u32 next;

	if (at >= s->end || s->key.index >= MAX_DROPS)
		return 0;
	if (read_int(at) == 0) {
		s->chain_name = at + CHAIN_NAME;
		s->counters = read_int(at + CHAIN_COUNTERS);
		s->rule = 0;
		s->at = at + CHAIN_SIZE;
		s->hook = ANY_HOOK;
		for (int h = 0; h < EBT_HOOKS; h++) {
			if (read_word(s->hooks + 8 * h) == at)
				s->hook = 1 << h;
		}
		return 1;
	}
	next = read_int(at + EBT_NEXT_OFFSET);
	if (!next)
		return 0;
	s->at = at + next;
	target = at + read_int(at + EBT_TARGET_OFFSET);
	d.counter = s->base + (s->counters + s->rule) * COUNTER_SIZE;
	d.rule = ++s->rule;
	if (read_word(read_word(target) + xt_target_function) || (__s32)read_int(target + EBT_TARGET_DATA) != EBT_DROP)
		return 1;
	d.count = read_word(d.counter);
	d.chain_name = s->chain_name;
	d.hooks = s->hook;
	bpf_map_update_elem(&xt_drops, &s->key, &d, 0);
	s->key.index++;
	return 1;
}

/* scan_rules is scan_rule for several. The verifier checks it separately, as it does step. */
__attribute__((noinline)) int scan_rules(__u32 zero)
{
	struct xt_scan *s = bpf_map_lookup_elem(&xt_scans, &zero);

	if (!s)
		return 0;
	for (int i = 0; i < ENTRIES_AT_ONCE; i++) {
		if (!scan_rule(s))
			return 0;
	}
	return 1;
}

/* list_rules makes the list of a table's rules that drop, for this CPU. */
static inline_always void list_rules(__u64 info, __u32 cpu)
{
	__u32 zero = 0;
	struct xt_scan *s = bpf_map_lookup_elem(&xt_scans, &zero);
	struct xt_list_key key = { info, cpu };
	struct xt_list list = { generation_of_tables() };
	__u64 counters;

	if (!s)
		return;
	__builtin_memset(s, 0, sizeof(*s));
	s->key.info = info;
	s->key.cpu = cpu;
	s->at = read_word(info + ebt_entries);
	s->end = s->at + read_int(info + ebt_entries_size);
	s->hooks = info + ebt_hook_entry;
	counters = read_int(info + ebt_nentries) * COUNTER_SIZE; /* of a CPU, in whole cache lines */
	s->base = info + ebt_counters + cpu * ((counters + CACHE_LINE - 1) & ~(CACHE_LINE - 1));
	for (int i = 0; i < MAX_SCANS; i++) {
		if (!scan_rules(zero))
			break;
	}
	list.n = s->key.index;
	bpf_map_update_elem(&xt_lists, &key, &list, 0);
}

/* begin_bridge_table stores that a packet passes a table. */
static inline_always void begin_bridge_table(struct pt_regs *ctx)
{
	struct passage *p = begin_table(ctx, BY_EBT, ebt_table_first, ebt_table_private);

	if (p && !has_list(p))
		list_rules(p->info, p->cpu);
}

/* find_ebt finds the rule or policy of a table that dropped a packet. */
static inline_always int find_ebt(struct passage *p, struct found *f, __u32 level)
{
	__u64 chain = read_word(p->info + ebt_hook_entry + 8 * (p->hook & 7));

	if (!find_counted(p, f, level)) {
		if (!chain || (__s32)read_int(chain + CHAIN_POLICY) != EBT_DROP)
			return 0;
		f->is_policy = 1;
		f->rule = 0;
		f->chain_name = chain + CHAIN_NAME;
	}
	f->table = p->table + ebt_table_name;
	f->family = PF_BRIDGE;
	return 1;
}

#endif

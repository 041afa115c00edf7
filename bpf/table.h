/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rule of an address.
 */
#ifndef TABLE_H
#define TABLE_H

#include "state.h"

/* row returns the row at an index, ~0 if there is none. The verifier checks it separately: find_rule loops. */
__attribute__((noinline)) __u32 row(__u32 index)
{
	__u32 at = index / 2;
	struct row_pair *p = bpf_map_lookup_elem(&rows, &at);

	return p ? p->both >> (index & 1) * 32 : ~0;
}

/*
 * find_rule finds the rule in force at vaddr: it sets w->rule to the rule's index, and w->last if vaddr is the last byte
 * of the rule's row. It returns whether there is none. The verifier checks it separately, because of the loop.
 */
__attribute__((noinline)) int find_rule(__u32 slot, __u64 vaddr)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 number;
	struct page *p;
	__u32 at, lo, hi;

	if (!w)
		return 1;
	number = (vaddr >> 16) - w->table.base;
	if (number >= w->table.num_pages)
		return 1;
	at = w->table.pages + (__u32)number;
	p = bpf_map_lookup_elem(&pages, &at);
	if (!p)
		return 1;
	lo = p->first; /* at or below vaddr */
	hi = lo + p->n;
	for (int i = 0; i < 17; i++) {
		if (hi - lo <= 1)
			break;
		__u32 mid = lo + (hi - lo) / 2;
		if ((__u16)row(mid) <= (__u16)vaddr)
			lo = mid;
		else
			hi = mid;
	}
	at = hi < p->first + p->n ? (__u16)row(hi) : 0; /* of the next row; 0: of the next page */
	w->last = (__u16)(vaddr + 1) == at;
	w->rule = w->table.rules + (row(lo) >> 16);
	return 0;
}

/* last_rule returns the rule that known_rule returned last. */
static inline_always struct rule *last_rule(struct walk *w)
{
	return &w->known[w->known_at % KNOWN].rule;
}

/* known_rule returns the rule in force at vaddr, from the cache if possible. */
static inline_always struct rule *known_rule(struct walk *w, __u32 slot, __u64 vaddr)
{
	__u64 key = vaddr << 16 | (__u16)w->table.serial;
	struct known *k;
	struct rule *r;

	w->known_at = vaddr ^ vaddr >> 12 ^ w->table.serial << 3;
	k = &w->known[w->known_at % KNOWN];
	if (k->key == key)
		return &k->rule;
	if (find_rule(slot, vaddr))
		return NULL;
	r = bpf_map_lookup_elem(&rules, &w->rule);
	if (!r)
		return NULL;
	k->rule = *r;
	k->rule.last = w->last;
	k->key = key;
	return &k->rule;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rule of an address.
 */
#ifndef TABLE_H
#define TABLE_H

#include "state.h"

/* row returns the row at an index, ~0 if there is none. */
static inline_always __u32 row(__u32 index)
{
	__u32 at = index / 2;
	struct row_pair *p = bpf_map_lookup_elem(&rows, &at);

	return p ? p->both >> (index & 1) * 32 : ~0;
}

/* find_rule finds the rule in force at vaddr. *last is set if vaddr is the last byte of the rule's row. */
static inline_always struct rule *find_rule(struct walk *w, __u64 vaddr, __u16 *last)
{
	__u64 number = (vaddr >> 16) - w->table.base;
	struct page *p;
	__u32 at, lo, hi;

	if (number >= w->table.num_pages)
		return NULL;
	at = w->table.pages + (__u32)number;
	p = bpf_map_lookup_elem(&pages, &at);
	if (!p)
		return NULL;
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
	*last = (__u16)(vaddr + 1) == at;
	at = w->table.rules + (row(lo) >> 16);
	return bpf_map_lookup_elem(&rules, &at);
}

/* known_rule returns find_rule's result, from the cache if possible. */
static inline_always struct rule *known_rule(struct walk *w, __u64 vaddr)
{
	__u64 key = vaddr << 16 | (__u16)w->table.serial;
	struct known *k = &w->known[(vaddr ^ vaddr >> 12 ^ w->table.serial << 3) % KNOWN];
	struct rule *r;
	__u16 last;

	if (k->key == key)
		return &k->rule;
	r = find_rule(w, vaddr, &last);
	if (!r)
		return NULL;
	k->rule = *r;
	k->rule.last = last;
	k->key = key;
	return &k->rule;
}

#endif

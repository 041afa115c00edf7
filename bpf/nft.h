/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rules of nf_tables. A chain contains the rules in two generations, of which one is used. From 5.17 on a
 * generation is a blob of rules one after the other, before it is an array of pointers to rules; the expressions
 * follow a rule's head.
 */
#ifndef NFT_H
#define NFT_H

#include "netfilter.h"

/*
 * Positions in structs of nf_tables, in bytes, set when the programs are loaded: the types are in a module's BTF.
 */
const volatile __u32 pkt_state = 0;         /* nft_pktinfo: the nf_hook_state */
const volatile __u32 chain_rules = 0;       /* nft_chain: the rules of both generations */
const volatile __u32 chain_table = 0;       /* nft_chain: the table */
const volatile __u32 chain_name = 0;        /* nft_chain: the address of the name */
const volatile __u32 policy_before = 0;     /* nft_base_chain: the policy, before the nft_chain */
const volatile __u32 table_family = 0;      /* nft_table: bit field of 6 bits */
const volatile __u32 table_name = 0;        /* nft_table: the address of the name */
const volatile __u32 rules_by_pointer = 0;  /* before 5.17 */

/* Verdicts of nf_tables, in addition to netfilter's: enum nft_verdicts. */
#define NFT_JUMP -3
#define NFT_GOTO -4

#define REG_VERDICT 0 /* number of the register */

#define HANDLE_BITS 42
#define RULE_HEAD 24 /* bytes of struct nft_rule before the expressions, the last 8 as a bit field */
#define RULES_AT_ONCE 64
#define MAX_SEARCHES 256 /* for a packet: of so many rules each, or of chains */

ARRAY(nft_generation, __u64);

static inline_always __u64 generation_of_rules(void) { return generation(&nft_generation); }

static inline_always void change_rules(void) { next_generation(&nft_generation); }

static inline_always __u64 skb_of(__u64 pktinfo) { return read_word(pktinfo); }

/* decide stores the verdict that an expression gives. */
static inline_always void decide(struct passage *p, __u64 expr, __s32 code, __u64 chain)
{
	if (code == NFT_JUMP || code == NFT_GOTO) {
		p->jumped[p->jumps & (MAX_JUMPS - 1)] = chain;
		p->jumps++;
	} else if (is_drop(code)) {
		p->decision = DROPPED;
		p->expr = expr;
	} else if (is_queued(code)) {
		p->decision = QUEUED;
		p->expr = expr;
	} else if (code >= 0) {
		p->decision = ENDED;
	}
}

/* immediate stores the verdict of a rule's last expression, if it gives one: struct nft_immediate_expr. */
static inline_always void immediate(__u64 expr, __u64 skb)
{
	struct {
		__s32 code;
		__u32 pad;
		__u64 chain;
		__u8 dreg;
	} imm = {};
	struct passage *p = passage_of(skb);

	bpf_probe_read_kernel(&imm, 17, (void *)expr + 8);
	if (p && imm.dreg == REG_VERDICT)
		decide(p, expr, imm.code, imm.chain);
}

/* begin_rules begins to search the rules of a chain: 0 if they do not contain the expression. */
static inline_always int begin_rules(struct found *f, __u64 chain, int generation)
{
	f->chain = chain;
	f->at = read_word(chain + chain_rules + 8 * generation);
	f->rule = 1;
	if (rules_by_pointer)
		return f->at != 0;
	__u64 size = read_word(f->at);

	f->at += 8;
	return f->expr - f->at < size;
}

/* next_rule looks at a rule: 1 if it contains the expression, -1 at the end, 0 if the search continues. */
static inline_always int next_rule(struct found *f)
{
	__u64 head, rule = f->at, first, size;

	if (rules_by_pointer) {
		rule = read_word(f->at);
		if (!rule)
			return -1;
		head = read_word(rule + RULE_HEAD - 8);
		f->handle = head & ((1ULL << HANDLE_BITS) - 1);
		size = head >> (HANDLE_BITS + 2) & 0xfff; /* after 2 bits of genmask */
		first = rule + RULE_HEAD;
		f->at += 8;
	} else {
		if (bpf_probe_read_kernel(&head, sizeof(head), (void *)rule) || head & 1) /* the last one */
			return -1;
		size = head >> 1 & 0xfff;
		f->handle = head >> 13 & ((1ULL << HANDLE_BITS) - 1);
		first = rule + 8;
		f->at = first + size;
	}
	if (f->expr - first < size)
		return 1;
	f->rule++;
	return 0;
}

/* begin_next begins to search the next chain that the packet passed, the last one first: 0 if there are no more. */
static inline_always int begin_next(struct found *f, struct passage *p)
{
	__u32 jumps = p->jumps > MAX_JUMPS ? MAX_JUMPS : p->jumps, n = f->tried / 2;
	__u64 chain = p->chain;

	if (n > jumps)
		return 0;
	if (n < jumps)
		chain = p->jumped[(p->jumps - 1 - n) & (MAX_JUMPS - 1)];
	f->searching = begin_rules(f, chain, f->tried & 1);
	f->tried++;
	return 1;
}

/*
 * search looks at some rules of the chains that the packet passed: 1 if it found the rule that contains the
 * expression, -1 if there is none, 0 if the search continues. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int search(__u32 level)
{
	struct found *f = bpf_map_lookup_elem(&founds, &level);
	struct passage *p;
	int r = 0;

	if (!f)
		return -1;
	if (!f->searching) {
		p = passage_of(f->skb);
		if (!p || !begin_next(f, p))
			return -1;
	}
	for (int i = 0; i < RULES_AT_ONCE && f->searching && !r; i++)
		r = next_rule(f);
	if (r < 0)
		f->searching = r = 0;
	return r;
}

/* find_nft_rule finds the rule of f->expr. */
static inline_always int find_nft_rule(struct found *f, __u32 level)
{
	for (int i = 0; i < MAX_SEARCHES; i++) {
		int r = search(level);

		if (r > 0)
			return 1;
		if (r < 0)
			break;
	}
	f->chain = 0;
	f->rule = 0;
	f->handle = 0;
	return 0;
}

static inline_always void name_chain(struct found *f, __u64 chain)
{
	f->chain_name = read_word(chain + chain_name);
}

/* find_nft finds the rule or policy that dropped a packet: in_chain: while a chain ran. */
static inline_always int find_nft(struct passage *p, struct found *f, __u32 level, int in_chain)
{
	__u64 table = read_word(p->chain + chain_table);
	__u8 policy = 1;

	if (p->decision == UNDECIDED) {
		bpf_probe_read_kernel(&policy, sizeof(policy), (void *)p->chain - policy_before);
		if (policy != NF_DROP && !in_chain)
			return 0;
		f->is_policy = 1;
		name_chain(f, p->chain);
	} else if (p->decision == DROPPED || f->is_queue) {
		f->expr = p->expr;
		if (find_nft_rule(f, level))
			name_chain(f, f->chain);
	} else {
		return 0;
	}
	f->table = read_word(table + table_name);
	f->family = read_int(table + table_family) & 63;
	return 1;
}

#endif

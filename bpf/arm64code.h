/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finding the return address by arm64 code.
 */
#ifndef ARM64CODE_H
#define ARM64CODE_H

#include "table.h"

/* Instructions. A pair is x29 and x30, n a number of bytes. */
#define IS_RET(i) ((i) == 0xd65f03c0 || ((i) & ~0x400) == 0xd65f0bff) /* ret, retaa, retab */
#define IS_SIGN(i) (((i) & ~0x40) == 0xd503233f) /* paciasp, pacibsp */
#define IS_AUTHENTICATE(i) (((i) & ~0x40) == 0xd50323bf) /* autiasp, autibsp */
#define IS_BTI_C(i) ((i) == 0xd503245f)
#define IS_PUSH_PAIR(i) (((i) & 0xffc07fff) == 0xa9807bfd) /* stp x29, x30, [sp, -n]! */
#define IS_STORE_PAIR(i) (((i) & 0xffc07fff) == 0xa9007bfd) /* stp x29, x30, [sp, n] */
#define IS_SUB_SP(i) (((i) & 0xffc003ff) == 0xd10003ff) /* sub sp, sp, n */
#define IS_ADD_SP(i) (((i) & 0xffc003ff) == 0x910003ff) /* add sp, sp, n */
#define IS_SET_FP(i) (((i) & 0xffc003ff) == 0x910003fd) /* add x29, sp, n */
#define PAIR_BYTES(i) (-((__s32)((i) << 10) >> 25) * 8)
#define IMMEDIATE(i) ((i) >> 10 & 0xfff)

/*
 * at_edge reports whether the code at ip is the beginning of a function, before x29 is changed, or the end of a
 * function, after x29 is restored: then the link register is the return address. *pushed is the number of bytes
 * that the function pushed on the stack.
 */
static inline_always int at_edge(__u64 ip, __u32 *pushed)
{
	struct {
		__u32 second, before, at, next;
	} code;

	*pushed = 0;
	if (bpf_probe_read_user(&code, sizeof(code), (void *)(ip - 8)))
		return 0;
	if (IS_SET_FP(code.at) && IS_PUSH_PAIR(code.before))
		*pushed = PAIR_BYTES(code.before);
	else if (IS_SET_FP(code.at) && IS_STORE_PAIR(code.before) && IS_SUB_SP(code.second))
		*pushed = IMMEDIATE(code.second);
	else if (IS_STORE_PAIR(code.at) && IS_SUB_SP(code.before))
		*pushed = IMMEDIATE(code.before);
	else if (IS_ADD_SP(code.at) && (IS_RET(code.next) || IS_AUTHENTICATE(code.next)))
		*pushed = IMMEDIATE(code.at);
	else
		return IS_RET(code.at) || IS_SIGN(code.at) || IS_AUTHENTICATE(code.at) || IS_BTI_C(code.at) ||
		       IS_PUSH_PAIR(code.at);
	return 1;
}

/*
 * stale reports whether the link register may be the address after the function's last call, rather than the
 * function's return address: then no row covers that address either.
 */
static inline_always int stale(struct walk *w, __u32 slot, __u64 lr)
{
	struct rule *r;

	if (lr <= w->start || lr > w->end)
		return 0;
	if (w->kind >= TABLE_HOT_SPOT)
		return 1; /* no table */
	if (find_rule(slot, lr - 1 - w->bias))
		return 1;
	r = bpf_map_lookup_elem(&rules, &w->rule);
	return !r || r->cfa == CFA_NONE;
}

/*
 * by_code goes to the caller in the link register, where the return address stays in a function that called no
 * other function.
 */
static inline_always int by_code(struct walk *w, __u32 slot)
{
	__u64 lr = w->lr & w->code_mask;
	__u32 pushed;

	if (w->returned || !called(lr) || (!at_edge(w->ip, &pushed) && stale(w, slot, lr)))
		return END_NO_RULE;
	w->next.ip = lr;
	w->next.ra_at = 0;
	w->next.sp = w->sp + pushed;
	w->next.fp = w->fp;
	return reach(slot);
}

#endif

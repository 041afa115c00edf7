/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What arm64 code shows about a frame.
 */
#ifndef ARM64CODE_H
#define ARM64CODE_H

#include "table.h"

/* Instructions. A pair is x29 and x30. */
#define RET 0xd65f03c0
#define RET_SIGNED 0xd65f0bff   /* retaa; retab with 0x400 */
#define PACIASP 0xd503233f
#define AUTIASP 0xd50323bf
#define KEY_B 0x40               /* pacibsp, autibsp */
#define BTI_C 0xd503245f
#define IS_PUSH_PAIR(i) (((i) & 0xffc07fff) == 0xa9807bfd) /* stp x29, x30, [sp, -n]! */
#define IS_SET_FP(i) (((i) & 0xffc003ff) == 0x910003fd)    /* add x29, sp, n */

/*
 * at_edge reports whether the code at ip is the beginning of a function, before x29 is
 * changed, or its end: then the link register is the return address. *pushed is the number
 * of bytes that the function has on the stack.
 */
static inline_always int at_edge(__u64 ip, __u32 *pushed)
{
	__u32 code[2]; /* before ip, and at ip */

	*pushed = 0;
	if (bpf_probe_read_user(code, sizeof(code), (void *)(ip - 4)))
		return 0;
	if (IS_SET_FP(code[1]) && IS_PUSH_PAIR(code[0])) {
		*pushed = -((__s32)(code[0] << 10) >> 25) * 8;
		return 1;
	}
	return code[1] == RET || (code[1] & ~0x400) == RET_SIGNED || (code[1] & ~KEY_B) == PACIASP ||
	       (code[1] & ~KEY_B) == AUTIASP || code[1] == BTI_C || IS_PUSH_PAIR(code[1]);
}

/*
 * stale reports whether the link register may be the address after the function's last
 * call, rather than its return address: then no row covers that address either.
 */
static inline_always int stale(struct walk *w, __u64 lr)
{
	struct rule *r;

	if (lr <= w->start || lr > w->end)
		return 0;
	if (w->kind >= TABLE_HOTSPOT)
		return 1; /* no table */
	r = find_rule(w, lr - 1 - w->bias);
	return !r || r->cfa == CFA_NONE;
}

/* by_code goes to the caller in the link register, which a function that has called none keeps there. */
static inline_always int by_code(struct walk *w, __u32 slot)
{
	__u64 lr = w->lr & w->code_mask;
	__u32 pushed;

	if (w->returned || !called(lr) || (!at_edge(w->ip, &pushed) && stale(w, lr)))
		return END_NO_RULE;
	w->next.ip = lr;
	w->next.ra_at = 0;
	w->next.sp = w->sp + pushed;
	w->next.fp = w->fp;
	return reach(slot);
}

#endif

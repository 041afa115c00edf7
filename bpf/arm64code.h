/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What arm64 code shows about a frame.
 */
#ifndef ARM64CODE_H
#define ARM64CODE_H

#include "state.h"

/* by_code goes to the caller in the link register, which a function that has called none keeps there. */
static inline_always int by_code(struct walk *w, __u32 slot)
{
	__u64 lr = w->lr & w->code_mask;

	if (w->returned || !called(lr))
		return END_NO_RULE;
	w->next.ip = lr;
	w->next.ra_at = 0;
	w->next.sp = w->sp;
	w->next.fp = w->fp;
	return reach(slot);
}

#endif

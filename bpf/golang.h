/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The goroutine that a thread of Go runs. A goroutine does not run on the stack of Go's runtime.
 */
#ifndef GOLANG_H
#define GOLANG_H

#include "state.h"

/*
 * Offsets in Go's structs, which package unwind defines, too: of a g's thread (m), and of the registers in
 * g.sched.
 */
#define GO_M 48
#define GO_SCHED_SP 56
#define GO_SCHED_PC 64
#define GO_LR_BEFORE_BP 8

/*
 * thread_of returns the address of a g's m, which begins with the address of the thread's first g; 0 if this is no
 * g.
 */
static inline_always __u64 thread_of(__u64 g)
{
	__u64 m = read_user(g + GO_M);

	return m && read_user(read_user(m) + GO_M) == m ? m : 0;
}

/*
 * find_goroutine finds the goroutine that the thread runs: curg is the offset of the goroutine in the thread's m.
 */
static inline_always int find_goroutine(struct walk *w, __u32 curg)
{
	__u64 m = thread_of(w->regs[GO_G]);

	if (!m && LR < 0) /* C code uses the register for other values */
		m = thread_of(goroutine(w->regs, thread_data(bpf_get_current_task())));
	if (!m)
		return END_UNREADABLE;
	w->goroutine = read_user(m + curg);
	return w->goroutine ? END_NONE : END_NO_RULE; /* without one it runs Go's scheduler */
}

#endif

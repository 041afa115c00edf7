/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finding the return address by x86-64 instructions. Package unwind reads them in the same way.
 */
#ifndef X86CODE_H
#define X86CODE_H

#include "state.h"

/* skip drops n bytes of code, 1 to 7. */
static inline_always void skip(struct code *c, int n)
{
	c->lo = c->lo >> 8 * n | c->hi << (64 - 8 * n);
	c->hi >>= 8 * n;
}

/* is reports whether code begins with an instruction of n bytes. */
#define is(c, n, bytes) (((c).lo & ~0ULL >> (64 - 8 * (n))) == (bytes))

/* Instructions, the first byte lowest. */
#define ENDBR64 0xfa1e0ff3ULL
#define PUSH_RBP 0x55
#define POP_RBP 0x5d
#define LEAVE 0xc9
#define RET 0xc3
#define RET_N 0xc2             /* with two bytes */
#define BND_RET 0xc3f2
#define REP_RET 0xc3f3
#define IS_ENTER(c) (is(c, 4, 0xe5894855) || is(c, 4, 0xec8b4855)) /* push %rbp; mov %rsp, %rbp */
#define IS_SET_FP(c) (is(c, 3, 0xe58948) || is(c, 3, 0xec8b48))    /* mov %rsp, %rbp */
#define IS_DROP(c) (is(c, 3, 0xec8948) || is(c, 3, 0xe58b48))      /* mov %rbp, %rsp */
#define SUB_RSP 0xec8348       /* with one byte */
#define ADD_RSP 0xc48348       /* with one byte */
#define ADD_RSP4 0xc48148      /* with four bytes */
#define LEA_RBP_RSP 0x658d48   /* lea off(%rbp), %rsp with one byte */
#define VZEROUPPER 0x77f8c5

/* Instructions of an epilogue: rsp is restored, six registers are popped. */
#define EPILOGUE 8

/*
 * unwind_instruction does to w->next what the instruction at the beginning of w->insns does, and drops it. It returns 1
 * for an instruction of no epilogue. The verifier checks it separately, and not for each instruction.
 */
__attribute__((noinline)) int unwind_instruction(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct code c;
	__u64 sp, fp;
	int n;

	if (!w)
		return 1;
	c = w->insns;
	sp = w->next.sp;
	fp = w->next.fp;
	if (is(c, 1, POP_RBP) || is(c, 1, LEAVE)) {
		if (is(c, 1, LEAVE))
			sp = fp;
		if (bpf_probe_read_user(&fp, sizeof(fp), (void *)sp))
			return 1;
		sp += 8;
		n = 1;
	} else if ((c.lo & 0xf8) == 0x58 && !is(c, 1, 0x5c)) { /* pop, but not into rsp */
		sp += 8;
		n = 1;
	} else if ((c.lo & 0xf8ff) == 0x5841) { /* pop r8 … r15 */
		sp += 8;
		n = 2;
	} else if (IS_DROP(c)) {
		sp = fp;
		n = 3;
	} else if (is(c, 4, ENDBR64)) {
		n = 4;
	} else if ((c.lo & 0xf8ff) == 0xd0ff) { /* call a register */
		n = 2;
	} else if (is(c, 3, SUB_RSP)) {
		sp -= (__s8)(c.lo >> 24);
		n = 4;
	} else if (is(c, 3, ADD_RSP)) {
		sp += (__s8)(c.lo >> 24);
		n = 4;
	} else if (is(c, 3, ADD_RSP4)) {
		sp += (__s32)(c.lo >> 24);
		n = 7;
	} else if (is(c, 3, LEA_RBP_RSP)) {
		sp = fp + (__s8)(c.lo >> 24);
		n = 4;
	} else if (is(c, 3, VZEROUPPER)) {
		n = 3;
	} else {
		return 1;
	}
	skip(&c, n);
	w->insns = c;
	w->next.sp = sp;
	w->next.fp = fp;
	return 0;
}

/*
 * by_epilogue goes to the caller if the code at ip, in w->insns, does nothing but drop the frame and
 * return. It may also call a function before, as CPython's trampolines do.
 */
static inline_always int by_epilogue(struct walk *w, __u32 slot)
{
	struct code c;
	__u64 sp;

	w->next.sp = w->sp;
	w->next.fp = w->fp;
	for (int i = 0; i < EPILOGUE; i++)
		if (unwind_instruction(slot))
			break;
	c = w->insns;
	sp = w->next.sp;
	if (is(c, 2, BND_RET) || is(c, 2, REP_RET))
		skip(&c, 1);
	if ((!is(c, 1, RET) && !is(c, 1, RET_N)) || sp - w->sp > NEAR)
		return END_NO_RULE;
	if (read_stack(w, &w->next.ip, sp, 1))
		return END_UNREADABLE;
	w->next.ra_at = sp;
	w->next.sp = sp + 8 + (is(c, 1, RET_N) ? (__u16)(c.lo >> 8) : 0);
	return reach(slot);
}

/*
 * by_prologue goes to the caller if the code at ip begins to make a frame: the return
 * address is at rsp, or next to the rbp that was just pushed.
 */
static inline_always int by_prologue(struct walk *w, __u32 slot, struct code c)
{
	__u64 words[2];
	__u8 before = 0;
	int pushed;

	if (is(c, 4, ENDBR64))
		skip(&c, 4);
	if (IS_SET_FP(c) && !bpf_probe_read_user(&before, 1, (void *)(w->ip - 1)) && before == PUSH_RBP)
		pushed = 1;
	else if (IS_ENTER(c))
		pushed = 0;
	else
		return END_NO_RULE;
	if (read_stack(w, words, w->sp, 2))
		return END_UNREADABLE;
	w->next.ip = pushed ? words[1] : words[0];
	w->next.ra_at = w->sp + 8 * pushed;
	w->next.sp = w->next.ra_at + 8;
	w->next.fp = w->fp;
	return reach(slot);
}

/*
 * by_leaf goes to the caller of an innermost function that makes no frame, in a program whose other functions have frame
 * pointers: rbp's frame is the caller's. The word at rsp is then the return address of a call of this function, and the
 * one beside rbp is not. In a function with a frame, an old return address may be at rsp, but both are of calls of it.
 */
static inline_always int by_leaf(struct walk *w, __u32 slot)
{
	__u64 ra, target, framed = 0;

	if (w->returned || w->kind != TABLE_FP || read_stack(w, &ra, w->sp, 1))
		return END_NO_RULE;
	target = call_before(ra);
	if (target <= CALL_INDIRECT || w->ip - target > FUNCTION_SIZE)
		return END_NO_RULE;
	if (!read_stack(w, &framed, w->fp + 8, 1))
		framed = call_before(framed);
	if (framed >= target && framed <= w->ip)
		return END_NO_RULE;
	w->next.ip = ra;
	w->next.ra_at = w->sp;
	w->next.sp = w->sp + 8;
	w->next.fp = w->fp;
	return reach(slot);
}

/*
 * by_code goes to the caller if the next instructions show where the return address is: at the end of a function
 * and, in the innermost frame, at the beginning of the function, or if no frame was made.
 */
static inline_always int by_code(struct walk *w, __u32 slot)
{
	struct code c = {};

	bpf_probe_read_user(&c, sizeof(c), (void *)w->ip);
	w->insns = c;
	if (!by_epilogue(w, slot))
		return END_NONE;
	if (!w->returned && !by_prologue(w, slot, c))
		return END_NONE;
	return by_leaf(w, slot);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The callers of code that no table covers.
 */
#ifndef CODE_H
#define CODE_H

/* A function is assumed to be at most so long, if a call of it is the only evidence. */
#define FUNCTION_SIZE 0x10000

#if defined(__TARGET_ARCH_x86)
#include "x86code.h"
#else
#include "arm64code.h"
#endif

/*
 * by_frame_pointer goes to the caller by the frame pointer. If that does not point up the
 * stack, it may point to another stack, as where Go switches stacks: then a call must
 * precede the return address.
 */
static inline_always int by_frame_pointer(struct walk *w, __u32 slot)
{
	/* No stack begins in code made at run time. */
	int none = w->kind == TABLE_MADE ? END_FP : END_ZERO;
	__u64 pair[2];
	int end, far = w->fp + BELOW_SP - w->sp > NEAR;

	if (w->fp == 0) /* arm64's procedure call standard ends the list of frames so; rbp may contain any value */
		return LR >= 0 && none == END_ZERO ? END_ENTRY : none;
	if (w->fp & 7 || (far && w->kind != TABLE_FP && w->framed != FRAMED_ANYWHERE))
		return END_FP;
	if (read_stack(w, pair, w->fp, 2))
		return END_UNREADABLE;
	pair[1] &= w->code_mask;
	if (pair[1] == 0)
		return none;
	if (far && !called(pair[1]))
		return END_FP;
	w->next.ip = pair[1];
	w->next.ra_at = w->fp + 8;
	w->next.sp = w->fp + 16;
	w->next.fp = pair[0];
	end = reach(slot);
	return end == END_NO_MAPPING && !called(pair[1]) ? END_FP : end;
}

/* The return address of an innermost function without a frame is assumed to be within so many words from sp on. */
#define LEAF_WORDS 3

/*
 * by_guess goes to the caller of an innermost function that has pushed few words or none, such as system call
 * wrappers, PLT stubs and hand-written code: the return address is one of n words. In code that was made at run
 * time, only a call to this function counts, because there may be old return addresses below the variables.
 */
static inline_always int by_guess(struct walk *w, __u32 slot, int n)
{
	__u64 words[LEAF_WORDS], target;

	if (w->returned || bpf_probe_read_user(words, sizeof(words), (void *)w->sp))
		return END_NO_RULE;
	for (int i = 0; i < n; i++) {
		target = call_before(words[i]);
		if (!target || (w->kind >= TABLE_MADE && w->ip - target > FUNCTION_SIZE))
			continue;
		w->next.ip = words[i];
		w->next.ra_at = w->sp + 8 * i;
		w->next.sp = w->next.ra_at + 8;
		w->next.fp = w->fp;
		if (!reach(slot))
			return END_NONE;
	}
	return END_NO_RULE;
}

#define UNCOVERED -1 /* from step: no row covers the frame's code */

/* Size of the code at the entry point, which nothing calls; it is often too short for a row. */
#define ENTRY_SIZE 64

/*
 * uncovered goes to the caller of code without CFI, after step has returned UNCOVERED: assembly, or code that was
 * made at run time. If the instructions show no return address, the code uses a frame pointer, or it is an
 * innermost function without one. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int uncovered(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	int end, file;

	if (!w)
		return END_INTERNAL;
	if (w->n >= MAX_FRAMES - 1)
		return END_DEPTH;
	file = w->kind < TABLE_HOT_SPOT; /* with a table */
	if (file && w->ip - w->bias - w->table.entry < ENTRY_SIZE)
		return END_ENTRY;
	if (!(w->framed && w->returned) && !by_code(w, slot))
		return END_NONE;
	if (file && !w->framed && !by_guess(w, slot, 1))
		return END_NONE;
	end = by_frame_pointer(w, slot);
	if (!end || !by_guess(w, slot, LEAF_WORDS))
		return END_NONE;
	if (!file || end == END_NO_MAPPING || ((end == END_ENTRY || end == END_ZERO) && w->returned))
		return end;
	return END_NO_RULE;
}

/*
 * original finds the original return address of a function that a uretprobe redirected. The verifier checks it
 * separately, because of the loop.
 */
__attribute__((noinline)) int original(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct uprobe_task *u = read_field(task, utask);
	struct return_instance *ri;

	if (!w || !u || !w->returned)
		return END_NO_RULE;
	ri = read_field(u, return_instances);
	for (int i = 0; i < 64; i++) { /* MAX_URETPROBE_DEPTH */
		if (!ri)
			break;
		if (returns_from(read_field(ri, stack), w->sp, w->ra_at)) {
			w->ip = read_field(ri, orig_ret_vaddr);
			return END_NONE;
		}
		ri = read_field(ri, next);
	}
	return END_NO_RULE;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The callers of code that no table covers.
 */
#ifndef CODE_H
#define CODE_H

#include "state.h"

/* by_frame_pointer goes to the caller by the frame pointer. */
static inline_always int by_frame_pointer(struct walk *w)
{
	__u64 pair[2];

	if (w->fp == 0)
		return END_ENTRY;
	if (w->fp & 7)
		return END_FP; /* a value below sp is valid: Go switches stacks */
	if (read_stack(w, pair, w->fp, 2))
		return END_UNREADABLE;
	w->sp = w->fp + 16;
	w->ra_at = w->fp + 8;
	w->fp = pair[0];
	w->ip = pair[1];
	w->returned = 1;
	forget(w);
	return END_NONE;
}

/* A function without a row is assumed to have its return address within so many words from rsp on. */
#define LEAF_WORDS 3

/* Size of the code at the entry point, which has no caller; it is often too short to have a row. */
#define ENTRY_SIZE 64

/*
 * by_guess goes to the caller of a function that no row covers, such as system call
 * wrappers, PLT stubs and hand-written code: as innermost functions, they have pushed
 * few words or none.
 */
static inline_always int by_guess(struct walk *w, __u64 vaddr)
{
	__u64 words[LEAF_WORDS];

	if (vaddr - w->table.entry < ENTRY_SIZE)
		return END_ENTRY;
	if (!w->all || bpf_probe_read_user(words, sizeof(words), (void *)w->sp))
		return END_NO_RULE;
	for (int i = 0; i < LEAF_WORDS; i++) {
		if (!called(words[i]))
			continue;
		w->ra_at = w->sp + 8 * i;
		w->sp = w->ra_at + 8;
		w->ip = words[i];
		w->returned = 1;
		forget(w);
		return END_NONE;
	}
	return END_NO_RULE;
}

/* original finds the original return address of a function that a uretprobe redirected. */
static inline_always int original(struct walk *w)
{
	struct task_struct *task = bpf_get_current_task();
	struct uprobe_task *u = read_field(task, utask);
	struct return_instance *ri;

	if (!u || !w->returned)
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

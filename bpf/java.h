/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The methods that HotSpot's interpreter runs: each runs in a native frame, which the walk marked. The recorder
 * finds compiled methods by code addresses. Package internal/runtimes/hotspot describes the objects.
 */
#ifndef JAVA_H
#define JAVA_H

#include "runtime.h"

#if defined(__TARGET_ARCH_x86)

#define JAVA_FRAME (8 * 8)   /* bytes that are read of a frame, below the frame pointer */
#define JAVA_METHOD (3 * 8)  /* from the method to the frame pointer */
#define JAVA_CONST 8         /* in a method: to the constant part */
#define JAVA_BYTECODE 13     /* the register with the address of the bytecode: r13 */
#define JAVA_BLOCK 128       /* bytes of code for which the recorder is woken once */
#define JAVA_CODE 0x11000    /* maximum distance from JAVA_CONST's object to a bytecode */

/*
 * java_frame stores the interpreted frame with the native frame of number w->number. The verifier checks it separately,
 * as it does step.
 */
__attribute__((noinline)) int java_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 at, fp, method, constant = 0, h, bytecode;
	struct java *j;

	if (!w)
		return 1;
	j = body(w);
	if (!j)
		return 1;
	at = w->number;
	keep_whole(at);
	if (at >= MAX_FRAMES)
		return 1;
	fp = w->fps[at] & ~7ULL;
	if (read_object(w, fp - JAVA_FRAME, JAVA_FRAME))
		return 0;
	method = word(w, JAVA_FRAME - JAVA_METHOD);
	bytecode = word(w, JAVA_FRAME - j->bytecode);
	if (bpf_probe_read_user(&constant, sizeof(constant), (void *)method + JAVA_CONST) || read_object(w, constant, 40))
		return 0;
	if (!at && w->regs[JAVA_BYTECODE] - constant < JAVA_CODE)
		bytecode = w->regs[JAVA_BYTECODE];
	h = mix(0, constant);
	h = mix(h, word(w, 8));
	h = mix(h, word(w, 24));
	h = mix(h, word(w, 32));
	h = mix(h, w->out.head.generation); /* the memory may have belonged to another class */
	w->check = (__u32)h | 1;
	w->code_object = (method & ((1ULL << NATIVE_SHIFT) - 1)) | at << NATIVE_SHIFT;
	w->place = (bytecode - constant) << 1 & OFFSET_BITS;
	return add_frame(slot);
}

/*
 * java_step looks at the native frame of number w->number: it stores the method of an interpreted one, and wakes the
 * recorder for code that it may not know. It returns 1 after the last one. The verifier checks it separately, too.
 */
__attribute__((noinline)) int java_step(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 at, fp;

	if (!w)
		return 1;
	at = w->number;
	keep_whole(at);
	if (at >= w->out.head.frames || at >= MAX_FRAMES)
		return 1;
	fp = w->fps[at];
	if (fp & BLOB_FRAME && see(w, w->out.frames[at] / JAVA_BLOCK, w->out.head.generation))
		w->new_code |= NEW_FUNCTION;
	if (fp & INTERPRETED_FRAME && java_frame(slot))
		return 1;
	w->number = at + 1;
	return 0;
}

REPEAT(java_steps, java_step)

/* java stores the methods of the interpreted native frames, the innermost first. */
static inline_always void java(struct walk *w, __u32 slot)
{
	w->number = 0;
	for (int i = 0; i < REPEATS; i++)
		if (java_steps(slot))
			break;
}

#else

static inline_always void java(struct walk *w, __u32 slot) {} /* HotSpot's frames are not known: see hotspot.h */

#endif

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that CRuby runs. A variable of each thread points to the execution context of the thread, or of
 * the fiber that it runs. The context contains a stack, and the array of frames is at the end of this stack, the
 * innermost first. Package internal/runtimes describes the objects.
 */
#ifndef RUBY_H
#define RUBY_H

#include "runtime.h"

/* Offsets in objects, in bytes: they are the same in all versions. */
enum {
	CONTEXT_STACK = 0, /* in an execution context */
	CONTEXT_SIZE = 8,  /* in words */
	CONTEXT_FRAME = 16,
	CONTEXT_BYTES = 24,
	FRAME_PC = 0, /* in a frame */
	FRAME_ISEQ = 16,
	FRAME_EP = 32, /* where the environment is; it contains the flags */
	ISEQ_BODY = 16, /* in an instruction sequence */
	BODY_SIZE = 0,  /* in the body: with the type */
	BODY_CODE = 8,
	BODY_PATH = 64,
	BODY_LABEL = 80,
	BODY_FIRST = 88,
	BODY_BYTES = 96,
	OBJECT_FLAGS = 0, /* in all objects */
	STRING_LENGTH = 16,
	STRING_DATA = 24, /* or where it is */
	SHORT_STRING = 16, /* data in a string whose flags contain the length */
	ARRAY_FIRST = 16,
	OBJECT_BYTES = 40,
};

/* Flags of objects. */
#define RUBY_TYPE 0x1f
enum { RUBY_STRING = 5, RUBY_ARRAY = 7 };
#define RUBY_APART 0x2000 /* of a string: the data is not in it; of an array: the elements are */
#define SHORT_SHIFT 14
#define SHORT_MASK 0x1f

#define MAX_RUBY_STACK 0x10000000 /* words */

/* Flags of a frame, in the environment. */
#define FRAME_FINISH 0x20 /* a native call began with it */
#define FRAME_NATIVE 0x80 /* it belongs to a function in C */

/*
 * ruby_context sets w->stack, w->frame and w->last_frame for the current thread: w->frame is 0 if the thread has
 * no frames.
 */
__attribute__((noinline)) int ruby_context(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct ruby *r;
	__u64 stack, size, frame;

	if (!w)
		return 0;
	w->frame = w->envs_at = 0;
	r = body(w);
	if (!r || read_object(w, read_user(thread_variable(w, &r->context)), CONTEXT_BYTES))
		return 0;
	stack = word(w, CONTEXT_STACK);
	size = word(w, CONTEXT_SIZE);
	frame = word(w, CONTEXT_FRAME);
	if (size > MAX_RUBY_STACK || frame < stack || frame >= stack + 8 * size)
		return 0;
	w->frame = frame;
	w->stack = stack;
	w->last_frame = stack + 8 * size - r->frame_size; /* the outermost one is a placeholder */
	return 0;
}

/*
 * ruby_flags reads the flags of a frame. Most environments are in the thread's stack, the callers' environments
 * below: one read gets the environments of several frames. Other environments are objects. ep is where the
 * environment contains the flags.
 */
static inline_always int ruby_flags(struct walk *w, __u64 *flags, __u64 ep)
{
	__u64 at = ep - w->envs_at, last = ENVS - sizeof(*flags);

	if (at > last) {
		if (ep < w->stack + last || ep >= w->frame)
			return bpf_probe_read_user(flags, sizeof(*flags), (void *)ep);
		w->envs_at = 0; /* if that fails, envs is empty */
		if (bpf_probe_read_user(w->envs, ENVS, (void *)(ep - last)))
			return 1;
		w->envs_at = ep - last;
		at = last;
	}
	keep_whole(at);
	if (at > last)
		return 1;
	*flags = *(__u64 *)&w->envs[at];
	return 0;
}

/*
 * ruby_frame reads the frame at w->frame and goes to the caller: it sets w->code_object, 0 if the frame does not
 * belong to a Ruby function, w->instr and w->place. It returns 1 at the end. The verifier checks it separately, as
 * it does step.
 */
__attribute__((noinline)) int ruby_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 iseq, ep, flags;
	struct ruby *r;

	if (!w)
		return 1;
	r = body(w);
	/* The frames are next to each other: the window contains several. */
	if (!r || w->frame >= w->last_frame || read_stack(w, &w->instr, w->frame + FRAME_PC, 1) ||
	    read_stack(w, &iseq, w->frame + FRAME_ISEQ, 1) || read_stack(w, &ep, w->frame + FRAME_EP, 1))
		return 1;
	w->frame += r->frame_size;
	w->code_object = 0;
	if (!w->instr || !iseq)
		return 0;
	if (ruby_flags(w, &flags, ep) || flags & FRAME_NATIVE)
		return 0;
	w->code_object = iseq;
	w->place = flags & FRAME_FINISH ? FIRST_OF_CALL : 0;
	return 0;
}

/* ruby_text adds a string to a hash, or the first one of an array of some. It returns 1 if it cannot be read. */
static inline_always int ruby_text(struct walk *w, struct ruby *r, __u64 *hash, __u64 string)
{
	__u64 flags, at, size;

	if (read_object(w, string, OBJECT_BYTES))
		return 1;
	flags = word(w, OBJECT_FLAGS);
	if ((flags & RUBY_TYPE) == RUBY_ARRAY && flags & RUBY_APART) {
		string = word(w, ARRAY_FIRST);
		if (read_object(w, string, OBJECT_BYTES))
			return 1;
		flags = word(w, OBJECT_FLAGS);
	}
	size = word(w, STRING_LENGTH);
	at = string + STRING_DATA;
	if (flags & RUBY_APART) {
		at = word(w, STRING_DATA);
	} else if (r->short_strings) {
		size = flags >> SHORT_SHIFT & SHORT_MASK;
		at = string + SHORT_STRING;
	}
	return (flags & RUBY_TYPE) != RUBY_STRING || add_text(w, hash, at, size);
}

/*
 * ruby_texts completes the check of a function: it returns 1 if the name of the function or of the file cannot be
 * read.
 */
__attribute__((noinline)) int ruby_texts(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct ruby *r;
	__u64 texts = 0;

	if (!w)
		return 1;
	r = body(w);
	if (!r || ruby_text(w, r, &texts, w->name) || ruby_text(w, r, &texts, w->file))
		return 1;
	keep_check(w, texts);
	return 0;
}

/*
 * ruby_code sets w->check to a hash of the function's body, whose memory may be used for another function later,
 * and w->place to the place of the current instruction: the one before the instruction that runs next.
 */
__attribute__((noinline)) int ruby_code(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 h, off;

	if (!w || read_object(w, read_user(w->code_object + ISEQ_BODY), BODY_BYTES))
		return 1;
	off = w->instr - word(w, BODY_CODE);
	w->place |= (off ? off - 8 : 0) & OFFSET_BITS;
	h = mix(word(w, BODY_SIZE), word(w, BODY_CODE));
	w->file = word(w, BODY_PATH);
	w->name = word(w, BODY_LABEL);
	h = mix(mix(h, w->file), w->name);
	return !check_known(w, mix(h, word(w, BODY_FIRST))) && ruby_texts(slot);
}

FRAME(ruby_step, !w->frame || ruby_frame(slot), ruby_code)
REPEAT(ruby_steps, ruby_step)

/* ruby stores the frames of the Ruby functions that the current thread runs, the innermost first. */
static inline_always void ruby(struct walk *w, __u32 slot)
{
	w->tls = thread_data(bpf_get_current_task());
	ruby_context(slot);
	for (int i = 0; i < REPEATS; i++)
		if (ruby_steps(slot))
			break;
}

#endif

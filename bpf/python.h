/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that CPython runs. The interpreter keeps a list of frames for each thread: it is read once for
 * each sample, after the native frames. Package internal/runtimes describes the interpreter.
 */
#ifndef PYTHON_H
#define PYTHON_H

#include "runtime.h"

/* struct python.entry: which frames begin a call of the interpreter's function. */
enum {
	ENTRY_EACH = 1,   /* each */
	ENTRY_FLAG,       /* those with a flag */
	ENTRY_SHIM,       /* those before a frame that belongs to the interpreter */
};

#define OWNED_BY_STACK 3 /* frame owners from here on: the interpreter's function */

#define STATUS_BOUND 0x8   /* the thread used this state last */
#define STATUS_ACTIVE 0x10 /* the thread uses this state now */

/*
 * How many threads are searched to find one, and the time in ns after which a thread without a state is searched
 * again.
 */
#define MAX_SEARCH 512
#define RETRY 20000000

/* read_thread reads the state at w->thread, and returns whether it is the current thread's and in use. */
static inline_always int read_thread(struct walk *w, struct python *p)
{
	__u64 top;

	if (read_object(w, w->thread, p->thread_size))
		return 0;
	/*
	 * The C library's description of a thread is at the thread-local data, or directly before: of less than a
	 * page.
	 */
	if (w->tls - word(w, p->thread_id) >= PAGE)
		return 0;
	if (p->status != NO_FIELD && !(half(w, p->status) & (STATUS_BOUND | STATUS_ACTIVE)))
		return 0;
	top = word(w, p->top);
	if (p->top_frame != NO_FIELD && bpf_probe_read_user(&top, sizeof(top), (void *)top + p->top_frame))
		return 0;
	w->frame = top;
	return top != 0;
}

/*
 * next_thread looks at one thread state, in the lists of all interpreters, and returns whether the search ends.
 * The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int next_thread(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct python *p;

	if (!w)
		return 1;
	p = body(w);
	if (!p)
		return 1;
	if (!w->thread) { /* the next interpreter, which is newer than the following ones */
		if (!w->interpreter)
			return 1;
		if (bpf_probe_read_user(&w->thread, sizeof(w->thread), (void *)w->interpreter + p->threads) ||
		    bpf_probe_read_user(&w->interpreter, sizeof(w->interpreter),
					(void *)w->interpreter + p->next_interpreter)) {
			w->thread = 0;
			return 1;
		}
		return 0;
	}
	if (read_thread(w, p))
		return 1;
	if (bpf_probe_read_user(&w->thread, sizeof(w->thread), (void *)w->thread + p->next_thread))
		w->thread = 0;
	return 0;
}

REPEAT(next_threads, next_thread)

/*
 * find_thread sets w->frame to the current thread's frame: 0 if it runs no Python. It remembers where the threads'
 * states are, but not of all threads of all CPUs. Where several interpreters run in a thread, only those from 3.12 on
 * say which one does now: before, it is the newest one that runs anything, and may be another one the next time.
 */
__attribute__((noinline)) int find_thread(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 id = bpf_get_current_pid_tgid(), older = 0;
	struct python *p;
	struct known_thread *k;

	if (!w)
		return 0;
	p = body(w);
	if (!p)
		return 0;
	k = &w->threads[id % KNOWN_THREADS];
	w->frame = w->interpreter = 0;
	bpf_probe_read_user(&w->interpreter, sizeof(w->interpreter), (void *)p->head);
	if (k->id == id && k->thread && (p->status != NO_FIELD || k->only == w->interpreter)) {
		w->thread = k->thread;
		if (read_thread(w, p))
			return 0;
	}
	if (k->id == id && !k->thread && bpf_ktime_get_ns() - k->searched < RETRY)
		return 0;
	w->thread = 0;
	bpf_probe_read_user(&older, sizeof(older), (void *)w->interpreter + p->next_interpreter);
	k->only = older ? 0 : w->interpreter;
	for (int i = 0; i < MAX_SEARCH / STEPS; i++)
		if (next_threads(slot))
			break;
	k->id = id;
	k->thread = w->frame ? w->thread : 0;
	k->searched = bpf_ktime_get_ns();
	return 0;
}

/* offset_in returns the offset of the instruction of a frame of 3.11 and later, in bytes. */
static inline_always __u32 offset_in(struct walk *w, struct python *p)
{
	__u64 instr = word(w, p->instr), start = w->code_object + p->instrs, copies = 0;
	__u32 copy;

	if (p->copy_index != NO_FIELD) { /* there is a copy of the code for each thread */
		copy = half(w, p->copy_index);
		if (copy && !bpf_probe_read_user(&copies, sizeof(copies), (void *)w->code_object + p->copies) && copies)
			bpf_probe_read_user(&start, sizeof(start), (void *)copies + 8 + 8 * (__u64)copy);
	}
	return instr - start;
}

/*
 * python_frame reads the frame at w->frame and goes to the caller: it sets w->code_object, 0 if the frame does not
 * belong to a function, and w->place. It returns 1 if the frame cannot be read. The verifier checks it separately,
 * as it does step; it is not in one with the following ones, because little stack is left on arm64.
 */
__attribute__((noinline)) int python_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct python *p;
	__u64 last;

	if (!w)
		return 1;
	p = body(w);
	if (!p || read_object(w, w->frame, p->frame_size))
		return 1;
	w->frame = word(w, p->back);
	w->code_object = 0;
	if (p->entry == ENTRY_SHIM && byte(w, p->owner) >= OWNED_BY_STACK) {
		last = w->out.head.frames + 2 * (__u64)w->out.head.interpreted - 1;
		keep_whole(last);
		if (w->out.head.interpreted && last < MAX_FRAMES + 2 * MAX_INTERPRETED)
			w->out.words[last] |= FIRST_OF_CALL;
		return 0;
	}
	w->code_object = word(w, p->code) & ~7ULL;
	w->place = p->entry == ENTRY_EACH || (p->entry == ENTRY_FLAG && byte(w, p->owner));
	if (p->instr_bits == 32)
		w->place |= half(w, p->instr) * p->instr_unit & OFFSET_BITS;
	else
		w->place |= offset_in(w, p) & OFFSET_BITS;
	return 0;
}

/*
 * python_texts completes the check of a function: it returns 1 if the name of the function or of the file cannot
 * be read.
 */
__attribute__((noinline)) int python_texts(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct python *p;
	__u64 texts, size;

	if (!w)
		return 1;
	p = body(w);
	if (!p || bpf_probe_read_user(&texts, sizeof(texts), (void *)w->name + p->string_hash) ||
	    bpf_probe_read_user(&size, sizeof(size), (void *)w->file + p->string_hash - 8) ||
	    add_text(w, &texts, w->file + p->string_data, size))
		return 1;
	keep_check(w, texts);
	return 0;
}

/*
 * python_check sets w->check to a hash of the code object, whose memory may be reused for another code object: of
 * the names of the function and of the file, and of the addresses of these names and of the table of lines. It
 * returns 1 if the object cannot be read.
 */
__attribute__((noinline)) int python_check(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct python *p;
	__u64 h;

	if (!w)
		return 1;
	p = body(w);
	if (!p || read_object(w, w->code_object + p->code_at, p->code_size))
		return 1;
	w->name = word(w, p->name);
	w->file = word(w, p->file);
	h = mix(half(w, p->first_line), w->file);
	h = mix(h, word(w, p->lines));
	return !check_known(w, mix(h, w->name)) && python_texts(slot);
}

FRAME(python_step, !w->frame || python_frame(slot), python_check)
REPEAT(python_steps, python_step)

/* python stores the frames of the Python functions that the current thread runs, the innermost first. */
static inline_always void python(struct walk *w, __u32 slot)
{
	w->tls = thread_data(bpf_get_current_task());
	find_thread(slot);
	for (int i = 0; i < REPEATS; i++)
		if (python_steps(slot))
			break;
}

#endif

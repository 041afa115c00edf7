/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that V8 runs. Each has a native frame: in generated code, or in the builtin that interprets it. After
 * the native walk, each such frame is read at its frame pointer. Package internal/runtimes describes V8.
 */
#ifndef V8_H
#define V8_H

#include "runtime.h"

#define V8_FRAME 48    /* bytes that are read of a frame, below its frame pointer */
#define V8_SHARED 72   /* bytes that are read of a SharedFunctionInfo */
#define V8_MAX_CODE (1 << 24)
#define V8_BLOCK 512   /* bytes of code for which the recorder is woken once for each function */

/* is_object reports whether a word is a tagged pointer. */
static inline_always int is_object(__u64 v) { return (v & 3) == 1; }

/* slot_of returns a word of the frame in w->object, by its offset from the frame pointer. */
static inline_always __u64 slot_of(struct walk *w, __s16 off)
{
	return word(w, (__u32)(V8_FRAME + off));
}

/* What v8_code returns. */
enum { V8_GENERATED = 1, V8_BUILTIN };

/*
 * v8_code returns whether an address is in code that V8 has generated or in one of its builtins, which V8 may have
 * mapped a second time, next to the code that it generates.
 */
static inline_always int v8_code(struct walk *w, struct v8 *p, __u64 addr)
{
	if ((addr < w->start || addr >= w->end) && find_mapping(w, addr)) {
		w->start = w->end = 0;
		return 0;
	}
	if (w->kind == TABLE_MADE || w->kind == TABLE_FP)
		return V8_GENERATED;
	addr -= w->bias;
	return addr >= p->builtins_start && addr < p->builtins_end ? V8_BUILTIN : 0;
}

/*
 * v8_function reads the function of native frame w->number: it sets w->code_object to its SharedFunctionInfo and the
 * number of the frame, 0 if the frame is none of a function, and w->place. The verifier checks it separately, as it
 * does step.
 */
__attribute__((noinline)) int v8_function(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 n, addr, bytecode, offset, function, shared;
	struct v8 *p;
	int code;

	if (!w)
		return 0;
	w->code_object = 0;
	w->place = 0;
	p = body(w);
	n = w->number;
	keep_whole(n);
	if (!p || n >= MAX_FRAMES)
		return 0;
	addr = w->out.frames[n];
	w->block = addr / V8_BLOCK;
	code = v8_code(w, p, n ? addr - 1 : addr);
	if (!code)
		return 0;
	addr = w->fps[n];
	if (addr & 7 || read_object(w, addr - V8_FRAME, V8_FRAME))
		return 0;
	/* Other frames have a number instead of the context. */
	if (!is_object(slot_of(w, p->context)) || !is_object(slot_of(w, p->function)))
		return 0;
	bytecode = slot_of(w, p->bytecode);
	offset = slot_of(w, p->offset);
	function = slot_of(w, p->function);
	if (function != w->function) {
		w->function = 0;
		if (bpf_probe_read_user(&shared, sizeof(shared), (void *)function - 1 + p->shared) || !is_object(shared))
			return 0;
		w->function = function;
		w->shared = shared;
	}
	w->code_object = w->shared;
	/* An interpreted frame has a small number, the offset from the tagged pointer. */
	offset = (offset & 0xffffffff) || !is_object(bytecode) ? 0 : (offset >> 32) + 1 - p->bytecode_header;
	if (offset < V8_MAX_CODE)
		w->place = offset << 1;
	w->bytecode = code == V8_BUILTIN ? 0 : bytecode ? bytecode : 1; /* compiled code may have anything there */
	return 0;
}

/*
 * v8_check sets w->check to a hash of the function's number in its script and the script's number: its memory may be
 * used for another one later. It is 0 if the function is a builtin or cannot be read. V8 frees few SharedFunctionInfos:
 * each is read once a second.
 */
__attribute__((noinline)) int v8_check(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct known_check *k;
	__u64 script;
	__u32 literal;
	struct v8 *p;

	if (!w)
		return 0;
	w->check = w->seen_before = 0;
	k = &w->known_checks[mix(0, w->code_object) % KNOWN_CHECKS];
	if (k->object == w->code_object && k->when == w->when) {
		w->data = k->part;
		w->check = k->check;
		w->seen_before = 1;
		return 0;
	}
	p = body(w);
	if (!p || read_object(w, w->code_object - 1, V8_SHARED))
		return 0;
	w->data = word(w, p->data);
	script = word(w, p->script);
	literal = half(w, p->literal);
	if (!is_object(w->data) || !is_object(script))
		return 0;
	if (bpf_probe_read_user(&script, sizeof(script), (void *)script - 1 + p->script_id))
		return 0;
	w->check = (__u32)mix(mix(0, script), literal) | 1;
	k->object = w->code_object;
	k->part = w->data;
	k->when = w->when;
	k->check = w->check;
	return 0;
}

/*
 * v8_frame stores the function that native frame w->number runs, if any, and goes to the next one. It returns 1 after
 * the last one. Of several frames with the same frame pointer, the last one has made the frame: the others have none.
 */
static inline_always int v8_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 n, next;

	if (!w)
		return 1;
	n = w->number;
	keep_whole(n);
	if (n >= w->out.head.frames || n >= MAX_FRAMES)
		return 1;
	next = n + 1;
	if (next >= w->out.head.frames || next >= MAX_FRAMES || w->fps[n] != w->fps[next]) {
		v8_function(slot);
		if (w->code_object)
			v8_check(slot);
		if (w->code_object && w->check) {
			if (w->bytecode && see(w, w->code_object, w->block))
				w->new_code |= NEW_BLOCK;
			if (w->bytecode && w->bytecode != w->data)
				w->place = 0; /* compiled code: its frames have other values there */
			w->code_object |= n << NATIVE_SHIFT;
			if (add_frame(slot))
				return 1;
		}
	}
	w->number = next;
	return 0;
}

REPEAT(v8_steps, v8_frame)

/* v8 stores the functions that native frames run, the innermost first. */
static inline_always void v8(struct walk *w, __u32 slot)
{
	w->start = w->end = 0;
	w->function = 0;
	w->when = w->now / EPOCH << 32 | w->out.head.tgid;
	w->number = 0;
	for (int i = 0; i < REPEATS; i++)
		if (v8_steps(slot))
			break;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that PHP runs. The interpreter keeps a list of frames, in a process without threads one list: it
 * is read once for each sample, after the native frames. Package internal/runtimes describes the interpreter.
 */
#ifndef PHP_H
#define PHP_H

#include "runtime.h"

/* struct _zend_execute_data (Zend/zend_compile.h): offsets, the same from 8.0 on. */
enum { PHP_INSTR = 0, PHP_FUNCTION = 24, PHP_CALL_INFO = 40, PHP_BACK = 48, PHP_FRAME_SIZE = 56 };

/* struct _zend_function, struct _zend_string and struct _zend_op. */
enum { PHP_TYPE = 0, PHP_NAME = 8, PHP_HASH = 8, PHP_LENGTH = 16, PHP_TEXT = 24, PHP_INSTR_SIZE = 32 };

#define PHP_INTERNAL 1         /* PHP_TYPE: a function of C */
#define PHP_CALL_TOP (1 << 17) /* PHP_CALL_INFO: the native function was called for this frame */

/*
 * php_frame reads the frame at w->frame and goes to the caller: it sets w->code_object to the function, 0 if there
 * is none, w->place to FIRST_OF_CALL or 0, and w->instr. It returns 1 if the frame cannot be read. The verifier
 * checks it separately, as it does step.
 */
__attribute__((noinline)) int php_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);

	if (!w || read_object(w, w->frame, PHP_FRAME_SIZE))
		return 1;
	w->instr = word(w, PHP_INSTR);
	w->code_object = word(w, PHP_FUNCTION) & ~7ULL;
	w->place = half(w, PHP_CALL_INFO) & PHP_CALL_TOP ? FIRST_OF_CALL : 0;
	w->frame = word(w, PHP_BACK);
	return 0;
}

/*
 * php_texts completes the check of a function: it returns 1 if the name of the function or of the file cannot be
 * read.
 */
__attribute__((noinline)) int php_texts(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 texts = 0, size;

	if (!w || (w->name && bpf_probe_read_user(&texts, sizeof(texts), (void *)w->name + PHP_HASH)))
		return 1;
	if (w->file && (bpf_probe_read_user(&size, sizeof(size), (void *)w->file + PHP_LENGTH) ||
			add_text(w, &texts, w->file + PHP_TEXT, size)))
		return 1;
	keep_check(w, texts);
	return 0;
}

/*
 * php_function adds the offset of the instruction to w->place, and sets w->check to a hash of the function, whose
 * memory may be reused for another function. The innermost function's instruction is in a register, unless a C
 * function uses the register for another value: it stores it in the frame only before it calls some.
 */
__attribute__((noinline)) int php_function(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 h, size, at;
	struct php *p;

	if (!w)
		return 1;
	p = body(w);
	if (!p || read_object(w, w->code_object, p->function_size))
		return 1;
	w->name = word(w, PHP_NAME);
	w->file = 0;
	h = mix(0, w->name);
	if (byte(w, PHP_TYPE) == PHP_INTERNAL) {
		w->place = 0;
	} else {
		h = mix(h, word(w, p->code));
		h = mix(h, word(w, p->file));
		h = mix(h, word(w, p->lines));
		h = mix(h, half(w, p->count));
		w->file = word(w, p->file);
		size = (__u64)half(w, p->count) * PHP_INSTR_SIZE;
		at = w->regs[PHP_OPLINE] - word(w, p->code);
		if (w->out.head.interpreted || at >= size)
			at = w->instr - word(w, p->code);
		if (at < size)
			w->place |= at & OFFSET_BITS & ~(PHP_INSTR_SIZE - 1);
	}
	return !check_known(w, h) && php_texts(slot);
}

FRAME(php_step, !w->frame || php_frame(slot), php_function)
REPEAT(php_steps, php_step)

/* php stores the frames of the PHP functions that the current process runs, the innermost first. */
static inline_always void php(struct walk *w, __u32 slot)
{
	struct php *p = body(w);

	w->frame = 0;
	if (p)
		bpf_probe_read_user(&w->frame, sizeof(w->frame), (void *)p->head);
	for (int i = 0; i < REPEATS; i++)
		if (php_steps(slot))
			break;
}

#endif

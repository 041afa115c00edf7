/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that Perl runs. The interpreter of a thread keeps a list of stacks, the innermost first, each with
 * an array of contexts: calls, evals, blocks and loops. A context contains the statement that the caller runs.
 * Package internal/runtimes describes the interpreter.
 */
#ifndef PERL_H
#define PERL_H

#include "runtime.h"

/* Offsets in objects, in bytes: the same from 5.36 on in builds with threads. */
enum {
	PERL_STATEMENT = 208, /* in an interpreter: the statement that it runs */
	PERL_STACK = 224,     /* the innermost stack */
	PERL_SIZE = 4096,     /* more than its size: it contains the statement of code that is being compiled */
	STACK_CONTEXTS = 8,   /* in a stack */
	STACK_BACK = 16,
	STACK_LAST = 32, /* the number of the innermost context; -1: there is none */
	STACK_BYTES = 40,
	CONTEXT_TYPE = 0, /* in a context */
	CONTEXT_STATEMENT = 16,
	CONTEXT_RETURN = 48, /* where a call continues; 0: a native call began with it */
	CONTEXT_FUNCTION = 72,
	PERL_CONTEXT_BYTES = 104,
	STATEMENT_TYPE = 32, /* of all instructions, the lower bits */
	STATEMENT_LINE = 4, /* after the type */
	STATEMENT_FILE = 16,
	STATEMENT_SEQUENCE = 28, /* a number that no other statement ever used */
	STATEMENT_BYTES = 32,    /* up to here */
	FUNCTION_BODY = 0, /* in a function */
	FUNCTION_START = 40, /* in the body: the first instruction */
	FUNCTION_NAME = 56, /* in the body: the name, or the object that contains it */
	FUNCTION_FILE = 64 - FUNCTION_NAME, /* after the name */
	FUNCTION_SEQUENCE = 88 - FUNCTION_NAME, /* the number of the statement around it */
	FUNCTION_BYTES = 40, /* up to here */
};

/* The lower bits of CONTEXT_TYPE. */
#define PERL_TYPE 0xf
enum { PERL_SUB = 9, PERL_FORMAT = 10, PERL_EVAL = 11 };
#define PERL_REAL 0x20 /* an eval of a file or a string, not of a block */

#define INSTRUCTION_TYPE 0x1ff

/*
 * perl_stack sets w->frame and w->last_frame to the contexts of the stack at w->thread, and w->thread to the
 * caller's stack.
 */
static inline_always int perl_stack(struct walk *w)
{
	if (read_object(w, w->thread, STACK_BYTES))
		return 1;
	w->thread = word(w, STACK_BACK);
	w->last_frame = word(w, STACK_CONTEXTS);
	w->frame = w->last_frame + (__s64)(__s32)half(w, STACK_LAST) * PERL_CONTEXT_BYTES;
	return 0;
}

/* perl_interpreter sets w->thread to the innermost stack of the current thread: 0 if there is none. */
__attribute__((noinline)) int perl_interpreter(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct perl *p;

	if (!w)
		return 0;
	w->thread = 0;
	p = body(w);
	if (!p)
		return 0;
	w->interpreter = read_user(thread_variable(w, &p->context));
	if (!w->interpreter)
		return 0;
	w->instr = read_user(w->interpreter + PERL_STATEMENT);
	w->thread = read_user(w->interpreter + PERL_STACK);
	if (w->thread && perl_stack(w))
		w->frame = w->last_frame = w->thread = 0;
	return 0;
}

/*
 * perl_begin sets w->instr to the first statement of the function at w->code_object, if the function has not
 * begun, that is, if the interpreter still runs the caller's statement, at w->instr. The type of instruction shows
 * whether the function begins with one.
 */
static inline_always void perl_begin(struct walk *w)
{
	__u64 start = read_user(read_user(w->code_object + FUNCTION_BODY) + FUNCTION_START);

	if ((__u16)(read_user(start + STATEMENT_TYPE) ^ read_user(w->instr + STATEMENT_TYPE)) & INSTRUCTION_TYPE)
		return;
	w->instr = start;
}

/*
 * perl_frame reads the context at w->frame and goes to the caller: it sets w->code_object to the function, to 0 if
 * there is none, and to PERL_MAIN or PERL_TEXT if it is the program or an eval; w->place; and w->statement. It
 * returns 1 after the last one. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int perl_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 last, from, type, statement, caller, back, function;

	if (!w || !w->last_frame)
		return 1;
	statement = w->instr;
	w->code_object = w->place = 0;
	if (w->frame < w->last_frame) {
		if (w->thread) { /* a native function began a stack, to call the functions in it */
			last = w->out.head.frames + 2 * (__u64)w->out.head.interpreted - 1;
			keep_whole(last);
			if (w->out.head.interpreted && last < MAX_FRAMES + 2 * MAX_INTERPRETED)
				w->out.words[last] |= FIRST_OF_CALL;
			return perl_stack(w);
		}
		w->last_frame = 0;
		w->code_object = PERL_MAIN;
	} else {
		from = w->frame - (WINDOW / PERL_CONTEXT_BYTES - 1) * PERL_CONTEXT_BYTES;
		if (w->frame - w->seen_at >= w->seen)
			look(w, from < w->last_frame ? w->last_frame : from); /* the callers' contexts, too */
		if (read_stack(w, &type, w->frame + CONTEXT_TYPE, 1) ||
		    read_stack(w, &caller, w->frame + CONTEXT_STATEMENT, 1) ||
		    read_stack(w, &back, w->frame + CONTEXT_RETURN, 1) ||
		    read_stack(w, &function, w->frame + CONTEXT_FUNCTION, 1))
			return 1;
		w->frame -= PERL_CONTEXT_BYTES;
		if ((type & PERL_TYPE) == PERL_SUB || (type & PERL_TYPE) == PERL_FORMAT)
			w->code_object = function & ((1ULL << NATIVE_SHIFT) - 8);
		else if ((type & PERL_TYPE) == PERL_EVAL && type & PERL_REAL)
			w->code_object = PERL_TEXT;
		else
			return 0;
		w->place = back ? 0 : FIRST_OF_CALL;
		if (statement == caller && !w->out.head.interpreted) {
			if (w->code_object == PERL_TEXT)
				w->code_object = 0;
			else
				perl_begin(w);
			statement = w->instr;
		}
		w->instr = caller;
	}
	if (statement - w->interpreter < PERL_SIZE && w->code_object == PERL_MAIN)
		w->code_object = 0; /* it does not run yet */
	w->statement = statement;
	return 0;
}

/*
 * perl_function returns the check of the function at w->code_object: a hash of the body, name and file, of the
 * number of the statement around the function, and of lines. It returns 0 if the function cannot be read. The
 * memory may soon be used for another function, but not with the same statement, because the interpreter numbers
 * statements; statements that it is compiling are not numbered yet.
 */
static inline_always __u32 perl_function(struct walk *w, __u64 lines)
{
	__u64 when = (__u64)half(w, STATEMENT_SEQUENCE) << 32 | w->out.head.tgid, h;
	struct known_check *k = &w->known_checks[mix(w->statement, w->code_object) % KNOWN_CHECKS];

	if (k->object == w->code_object && k->part == w->statement && k->when == when) {
		w->seen_before = 1;
		return k->check;
	}
	h = read_user(w->code_object + FUNCTION_BODY);
	if (read_object(w, h + FUNCTION_NAME, FUNCTION_BYTES))
		return 0;
	h = mix(mix(h, word(w, 0)), word(w, FUNCTION_FILE));
	h = mix(mix(h, half(w, FUNCTION_SEQUENCE)), lines) | 1;
	if (w->statement - w->interpreter >= PERL_SIZE) {
		k->object = w->code_object;
		k->part = w->statement;
		k->when = when;
		k->check = h;
	}
	return h;
}

/*
 * perl_code reads the statement: it adds the file to w->code_object if that is the program or an eval, and the
 * line to w->code_object and w->place, and sets w->check. For a file, w->check is a hash of the first characters
 * of the name. It returns 1 if the function or the statement cannot be read.
 */
__attribute__((noinline)) int perl_code(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 lines, file;
	__u32 line;

	if (!w)
		return 1;
	if (read_object(w, w->statement + STATEMENT_TYPE, STATEMENT_BYTES))
		return 1;
	w->seen_before = 0;
	line = half(w, STATEMENT_LINE);
	lines = line / PERL_LINES & 0xffff;
	if (w->code_object < 8) {
		file = word(w, STATEMENT_FILE) & ((1ULL << NATIVE_SHIFT) - 8);
		w->code_object |= file;
		if (read_object(w, file, PERL_TEXT_BYTES))
			return 1;
		w->check = (__u32)mix(mix(mix(w->code_object, word(w, 0)), word(w, 8)), lines) | 1;
	} else {
		w->check = perl_function(w, lines);
		if (!w->check)
			return 1;
	}
	w->code_object |= lines << NATIVE_SHIFT;
	w->place |= 2 * (line % PERL_LINES);
	return 0;
}

FRAME(perl_step, perl_frame(slot), perl_code)
REPEAT(perl_steps, perl_step)

/* perl stores the frames of the Perl functions that the current thread runs, the innermost first. */
static inline_always void perl(struct walk *w, __u32 slot)
{
	w->tls = thread_data(bpf_get_current_task());
	w->last_frame = 0;
	perl_interpreter(slot);
	for (int i = 0; i < REPEATS; i++)
		if (perl_steps(slot))
			break;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the walks of runtimes: reading an object of the process, and storing an interpreted frame. There is a
 * file for each runtime, whose function runs after the native walk: functions.h calls it.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "state.h"


/* body returns the walk's description of the process's runtime, a struct of the runtime's kind. */
static inline_always void *body(struct walk *w)
{
	struct runtime *r = bpf_map_lookup_elem(&runtimes, &w->runtime);

	return r ? r->body : NULL;
}

/* word, half and byte return a field of the object in w->object. */
static inline_always __u64 word(struct walk *w, __u32 off)
{
	return *(__u64 *)((void *)w->object + (off & (OBJECT - 1)));
}

static inline_always __u32 half(struct walk *w, __u32 off)
{
	return *(__u32 *)((void *)w->object + (off & (OBJECT - 1)));
}

static inline_always __u8 byte(struct walk *w, __u32 off)
{
	return *(__u8 *)((void *)w->object + (off & (OBJECT - 1)));
}

/* read_object reads size bytes of a process's object into w->object. */
static inline_always int read_object(struct walk *w, __u64 addr, __u64 size)
{
	keep_whole(size);
	if (size > OBJECT)
		return -1;
	return bpf_probe_read_user(w->object, size, (void *)addr);
}

#define MAX_TLS_OFFSET 0x10000000 /* a descriptor's offset: larger numbers are addresses */

/* thread_variable returns the address of a variable of the current thread in glibc's modules; w->tls must be set. */
static inline_always __u64 thread_variable(struct walk *w, struct thread_variable *v)
{
	__u64 module, offset = v->offset;

	if (v->kind == THREAD_FIXED)
		return w->tls + offset;
	if (v->kind == THREAD_OFFSET)
		return w->tls + read_user(v->slot);
	if (v->kind == THREAD_MODULE) {
		module = read_user(v->slot);
	} else {
		__u64 at = read_user(v->slot + 8);

		if (at + MAX_TLS_OFFSET < 2 * MAX_TLS_OFFSET)
			return w->tls + at;
		module = read_user(at);
		offset = read_user(at + 8);
	}
	return read_user(read_user(w->tls + THREAD_MODULES) + 16 * module) + offset;
}

/* mix adds a value to a hash. */
static inline_always __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15;
	return h ^ h >> 32;
}

#define EPOCH 1000000000ULL /* ns after which all that is known of a function is read again */
#define RARELY 16

/*
 * check_known returns whether the check of the function at w->code_object is known, where h is a hash of the
 * function's object, without the texts that the object refers to: the names of the function and of the file.
 * Another function that a program makes in the same memory may differ in these names only. So the names are read
 * again for each sample at first, and more rarely the longer they stay the same: after a sixteenth of that time.
 */
static inline_always int check_known(struct walk *w, __u64 h)
{
	struct known_check *k = &w->known_checks[h % KNOWN_CHECKS];

	w->hash = h;
	h ^= (__u64)w->out.head.tgid << 32;
	w->seen_before = 0;
	if (k->object != w->code_object || k->part != h || w->now - k->when >= k->pause)
		return 0;
	w->check = k->check;
	w->seen_before = 1;
	return 1;
}

/* keep_check sets w->check, to a hash of w->hash and of texts, for check_known. */
static inline_always void keep_check(struct walk *w, __u64 texts)
{
	__u64 h = w->hash;
	struct known_check *k = &w->known_checks[h % KNOWN_CHECKS];
	__u64 part = h ^ (__u64)w->out.head.tgid << 32, pause = 0;

	w->check = (__u32)mix(h, texts) | 1;
	if (k->object == w->code_object && k->part == part && k->check == w->check) {
		pause = k->pause + (w->now - k->when) / RARELY;
		if (pause > EPOCH)
			pause = EPOCH;
	}
	k->object = w->code_object;
	k->part = part;
	k->when = w->now;
	k->check = w->check;
	k->pause = pause;
}

/* add_text adds a text of size bytes to a hash. It returns 1 if the text cannot be read. */
static inline_always int add_text(struct walk *w, __u64 *hash, __u64 text, __u64 size)
{
	__u64 h = *hash;

	if (size > TEXT)
		size = TEXT;
	keep_whole(size);
	if (size > TEXT)
		return 1;
	w->object[size / 8] = 0;
	if (read_object(w, text, size))
		return 1;
	h = mix(h, size);
	for (int i = 0; i < TEXT / 8; i++) {
		if (8 * i >= size)
			break;
		h = mix(h, word(w, 8 * i));
	}
	*hash = h;
	return 0;
}

/*
 * see notes that a stack contains a part of some code, and returns whether that is new: the recorder is woken for
 * new code. Some new code, of the same hash as other code, must wait until the recorder is woken for another
 * reason. After an epoch, all code is new again.
 */
static inline_always int see(struct walk *w, __u64 code, __u64 part)
{
	__u64 at = mix(mix(0, code), part) % KNOWN_CODES;
	__u8 now = w->codes_epoch + 1;

	if (w->codes[at] == now)
		return 0;
	w->codes[at] = now;
	if (++w->codes_seen >= KNOWN_CODES / 8) {
		w->codes_seen = 0;
		w->codes_epoch++;
	}
	return 1;
}

/* add_frame stores the interpreted frame with w->code_object, and returns 1 if there is no room. */
__attribute__((noinline)) int add_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 at;

	if (!w || w->out.head.interpreted >= MAX_INTERPRETED)
		return 1;
	at = w->out.head.frames + 2 * (__u64)w->out.head.interpreted;
	keep_whole(at);
	if (at > MAX_FRAMES + 2 * MAX_INTERPRETED - 2)
		return 1;
	w->out.words[at] = w->code_object;
	w->out.words[at + 1] = (__u64)w->check << 32 | w->place;
	w->out.head.interpreted++;
	if (!w->seen_before && see(w, w->code_object & ((1ULL << NATIVE_SHIFT) - 1), w->check))
		w->new_code |= NEW_FUNCTION;
	return 0;
}

/*
 * REPEAT defines a function that takes a number of steps, and returns 1 if there are no more. Callers call it up
 * to REPEATS times: the verifier needs less time for a loop of functions with loops than for a long one, and checks a
 * step once, because it is a function of its own.
 */
#define STEPS 32
#define REPEATS 64
#define REPEAT(name, step)                                 \
	__attribute__((noinline)) int name(__u32 slot)     \
	{                                                  \
		for (int i = 0; i < STEPS; i++)            \
			if (step(slot))                    \
				return 1;                  \
		return 0;                                  \
	}

/*
 * FRAME defines a step: last goes to the next frame, and is true after the last one; code completes the code of a
 * function.
 */
#define FRAME(name, last, code)                                                    \
	__attribute__((noinline)) int name(__u32 slot)                             \
	{                                                                          \
		struct walk *w = bpf_map_lookup_elem(&walks, &slot);               \
                                                                                   \
		if (!w || (last))                                                  \
			return 1;                                                  \
		return w->code_object && !code(slot) && add_frame(slot);           \
	}

#endif

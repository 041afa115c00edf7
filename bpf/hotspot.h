/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The callers of code that HotSpot, the Java virtual machine, generated: compiled methods, the interpreter, stubs
 * and adapters. Package internal/runtimes/hotspot describes where they are, and takes the same steps in Go.
 */
#ifndef HOTSPOT_H
#define HOTSPOT_H

#include "state.h"

#if defined(__TARGET_ARCH_x86)

/* in_cache reports whether an address is in the code heaps. */
static inline_always int in_cache(struct code_heap *h, __u64 ip) { return ip >= h->cache_low && ip < h->cache_high; }

/* is_code reports whether an address can be a return address. */
static inline_always int is_code(struct code_heap *h, __u64 ip) { return in_cache(h, ip) || called(ip); }

/* field32 and field64 return a field of the block in w->head. */
static inline_always __u32 field32(struct walk *w, __u8 off)
{
	return *(__u32 *)&w->head[off & (BLOCK_HEAD - 1)];
}

static inline_always __u64 field64(struct walk *w, __u8 off)
{
	return *(__u64 *)&w->head[off & (BLOCK_HEAD - 1)];
}

/* Frame size of a stub without a frame, or with a small one. */
#define NO_SIZE 0xffffffff

/* read_blob sets w->blob to the blob of a block, whose code must contain addr. */
static inline_always int read_blob(struct walk *w, struct code_heap *h, __u64 block, __u64 addr)
{
	__u64 start = block + h->blob, code;

	w->blob.size = 0;
	if (bpf_probe_read_user(w->head, BLOCK_HEAD, (void *)block))
		return END_UNREADABLE;
	if (!w->head[h->used & (BLOCK_HEAD - 1)])
		return END_NO_RULE;
	code = field64(w, h->code);
	if (h->code_bits == 32)
		code = start + (__u32)code;
	else if (h->code_bits == 16)
		code = start + (__u16)code;
	w->blob.words = field32(w, h->size);
	w->blob.frameless = w->blob.words == NO_SIZE;
	if (w->blob.frameless)
		w->blob.words = 0;
	w->blob.complete = field32(w, h->complete);
	if (h->complete_bits == 16)
		w->blob.complete = (__s16)w->blob.complete;
	w->blob.code = code;
	w->blob.size = start + field32(w, h->end) - code;
	if (addr - code >= w->blob.size || w->blob.words > MAX_FRAME_WORDS) {
		w->blob.size = 0;
		return END_NO_RULE;
	}
	return END_NONE;
}

/* Jumps in the segment map from anywhere in a block to the start: each crosses up to 254 segments. */
#define MAX_JUMPS 32

/* find_blob sets w->blob to the blob that contains addr. */
static inline_always int find_blob(struct walk *w, struct code_heap *h, __u64 addr)
{
	__u64 segment = (addr - h->low) >> (h->shift & 63);
	__u8 back = 0;

	if (addr - w->blob.code < w->blob.size)
		return END_NONE;
	for (int i = 0; i < MAX_JUMPS; i++) {
		if (bpf_probe_read_user(&back, 1, (void *)(h->segments + segment)))
			return END_UNREADABLE;
		if (!back || back == 0xff || back > segment)
			break;
		segment -= back;
	}
	if (back)
		return END_NO_RULE;
	return read_blob(w, h, h->low + (segment << (h->shift & 63)), addr);
}

/* mark notes the kind of the current frame. */
static inline_always void mark(struct walk *w, __u64 what)
{
	__u64 at = w->n;

	keep_whole(at);
	if (at < MAX_FRAMES)
		w->fps[at] = (w->fp & ~7ULL) | what;
}

/* to_caller goes to the caller whose frame pointer and return address are known. */
static inline_always int to_caller(struct walk *w, __u64 ip, __u64 sp, __u64 fp)
{
	w->ip = ip;
	w->sp = sp;
	w->fp = fp;
	w->returned = 1;
	w->all = 0;
	return END_NONE;
}

/* heap_of returns the code heap of the current frame. */
static inline_always struct code_heap *heap_of(struct walk *w)
{
	__u32 heap = w->bias;

	return bpf_map_lookup_elem(&code_heaps, &heap);
}

/*
 * frameless goes to the caller of code whose return address is at sp + off, with the caller's frame pointer in rbp. The
 * verifier checks it and framed separately, because many call them.
 */
__attribute__((noinline)) int frameless(__u32 slot, __u64 off)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct code_heap *h;
	__u64 ra;

	if (!w)
		return END_INTERNAL;
	h = heap_of(w);
	if (!h || read_stack(w, &ra, w->sp + off, 1))
		return END_UNREADABLE;
	if (!is_code(h, ra))
		return END_NO_RULE;
	w->ra_at = w->sp + off;
	return to_caller(w, ra, w->ra_at + 8, w->fp);
}

/* framed goes to the caller of code that saved rbp at addr, below the return address. */
__attribute__((noinline)) int framed(__u32 slot, __u64 addr)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct code_heap *h;
	__u64 pair[2];

	if (!w)
		return END_INTERNAL;
	if (addr < w->sp || addr & 7)
		return END_FP;
	h = heap_of(w);
	if (!h || read_stack(w, pair, addr, 2))
		return END_UNREADABLE;
	if (!is_code(h, pair[1]))
		return END_NO_RULE;
	w->ra_at = addr + 8;
	return to_caller(w, pair[1], addr + 16, pair[0]);
}

/* A stub calls with up to so many words on top of the frame. */
#define PUSHED_WORDS 2

/* full goes to the caller of code with a complete frame. */
static inline_always int full(struct walk *w, __u32 slot)
{
	__u64 addr = w->sp + 8 * (__u64)w->blob.words - 16;
	int end = END_NO_RULE;

	for (int i = 0; i <= PUSHED_WORDS; i++) {
		end = framed(slot, addr + 8 * i);
		if (end != END_NO_RULE)
			break;
	}
	return end;
}

/* How to find the caller of an interrupted instruction. */
enum frame {
	FRAME_UNKNOWN,
	FRAME_NONE,   /* the return address is at rsp */
	FRAME_PUSHED, /* rbp is pushed, nothing else */
	FRAME_FP,     /* rbp is the frame pointer */
	FRAME_LIVE,   /* a complete frame, but the caller's rbp is not saved yet */
	FRAME_FULL,
};

/* sub_rsp reports whether an instruction allocates a frame: sub rsp, n. */
static inline_always int sub_rsp(__u8 *b) { return b[0] == 0x48 && (b[1] == 0x83 || b[1] == 0x81) && b[2] == 0xec; }

/* mov_rbp_rsp reports whether an instruction is mov rbp, rsp. */
static inline_always int mov_rbp_rsp(__u8 *b)
{
	return b[0] == 0x48 && ((b[1] == 0x8b && b[2] == 0xec) || (b[1] == 0x89 && b[2] == 0xe5));
}

/* save_rbp reports whether an instruction stores rbp in the frame: mov [rsp + n], rbp. */
static inline_always int save_rbp(__u8 *b)
{
	return b[0] == 0x48 && b[1] == 0x89 && (b[2] == 0x6c || b[2] == 0xac) && b[3] == 0x24;
}

/* popped reports whether add rsp, n and pop rbp end at b. */
static inline_always int popped(__u8 *b)
{
	return b[-1] == 0x5d && ((b[-5] == 0x48 && b[-4] == 0x83 && b[-3] == 0xc4) ||
				 (b[-8] == 0x48 && b[-7] == 0x81 && b[-6] == 0xc4));
}

/*
 * poll reports whether an instruction reads the word that a safepoint changes: cmp rsp or mov r10, [r15 + n].
 */
static inline_always int poll(__u8 *b, __u8 mode)
{
	return (b[0] == 0x49 && b[1] == 0x3b && b[2] == (mode | 0x20)) ||
	       (b[0] == 0x4d && b[1] == 0x8b && b[2] == (mode | 0x10));
}

/* at_end recognizes prologues and epilogues by the code around ip. */
static inline_always enum frame at_end(__u8 *ip)
{
	if (ip[0] == 0xc3 || (ip[0] == 0xf3 && ip[1] == 0xc3) || ip[0] == 0x55) /* ret; push rbp */
		return FRAME_NONE;
	if (ip[0] == 0x5d) /* pop rbp */
		return FRAME_PUSHED;
	if (ip[0] == 0xc9) /* leave */
		return FRAME_FP;
	if (ip[-1] == 0x55 && (sub_rsp(ip) || mov_rbp_rsp(ip)))
		return FRAME_PUSHED;
	if (ip[-4] == 0x55 && mov_rbp_rsp(ip - 3))
		return FRAME_FP;
	if (save_rbp(ip) && (sub_rsp(ip - 4) || sub_rsp(ip - 7)))
		return FRAME_LIVE;
	if (popped(ip) || (popped(ip - 7) && poll(ip - 7, 0x87)) || (popped(ip - 4) && poll(ip - 4, 0x47)))
		return FRAME_NONE;
	return FRAME_UNKNOWN;
}

/* read_code reads the code around ip into w->code. */
static inline_always long read_code(struct walk *w)
{
	return bpf_probe_read_user(w->code, sizeof(w->code), (void *)(w->ip - CODE_BEFORE));
}

/* in_prologue recognizes by the code before ip how much of a prologue ran, the nearest first. */
static inline_always enum frame in_prologue(__u8 *code)
{
#pragma clang loop unroll(full) /* verifiers of Linux 7 reject negative steps */
	for (int i = 4; i <= CODE_BEFORE - 4; i++) {
		__u64 at = CODE_BEFORE - i;

		keep_whole(at); /* verifiers since about 7.3 refuse the compiler's negative index */
		__u8 *b = code + at;

		if (save_rbp(b) || (b[-1] == 0x55 && sub_rsp(b)))
			return FRAME_FULL;
		if (b[-1] == 0x55 && mov_rbp_rsp(b))
			return FRAME_FP;
	}
	return FRAME_UNKNOWN;
}

/*
 * interrupted_frame returns how to find the caller of a blob's instruction that an event interrupted, an enum frame, or
 * -1 if the code cannot be read. The verifier checks it separately, because it is long.
 */
__attribute__((noinline)) int interrupted_frame(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	enum frame f;

	if (!w || read_code(w))
		return -1;
	f = at_end(w->code + CODE_BEFORE);
	if (f || !w->blob.words || w->blob.complete < 0)
		return f;
	return w->ip - w->blob.code >= w->blob.complete ? FRAME_FULL : in_prologue(w->code);
}

/* Maximum distance from rsp to the frame pointer, in stubs. */
#define STUB_FRAME 0x4000

/* interrupted goes to the caller of a blob's instruction that an event interrupted. */
static inline_always int interrupted(struct walk *w, __u32 slot, struct code_heap *h)
{
	__u64 size = 8 * (__u64)w->blob.words, at = w->fp - w->sp;

	switch (interrupted_frame(slot)) {
	case -1:
		return END_UNREADABLE;
	case FRAME_NONE:
		return frameless(slot, 0);
	case FRAME_PUSHED:
		return framed(slot, w->sp);
	case FRAME_FP:
		return framed(slot, w->fp);
	case FRAME_LIVE:
		return frameless(slot, size - 8);
	case FRAME_FULL:
		return full(w, slot);
	default:
		break;
	}
	/* A stub with a frame size sets up a frame pointer after some instructions. */
	if (size && w->blob.complete < 0 && at <= size - 16 && !framed(slot, w->fp))
		return END_NONE;
	if (size && w->blob.complete < 0 && !framed(slot, w->sp + size - 16))
		return END_NONE;
	if (!frameless(slot, 0))
		return END_NONE;
	if (size)
		return at <= size - 16 ? framed(slot, w->fp) : END_NO_RULE;
	if (at < STUB_FRAME && !framed(slot, w->fp))
		return END_NONE;
	if (!w->all || !is_code(h, w->regs[0])) /* an adapter holds the return address in rax */
		return END_NO_RULE;
	at = w->regs[13] - w->sp;
	return to_caller(w, w->regs[0], at < STUB_FRAME ? w->regs[13] : w->sp, w->fp);
}

/* Maximum distance from the interpreter's rsp to the caller's: a method contains up to 65,535 local variables. */
#define MAX_LOCALS 0x80010

/*
 * entering goes to the caller of an interpreted method that is being entered or left. At the entry r13 is the
 * caller's rsp, else it points into the method's bytecode; the return address is at rsp or in rax.
 */
static inline_always int entering(struct walk *w, __u32 slot, struct code_heap *h)
{
	__u64 sender = w->regs[13], ra;
	__u8 *ip = w->code + CODE_BEFORE;

	if (sender - w->sp < MAX_LOCALS && w->fp - w->sp >= sender - w->sp) {
		if (!frameless(slot, 0)) {
			w->sp = sender;
			return END_NONE;
		}
		ra = w->regs[0];
		return is_code(h, ra) ? to_caller(w, ra, sender, w->fp) : END_NO_RULE;
	}
	if (read_code(w))
		return END_UNREADABLE;
	if (ip[-1] == 0xc9 && (ip[0] == 0x41 ? ip[1] == 0x5d : ip[0] == 0x5f)) /* leave; pop r13 or rdi */
		return frameless(slot, 0);
	if (ip[-3] == 0xc9 && ip[-2] == 0x41 && ip[-1] == 0x5d) /* …; mov rsp, rbx */
		return to_caller(w, sender, w->regs[3], w->fp);
	if (ip[-6] == 0xc9 && ip[-5] == 0x41 && ip[-4] == 0x5d && ip[0] == 0x41 && ip[1] == 0xff) /* …; jmp r13 */
		return to_caller(w, sender, w->sp, w->fp);
	return END_NO_RULE;
}

/*
 * interpreted goes to the caller of an interpreted method. Below the saved rbp lies the
 * caller's rsp, because the method's arguments and variables may lie between.
 */
static inline_always int interpreted(struct walk *w, __u32 slot, struct code_heap *h)
{
	__u64 fp = w->fp, sender;
	int end;

	if (w->all && !entering(w, slot, h))
		return END_NONE;
	mark(w, INTERPRETED_FRAME);
	if (read_stack(w, &sender, fp - 8, 1))
		return END_UNREADABLE;
	end = framed(slot, fp);
	if (!end && sender - w->sp < MAX_LOCALS)
		w->sp = sender;
	return end;
}

/* hotspot goes to the caller of HotSpot's code. The verifier checks it separately, as it does step. */
__attribute__((noinline)) int hotspot(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct code_heap *h;
	__u64 addr;
	int end;

	if (!w)
		return END_INTERNAL;
	h = heap_of(w);
	if (!h)
		return END_INTERNAL;
	w->unloaded = h->unloaded;
	addr = w->returned ? w->ip - 1 : w->ip;
	if (addr - h->interp < h->interp_size)
		return interpreted(w, slot, h);
	end = find_blob(w, h, addr);
	if (end)
		return end;
	mark(w, BLOB_FRAME);
	if (!w->returned)
		return interrupted(w, slot, h);
	if (w->blob.words)
		return full(w, slot);
	/* A stub without a frame may align rsp for a call. */
	if (w->blob.frameless && (!frameless(slot, 0) || !frameless(slot, 8)))
		return END_NONE;
	return framed(slot, w->fp);
}

#else

static inline_always int hotspot(__u32 slot) { return END_UNSUPPORTED; }

#endif

#endif

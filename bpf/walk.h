/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walking a user stack, in the kernel, by unwind tables (package unwind). start walks
 * the current task's stack and writes the frames to the CPU's ring.
 */
#ifndef WALK_H
#define WALK_H

#include "control.h"

/* Set when the programs are loaded. */
const volatile __u32 per_task = 0; /* sample only threads with perf events of their own */
const volatile __u32 cpus = 1;     /* number of possible CPUs */

/* Why a walk ended: package bpf's End. */
enum end {
	END_NONE,        /* still walking */
	END_ENTRY,       /* at the outermost frame */
	END_NO_USER,     /* no user stack: a kernel thread, a process that is exiting */
	END_COMPAT,      /* a 32-bit task */
	END_NO_PROCESS,  /* the process is unknown */
	END_NO_MAPPING,  /* the address is in no known mapping */
	END_NO_TABLE,    /* the mapping's table is not loaded yet */
	END_NO_RULE,     /* no row covers the address */
	END_UNSUPPORTED, /* a row does, but no rule can express it */
	END_UNREADABLE,  /* stack memory cannot be read */
	END_FP,          /* frame pointers, without CFI, lead nowhere */
	END_DEPTH,       /* too many frames */
	END_INTERNAL,
};

#define MAX_FRAMES 1024
#define USER32_CS 0x23 /* code segment of 32-bit tasks */

/* ---- Data from user space: package bpf has the same layouts. ---- */

/*
 * Each element of the array holds two rows, because its size is a multiple of 8; an
 * unwind.Row has its Off in the lower 16 bits, its Rule in the upper ones.
 */
struct row_pair {
	__u64 both;
};

struct page { /* unwind.Page */
	__u32 first, n;
};

struct rule { /* unwind.Rule */
	__u8 cfa, ra, fp, flags;
	__s32 cfa_off;
	__s16 cfa_off2, ra_off, fp_off;
	__u16 zero;
};

struct table {
	__u64 base; /* unwind.Table.Base */
	__u32 pages, num_pages;
	__u32 rules, used; /* used is set when a walk uses the table */
	__u64 entry;       /* vaddr of the process's entry point */
	__u64 serial;      /* unique among recent tables */
};

/* Values of mapping.table that are no index into tables. */
enum {
	TABLE_PENDING = 0xffffffff, /* not loaded yet */
	TABLE_FP = 0xfffffffe,      /* no table: use frame pointers */
	TABLE_UPROBES = 0xfffffffd, /* the kernel's return trampoline of uretprobes */
};

struct mapping {
	__u64 start, end;
	__u64 bias; /* ip - vaddr */
	__u32 table, zero;
};

struct process {
	__u32 exec;     /* exec count that the mappings belong to */
	__u32 first, n; /* mappings, by address */
	__u32 copies;   /* copies left to send for addresses outside all mappings */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* tgid */
	__type(value, struct process);
	__uint(max_entries, 1);
} processes SEC(".maps");

ARRAY(mappings, struct mapping);
ARRAY(tables, struct table);
ARRAY(pages, struct page);
ARRAY(rows, struct row_pair);
ARRAY(rules, struct rule);

/*
 * By CPU: bytes of its ring that copies of stacks may still take. User space resets it
 * after draining the ring.
 */
ARRAY(copy_room, __s64);

/* ---- Output: package record reads it. ---- */

struct head {
	enum end end;
	__u32 tgid; /* the key in processes */
	__u32 exec;
	__u32 frames; /* number of frames that follow */
	__u32 stack;  /* bytes of stack that follow, after registers and an address */
};

#define MAX_STACK 0xf000
#define MAX_OTHER_STACK 0x4000
#define NEAR 0x800000 /* maximum distance to a stack's end: RLIMIT_STACK's default, and glibc's for threads */
#define CHUNK 0x1000
#define PAGE 0x1000

struct out {
	__u32 zero; /* takes the place of perf's size field, so that the rest is aligned in the ring */
	struct head head;
	union {
		__u64 frames[MAX_FRAMES];
		struct {
			__u64 regs[17]; /* by DWARF number, rip last */
			__u64 at;       /* the address whose table or mapping is missing */
			__u8 bytes[MAX_STACK + CHUNK];
		} stack;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} frames_to SEC(".maps"), copies_to SEC(".maps");

/* ---- The walk. ---- */

enum { RBP = 6, RSP = 7, RIP = 16, NUM_REGS = 17 };

/*
 * Most frames repeat. The rule of an address is cached, for each CPU: cache misses of
 * the searches take most of the time.
 */
struct known {
	__u64 key; /* vaddr << 16 | serial */
	struct rule rule;
};

#define KNOWN 4096

/*
 * Bytes of the stack that are read at once, because reading 16 bytes takes as long as
 * reading some hundred: the window of one frame usually contains the next one.
 */
#define WINDOW 512

struct walk {
	__s64 users;           /* uprobe programs that hold this slot, or try to */
	__u64 regs[NUM_REGS];  /* of the innermost frame */
	__u64 cs;
	__u64 ip, sp, fp;      /* of the current frame */
	__u64 ra_at;           /* address that ip was read from */
	__u64 start, end;      /* the mapping of the previous frame */
	__u64 bias;
	struct table table;
	__u32 kind;            /* its mapping.table */
	__u32 first, num_maps; /* mappings of the process */
	__u32 n;               /* frames so far */
	__u8 returned;         /* ip is a return address */
	__u8 all;              /* regs belong to this frame */
	__u16 some;            /* at least one page of the stack was copied */
	__u64 top, copied;     /* end of the stack to copy, and bytes copied so far */
	__u64 seen_at;         /* address that window was read from */
	__u32 seen;            /* and its number of bytes */
	__u32 zero;
	__u8 window[WINDOW];
	struct out out;
	struct known known[KNOWN];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32); /* slot: level * cpus + CPU */
	__type(value, struct walk);
	__uint(max_entries, 1);
} walks SEC(".maps");

/*
 * The kernel runs only one program at a time on each CPU at perf events, tracepoints
 * and kprobes (bpf_prog_active): these use level 0. From Linux 6.0 on this does not
 * hold for uprobes: their programs may be preempted, also by those of other tasks'
 * uprobes, and interrupted by all others. They use the first free level above 0. A task
 * that is preempted here keeps its level.
 */
#define LEVELS 4

/* take_walk finds a free slot for a uprobe's program: NULL if there is none. */
static inline_always struct walk *take_walk(__u32 *slot)
{
	__u32 at = bpf_get_smp_processor_id();
	struct walk *w;

	for (int i = 1; i < LEVELS; i++) {
		at += cpus;
		w = bpf_map_lookup_elem(&walks, &at);
		if (!w)
			return NULL;
		/* A program that preempts us here sees users > 0, and releases the slot before we resume. */
		__sync_fetch_and_add(&w->users, 1);
		if (*(volatile __s64 *)&w->users == 1) {
			*slot = at;
			return w;
		}
		__sync_fetch_and_add(&w->users, -1);
	}
	return NULL;
}

static inline_always void leave_walk(struct walk *w) { __sync_fetch_and_add(&w->users, -1); }

/* look reads the stack from addr on into the window, up to the page's end at most. */
static inline_always int look(struct walk *w, __u64 addr)
{
	__u64 n = PAGE - (addr & (PAGE - 1));

	if (n > WINDOW)
		n = WINDOW;
	keep_whole(n);
	if (n > WINDOW)
		return END_INTERNAL;
	w->seen = 0;
	if (bpf_probe_read_user(w->window, n, (void *)addr))
		return END_UNREADABLE;
	w->seen_at = addr;
	w->seen = n;
	return END_NONE;
}

/* read_stack reads n words of the stack, 1 or 2. */
static inline_always int read_stack(struct walk *w, __u64 *dst, __u64 addr, int n)
{
	__u64 at = addr - w->seen_at, size = n * sizeof(*dst);

	if (at >= w->seen || at + size > w->seen) {
		if ((addr & (PAGE - 1)) > PAGE - size)
			return bpf_probe_read_user(dst, size, (void *)addr);
		if (look(w, addr))
			return END_UNREADABLE;
		at = 0;
	}
	keep_whole(at);
	if (at > WINDOW - size)
		return END_INTERNAL;
	dst[0] = *(__u64 *)&w->window[at];
	if (n > 1)
		dst[1] = *(__u64 *)&w->window[at + 8];
	return END_NONE;
}

/* find_mapping sets w->start, end, bias, kind and table to the mapping of addr. */
static inline_always int find_mapping(struct walk *w, __u64 addr)
{
	__u32 lo = w->first, hi = w->first + w->num_maps; /* mappings before lo start at or below addr, those from hi on above it */
	struct mapping *m;
	struct table *t;

	for (int i = 0; i < 17; i++) {
		if (lo >= hi)
			break;
		__u32 mid = lo + (hi - lo) / 2;
		m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			return END_INTERNAL;
		if (m->start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == w->first)
		return END_NO_MAPPING;
	lo--;
	m = bpf_map_lookup_elem(&mappings, &lo);
	if (!m || addr >= m->end || addr < m->start)
		return END_NO_MAPPING;
	w->start = m->start;
	w->end = m->end;
	w->bias = m->bias;
	w->kind = m->table;
	if (w->kind >= TABLE_UPROBES)
		return END_NONE;
	t = bpf_map_lookup_elem(&tables, &w->kind);
	if (!t)
		return END_INTERNAL;
	if (!t->used)
		t->used = 1;
	w->table = *t;
	return END_NONE;
}

/* row returns the row at an index, ~0 if there is none. */
static inline_always __u32 row(__u32 index)
{
	__u32 at = index / 2;
	struct row_pair *p = bpf_map_lookup_elem(&rows, &at);

	return p ? p->both >> (index & 1) * 32 : ~0;
}

/* find_rule finds the rule in force at vaddr. */
static inline_always struct rule *find_rule(struct walk *w, __u64 vaddr)
{
	__u64 number = (vaddr >> 16) - w->table.base;
	struct page *p;
	__u32 at, lo, hi;

	if (number >= w->table.num_pages)
		return NULL;
	at = w->table.pages + (__u32)number;
	p = bpf_map_lookup_elem(&pages, &at);
	if (!p)
		return NULL;
	lo = p->first; /* at or below vaddr */
	hi = lo + p->n;
	for (int i = 0; i < 17; i++) {
		if (hi - lo <= 1)
			break;
		__u32 mid = lo + (hi - lo) / 2;
		if ((__u16)row(mid) <= (__u16)vaddr)
			lo = mid;
		else
			hi = mid;
	}
	at = w->table.rules + (row(lo) >> 16);
	return bpf_map_lookup_elem(&rules, &at);
}

/* known_rule returns find_rule's result, from the cache if possible. */
static inline_always struct rule *known_rule(struct walk *w, __u64 vaddr)
{
	__u64 key = vaddr << 16 | (__u16)w->table.serial;
	struct known *k = &w->known[(vaddr ^ vaddr >> 12 ^ w->table.serial << 3) % KNOWN];
	struct rule *r;

	if (k->key == key)
		return &k->rule;
	r = find_rule(w, vaddr);
	if (!r)
		return NULL;
	k->rule = *r;
	k->key = key;
	return &k->rule;
}

/* reg reads a register that is known only if w->all is set. */
static inline_always int reg(struct walk *w, __s32 number, __u64 *value)
{
	if (!w->all || number < 0 || number >= NUM_REGS)
		return END_UNSUPPORTED;
	*value = w->regs[number];
	return END_NONE;
}

/* signal_frame goes to the interrupted frame of a signal: struct ucontext lies at sp. */
static inline_always int signal_frame(struct walk *w)
{
	__u64 c[17]; /* uc_mcontext: r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip */

	if (bpf_probe_read_user(c, sizeof(c), (void *)(w->sp + 40)))
		return END_UNREADABLE;
	w->ip = c[16];
	w->sp = c[15];
	w->fp = c[10];
	w->returned = 0;
	w->all = 0;
	return END_NONE;
}

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
	w->all = 0;
	return END_NONE;
}

enum { CFA_NONE, CFA_RSP, CFA_RBP, CFA_DEREF_RSP, CFA_DEREF_RBP, CFA_PLT, CFA_REG, CFA_SIGNAL, CFA_UNSUPPORTED };
enum { RA_AT_CFA, RA_UNDEFINED, RA_REG };
enum { FP_SAME, FP_AT_CFA, FP_AT_FP, FP_AT_SP, FP_UNDEFINED, FP_REG };
enum { FLAG_SIGNAL = 1, FLAG_CONVENTION = 2 };

static inline_always int find_cfa(struct walk *w, struct rule *r, __u64 *cfa)
{
	__u64 v;

	switch (r->cfa) {
	case CFA_RSP:
		*cfa = w->sp + r->cfa_off;
		return END_NONE;
	case CFA_RBP:
		*cfa = w->fp + r->cfa_off;
		return END_NONE;
	case CFA_PLT:
		*cfa = w->sp + r->cfa_off + ((__s16)(w->ip & 15) >= r->cfa_off2 ? 8 : 0);
		return END_NONE;
	case CFA_DEREF_RSP:
	case CFA_DEREF_RBP:
		v = r->cfa == CFA_DEREF_RSP ? w->sp : w->fp;
		if (read_stack(w, &v, v + r->cfa_off, 1))
			return END_UNREADABLE;
		*cfa = v + r->cfa_off2;
		return END_NONE;
	case CFA_REG:
		if (reg(w, r->cfa_off2, &v))
			return END_UNSUPPORTED;
		*cfa = v + r->cfa_off;
		return END_NONE;
	case CFA_NONE:
		return END_NO_RULE;
	}
	return END_UNSUPPORTED;
}

/* by_rule goes to the caller by a rule. */
static inline_always int by_rule(struct walk *w, struct rule *r)
{
	__u64 cfa, v[2], fp = w->fp;

	if (r->cfa == CFA_SIGNAL)
		return signal_frame(w);
	if (r->ra == RA_UNDEFINED && r->cfa != CFA_NONE && r->cfa != CFA_UNSUPPORTED)
		return END_ENTRY;
	if (r->flags & FLAG_CONVENTION && r->cfa == CFA_RBP && w->fp == 0)
		return END_ENTRY;
	int end = find_cfa(w, r, &cfa);
	if (end)
		return end;
	if (cfa < w->sp && !(r->flags & FLAG_CONVENTION))
		return END_UNREADABLE; /* not a caller's frame */

	if (r->ra == RA_AT_CFA && r->fp == FP_AT_CFA && r->ra_off == -8 && r->fp_off == -16) {
		if (read_stack(w, v, cfa - 16, 2))
			return END_UNREADABLE;
		w->fp = v[0];
		w->ip = v[1];
		w->ra_at = cfa - 8;
		goto out;
	}
	switch (r->fp) {
	case FP_SAME:
		break;
	case FP_AT_CFA:
	case FP_AT_FP:
	case FP_AT_SP:
		fp = r->fp == FP_AT_CFA ? cfa : r->fp == FP_AT_FP ? w->fp : w->sp;
		if (read_stack(w, &fp, fp + r->fp_off, 1))
			fp = 0; /* the walk can still go on if the caller's rule does not need it */
		break;
	case FP_REG:
		if (reg(w, r->fp_off, &fp))
			return END_UNSUPPORTED;
		break;
	default:
		fp = 0;
	}
	if (r->ra == RA_AT_CFA) {
		w->ra_at = cfa + r->ra_off;
		if (read_stack(w, &w->ip, w->ra_at, 1))
			return END_UNREADABLE;
	} else if (reg(w, r->ra_off, &w->ip)) {
		return END_UNSUPPORTED;
	}
	w->fp = fp;
out:
	w->sp = cfa;
	w->all = 0;
	w->returned = !(r->flags & FLAG_SIGNAL);
	return END_NONE;
}

/* called reports whether a call instruction ends at ip: e8 with 4 bytes, or ff /2 with up to 6. */
static inline_always int called(__u64 ip)
{
	__u8 b[8]; /* the 7 bytes before ip are b[1] … b[7] */

	if (bpf_probe_read_user(b, sizeof(b), (void *)(ip - 8)))
		return 0;
	return b[3] == 0xe8 || (b[6] == 0xff && (b[7] & 0x38) == 0x10) || (b[5] == 0xff && (b[6] & 0x38) == 0x10) ||
	       (b[4] == 0xff && (b[5] & 0x38) == 0x10) || (b[2] == 0xff && (b[3] & 0x38) == 0x10) ||
	       (b[1] == 0xff && (b[2] & 0x38) == 0x10);
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
		w->all = 0;
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
		if (read_field(ri, stack) == w->ra_at) {
			w->ip = read_field(ri, orig_ret_vaddr);
			return END_NONE;
		}
		ri = read_field(ri, next);
	}
	return END_NO_RULE;
}

/*
 * step goes to the caller's frame and stores its ip. The verifier checks it separately,
 * so that the verifier's instruction limit does not limit the number of frames.
 */
__attribute__((noinline)) int step(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct rule *r;
	__u64 addr;
	int end;

	if (!w)
		return END_INTERNAL;
	addr = w->returned ? w->ip - 1 : w->ip;
	if (addr < w->start || addr >= w->end) {
		end = find_mapping(w, addr);
		if (end)
			return end;
	}
	switch (w->kind) {
	case TABLE_PENDING:
		return END_NO_TABLE;
	case TABLE_UPROBES:
		end = original(w);
		if (end)
			return end;
		goto keep; /* replaces the last stored frame */
	case TABLE_FP:
		end = by_frame_pointer(w);
		break;
	default:
		r = known_rule(w, addr - w->bias);
		if (r && r->cfa != CFA_NONE)
			end = by_rule(w, r);
		else
			end = by_guess(w, addr - w->bias);
	}
	if (end)
		return end;
	if (w->ip == 0)
		return END_ENTRY;
	w->n++;
keep:
	if (w->n >= MAX_FRAMES)
		return END_DEPTH;
	w->out.frames[w->n] = w->ip;
	return END_NONE;
}

/* keep_regs stores the user's registers. */
static inline_always void keep_regs(struct walk *w, struct pt_regs *r)
{
	w->regs[0] = r->ax;
	w->regs[1] = r->dx;
	w->regs[2] = r->cx;
	w->regs[3] = r->bx;
	w->regs[4] = r->si;
	w->regs[5] = r->di;
	w->regs[RBP] = r->bp;
	w->regs[RSP] = r->sp;
	w->regs[8] = r->r8;
	w->regs[9] = r->r9;
	w->regs[10] = r->r10;
	w->regs[11] = r->r11;
	w->regs[12] = r->r12;
	w->regs[13] = r->r13;
	w->regs[14] = r->r14;
	w->regs[15] = r->r15;
	w->regs[RIP] = r->ip;
	w->cs = r->cs;
}

#define THREAD_SIZE 0x4000

/*
 * saved_regs reads the registers with which the task entered the kernel: they lie at
 * the top of its kernel stack. Kernels with FRED leave a gap there, and have the
 * helper.
 */
static inline_always int saved_regs(struct task_struct *task, struct pt_regs *r)
{
	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return bpf_probe_read_kernel(r, sizeof(*r), bpf_task_pt_regs(bpf_get_current_task_btf()));
	return bpf_probe_read_kernel(r, sizeof(*r), read_field(task, stack) + THREAD_SIZE - sizeof(*r));
}

/*
 * copy_chunk copies the next page of the stack, and returns whether there is more to
 * copy. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int copy_chunk(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 done, from, n;

	if (!w)
		return 0;
	done = w->copied;
	from = w->regs[RSP] + done;
	if (from >= w->top)
		return 0;
	n = CHUNK - (from & (CHUNK - 1));
	if (n > w->top - from)
		n = w->top - from;
	keep_whole(n);
	keep_whole(done);
	if (done >= MAX_STACK || n > CHUNK)
		return 0;
	if (bpf_probe_read_user(&w->out.stack.bytes[done], n, (void *)from) == 0)
		w->some = 1;
	else if (w->some)
		return 0; /* otherwise the stack has just grown: its last page is not mapped yet, and is read as zeros */
	w->copied = done + n;
	return 1;
}

/*
 * copy_stack copies the used part of the stack: from rsp up to its end, which is known
 * for a process's first stack, and for threads' stacks, because glibc places a thread's
 * own data directly above its stack.
 */
static inline_always __u32 copy_stack(struct walk *w, __u32 slot, struct task_struct *task)
{
	struct mm_struct *mm = read_field(task, mm);
	__u64 sp = w->regs[RSP], stack = read_field(mm, start_stack) + 8, tls = read_field(task, thread.fsbase);

	w->top = sp + MAX_STACK;
	if (stack - sp > NEAR && tls - sp > NEAR) /* another kind of stack, such as Go's or a signal's: these are small */
		w->top = sp + MAX_OTHER_STACK;
	if (stack > sp && stack < w->top)
		w->top = stack;
	if (tls > sp && tls < w->top)
		w->top = tls;
	w->copied = w->some = 0;
	for (int i = 0; i <= MAX_STACK / CHUNK; i++)
		if (!copy_chunk(slot))
			break;
	return w->some ? w->copied & ~7 : 0;
}

/*
 * send_copy sends registers and stack to the recorder, which walks the stack once it
 * has the missing table or mapping.
 */
static inline_always void send_copy(void *ctx, struct walk *w, __u32 slot, struct task_struct *task)
{
	__u64 size = sizeof(struct head) + sizeof(w->out.stack.regs) + sizeof(w->out.stack.at);

	__builtin_memcpy(w->out.stack.regs, w->regs, sizeof(w->regs));
	w->out.stack.at = w->returned ? w->ip - 1 : w->ip;
	w->out.head.frames = 0;
	w->out.head.stack = copy_stack(w, slot, task);
	size += w->out.head.stack;
	keep_whole(size);
	if (size > sizeof(w->out) - sizeof(__u32))
		return;
	__u32 cpu = bpf_get_smp_processor_id();
	__s64 *room = bpf_map_lookup_elem(&copy_room, &cpu);
	if (room)
		*room -= size;
	bpf_perf_event_output(ctx, &copies_to, BPF_F_CURRENT_CPU, &w->out.head, size);
}

static inline_always void send_frames(void *ctx, struct walk *w, __u32 n)
{
	__u64 size;

	w->out.head.frames = n;
	w->out.head.stack = 0;
	size = sizeof(struct head) + n * sizeof(__u64);
	keep_whole(size);
	if (size > sizeof(struct head) + sizeof(w->out.frames))
		return;
	bpf_perf_event_output(ctx, &frames_to, BPF_F_CURRENT_CPU, &w->out.head, size);
}

/*
 * may_copy reports whether the recorder can walk further with registers and stack. In a
 * burst of samples, stacks that cannot be walked yet must not take the ring's space
 * from the samples themselves.
 */
static inline_always int may_copy(int end, struct process *p)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__s64 *room = bpf_map_lookup_elem(&copy_room, &cpu);

	if (!room || *room <= 0)
		return 0;
	switch (end) {
	case END_NO_PROCESS:
	case END_NO_TABLE:
	case END_UNSUPPORTED:
		return 1;
	case END_NO_MAPPING:
		if (p && p->copies > 0) {
			p->copies--;
			return 1;
		}
	}
	return 0;
}

/* in_execve reports whether the task is executing execve. */
static inline_always int in_execve(struct task_struct *task)
{
	__u64 bits = 0;

	if (!field_exists(task->in_execve))
		return 0;
	bpf_probe_read_kernel(&bits, bit_field_size(task->in_execve), (void *)task + field_offset(task->in_execve));
	return bits << bit_field_left(task->in_execve) >> bit_field_right(task->in_execve);
}

/* walk_stack walks the current task's user stack, starting with w->regs. */
static inline_always void walk_stack(void *ctx, struct walk *w, __u32 slot, struct task_struct *task)
{
	struct process *p;
	int end = END_NO_PROCESS;

	w->ip = w->out.frames[0] = w->regs[RIP];
	w->sp = w->regs[RSP];
	w->fp = w->regs[RBP];
	w->n = w->returned = 0;
	w->all = 1;
	w->start = w->end = 0;
	w->seen = 0;
	p = bpf_map_lookup_elem(&processes, &w->out.head.tgid);
	if (p && p->exec == w->out.head.exec) {
		w->first = p->first;
		w->num_maps = p->n;
		end = END_DEPTH;
		for (int i = 0; i < MAX_FRAMES + 64; i++) {
			end = step(slot);
			if (end)
				break;
		}
	}
	if (end >= END_NO_PROCESS && end != END_DEPTH && in_execve(task)) {
		w->out.head.end = END_NO_USER; /* exec removed the stack */
		send_frames(ctx, w, 0);
		return;
	}
	w->out.head.end = end;
	if (may_copy(end, p))
		send_copy(ctx, w, slot, task);
	else
		send_frames(ctx, w, w->n < MAX_FRAMES ? w->n + 1 : MAX_FRAMES);
}

/* own_context returns the context of the task's own perf events, NULL if it has none. */
static inline_always struct perf_event_context *own_context(struct task_struct *task)
{
	if (field_exists(((struct task_struct___ctx *)0)->perf_event_ctxp))
		return read_field((struct task_struct___ctx *)task, perf_event_ctxp);
	return read_field((struct task_struct___ctxs *)task, perf_event_ctxp[1]);
}

/* sampled reports whether the current task can be in the recording. */
static inline_always int sampled(struct task_struct *task)
{
	return !per_task || own_context(task) != NULL;
}

/*
 * start walks the current task's user stack: from the registers in w if it is in user
 * mode, else from those with which it entered the kernel.
 */
static inline_always int start(void *ctx, struct walk *w, __u32 slot, int in_user)
{
	struct task_struct *task = bpf_get_current_task();
	struct pt_regs saved;

	w->out.head.tgid = bpf_get_current_pid_tgid() >> 32;
	w->out.head.exec = read_field(task, self_exec_id);
	w->out.head.end = END_NO_USER;
	if (!in_user) {
		if (read_field(task, flags) & PF_KTHREAD || !read_field(task, mm)) {
			send_frames(ctx, w, 0);
			return 1;
		}
		if (saved_regs(task, &saved) || (saved.cs & 3) != 3) {
			send_frames(ctx, w, 0);
			return 1;
		}
		keep_regs(w, &saved);
	}
	if (w->cs == USER32_CS) {
		w->out.head.end = END_COMPAT;
		w->out.frames[0] = w->regs[RIP];
		send_frames(ctx, w, 1);
		return 1;
	}
	walk_stack(ctx, w, slot, task);
	return 1;
}

#endif

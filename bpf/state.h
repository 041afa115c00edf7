/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a walk: the current frame, and the mapping and the part of the stack that the walk reads.
 */
#ifndef STATE_H
#define STATE_H

#include "data.h"

/* Set when the programs are loaded. */
const volatile __u32 per_task = 0; /* sample only threads with a perf event of the recording */
const volatile __u32 cpus = 1;     /* number of possible CPUs */


/* Output that package record reads. */

struct head {
	enum end end;
	__u32 tgid; /* the key in processes */
	__u32 exec;
	__u32 frames; /* number of frames that follow */
	__u32 stack;  /* bytes of stack that follow, after a copy_head */
	__u32 interpreted; /* number of interpreted frames that follow the frames */
	__u32 generation;  /* changes when the process unloads functions, because it may reuse their memory */
};

/*
 * An interpreted frame is two words: the address of its code object, and the offset of its instruction, in bytes
 * and even, with a hash of the object in the upper half. FIRST_OF_CALL means that a native frame of the
 * interpreter's function belongs to this frame and to the preceding interpreted frames without this flag. Where a
 * runtime's frames are native frames, the number of the native frame is stored above the address, from
 * NATIVE_SHIFT on.
 */
#define MAX_INTERPRETED 512
#define NATIVE_SHIFT 48

/* In a frame pointer: the native frame belongs to a method that HotSpot's interpreter runs, or is in a blob. */
#define INTERPRETED_FRAME 1
#define BLOB_FRAME 2
#define FIRST_OF_CALL 1
#define OFFSET_BITS 0x7ffffffe

/* The head of a copy of the stack. */
struct copy_head {
	__u64 regs[NUM_REGS]; /* by DWARF number, the ip last */
	__u64 at;             /* the address whose table or mapping is missing */
	__u64 from;           /* the address of the first byte copied */
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
		__u64 words[MAX_FRAMES + 2 * MAX_INTERPRETED];
		struct {
			struct copy_head head;
			__u8 bytes[MAX_STACK + CHUNK];
		} stack;
	};
};

/* By CPU: the events for output that waits for the next drain, and for output that wakes the recorder. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} quiet SEC(".maps") PER_RECORDER, waking SEC(".maps") PER_RECORDER;

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

#define MAX_FRAME_WORDS 0x10000

/* Bytes of code around ip that show whether a frame exists: so many before it, and so many in all. */
#define CODE_BEFORE 32
#define CODE_BYTES 40

/* blob is code that HotSpot generated. */
struct blob {
	__u64 code, size; /* ip, and bytes; 0 if there is none */
	__u32 words;      /* size of the frames; 0 if the size varies */
	__s32 complete;   /* offset in the code from which on the frame is complete; -1: unknown */
	__u64 frameless;  /* without a frame, or with a small one */
};

/* FRAMED_ANYWHERE: the frame pointer may point to another stack, as where Go switches stacks. */
enum { FRAMED = 1, FRAMED_ANYWHERE };

/* caller is a possible caller of the current frame. */
struct caller {
	__u64 ip, ra_at, sp, fp;
};

/* Where states of threads were found: struct walk remembers the latest. */
#define KNOWN_THREADS 128

struct known_thread {
	__u64 id;       /* tgid and thread id */
	__u64 thread;   /* the state of the thread; 0: none */
	__u64 searched; /* time of the last search, in ns */
	__u64 only;     /* the interpreter, if there was only one */
};

#define ENVS 512         /* bytes of environments of Ruby */
/*
 * New parts of a stack: a function, whose name is read soon, because the function may be freed soon, or a block of
 * V8's code, whose inlined functions can be read later. In programs that V8 compiles all the time, most samples
 * contain a new block.
 */
enum { NEW_FUNCTION = 1, NEW_BLOCK = 2 };

#define KNOWN_CODES 32768 /* numbers of hashes of code objects */
#define KNOWN_CHECKS 2048 /* functions that were seen last */

/*
 * The previous check of a function. With V8 the check is valid during an epoch, which is in when; with Perl it is
 * valid for a statement, whose number is in when; for both, when also contains the process. With other runtimes,
 * when is the time when texts were read, and pause for how long they are not read again: see check_known.
 */
struct known_check {
	__u64 object;
	__u64 part; /* V8: the function's data; Perl: the statement; others: a hash of the object and the process */
	__u64 when;
	__u32 check, pause;
};

/* The next 16 bytes of code, the first of them lowest. */
struct code {
	__u64 lo, hi;
};

struct walk {
	__s64 users;           /* uprobe programs that hold this slot, or try to */
	__u64 regs[NUM_REGS];  /* of the innermost frame */
	struct pt_regs saved;  /* those with which the task entered the kernel */
	__u64 compat;          /* a 32-bit task */
	__u64 ip, sp, fp;      /* of the current frame */
	__u64 lr;              /* the link register: 0 if unknown, or on machines without one */
	__u64 code_mask;       /* bits of an ip */
	__u64 ra_at;           /* address that ip was read from */
	__u64 goroutine;       /* of Go: for CFA_GOROUTINE, the struct g */
	struct caller next;    /* for reach */
	struct code insns;     /* for by_epilogue */
	__u64 start, end;      /* the mapping of the previous frame */
	__u64 bias;
	struct table table;
	__u32 rule, last;      /* for known_rule: see find_rule */
	__u32 known_at;        /* for last_rule: where in known, modulo KNOWN */
	__u32 kind;            /* the mapping.table of this code */
	__u32 first, num_maps; /* mappings of the process */
	__u64 mm;              /* mm_struct of a process whose mappings only the kernel knows; 0: they are in mappings */
	struct file_key mapped; /* for find_file */
	__u32 n;               /* frames so far */
	__u8 returned;         /* ip is a return address */
	__u8 all;              /* regs belong to this frame */
	__u8 interrupted;      /* a signal frame was passed: regs are of another function */
	__u64 top;             /* end of the stack to copy */
	__u64 trampoline;      /* of uretprobes, */
	__u64 instance;        /* and the next of the task's return_instances, for restore_return */
	__u64 copied;          /* bytes of it that were tried so far */
	__u64 readable;        /* bytes up to the end of the last page that could be read */
	__u64 seen_at;         /* address that window was read from */
	__u32 seen;            /* and the number of bytes */
	__u32 framed;          /* code without CFI, after it made the frame: FRAMED or FRAMED_ANYWHERE */
	__u8 window[WINDOW];
	struct blob blob; /* of the previous frame */
	__u64 unloaded;   /* of Java: address of the number of classes that were unloaded; 0: unknown */
	__u32 runtime;    /* the process's in runtimes; 0: none */
	__u32 new_code;   /* NEW_FUNCTION and NEW_BLOCK: a stack contained one, and the recorder is not woken yet */
	__u64 tls;        /* address of the thread's own data */
	__u64 thread, interpreter, frame; /* for next_thread, python_frame and perl_frame; other runtimes: frame */
	__u64 last_frame; /* of Ruby and Perl: where the list of frames ends */
	__u64 stack;      /* of Ruby: where the thread's stack begins */
	__u64 envs_at;    /* address that envs was read from; 0: none */
	__u8 envs[ENVS];
	__u64 code_object;
	__u64 instr;      /* of PHP and Ruby: address of the frame's instruction; of Perl: of the statement */
	__u64 statement;  /* of Perl: the frame's */
	__u64 bytecode;   /* of V8: the frame's bytecode, or 1, if the code is generated; otherwise 0 */
	__u64 block;      /* of V8: the part of code that the frame runs */
	__u64 function, shared, data; /* V8: the JSFunction read last, its SharedFunctionInfo and data */
	__u32 number;     /* of V8 and Java: of the native frame */
	__u32 place;      /* in it: the offset of the instruction, and FIRST_OF_CALL */
	__u32 check;      /* a hash of it */
	__u64 hash, name, file; /* of a function: a hash of the object, and where the names of function and file are */
	__u32 seen_before; /* it is in known_checks: the recorder was woken for it */
	__u64 fps[MAX_FRAMES]; /* the frame pointers of the native frames, with INTERPRETED_FRAME and BLOB_FRAME */
	__u64 object[OBJECT / 8 + 1];
	struct known_thread threads[KNOWN_THREADS];
	__u32 codes_seen;  /* in this epoch of codes: an eighth of KNOWN_CODES at most */
	__u8 codes_epoch;
	__u8 codes[KNOWN_CODES]; /* by hash, the latest epoch in which one was seen, and 1 */
	__u64 now;        /* the time, in ns */
	__u64 when;       /* of V8: known_check's */
	struct known_check known_checks[KNOWN_CHECKS];
	__u8 head[BLOCK_HEAD + 8];
	__u8 code[CODE_BYTES];
	struct out out;
	struct known known[KNOWN];
};

/* WALKS is PER_RECORDER where programs do not interrupt each other. */
#ifndef WALKS
#define WALKS
#endif
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32); /* slot: level * cpus + CPU */
	__type(value, struct walk);
	__uint(max_entries, 1);
} walks SEC(".maps") WALKS;

/*
 * The kernel runs only one program at a time on each CPU at perf events, tracepoints and kprobes
 * (bpf_prog_active): these use level 0. From Linux 6.0 on this does not hold for uprobes: uprobe programs may be
 * preempted, also by uprobe programs of other tasks, and interrupted by all other programs. They use the first
 * free level above 0. A task that is preempted here keeps its level.
 */

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

/* read_user reads a word of the process, 0 if it cannot be read. */
static inline_always __u64 read_user(__u64 addr)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)addr);
	return v;
}

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

/* forget makes the registers unknown that no rule keeps: scratch registers of a frame that called another one. */
static inline_always void forget(struct walk *w)
{
	w->all = 0;
	if (LR >= 0)
		w->lr = 0;
}

/* reg reads a register that is known only if w->all is set, or the link register. */
static inline_always int reg(struct walk *w, __s32 number, __u64 *value)
{
	if (number == LR && w->lr) {
		*value = w->lr;
		return END_NONE;
	}
	if (!w->all || number < 0 || number >= NUM_REGS)
		return END_UNSUPPORTED;
	*value = w->regs[number];
	return END_NONE;
}

/*
 * scratch_reg reads a register that functions need not preserve, in a frame that called other functions. CFI
 * refers to it only if the functions called there preserve it.
 */
static inline_always int scratch_reg(struct walk *w, __s32 number, __u64 *value)
{
	if (w->interrupted || !is_scratch(number) || number < 0 || number >= NUM_REGS)
		return END_UNSUPPORTED;
	*value = w->regs[number];
	return END_NONE;
}

/* use_table sets w->table to the table of w->kind. */
static inline_always int use_table(struct walk *w)
{
	struct table *t = bpf_map_lookup_elem(&tables, &w->kind);

	if (!t)
		return END_INTERNAL;
	if (!t->used)
		t->used = 1;
	w->table = *t;
	return END_NONE;
}

#include "vma.h"

/*
 * find_mapping sets w->start, end, bias, kind and table to the mapping of addr. The verifier checks it separately,
 * because of the loop.
 */
__attribute__((noinline)) int find_mapping(__u32 slot, __u64 addr)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u32 lo, hi; /* mappings before lo start at or below addr, from hi on above */
	struct mapping *m;

	if (!w)
		return END_INTERNAL;
	if (w->mm)
		return find_file(slot, addr);
	lo = w->first;
	hi = w->first + w->num_maps;
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
	if (w->kind >= TABLE_HOT_SPOT)
		return END_NONE;
	return use_table(w);
}

/*
 * reach goes to w->next if its code is mapped, finds the mapping for the next step and stores the ip. The verifier
 * checks it separately, as it does step.
 */
__attribute__((noinline)) int reach(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 addr;
	__u32 n;

	if (!w)
		return END_INTERNAL;
	addr = w->next.ip - 1;
	if ((addr < w->start || addr >= w->end) && find_mapping(slot, addr))
		return END_NO_MAPPING;
	n = w->n + 1;
	keep_whole(n);
	if (n >= MAX_FRAMES)
		return END_DEPTH;
	w->out.frames[n] = w->ip = w->next.ip;
	w->fps[n] = w->next.fp & ~7ULL;
	w->n = n;
	w->ra_at = w->next.ra_at;
	w->sp = w->next.sp;
	w->fp = w->next.fp;
	w->returned = 1;
	forget(w);
	return END_NONE;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walking a user stack, in the kernel, by unwind tables (package unwind). collect walks
 * the current task's stack; start also writes the frames to the CPU's ring.
 */
#ifndef WALK_H
#define WALK_H

#include "cgroup.h"
#include "code.h"
#include "copy.h"
#include "functions.h"
#include "golang.h"
#include "hotspot.h"
#include "table.h"

/* signal_frame goes to the function that a signal interrupted. */
static inline_always int signal_frame(struct walk *w)
{
	struct interrupted i;

	if (signal_regs(w->sp, &i))
		return END_UNREADABLE;
	w->interrupted = 1;
	w->ip = i.ip;
	w->sp = i.sp;
	w->fp = i.fp;
	w->returned = 0;
	forget(w);
	w->lr = i.lr;
	return END_NONE;
}

/* A frame pointer that is not known: no memory is there. Unlike 0, it does not mean that a stack ends. */
#define UNKNOWN_FP 0x4000000000000001ULL

static inline_always int find_cfa(struct walk *w, struct rule *r, __u64 *cfa)
{
	__u64 v;
	int end;

	switch (r->cfa) {
	case CFA_RSP:
		*cfa = w->sp + r->cfa_off;
		return END_NONE;
	case CFA_RBP:
		if (w->fp == UNKNOWN_FP)
			return END_UNREADABLE;
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
		if (reg(w, r->cfa_off2, &v) == END_NONE) {
			*cfa = v + r->cfa_off;
			return END_NONE;
		}
		if (scratch_reg(w, r->cfa_off2, &v))
			return END_UNSUPPORTED;
		*cfa = v + r->cfa_off;
		return read_stack(w, &v, *cfa + r->ra_off, 1) || !called(v) ? END_UNSUPPORTED : END_NONE;
	case CFA_GOROUTINE:
		end = find_goroutine(w, r->cfa_off2);
		if (end)
			return end;
		*cfa = read_user(w->goroutine + GO_SCHED_SP) + r->cfa_off;
		return END_NONE;
	case CFA_NONE:
		return END_NO_RULE;
	}
	return END_UNSUPPORTED;
}

/* by_rule goes to the caller by the rule of known_rule. The verifier checks it separately, as it does step. */
__attribute__((noinline)) int by_rule(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	__u64 cfa, v[2], fp, ip;
	struct rule *r;

	if (!w)
		return END_INTERNAL;
	r = last_rule(w);
	fp = w->fp;
	ip = w->ip;
	if (r->cfa == CFA_SIGNAL)
		return signal_frame(w);
	if (r->ra == RA_UNDEFINED && r->cfa != CFA_NONE && r->cfa != CFA_UNSUPPORTED)
		return END_ENTRY;
	if (r->flags & FLAG_CONVENTION && r->cfa == CFA_RBP && w->fp == 0)
		return END_ZERO;
	int end = find_cfa(w, r, &cfa);
	if (end)
		return end;
	/* Not a caller's frame, unless a signal's handler has a stack of its own. */
	if (cfa < w->sp && !(r->flags & (FLAG_CONVENTION | FLAG_SIGNAL)))
		return END_UNREADABLE;

	if (r->ra == RA_AT_CFA && r->fp == FP_AT_CFA && r->ra_off == r->fp_off + 8 &&
	    !read_stack(w, v, cfa + r->fp_off, 2)) {
		w->fp = v[0];
		w->ip = v[1];
		w->ra_at = cfa + r->ra_off;
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
			fp = UNKNOWN_FP; /* the walk can still go on if the caller's rule does not need it */
		break;
	case FP_REG:
		if (reg(w, r->fp_off, &fp))
			return END_UNSUPPORTED;
		break;
	case FP_GOROUTINE:
		fp = read_user(w->goroutine + r->fp_off);
		break;
	default:
		fp = UNKNOWN_FP;
	}
	if (r->ra == RA_GOROUTINE) {
		w->ip = read_user(w->goroutine + GO_SCHED_PC);
		w->ra_at = 0;
	} else if (r->ra != RA_REG) {
		w->ra_at = (r->ra == RA_AT_CFA ? cfa : r->ra == RA_AT_SP ? w->sp : w->fp) + r->ra_off;
		if (read_stack(w, &w->ip, w->ra_at, 1))
			return END_UNREADABLE;
	} else if (reg(w, r->ra_off, &w->ip)) {
		w->framed = FRAMED_ANYWHERE;
		return r->flags & FLAG_CONVENTION ? UNCOVERED : END_UNSUPPORTED;
	}
	w->fp = fp;
out:
	if (r->flags & (FLAG_INFERRED | FLAG_SIGNAL)) {
		if (r->flags & FLAG_INFERRED && w->ip && !called(w->ip))
			return END_NO_RULE;
		w->interrupted |= r->flags & FLAG_SIGNAL;
	}
	if (cfa == w->sp && (w->ip & w->code_mask) == ip && !(r->flags & (FLAG_CONVENTION | FLAG_SIGNAL)))
		return END_UNREADABLE; /* the same frame again */
	w->sp = cfa;
	forget(w);
	if (LR >= 0 && r->ra == RA_GOROUTINE)
		w->lr = read_user(w->goroutine + r->fp_off - GO_LR_BEFORE_BP);
	w->returned = !(r->flags & FLAG_SIGNAL);
	return END_NONE;
}

/*
 * step goes to the caller's frame and stores its ip, or returns UNCOVERED. The verifier
 * checks it separately, so that the verifier's instruction limit does not limit the number
 * of frames.
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
		end = find_mapping(slot, addr);
		if (end)
			return end;
	}
	switch (w->kind) {
	case TABLE_PENDING:
		return END_NO_TABLE;
	case TABLE_UPROBES:
		end = original(slot);
		if (end)
			return end;
		goto keep; /* replaces the last stored frame */
	case TABLE_HOT_SPOT:
		end = hotspot(slot);
		break;
	case TABLE_FP:
	case TABLE_MADE:
		w->framed = 0;
		return UNCOVERED;
	default:
		r = known_rule(w, slot, addr - w->bias);
		/* The call may be the function's last instruction: readers that look callers up at ip name another one. */
		if (r && r->last && r->cfa != CFA_SIGNAL && !(r->flags & FLAG_SIGNAL) && w->returned && called(w->ip) &&
		    w->n < MAX_FRAMES)
			w->out.frames[w->n] = addr;
		if (!r || r->cfa == CFA_NONE) {
			w->framed = r && r->flags & FLAG_FRAMED ? FRAMED : 0;
			return UNCOVERED;
		}
		end = by_rule(slot);
	}
	if (end)
		return end;
	w->ip &= w->code_mask;
	if (w->ip == 0)
		return END_ZERO;
	w->n++;
keep:
	if (w->n >= MAX_FRAMES)
		return END_DEPTH;
	w->out.frames[w->n] = w->ip;
	w->fps[w->n] = w->fp & ~7ULL;
	return END_NONE;
}

/*
 * steps goes to the caller's frame up to STEPS times. The verifier sees it once, and not each frame of a long loop: see
 * REPEAT.
 */
__attribute__((noinline)) int steps(__u32 slot)
{
	int end;

	for (int i = 0; i < STEPS; i++) {
		end = step(slot);
		if (end == UNCOVERED)
			end = uncovered(slot);
		if (end)
			return end;
	}
	return END_NONE;
}

/* send_frames writes the frames that collect found. */
static inline_always void send_frames(void *ctx, struct walk *w)
{
	__u64 size = w->out.head.frames;

	w->out.head.stack = 0;
	size = sizeof(struct head) + (size + 2 * w->out.head.interpreted) * sizeof(__u64);
	keep_whole(size);
	if (size > sizeof(struct head) + sizeof(w->out.words))
		return;
	if (w->new_code && may_wake(w)) {
		w->new_code = 0;
		bpf_perf_event_output(ctx, &waking, BPF_F_CURRENT_CPU, &w->out.head, size);
	} else {
		bpf_perf_event_output(ctx, &quiet, BPF_F_CURRENT_CPU, &w->out.head, size);
	}
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

/*
 * walk_stack walks the current task's user stack, starting with w->regs. It returns whether the recorder must walk
 * a copy of the stack instead.
 */
static inline_always int walk_stack(struct walk *w, __u32 slot, struct task_struct *task)
{
	struct process *p;
	int known, end = END_NO_PROCESS;

	w->ip = w->out.frames[0] = w->regs[IP];
	w->sp = w->regs[SP];
	w->fp = w->regs[FP];
	w->fps[0] = w->fp & ~7ULL;
	w->lr = LR < 0 ? 0 : w->regs[LR];
	w->code_mask = code_mask(read_field(task, mm));
	w->n = w->returned = w->interrupted = 0;
	w->all = 1;
	w->start = w->end = 0;
	w->seen = 0;
	w->blob.size = 0;
	w->unloaded = 0;
	w->mm = 0;
	p = bpf_map_lookup_elem(&processes, &w->out.head.tgid);
	known = p && p->exec == w->out.head.exec;
	if (known) {
		w->first = p->first;
		w->num_maps = p->n;
		w->runtime = p->runtime;
	} else if (field_exists(((struct mm_struct *)0)->mm_mt)) {
		w->mm = (__u64)read_field(task, mm);
	}
	if (w->mm || (known && !p->stale)) {
		end = END_DEPTH;
		for (int i = 0; i < MAX_FRAMES / STEPS + 2; i++) {
			end = steps(slot);
			if (end)
				break;
		}
	}
	/* The recorder walks the stack if files do not suffice, and passes the process to the programs. */
	if (w->mm && end != END_ENTRY)
		end = END_NO_PROCESS;
	if (end >= END_NO_PROCESS && end != END_DEPTH && in_execve(task)) {
		w->out.head.end = END_NO_USER; /* exec removed the stack */
		return 0;
	}
	w->out.head.end = end;
	if (w->unloaded)
		w->out.head.generation = read_user(w->unloaded);
	w->out.head.frames = w->n < MAX_FRAMES ? w->n + 1 : MAX_FRAMES;
	return may_copy(w, end, p);
}

/* own_context returns the context of the task's own perf events, NULL if there is none. */
static inline_always struct perf_event_context *own_context(struct task_struct *task)
{
	if (field_exists(((struct task_struct___ctx *)0)->perf_event_ctxp))
		return read_field((struct task_struct___ctx *)task, perf_event_ctxp);
	return read_field((struct task_struct___ctxs *)task, perf_event_ctxp[1]);
}

/* sampled reports whether the current task can be in the recording. */
static inline_always int sampled(struct task_struct *task)
{
	return in_cgroup() && (!per_task || own_context(task) != NULL);
}

/* keep_regs stores the user's registers. */
static inline_always void keep_regs(struct walk *w, struct pt_regs *r)
{
	get_regs(w->regs, r);
	w->compat = is_32_bit(r);
}

/*
 * collect walks the current task's user stack: from the registers in w if it is in user mode, else from the
 * registers with which the task entered the kernel. It returns whether the recorder must walk a copy of the stack;
 * otherwise w->out contains the frames.
 */
static inline_always int collect(struct walk *w, __u32 slot, int in_user)
{
	struct task_struct *task = bpf_get_current_task();

	w->out.head.tgid = bpf_get_current_pid_tgid() >> 32;
	w->out.head.exec = read_field(task, self_exec_id);
	w->out.head.end = END_NO_USER;
	w->out.head.frames = w->out.head.interpreted = w->out.head.generation = 0;
	w->runtime = 0;
	if (!in_user) {
		if (read_field(task, flags) & PF_KTHREAD || !read_field(task, mm))
			return 0;
		if (saved_regs(task, &w->saved) || !in_user_mode(&w->saved))
			return 0;
		keep_regs(w, &w->saved);
	}
	if (w->compat) {
		w->out.head.end = END_COMPAT;
		w->out.head.frames = 1;
		w->out.frames[0] = w->regs[IP];
		return 0;
	}
	return walk_stack(w, slot, task);
}

/* start writes the current task's user stack to the CPU's ring. */
static inline_always int start(void *ctx, struct walk *w, __u32 slot, int in_user)
{
	if (collect(w, slot, in_user)) {
		send_copy(ctx, w, slot, bpf_get_current_task());
		return 1;
	}
	functions(slot);
	send_frames(ctx, w);
	return 1;
}

#endif

//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Where threads sleep: an iterator over all tasks writes a struct sleeper for each thread that is asked for. For a
 * thread that sleeps during a whole recording, there is no event at which a program could run.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

/* Set when the program is loaded. */
const volatile __u32 level = 0; /* of the recorder's PID namespace */

struct seq_file;

static long (*bpf_seq_write)(struct seq_file *to, const void *data, __u32 size) = (void *)127;
static long (*bpf_get_task_stack)(struct task_struct *task, void *buf, __u32 size, __u64 flags) = (void *)141;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

enum mode { KERNEL_ONLY, USER_64, USER_32 };

struct sleeper { /* package bpf's Sleeper */
	__u32 pid, tid;        /* in the recorder's PID namespace */
	__u32 tgid, exec;      /* struct head's */
	enum mode mode;        /* of the user's registers */
	__u32 kernel;          /* number of frames */
	__u64 regs[NUM_REGS];  /* of user mode, by DWARF number */
	__u64 frames[MAX_KERNEL];
};

struct scratch {
	struct sleeper out;
	struct pt_regs saved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

/* By tid in the recorder's PID namespace: the threads that are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 1);
} asked SEC(".maps");

/* user_regs finds the registers with which a task entered the kernel, and reports the mode of these registers. */
static inline_always enum mode user_regs(struct task_struct *task, struct scratch *s)
{
	if (read_field(task, flags) & PF_KTHREAD || !read_field(task, mm))
		return KERNEL_ONLY;
	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		if (bpf_probe_read_kernel(&s->saved, sizeof(s->saved), bpf_task_pt_regs(task)))
			return KERNEL_ONLY;
	} else if (regs_at_top(task, &s->saved)) {
		return KERNEL_ONLY;
	}
	if (!in_user_mode(&s->saved))
		return KERNEL_ONLY;
	get_regs(s->out.regs, &s->saved);
	return is_32_bit(&s->saved) ? USER_32 : USER_64;
}

SEC("iter/task")
int write_sleeper(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct scratch *s;
	__u32 zero = 0, tid;
	long n;

	if (!task)
		return 0;
	tid = pid_of(task, level);
	if (!bpf_map_lookup_elem(&asked, &tid))
		return 0;
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	s->out.pid = pid_of(read_field(task, group_leader), level);
	s->out.tid = tid;
	s->out.tgid = read_field(read_field(task, group_leader), pid);
	s->out.exec = read_field(task, self_exec_id);
	n = bpf_get_task_stack(task, s->out.frames, sizeof(s->out.frames), 0);
	s->out.kernel = n > 0 ? n / sizeof(__u64) : 0;
	s->out.mode = user_regs(task, s);
	bpf_seq_write(seq, &s->out, sizeof(s->out));
	return 0;
}

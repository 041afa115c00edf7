/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the variables of programs at probes are.
 *
 * Since Linux 6.13 the stack frames of a program's functions are in memory of the CPU, one for each program,
 * unless the program contains a tail call. The kernel takes for granted that a program does not run twice on a CPU
 * at the same time. At uprobes it does, because a task may be preempted there: each would overwrite the other's
 * variables, pointers too. So each program at probes contains a tail call, which is never made, and so does a program
 * that others continue with, because one of them may interrupt another.
 */
#ifndef PROBE_H
#define PROBE_H

#include "kernel.h"

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} no_programs SEC(".maps");

const volatile __u32 never = 0;

/* stay_on_stack keeps the variables of the program that calls it on the kernel's stack. */
static inline_always void stay_on_stack(void *ctx)
{
	if (never)
		bpf_tail_call(ctx, &no_programs, 0);
}

#endif

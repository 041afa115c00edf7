/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The recorder's switch. Programs at tracepoints and probes run even while no
 * perf event is enabled, and they run for what the recorder itself does: without
 * a switch its last drain would make the records that it drains.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "kernel.h"

struct control_value { /* package bpf's controlValue */
	__u32 on;       /* walk stacks and make samples */
	__u32 recorder; /* tgid of the recorder, as the kernel numbers it; 0: not known */
};

ARRAY(control, struct control_value);

static inline_always struct control_value *controls(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* is_recorder returns whether the current task belongs to the recorder. */
static inline_always int is_recorder(struct control_value *c)
{
	return (__u32)(bpf_get_current_pid_tgid() >> 32) == c->recorder;
}

/*
 * identify finds out who the recorder is: the recorder runs it once, in its own
 * context. In a PID namespace it does not know the number by which the kernel knows it.
 */
SEC("raw_tp")
int identify(void *ctx)
{
	struct control_value *c = controls();

	if (c)
		c->recorder = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

#endif

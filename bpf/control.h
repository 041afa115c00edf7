/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The recorder's switch. Programs at tracepoints and probes run even while no perf event is enabled, and they run
 * for the recorder's own actions: without a switch, the recorder's last drain would cause the records that it
 * drains.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "kernel.h"

struct control_value { /* package bpf's controlValue */
	__u32 on;       /* walk stacks and make samples */
	__u32 recorder; /* tgid of the recorder in the initial PID namespace; 0: unknown */
	__u32 level;    /* of the recorder's PID namespace: 0 is the initial one */
	__u32 paused;   /* number of events in the map of this name */
};

ARRAY(control, struct control_value) PER_RECORDING;

static inline_always struct control_value *controls(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* is_recorder reports whether the current task belongs to the recorder. */
static inline_always int is_recorder(struct control_value *c)
{
	return (__u32)(bpf_get_current_pid_tgid() >> 32) == c->recorder;
}

/*
 * identify stores the recorder's tgid, and the level of the recorder's PID namespace: the recorder runs identify
 * once, in the recorder's context. In a PID namespace the recorder does not know these.
 */
SEC("raw_tp")
int identify(void *ctx)
{
	struct control_value *c = controls();

	if (c) {
		c->recorder = bpf_get_current_pid_tgid() >> 32;
		c->level = read_field(read_field(bpf_get_current_task(), thread_pid), level);
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which tasks are recorded, for programs that do not run from a perf event.
 */
#ifndef RECORDED_H
#define RECORDED_H

#include "walk.h"

/*
 * The ids of the recording's perf events: with per_task, only tasks with one of these events, enabled, are
 * sampled.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 1);
} counters SEC(".maps") PER_RECORDER;

#define MAX_EVENTS 64 /* maximum number of a task's events to check, which may include events of other recordings */

/*
 * is_counter reports whether the perf event at an address, inherited or not, is one of the recording's, and at least in
 * this state. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int is_counter(__u64 at, __s32 state)
{
	struct perf_event *event = (void *)at, *parent = read_field(event, parent);
	__u64 id = read_field(parent ? parent : event, id);

	return bpf_map_lookup_elem(&counters, &id) && (__s32)read_field(event, state) >= state;
}

/*
 * recorded reports whether an event of the recording, inherited or not, belongs to the current task and is at
 * least in this state. The verifier checks it separately, as it does step.
 */
__attribute__((noinline)) int recorded(__s32 state)
{
	struct perf_event_context *context = own_context(bpf_get_current_task());
	struct list_head *at;

	if (!context)
		return 0;
	at = read_field(context, event_list.next);
	for (int i = 0; i < MAX_EVENTS; i++) {
		if (!at || at == &context->event_list)
			break;
		if (is_counter((__u64)at - field_offset(((struct perf_event *)0)->event_entry), state))
			return 1;
		at = read_field(at, next);
	}
	return 0;
}

/* is_target reports whether the current task is recorded: with per_task, while its event is at least in this state. */
static inline_always int is_target(__s32 state) { return in_cgroup() && (!per_task || recorded(state)); }

#endif

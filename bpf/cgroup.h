/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The cgroups whose tasks are recorded: as for cgroup events of perf, those of the hierarchy that has the controller
 * perf_event, which is version 2's unless version 1's is mounted.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include "kernel.h"

/* Set when the programs are loaded. */
const volatile __u32 by_cgroup = 0; /* record only tasks in the cgroups in selected_cgroups, and below these */

/* By the ID of the cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 1);
} selected_cgroups SEC(".maps") PER_RECORDING;

#define MAX_CGROUP_DEPTH 32

/*
 * below_selected reports whether the current task is in a selected cgroup, or below one. The verifier checks it
 * separately, as it does step.
 */
__attribute__((noinline)) int below_selected(void)
{
	struct css_set *set = read_field(bpf_get_current_task(), cgroups);
	struct cgroup_subsys_state *css = NULL;
	__u64 id;

	if (!set)
		return 0;
	bpf_probe_read_kernel(&css, sizeof(css), (void *)set + field_offset(((struct css_set *)0)->subsys) +
		enum_value(enum cgroup_subsys_id, perf_event_cgrp_id) * sizeof(css));
	for (int i = 0; i < MAX_CGROUP_DEPTH; i++) {
		if (!css)
			break;
		id = read_field(read_field(read_field(css, cgroup), kn), id);
		if (bpf_map_lookup_elem(&selected_cgroups, &id))
			return 1;
		css = read_field(css, parent);
	}
	return 0;
}

/* in_cgroup reports whether the current task is recorded, as far as cgroups select tasks. */
static inline_always int in_cgroup(void) { return !by_cgroup || below_selected(); }

#endif

//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * The user stacks of perf's events: one program for each type of event. Each writes the
 * stack to the CPU's ring, directly before the kernel's own sample, and lets that
 * sample pass (return 1).
 */
#include "probe.h"
#include "walk.h"

char _license[] SEC("license") = "GPL";

/*
 * traced reports whether the stack at a tracepoint or probe is walked. The recorder's
 * own stacks are not: walking them would cause more recorded events.
 */
static inline_always int traced(void)
{
	struct control_value *c = controls();

	return c && c->on && !is_recorder(c) && sampled(bpf_get_current_task());
}

SEC("perf_event")
int on_event(struct bpf_perf_event_data *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct walk *w = bpf_map_lookup_elem(&walks, &cpu);
	int in_user = in_user_mode(&ctx->regs);
	struct control_value *c = controls();

	if (!w || !c || !c->on)
		return 1;
	if (in_user)
		keep_regs(w, &ctx->regs);
	return start(ctx, w, cpu, in_user);
}

SEC("tracepoint")
int on_tracepoint(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct walk *w = bpf_map_lookup_elem(&walks, &cpu);

	if (!w || !traced())
		return 1;
	return start(ctx, w, cpu, 0);
}

/* A kprobe runs in the kernel, a uprobe in user mode. */
SEC("kprobe")
int on_probe(struct pt_regs *ctx)
{
	__u32 slot = bpf_get_smp_processor_id();
	int in_user = in_user_mode(ctx);
	struct walk *w;

	if (!traced())
		return 1;
	w = in_user ? take_walk(&slot) : bpf_map_lookup_elem(&walks, &slot);
	if (!w)
		return 1;
	if (in_user)
		keep_regs(w, ctx);
	start(ctx, w, slot, in_user);
	if (in_user)
		leave_walk(w);
	stay_on_stack(ctx);
	return 1;
}

/* replaces reports whether memory from start to end takes the place of a mapping with a table of the process. */
static inline_always int replaces(struct process *p, __u64 start, __u64 end)
{
	__u32 lo = p->first, hi = p->first + p->n; /* mappings before lo start below end, those from hi on do not */
	struct mapping *m;

	for (int i = 0; i < 17; i++) {
		if (lo >= hi)
			break;
		__u32 mid = lo + (hi - lo) / 2;
		m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			return 0;
		if (m->start < end)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == p->first)
		return 0;
	lo--;
	m = bpf_map_lookup_elem(&mappings, &lo);
	return m && m->end > start && m->table < TABLE_HOT_SPOT;
}

/*
 * on_mmap runs when the kernel has found room for a mapping. If the process unmapped code at this place, walks
 * would use the table of the old mapping until the recorder reads the record of the new one: so the recorder walks
 * copies of the stacks until then. The kernel has no event of unmapping.
 */
SEC("raw_tp")
int on_mmap(__u64 *args)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *p = bpf_map_lookup_elem(&processes, &tgid);
	struct vm_unmapped_area_info *info = (void *)args[1];

	if (p && !p->stale && replaces(p, args[0], args[0] + read_field(info, length)))
		p->stale = 1;
	return 0;
}

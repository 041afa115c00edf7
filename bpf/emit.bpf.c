//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Events that have no perf event: the programs run where nothing else can, and
 * make the samples themselves. The kernel adds what every sample has, its
 * callchain included, for bpf_perf_event_output writes as the perf event of the
 * CPU says; the raw data is that of a tracepoint, whose number tells the
 * recorder which event it is of.
 */
#include "walk.h"

char _license[] SEC("license") = "GPL";

/* Set when the programs are loaded. */
const volatile __u32 walk_user = 0;  /* a user stack comes ahead of each sample */
const volatile __u32 raw_id = 0;     /* on_raw's number */
const volatile __u32 raw_args = 0;   /* and how many arguments it has */

#define MAX_RAW_ARGS 12

/* The ids of the recording's perf events: with per_task, those tasks are sampled that have one of them, and it is on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 1);
} counters SEC(".maps");

#define MAX_EVENTS 64 /* of a task, that are looked at: others' may be among them */

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} samples_to SEC(".maps");

/* What the raw data of all tracepoints begins with: struct trace_entry. */
struct common {
	__u16 type;
	__u8 flags, preempt_count;
	__s32 pid;
};

struct entered { /* as of a kprobe */
	struct common common;
	__u64 ip;
};

struct returned { /* as of a kretprobe */
	struct common common;
	__u64 func, ret_ip;
};

struct raw {
	struct common common;
	__u64 args[MAX_RAW_ARGS];
};

/*
 * recorded tells whether the current task has an event of the recording,
 * inherited or not, that is on. It is verified by itself, as step is.
 */
__attribute__((noinline)) int recorded(void)
{
	struct perf_event_context *context = own_context(bpf_get_current_task());
	struct list_head *at;

	if (!context)
		return 0;
	at = read_field(context, event_list.next);
	for (int i = 0; i < MAX_EVENTS; i++) {
		struct perf_event *event = (void *)at - field_offset(((struct perf_event *)0)->event_entry), *parent;
		__u64 id;

		if (!at || at == &context->event_list)
			break;
		parent = read_field(event, parent);
		id = read_field(parent ? parent : event, id);
		if (bpf_map_lookup_elem(&counters, &id) && (__s32)read_field(event, state) >= PERF_EVENT_STATE_INACTIVE)
			return 1;
		at = read_field(at, next);
	}
	return 0;
}

/* wanted tells whether there is to be a sample, and writes the user stack that belongs to it. */
static inline_always int wanted(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct control_value *c = controls();
	struct walk *w;

	if (!c || !c->on || (per_task && !recorded()))
		return 0;
	if (walk_user && !is_recorder(c)) {
		w = bpf_map_lookup_elem(&walks, &cpu);
		if (w)
			start(ctx, w, cpu, 0);
	}
	return 1;
}

static inline_always void begin(struct common *c, __u32 id)
{
	c->type = id;
	c->flags = c->preempt_count = 0;
	c->pid = bpf_get_current_pid_tgid();
}

static inline_always void put(void *ctx, void *data, __u64 size)
{
	bpf_perf_event_output(ctx, &samples_to, BPF_F_CURRENT_CPU, data, size);
}

SEC("kprobe.multi")
int on_function(struct pt_regs *ctx)
{
	struct entered e;

	if (!wanted(ctx))
		return 0;
	begin(&e.common, bpf_get_attach_cookie(ctx));
	e.ip = bpf_get_func_ip(ctx);
	put(ctx, &e, sizeof(e));
	return 0;
}

SEC("kprobe.multi")
int on_return(struct pt_regs *ctx)
{
	struct returned e;

	if (!wanted(ctx))
		return 0;
	begin(&e.common, bpf_get_attach_cookie(ctx));
	e.func = bpf_get_func_ip(ctx);
	e.ret_ip = ctx->ip;
	put(ctx, &e, sizeof(e));
	return 0;
}

SEC("raw_tp")
int on_raw(__u64 *args)
{
	struct raw e;
	__u32 n = raw_args;

	if (!wanted(args))
		return 0;
	begin(&e.common, raw_id);
	/* Only arguments that the tracepoint has may be read: what is beyond is gone before it is verified. */
#define ARG(i)                                                                                     \
	if (n > i)                                                                                 \
		e.args[i] = args[i];                                                               \
	else                                                                                       \
		e.args[i] = 0
	ARG(0);
	ARG(1);
	ARG(2);
	ARG(3);
	ARG(4);
	ARG(5);
	ARG(6);
	ARG(7);
	ARG(8);
	ARG(9);
	ARG(10);
	ARG(11);
	if (n > MAX_RAW_ARGS)
		n = MAX_RAW_ARGS;
	put(args, &e, sizeof(e.common) + n * sizeof(__u64));
	return 0;
}

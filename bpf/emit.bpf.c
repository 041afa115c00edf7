//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of events without a perf event: the programs make the samples themselves. The kernel adds the common
 * fields of samples, including the callchain, because bpf_perf_event_output writes samples of the CPU's perf
 * event. The raw data is laid out like a tracepoint's, and the tracepoint's number identifies the event for the
 * recorder.
 */
#include "follow.h"
#include "probe.h"

char _license[] SEC("license") = "GPL";


/* Set when the programs are loaded. */
const volatile __u32 fixed_size = 0; /* bytes of samples before dynamic data */
const volatile __u32 own_size = 0;   /* bytes of these from the tracepoint's own record; 0: none */
const volatile __u32 num_dynamic = 0; /* number of dynamic arrays of that record, and the positions of the arrays: */
const volatile __u32 dynamic_at[MAX_DYNAMIC] = {};

/* Of events with a packet: */
const volatile __u32 packet_is_sock = 0; /* the argument is a socket, not an sk_buff */
const volatile __u32 packet_is_xdp = 0;  /* the argument is an xdp_buff */

/* Of drops: the BPF program that drops packets. */
const volatile __u32 program_id = 0;
const volatile char program_name[MAX_PROGRAM_NAME] = {};

struct entered { /* raw data of a kprobe */
	struct common common;
	__u64 ip;
};

struct returned { /* raw data of a kretprobe */
	struct common common;
	__u64 func, ret_ip;
};

SEC("kprobe.multi")
int on_function(struct pt_regs *ctx)
{
	struct entered e;

	if (!wanted(bpf_get_attach_cookie(ctx)))
		return 0;
	walk_first(ctx);
	begin(&e.common, bpf_get_attach_cookie(ctx));
	e.ip = bpf_get_func_ip(ctx);
	put(ctx, &e, sizeof(e));
	return 0;
}

SEC("kprobe.multi")
int on_return(struct pt_regs *ctx)
{
	struct returned e;

	if (!wanted(bpf_get_attach_cookie(ctx)))
		return 0;
	walk_first(ctx);
	begin(&e.common, bpf_get_attach_cookie(ctx));
	e.func = bpf_get_func_ip(ctx);
	e.ret_ip = ip_of(ctx);
	put(ctx, &e, sizeof(e));
	return 0;
}

/*
 * on_record stores the record that a tracepoint makes for perf, for on_raw, which runs
 * next at the same tracepoint because it was attached later.
 */
SEC("tracepoint")
int on_record(void *record)
{
	__u32 zero = 0, at, *depth = bpf_map_lookup_elem(&depths, &zero);
	__u64 end = own_size, n;
	struct sample *s;

	if (!depth || !is_enabled())
		return 1;
	at = *depth;
	if (at >= LEVELS) /* full of records of tasks that moved to another CPU before on_raw ran */
		at = 0;
	s = bpf_map_lookup_elem(&samples, &at);
	if (!s)
		return 1;
	*depth = at + 1;
	s->task = (__u64)bpf_get_current_task();
	bpf_probe_read_kernel(s->data, own_size & (SAMPLE_SIZE - 1), record);
	for (int i = 0; i < MAX_DYNAMIC; i++) {
		if (i >= num_dynamic)
			break;
		__u32 *loc = (__u32 *)&s->data[dynamic_at[i] & (SAMPLE_SIZE - 1)];
		__u64 last = (*loc & 0xffff) + (*loc >> 16);

		if (last > end)
			end = last;
		*loc += fixed_size - own_size;
	}
	n = end - own_size;
	keep_whole(n);
	if (n > SAMPLE_SIZE - fixed_size)
		n = SAMPLE_SIZE - fixed_size;
	bpf_probe_read_kernel(s->data + (fixed_size & (SAMPLE_SIZE - 1)), n, record + own_size);
	s->size = fixed_size + n;
	return 1;
}

/* own_sample finds the record that on_record stored for the current task: NULL if there is none. */
static inline_always struct sample *own_sample(__u32 depth, __u32 *at)
{
	__u64 task = (__u64)bpf_get_current_task();
	struct sample *s;

	for (int i = LEVELS - 1; i >= 0; i--) {
		*at = i;
		s = bpf_map_lookup_elem(&samples, at);
		if (s && i < depth && s->task == task)
			return s;
	}
	return NULL;
}

/* packet_arg returns the argument that is the sk_buff, the socket or the xdp_buff. Package bpf replaces this body. */
static __attribute__((noinline)) __u64 packet_arg(__u64 *args)
{
	__u64 skb = 0;

	asm volatile("" : "+r"(skb) : "r"(args) : "memory");
	return skb;
}

/* read_followed reads the packet of skb into p, which is zero, and reports whether it is followed. */
static inline_always int read_followed(struct usage *u, struct sample *s, struct packet *p)
{
	__u64 head, skb = u->arg;
	int selected;

	copy_skb(&s->skb, skb);
	locate_packet(&s->skb, p, &s->first);
	if (!s->first.type && !p->from_sock && s->sock)
		read_sock_packet((void *)s->sock, p);
	head = (__u64)s->first.head;
	selected = !s->known_only && passes_filter(s, p);
	if (!selected && !may_be_followed(skb, head)) /* most packets */
		return 0;
	describe_packet(&s->skb, p, &s->first);
	p->id = find_number(skb, head, p, u->point);
	if (!p->id && selected && p->outer.ethertype && is_in_place(p))
		p->id = add_number(skb, head, p, u->point);
	return p->id != 0;
}

/* use_packet describes how the event uses the packet. */
static inline_always void use_packet(struct usage *u, __u64 *args)
{
	u->arg = packet_arg(args);
	u->dev = keep_as || kept_as ? device_arg(args) : 0;
	u->at = packet_at;
	u->is_sock = packet_is_sock;
	u->point = point;
	u->keep_as = keep_as;
	u->kept_as = kept_as;
	u->ends = ends;
}

/* read_packet adds the packet to the sample: 0 if it is not to be sampled. */
static inline_always int read_packet(struct usage *u, struct sample *s)
{
	struct packet *p = (void *)&s->data[u->at & (SAMPLE_SIZE - 1)];
	int followed;

	__builtin_memset(p, 0, sizeof(*p));
	if (u->is_sock) {
		s->first.at = s->first.end = 0;
		read_sock_packet((void *)u->arg, p);
		return is_selected(s, p);
	}
	if (packet_is_xdp) {
		read_xdp((void *)u->arg, p, &s->first);
		return is_selected(s, p);
	}
	if (!following)
		return read_selected(u->arg, s, p);
	if (u->kept_as) {
		s->first.at = s->first.end = 0;
		return take_kept(u, p);
	}
	followed = read_followed(u, s, p);
	if (u->keep_as)
		keep(u, p);
	return followed;
}

static __attribute__((noinline)) int add_packet(__u64 *args, struct sample *s)
{
	struct usage u;

	if (!s)
		return 0;
	use_packet(&u, args);
	return read_packet(&u, s);
}

/* is_sampled reports whether an event is to be sampled, and adds the packet. Packets are followed in all tasks. */
static inline_always int is_sampled(__u64 *args, struct sample *s, int has_packet)
{
	if (has_packet && following)
		return is_enabled() && add_packet(args, s) && wanted(raw_id);
	return wanted(raw_id) && (!has_packet || add_packet(args, s));
}

/* make_sample makes the sample of an event, except the first s->size bytes. */
static inline_always void make_sample(void *ctx, __u64 *args, struct sample *s, int has_packet)
{
	if (is_sampled(args, s, has_packet))
		finish_sample(ctx, args, s, has_packet);
}

static inline_always int sample_raw(__u64 *args, int has_packet)
{
	__u32 zero = 0, at, *depth = bpf_map_lookup_elem(&depths, &zero);
	struct sample *s;

	if (!depth)
		return 0;
	if (own_size) {
		s = own_sample(*depth, &at);
	} else {
		at = *depth;
		s = bpf_map_lookup_elem(&samples, &at);
		if (s) {
			*depth = at + 1;
			s->size = fixed_size;
		}
	}
	if (!s)
		return 0;
	make_sample(args, args, s, has_packet);
	*depth = at;
	return 0;
}

SEC("raw_tp")
int on_raw(__u64 *args) { return sample_raw(args, 0); }

SEC("raw_tp")
int on_packet(__u64 *args)
{
	sample_raw(args, 1);
	if (ends)
		end_skb((void *)packet_arg(args));
	return 0;
}

/* begin_shared takes the memory for the sample of an event that is to be sampled, and copies the event's own record. */
static inline_always struct sample *begin_shared(int has_packet)
{
	__u32 zero = 0, at, level, *depth = NULL;
	struct sample *s = NULL, *own = NULL;
	__u64 n = fixed_size;

	if (own_size) {
		depth = bpf_map_lookup_elem(&depths, &zero);
		own = depth ? own_sample(*depth, &at) : NULL;
		if (!own)
			return NULL;
		n = own->size;
	}
	if (has_packet && following ? is_enabled() : wanted(raw_id))
		s = take_sample(&level);
	if (s) {
		s->snap = 0;
		s->size = n;
		keep_whole(n);
		if (own && n <= SAMPLE_SIZE)
			bpf_probe_read_kernel(s->data, n, own->data);
	}
	if (own)
		*depth = at;
	return s;
}

SEC("raw_tp")
int raw_begins(__u64 *args)
{
	struct sample *s = begin_shared(0);

	if (s)
		fetch_shared(args, s);
	return 0;
}

const volatile __u32 fetches = 0; /* the event's stage after packet_read */

SEC("raw_tp")
int packet_begins(__u64 *args)
{
	struct sample *s = begin_shared(1);

	if (s) {
		use_packet(&s->usage, args);
		s->next = fetches;
		s->snap = snap;
		s->bytes_at = bytes_at;
		go_on(args, STAGE_READ);
	}
	if (ends)
		end_skb((void *)packet_arg(args));
	return 0;
}

/* packet_read reads the packets of all events. */
SEC("raw_tp")
int packet_read(__u64 *args)
{
	__u32 level;
	struct sample *s = taken_sample(&level);
	int selected;

	if (!s)
		return 0;
	selected = read_packet(&s->usage, s);
	if (s->usage.ends)
		end_skb((void *)s->usage.arg);
	if (selected)
		go_on(args, s->next);
	else
		leave_sample();
	return 0;
}

SEC("raw_tp")
int packet_fetches(__u64 *args)
{
	__u32 level;
	struct sample *s = taken_sample(&level);

	if (!s)
		return 0;
	if (!following || wanted(raw_id)) /* packets are followed in all tasks */
		fetch_shared(args, s);
	else
		leave_sample();
	return 0;
}

/* sample_ends writes the samples of all events. */
SEC("raw_tp")
int sample_ends(__u64 *args)
{
	__u32 level;
	struct sample *s = taken_sample(&level);
	__u64 size;

	if (!s)
		return 0;
	size = s->size;
	if (s->snap)
		size = add_bytes(s, size, s->snap, s->bytes_at);
	walk_at(args, level);
	keep_whole(size);
	if (size <= sizeof(s->data))
		put(args, s->data, size);
	leave_sample();
	stay_on_stack(args);
	return 0;
}

/*
 * on_free runs where the kernel frees memory, at the second argument of kfree and kmem_cache_free, and on_free_again
 * next: the kernel omits a program where it interrupts this program itself, but not the other one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} freed SEC(".maps");

SEC("raw_tp")
int on_free(__u64 *args)
{
	__u32 zero = 0;
	__u64 *done;

	if (!is_any_followed())
		return 0;
	done = bpf_map_lookup_elem(&freed, &zero);
	end_memory(args[1]);
	if (done)
		*done = args[1];
	return 0;
}

SEC("raw_tp")
int on_free_again(__u64 *args)
{
	__u32 zero = 0;
	__u64 *done;

	if (!is_any_followed())
		return 0;
	done = bpf_map_lookup_elem(&freed, &zero);
	if (!done || *done != args[1])
		end_memory(args[1]);
	else
		*done = 0;
	return 0;
}

/* The functions that packets pass, by address, for kernels without cookies. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 1);
} hops SEC(".maps");

const volatile __u32 by_address = 0; /* the map hops describes the function, not the cookie */

/* The parts of a function's cookie: package bpf's Hop. */
#define HOP_SKB(hop) ((hop) & 15)       /* number of the parameter that is an sk_buff, from 1 */
#define HOP_SOCK(hop) ((hop) >> 4 & 15) /* of the one that is a socket; 0: none */

static inline_always __u64 hop_arg(__u64 *args, __u32 n)
{
	__u64 v = 0;

#pragma unroll
	for (int i = 0; i < 6; i++)
		v = n == i + 1 ? args[i] : v;
	return v;
}

/*
 * on_hop runs at the entry of functions that packets pass. The arguments of the event are the function and the
 * sk_buff.
 */
SEC("kprobe.multi")
int on_hop(struct pt_regs *ctx)
{
	__u64 *described, what = by_address ? 0 : bpf_get_attach_cookie(ctx);
	struct sample *s;
	__u32 zero = 0;

	if (what & (HOP_KNOWN_ONLY | HOP_COPIES | HOP_SILENT) && !is_any_followed())
		return 0;
	s = bpf_map_lookup_elem(&samples, &zero); /* the programs of kprobes do not nest */
	if (!s)
		return 0;
	s->hop[0] = by_address ? probed_ip(ctx) : bpf_get_func_ip(ctx);
	if (by_address) {
		described = bpf_map_lookup_elem(&hops, &s->hop[0]);
		what = described ? *described : 0;
	}
	get_call_args(s->args, ctx, 0);
	if (what & HOP_COPIES) {
		copy_number(s->args[0], (void *)s->args[1]);
		return 0;
	}
	s->hop[1] = hop_arg(s->args, HOP_SKB(what));
	if (!s->hop[1])
		return 0;
	s->size = fixed_size;
	s->sock = hop_arg(s->args, HOP_SOCK(what));
	s->known_only = what & HOP_KNOWN_ONLY;
	if (!(what & HOP_SILENT))
		make_sample(ctx, s->hop, s, 1);
	if (what & HOP_ENDS)
		end_skb((void *)s->hop[1]);
	return 0;
}

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
#define TC_ACT_SHOT 2

/*
 * verdict_of returns the return value of the program that on_drop is attached to. The value's position in ctx
 * depends on the number of parameters that the verifier knows, which is five for a program whose parameter is not
 * of a context type.
 */
static inline_always __u32 verdict_of(__u64 *ctx)
{
	__u64 value = 0;

	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_get_func_ret)) {
		bpf_get_func_ret(ctx, &value);
		return value;
	}
	/* Before 5.17. The compiler would merge a load in C with the load of value, which the verifier refuses. */
	asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(value) : "r"(ctx));
	return value;
}

/*
 * is_drop reports whether a program's return value makes the kernel drop the packet. Drivers treat unknown values as
 * XDP_ABORTED.
 */
static inline_always int is_drop(__u32 action)
{
	if (!packet_is_xdp)
		return action == TC_ACT_SHOT;
	return action != XDP_PASS && action != XDP_TX && action != XDP_REDIRECT;
}

/*
 * on_drop runs when another BPF program returns. The arguments of the event are in the sample: the stack of the
 * walk leaves no space for them on some kernels.
 */
SEC("fexit")
int on_drop(__u64 *ctx)
{
	__u32 zero = 0, verdict = verdict_of(ctx);
	struct sample *s = bpf_map_lookup_elem(&samples, &zero); /* the kernel does not run it within itself */

	if (!s || !is_drop(verdict))
		return 0;
	s->args[0] = verdict;
	s->args[1] = program_id;
	s->args[2] = (__u64)program_name;
	s->args[3] = ctx[0];
	s->size = fixed_size;
	make_sample(ctx, s->args, s, 1);
	return 0;
}

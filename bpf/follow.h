/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Following packets: finding the number of the packet of an sk_buff. A packet keeps the number in clones, which
 * share the packet's data buffer, in copies, and wherever the kernel passes the sk_buff on.
 *
 * The kernel reuses the addresses of sk_buffs and buffers at once. So the numbers are removed when sk_buffs and
 * buffers are freed: by the tracepoints of kfree and kmem_cache_free, which see nearly all of them, by the
 * tracepoints kfree_skb and consume_skb, after which an sk_buff may remain in a cache of the network's receivers
 * (NAPI), and at the functions that put one there without a tracepoint. A buffer that is part of a page is freed
 * without any of them: the first sk_buff there that is not a clone shows that the buffer is new.
 *
 * Where no programs can run at functions, an sk_buff gets into the cache unseen, after a socket's reader read it
 * (Linux 6.18, skb_attempt_defer_free). Then gperf recognizes the next use by events and by headers that cannot
 * belong to one packet.
 */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "selected.h"

/* Set when the programs are loaded. */
const volatile __u32 following = 0; /* sample followed packets only */
const volatile __u32 ends = 0;      /* the tracepoint frees the sk_buff */
/* Where the program runs, if packets are followed at tracepoints only: enum point. */
const volatile __u32 point = 0;
/*
 * A tracepoint after the kernel passed on an sk_buff uses the packet of an earlier tracepoint of the same call,
 * because another CPU may meanwhile free or change the sk_buff.
 */
const volatile __u32 keep_as = 0; /* keep the packet by this number, for the later tracepoint */
const volatile __u32 kept_as = 0; /* the sample contains the packet that was kept by this number */

#define MAX_FOLLOWED 65536

struct followed {
	__u64 id;
	__u64 head;           /* the buffer, 0: unknown */
	__u32 ifindex, netns; /* of the device that received it, since it was last sent */
	__u32 delivered;      /* to a socket's reader */
	__u32 hash;           /* of the headers, while it is received or delivered */
};

/* By address of the sk_buff, and of the buffer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, struct followed);
	__uint(max_entries, MAX_FOLLOWED);
} skbs SEC(".maps") PER_RECORDER;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, MAX_FOLLOWED);
} heads SEC(".maps") PER_RECORDER;

/* The highest number of a packet, and the numbers that were assigned lately. */
ARRAY(last_number, __u64) PER_RECORDER;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 4096);
} numbers SEC(".maps") PER_RECORDER;

struct kept_key {
	__u64 skb, dev;
	__u32 cpu; /* on which the call runs */
	__u32 as;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct kept_key);
	__type(value, struct packet);
	__uint(max_entries, 4096);
} kept SEC(".maps") PER_RECORDER;

static inline_always int is_cloned(struct sk_buff *skb)
{
	__u64 bits = 0;

	bpf_probe_read_kernel(&bits, bit_field_size(skb->cloned), (void *)skb + field_offset(skb->cloned));
	return bits << bit_field_left(skb->cloned) >> bit_field_right(skb->cloned);
}

#define FCLONE_ORIG 1 /* the first of two sk_buffs in one object: SKB_FCLONE_ORIG */

static inline_always int is_fclone_orig(struct sk_buff *skb)
{
	__u64 bits = 0;

	bpf_probe_read_kernel(&bits, bit_field_size(skb->fclone), (void *)skb + field_offset(skb->fclone));
	return bits << bit_field_left(skb->fclone) >> bit_field_right(skb->fclone) == FCLONE_ORIG;
}

#define LOOPBACK_IFINDEX 1

/*
 * is_elsewhere reports whether the one who sends or receives p cannot have got it from the device that received f: it
 * is in another namespace, or that device is lo, from which only tunnels get packets, in the same buffer.
 */
static inline_always int is_elsewhere(struct followed *f, struct packet *p)
{
	return f->netns != p->netns || f->ifindex == LOOPBACK_IFINDEX;
}

/* hash_of returns a hash of the headers of a packet. */
static inline_always __u32 hash_of(struct headers *h)
{
	__u32 *words = (__u32 *)h, hash = 0;

	for (int i = 0; i < sizeof(*h) / sizeof(*words); i++)
		hash = hash * 31 + words[i];
	return hash;
}

/* is_reused reports whether skb, at which p is if it is not NULL, is now another packet than f. */
static inline_always int is_reused(struct followed *f, struct sk_buff *skb, __u64 head, struct packet *p, __u32 here)
{
	__u64 *id;

	if (f->head == head) {
		id = bpf_map_lookup_elem(&heads, &head);
		if (!id || *id != f->id) /* the buffer was freed */
			return 1;
	}
	if (!here || !p)
		return 0;
	if (!p->outer.ethertype)
		return 1;
	if (f->delivered)
		return (here != POINT_DELIVER && here != POINT_END) || f->head != head ||
		       f->hash != hash_of(&p->outer);
	if (!f->ifindex)
		return 0;
	if (here != POINT_QUEUE && here != POINT_RECEIVE) /* it may get another buffer, or other headers by NAT */
		return f->head != head && f->hash != hash_of(&p->outer);
	if (f->head != head && is_elsewhere(f, p))
		return 1;
	if (here == POINT_QUEUE) /* a received packet is sent on without a socket */
		return read_field(skb, sk) != NULL;
	return f->ifindex == p->ifindex && f->netns == p->netns;
}

/* note_point keeps the values that is_reused compares. */
static inline_always void note_point(struct followed *f, struct packet *p, __u32 here)
{
	switch (here) {
	case POINT_QUEUE:
		f->ifindex = 0;
		break;
	case POINT_RECEIVE:
		f->ifindex = p->ifindex;
		f->netns = p->netns;
		f->hash = hash_of(&p->outer);
		break;
	case POINT_DELIVER:
		f->delivered = 1;
		f->hash = hash_of(&p->outer);
	}
}

/* is_any_followed reports whether any packet was followed: until then, no map needs to be searched. */
static inline_always int is_any_followed(void)
{
	__u32 zero = 0;
	__u64 *last = bpf_map_lookup_elem(&last_number, &zero);

	return last && *last;
}

/* may_be_followed reports whether a packet can be numbered: find_number finds out. */
static inline_always int may_be_followed(__u64 skb, __u64 head)
{
	return is_any_followed() && (bpf_map_lookup_elem(&skbs, &skb) || bpf_map_lookup_elem(&heads, &head));
}

/*
 * find_number returns the number of a followed packet, 0 of others. p is the packet in a sample, or NULL; here is where
 * the program runs.
 */
static __attribute__((noinline)) __u64 find_number(__u64 skb, __u64 head, struct packet *p, __u32 here)
{
	struct followed *f = bpf_map_lookup_elem(&skbs, &skb), clone = {.head = head};
	__u64 *id;

	if (f && !is_reused(f, (void *)skb, head, p, here)) {
		clone.id = f->id;
		if (f->head != head) { /* a copy, or the buffer was replaced by a larger one */
			f->head = head;
			bpf_map_update_elem(&heads, &head, &clone.id, 0);
		}
		if (p)
			note_point(f, p, here);
		return clone.id;
	}
	if (f)
		bpf_map_delete_elem(&skbs, &skb);
	id = bpf_map_lookup_elem(&heads, &head);
	if (!id)
		return 0;
	clone.id = *id;
	if (!is_cloned((void *)skb)) { /* of an earlier packet */
		bpf_map_delete_elem(&heads, &head);
		return 0;
	}
	if (p)
		note_point(&clone, p, here);
	bpf_map_update_elem(&skbs, &skb, &clone, 0);
	return clone.id;
}

/*
 * next_number returns a new number, 0 if all attempts fail. Before 5.12 programs cannot
 * add to a number and get the result at once: adding a key to a map shows which of two programs was first.
 */
static inline_always __u64 next_number(void)
{
	__u32 zero = 0;
	__u64 *last = bpf_map_lookup_elem(&last_number, &zero), n;
	__u8 one = 1;

	if (!last)
		return 0;
	for (int i = 0; i < 8; i++) {
		__sync_fetch_and_add(last, 1);
		n = *(volatile __u64 *)last;
		if (!bpf_map_update_elem(&numbers, &n, &one, BPF_NOEXIST))
			return n;
	}
	return 0;
}

/* add_number makes the packet in a sample a followed packet, and returns the new number. */
static __attribute__((noinline)) __u64 add_number(__u64 skb, __u64 head, struct packet *p, __u32 here)
{
	struct followed f = {.id = next_number(), .head = head};
	__u64 *id;

	if (!f.id)
		return 0;
	if (bpf_map_update_elem(&heads, &head, &f.id, BPF_NOEXIST)) { /* another CPU was faster, for a clone */
		id = bpf_map_lookup_elem(&heads, &head);
		if (id)
			f.id = *id;
	}
	if (p)
		note_point(&f, p, here);
	bpf_map_update_elem(&skbs, &skb, &f, 0);
	return f.id;
}

/* copy_number follows the copy or clone of a packet, whose buffer may not be set yet. */
static __attribute__((noinline)) void copy_number(__u64 to, struct sk_buff *from)
{
	struct followed f = {};

	if (!is_any_followed())
		return;
	f.id = find_number((__u64)from, (__u64)read_field(from, head), NULL, POINT_NONE);
	if (f.id)
		bpf_map_update_elem(&skbs, &to, &f, 0);
	else if (bpf_map_lookup_elem(&skbs, &to))
		bpf_map_delete_elem(&skbs, &to);
}

/* end_skb ends the following of an sk_buff, which is freed. The buffer remains as long as there are clones. */
static inline_always void end_skb(struct sk_buff *skb)
{
	__u64 head;

	if (!is_any_followed() || !bpf_map_lookup_elem(&skbs, &skb))
		return;
	head = (__u64)read_field(skb, head);
	bpf_map_delete_elem(&skbs, &skb);
	if (!is_cloned(skb))
		bpf_map_delete_elem(&heads, &head);
}

/* end_memory ends the following of memory that is freed at an address: of one or two sk_buffs, or a buffer. */
static inline_always void end_memory(__u64 at)
{
	__u64 second = at + type_size(struct sk_buff);

	if (bpf_map_lookup_elem(&skbs, &at))
		bpf_map_delete_elem(&skbs, &at);
	if (bpf_map_lookup_elem(&heads, &at))
		bpf_map_delete_elem(&heads, &at);
	if (bpf_map_lookup_elem(&skbs, &second) && is_fclone_orig((void *)at))
		bpf_map_delete_elem(&skbs, &second);
}

/*
 * device_arg returns the argument that is the device, 0 if there is none: calls for the devices of a tunnel nest.
 * Package bpf replaces this body.
 */
static __attribute__((noinline)) __u64 device_arg(__u64 *args)
{
	__u64 dev = 0;

	asm volatile("" : "+r"(dev) : "r"(args) : "memory");
	return dev;
}

static inline_always struct kept_key key_of(struct usage *u, __u32 as)
{
	return (struct kept_key){u->arg, u->dev, bpf_get_smp_processor_id(), as};
}

/*
 * keep keeps a packet for the later tracepoint of the same call, or removes the kept packet if p is not followed.
 */
static inline_always void keep(struct usage *u, struct packet *p)
{
	struct kept_key key;

	if (!is_any_followed())
		return;
	key = key_of(u, u->keep_as);
	if (p->id)
		bpf_map_update_elem(&kept, &key, p, 0);
	else
		bpf_map_delete_elem(&kept, &key);
}

/* take_kept reads the kept packet into p: 0 if there is none. */
static inline_always int take_kept(struct usage *u, struct packet *p)
{
	struct kept_key key;
	struct packet *k;

	if (!is_any_followed())
		return 0;
	key = key_of(u, u->kept_as);
	k = bpf_map_lookup_elem(&kept, &key);
	return k && !bpf_probe_read_kernel(p, sizeof(*p), k);
}

#endif

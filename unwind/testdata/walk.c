/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The walk of the BPF programs as a program of this machine: host_test.go compares its frames with those of the walk in
 * Go. It compiles the same headers. The helpers of BPF read the maps and the memory of the input.
 *
 * Input and output are numbers of 8 bytes in the machine's order. A request begins with its kind:
 *
 * LOAD: for each region after MEMORY, its size in bytes and its contents; then the number of pages of memory, and for
 * each, by address, the address and the contents. The process has all mappings.
 *
 * WALK: the registers, the number of patches, and for each its region, its offset there (of MEMORY: its address) and a
 * number, which replaces 8 bytes for this walk. The answer is the reason for the end, the number of frames, and these.
 *
 * FLUSH: write the answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a task are where this compiler puts them. */
#define __builtin_preserve_field_info(field, kind) 0
#define __builtin_preserve_enum_value(value, kind) 0
#define __builtin_preserve_type_info(type, kind) sizeof(type)

#include "../../bpf/walk.h"

enum { LOAD, WALK, FLUSH };
enum { MEMORY, MAPPINGS, TABLES, PAGES, ROWS, RULES, HEAPS, NUM_REGIONS };

struct region {
	void *map;
	size_t elem, size;
	unsigned char *bytes;
};

static struct region regions[NUM_REGIONS] = {
	[MAPPINGS] = { &mappings, sizeof(struct mapping) },
	[TABLES] = { &tables, sizeof(struct table) },
	[PAGES] = { &pages, sizeof(struct page) },
	[ROWS] = { &rows, sizeof(struct row_pair) },
	[RULES] = { &rules, sizeof(struct rule) },
	[HEAPS] = { &code_heaps, sizeof(struct code_heap) },
};

static __u64 num_pages, *page_at; /* of MEMORY */
static struct walk the_walk;
static struct process the_process;
static struct mm_struct the_mm = { .task_size = 1UL << 48 };
static struct task_struct the_task = { .mm = &the_mm };

/* memory returns where the byte at an address is, NULL if it is in no page. */
static unsigned char *memory(__u64 addr)
{
	__u64 lo = 0, hi = num_pages;

	while (lo < hi) {
		__u64 mid = (lo + hi) / 2;

		if (page_at[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || addr - page_at[lo - 1] >= PAGE)
		return NULL;
	return regions[MEMORY].bytes + (lo - 1) * PAGE + addr % PAGE;
}

/* read_memory reads memory that may be on several pages. A failed read leaves zeros, as in the kernel. */
static long read_memory(void *dst, __u32 size, const void *from)
{
	__u64 addr = (__u64)from;

	for (__u32 done = 0, n; done < size; done += n, addr += n) {
		unsigned char *at = memory(addr);

		if (!at) {
			memset(dst, 0, size);
			return -1;
		}
		n = PAGE - addr % PAGE;
		if (n > size - done)
			n = size - done;
		memcpy(dst + done, at, n);
	}
	return 0;
}

static long read_kernel(void *dst, __u32 size, const void *from)
{
	memcpy(dst, from, size);
	return 0;
}

/* lookup returns an element of a map. There is no room for copies of the stack, so none is asked for. */
static void *lookup(void *map, const void *key)
{
	__u64 at = *(__u32 *)key;

	if (map == &walks)
		return &the_walk;
	if (map == &processes)
		return &the_process;
	for (int i = MAPPINGS; i < NUM_REGIONS; i++) {
		struct region *r = &regions[i];

		if (r->map == map)
			return (at + 1) * r->elem <= r->size ? r->bytes + at * r->elem : NULL;
	}
	return NULL;
}

static struct task_struct *current(void) { return &the_task; }
static __u64 no_id(void) { return 0; }
static __u32 no_cpu(void) { return 0; }

/* get reads a part of a request. The input ends between two requests. */
static void get(void *to, size_t size)
{
	if (size && fread(to, size, 1, stdin) != 1)
		exit(!feof(stdin));
}

static __u64 number(void)
{
	__u64 n;

	get(&n, sizeof(n));
	return n;
}

static void *allocate(void *old, size_t size)
{
	void *p = realloc(old, size + 1);

	if (!p)
		exit(2);
	return p;
}

static void load(void)
{
	struct region *m = &regions[MEMORY];

	for (struct region *r = m + 1; r < regions + NUM_REGIONS; r++) {
		r->size = number();
		r->bytes = allocate(r->bytes, r->size);
		get(r->bytes, r->size);
	}
	num_pages = number();
	m->size = num_pages * PAGE;
	m->bytes = allocate(m->bytes, m->size);
	page_at = allocate(page_at, num_pages * sizeof(*page_at));
	for (__u64 i = 0; i < num_pages; i++) {
		page_at[i] = number();
		get(m->bytes + i * PAGE, PAGE);
	}
	the_process.n = regions[MAPPINGS].size / sizeof(struct mapping);
}

#define MAX_PATCHES 64

struct patch {
	unsigned char *at;
	__u64 old;
};

/* patch reads and applies the patches of a walk, and returns their number. */
static int patch(struct patch *p)
{
	__u64 n = number();

	for (__u64 i = 0; i < n; i++) {
		__u64 region = number(), at = number(), new = number();

		if (i >= MAX_PATCHES || region >= NUM_REGIONS)
			exit(3);
		if (region == MEMORY)
			p[i].at = memory(at);
		else
			p[i].at = at + sizeof(new) <= regions[region].size ? regions[region].bytes + at : NULL;
		if (!p[i].at)
			exit(4);
		memcpy(&p[i].old, p[i].at, sizeof(new));
		memcpy(p[i].at, &new, sizeof(new));
	}
	return n;
}

static void walk(void)
{
	struct patch patches[MAX_PATCHES];
	struct walk *w = &the_walk;
	__u64 answer[2];
	int n;

	get(w->regs, sizeof(w->regs));
	n = patch(patches);
	memset(w->known, 0, sizeof(w->known)); /* rules differ from those of the walk before */
	collect(w, 0, 1);
	while (n--)
		memcpy(patches[n].at, &patches[n].old, sizeof(patches[n].old));
	answer[0] = w->out.head.end;
	answer[1] = w->out.head.frames;
	fwrite(answer, sizeof(answer), 1, stdout);
	fwrite(w->out.frames, sizeof(*w->out.frames), w->out.head.frames, stdout);
}

int main(void)
{
	static char in[1 << 20], out[1 << 20];

	setvbuf(stdin, in, _IOFBF, sizeof(in));
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	bpf_map_lookup_elem = lookup;
	bpf_probe_read_user = read_memory;
	bpf_probe_read_kernel = read_kernel;
	bpf_get_current_task = current;
	bpf_get_current_pid_tgid = no_id;
	bpf_get_smp_processor_id = no_cpu;
	for (;;) {
		switch (number()) {
		case LOAD:
			load();
			break;
		case WALK:
			walk();
			break;
		case FLUSH:
			fflush(stdout);
			break;
		default:
			return 5;
		}
	}
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mappings of a process that the recorder did not pass to the programs: the kernel's own list of them leads to the
 * mapped files, whose tables all processes share. So a program that starts is walked at once if others ran its files
 * before, and the recorder need not know it. From Linux 6.1 on, where the list is a maple tree.
 */
#ifndef VMA_H
#define VMA_H

#include "data.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct inode___until_6_10 {
	struct timespec64 __i_ctime;
};
struct inode___until_6_5 {
	struct timespec64 i_ctime;
};

/* Files that an overlay passes on to another file system, from Linux 6.10 on: earlier, f_path is the user's. */
struct backing_file {
	struct path user_path;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_pgoff;
	struct mm_struct *vm_mm;
	struct file *vm_file;
};

/* Nodes of include/linux/maple_tree.h. A pivot is the last address of the slot with its number. */
struct maple_metadata {
	unsigned char end;
};
struct maple_range_64 {
	void *parent;
	unsigned long pivot[15];
	union {
		void *slot[16];
		struct {
			void *pad[15];
			struct maple_metadata meta;
		};
	};
};
struct maple_arange_64 {
	void *parent;
	unsigned long pivot[9];
	void *slot[10];
	unsigned long gap[10];
	struct maple_metadata meta;
};

#pragma clang attribute pop

#define FMODE_BACKING (1 << 25)
#define CTIME_QUERIED (1U << 31) /* I_CTIME_QUERIED in the nanoseconds, from Linux 6.13 on */

enum { MAPLE_LEAF_64 = 1, MAPLE_ARANGE_64 = 3 }; /* enum maple_type, in bits 3 to 6 of a node's address */
#define MAPLE_NODE 256                           /* bytes */
#define MAPLE_DEPTH 8
#define MAPLE_PIVOTS 15

/*
 * child returns the entry for addr in the node of a maple tree: NULL if the node cannot be read. It uses w->object, as
 * walks of interpreters do later.
 */
static inline_always __u64 child(struct walk *w, __u64 node, __u64 addr)
{
	__u32 pivots = field_offset(((struct maple_range_64 *)0)->pivot) / 8;
	__u32 slots = field_offset(((struct maple_range_64 *)0)->slot) / 8;
	__u32 meta = field_offset(((struct maple_range_64 *)0)->meta.end) / 8;
	__u32 i, n;

	if ((node >> 3 & 15) == MAPLE_ARANGE_64) {
		pivots = field_offset(((struct maple_arange_64 *)0)->pivot) / 8;
		slots = field_offset(((struct maple_arange_64 *)0)->slot) / 8;
		meta = field_offset(((struct maple_arange_64 *)0)->meta.end) / 8;
	}
	if (bpf_probe_read_kernel(w->object, MAPLE_NODE, (void *)(node & ~(MAPLE_NODE - 1ULL))))
		return 0;
	n = slots - pivots;
	if (w->object[(slots - 1) % (MAPLE_NODE / 8)] == 0) /* the last pivot is unused */
		n = (__u8)w->object[meta % (MAPLE_NODE / 8)];
	for (i = 0; i < MAPLE_PIVOTS; i++)
		if (i >= n || w->object[(pivots + i) % (MAPLE_NODE / 8)] >= addr)
			break;
	return w->object[(slots + i) % (MAPLE_NODE / 8)];
}

/* find_vma returns the mapping of an address that the kernel lists for w->mm, NULL for none. */
static inline_always struct vm_area_struct *find_vma(struct walk *w, __u64 addr)
{
	__u64 entry = (__u64)read_field((struct mm_struct *)w->mm, mm_mt.ma_root);
	int leaf = (entry & 3) != 2 || entry < 4096; /* the root is an entry itself */

	for (int i = 0; i < MAPLE_DEPTH && !leaf; i++) {
		leaf = (entry >> 3 & 15) <= MAPLE_LEAF_64;
		entry = child(w, entry, addr);
		if (!entry)
			return NULL;
	}
	return entry & 3 ? NULL : (struct vm_area_struct *)entry; /* others are not mappings */
}

/* inode_of returns the inode of the file by which a process knows a mapped file. */
static inline_always struct inode *inode_of(struct file *file)
{
	struct dentry *dentry = NULL;

	if (field_exists(((struct backing_file *)0)->user_path) && read_field(file, f_mode) & FMODE_BACKING)
		dentry = read_field((struct backing_file *)file, user_path.dentry);
	else
		dentry = read_field(file, f_path.dentry);
	return read_field(dentry, d_inode);
}

/* set_changed sets when the inode was changed. */
static inline_always void set_changed(struct file_key *k, struct inode *inode)
{
	if (field_exists(inode->i_ctime_sec)) {
		k->changed = read_field(inode, i_ctime_sec);
		k->changed_ns = read_field(inode, i_ctime_nsec) & ~CTIME_QUERIED;
	} else if (field_exists(((struct inode___until_6_10 *)0)->__i_ctime)) {
		k->changed = read_field((struct inode___until_6_10 *)inode, __i_ctime.tv_sec);
		k->changed_ns = read_field((struct inode___until_6_10 *)inode, __i_ctime.tv_nsec);
	} else {
		k->changed = read_field((struct inode___until_6_5 *)inode, i_ctime.tv_sec);
		k->changed_ns = read_field((struct inode___until_6_5 *)inode, i_ctime.tv_nsec);
	}
}

/*
 * set_mapped sets w->mapped to what a mapping maps: zeros for the vdso, which has no file. It returns whether others map
 * the same.
 */
static inline_always int set_mapped(struct walk *w, struct vm_area_struct *vma)
{
	struct inode *inode = inode_of(read_field(vma, vm_file));

	__builtin_memset(&w->mapped, 0, sizeof(w->mapped));
	if (!inode)
		return w->start == (__u64)read_field((struct mm_struct *)w->mm, context.vdso);
	w->mapped.inode = read_field(inode, i_ino);
	w->mapped.dev = read_field(read_field(inode, i_sb), s_dev);
	w->mapped.off = (__u64)read_field(vma, vm_pgoff) * PAGE;
	set_changed(&w->mapped, inode);
	return 1;
}

/*
 * find_file sets w->start, end, bias, kind and table to the mapping of addr that the kernel lists for w->mm, if its
 * file's table is known. The verifier checks it separately, because of the loops.
 */
__attribute__((noinline)) int find_file(__u32 slot, __u64 addr)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct vm_area_struct *vma;
	struct file_table *f;

	if (!w)
		return END_INTERNAL;
	if (!field_exists(((struct mm_struct *)0)->mm_mt)) /* the verifier checks what nothing calls, too */
		return END_NO_MAPPING;
	vma = find_vma(w, addr);
	w->start = read_field(vma, vm_start);
	w->end = read_field(vma, vm_end);
	/* The tree may change meanwhile: what is not a mapping of addr any more is none. */
	if (!vma || addr < w->start || addr >= w->end || (__u64)read_field(vma, vm_mm) != w->mm) {
		w->start = w->end = 0;
		return END_NO_MAPPING;
	}
	f = set_mapped(w, vma) ? bpf_map_lookup_elem(&files, &w->mapped) : NULL;
	if (!f) {
		w->start = w->end = 0;
		return END_NO_MAPPING;
	}
	w->bias = w->start + f->bias;
	w->kind = f->table;
	return use_table(w);
}

#endif

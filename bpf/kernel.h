/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel definitions for the programs: the few structs whose fields they read, located in the running kernel's BTF
 * when the programs are loaded (CO-RE), and the helpers they call, by the numbers in include/uapi/linux/bpf.h.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

#include "shared.h"

#define SEC(name) __attribute__((section(name), used))
#define inline_always inline __attribute__((always_inline))
#define NULL ((void *)0)

/* Map definitions in BTF: see cilium/ebpf's and libbpf's documentation. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_F_MMAPABLE = 1 << 10,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL
#define BPF_NOEXIST 1
#define BPF_F_USER_STACK (1 << 8)

/*
 * Who uses the same map: all programs of a recording, or those that a recorder loads one after the other. Maps
 * without a mark are created again by each load of programs.
 */
#define PER_RECORDING __attribute__((btf_decl_tag("recording")))
#define PER_RECORDER __attribute__((btf_decl_tag("recorder")))

/* ARRAY is an array that user space can map; the size of its elements is a multiple of 8. */
#define ARRAY(name, type_)                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, type_);                                                              \
		__uint(max_entries, 1);                                                            \
	} name SEC(".maps")

enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
	BPF_FUNC_get_func_ret = 184,
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_tail_call)(void *ctx, void *map, __u32 index) = (void *)12;
static __u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buf, __u32 size) = (void *)16;
static long (*bpf_perf_event_output)(void *ctx, void *map, __u64 flags, void *data, __u64 size) = (void *)25;
static struct task_struct *(*bpf_get_current_task)(void) = (void *)35;
static long (*bpf_get_stack)(void *ctx, void *buf, __u32 size, __u64 flags) = (void *)67;
static long (*bpf_probe_read_user)(void *dst, __u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *dst, __u32 size, const void *from) = (void *)113;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static __u64 (*bpf_jiffies64)(void) = (void *)118;
static __u64 (*bpf_get_func_ip)(void *ctx) = (void *)173;
static __u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;
static struct pt_regs *(*bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
static long (*bpf_get_func_ret)(void *ctx, __u64 *value) = (void *)184;

/* clang's kinds of relocation, enum bpf_core_relo_kind of include/uapi/linux/bpf.h. */
#define field_exists(field) __builtin_preserve_field_info(field, 2)
#define field_offset(field) __builtin_preserve_field_info(field, 0) /* for a bit field: offset of its bytes */
#define bit_field_size(field) __builtin_preserve_field_info(field, 1)
#define bit_field_left(field) __builtin_preserve_field_info(field, 4) /* shifts that isolate it in 64 bits */
#define bit_field_right(field) __builtin_preserve_field_info(field, 5)
#define enum_value_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
#define enum_value(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)
#define type_size(type) __builtin_preserve_type_info(*(typeof(type) *)0, 1)

/*
 * keep_whole prevents the compiler from bounding another variable that v is computed
 * from: verifiers before 6.2 would not see that bound.
 */
#define keep_whole(v) asm volatile("" : "+r"(v))

/* read_field reads a field of a kernel struct: 0 if it cannot be read. */
#define read_field(ptr, field)                                                                     \
	({                                                                                         \
		typeof((ptr)->field) v = 0;                                                        \
		bpf_probe_read_kernel(&v, sizeof(v), &(ptr)->field);                               \
		v;                                                                                 \
	})

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xol_area { /* the code that uprobes need in a process */
	unsigned long vaddr; /* of the return trampoline */
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct super_block {
	__u32 s_dev; /* major << 20 | minor */
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__s64 i_ctime_sec; /* from Linux 6.11 on */
	__u32 i_ctime_nsec;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	unsigned int f_mode;
	struct path f_path;
};

struct maple_tree {
	void *ma_root;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct mm_struct {
	mm_context_t context;
	struct maple_tree mm_mt; /* the mappings, from Linux 6.1 on */
	unsigned long start_stack;
	unsigned long task_size;
	struct uprobes_state uprobes_state;
};

struct thread_struct {
	unsigned long fsbase; /* x86-64 */
	struct {
		unsigned long tp_value;
	} uw; /* arm64 */
};

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct vm_unmapped_area_info {
	unsigned long length; /* in bytes */
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* by level of the PID namespace, up to level */
};

struct sched_entity {
	__u64 sum_exec_runtime; /* CPU time in ns */
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state { /* a cgroup's part for one controller */
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by cgroup_subsys_id */
};

enum cgroup_subsys_id { perf_event_cgrp_id };

struct task_struct {
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	unsigned int in_execve : 1;
	__u64 self_exec_id;
	int pid;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	struct thread_struct thread;
	struct uprobe_task *utask;
	struct sched_entity se;
	struct css_set *cgroups; /* with CONFIG_CGROUPS */
};

/* The state of a task: a field of another name and type from 5.14 on. */
struct task_struct___state {
	unsigned int __state;
};
struct task_struct___long_state {
	long state;
};

struct list_head {
	struct list_head *next;
};

enum perf_event_state {
	PERF_EVENT_STATE_OFF = -1, /* disabled; lower values: the task exits */
	PERF_EVENT_STATE_INACTIVE = 0,
};

struct perf_event {
	struct list_head event_entry;
	enum perf_event_state state;
	struct perf_event *parent; /* event that it was inherited from */
	__u64 id;
};

struct perf_event_context {
	struct list_head event_list;
};

/* perf_event_ctxp: one context for all PMUs from 6.2 on; before, [1] was the software events' context. */
struct task_struct___ctx {
	struct perf_event_context *perf_event_ctxp;
};
struct task_struct___ctxs {
	struct perf_event_context *perf_event_ctxp[2];
};

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000

#define CALL_INDIRECT 1 /* for call_before: the target is not in the instruction */

#if defined(__TARGET_ARCH_x86)
#include "x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arm64.h"
#else
#error "no definitions of this architecture's registers"
#endif

#define NO_PID 0xffffffff

/*
 * pid_of returns the pid of a task in the PID namespace of a level: NO_PID if the task is in no namespace of this
 * level, or has exited.
 */
static inline_always __u32 pid_of(struct task_struct *task, __u32 level)
{
	struct pid *pid = read_field(task, thread_pid);
	__u32 nr = 0;

	if (!pid || read_field(pid, level) < level)
		return NO_PID;
	bpf_probe_read_kernel(&nr, sizeof(nr),
		(void *)pid + field_offset(((struct pid *)0)->numbers) + level * type_size(struct upid));
	return nr;
}

/* called reports whether a call instruction ends at ip. */
static inline_always int called(__u64 ip) { return call_before(ip) != 0; }

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine: registers, signal frames and call instructions of arm64.
 */
#ifndef ARM64_H
#define ARM64_H

/* The first fields of the kernel's pt_regs, which are ABI: struct user_pt_regs. */
struct pt_regs {
	__u64 regs[31], sp, pc, pstate;
};

struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period, addr;
};

/* The kernel's pt_regs, of which only the size is used. */
struct pt_regs___kernel {
	__u64 pc;
} __attribute__((preserve_access_index));

/* pstate: the exception level, 0 for user mode, and the state of 32-bit tasks. */
#define PSTATE_LEVEL 0xf
#define PSTATE_32_BIT 0x10

#define THREAD_SIZE 0x4000 /* with pages of 4 KiB and 16 KiB; see saved_regs */
#define BELOW_SP 16 /* bytes that a frame uses below sp: Go saves x29 there */
#define RETURN_AT_ENTRY 0 /* it is in the link register */

/* Registers by DWARF number; pc, which is not numbered, is last. */
enum { FP = 29, LR = 30, SP = 31, IP = 32, NUM_REGS = 33 };
enum { GO_G = 28 }; /* the register of Go's g */
enum { PHP_OPLINE = 28 }; /* the register in which PHP keeps the current instruction (Zend/zend_execute.c) */

/* is_scratch reports whether functions need not preserve a register: x0 to x17. */
static inline_always int is_scratch(__s32 number) { return number < 18; }

static inline_always int in_user_mode(struct pt_regs *r) { return (r->pstate & PSTATE_LEVEL) == 0; }

static inline_always int is_32_bit(struct pt_regs *r) { return (r->pstate & PSTATE_32_BIT) != 0; }

/* get_regs stores registers by DWARF number. */
static inline_always void get_regs(__u64 *regs, struct pt_regs *r)
{
#pragma unroll
	for (int i = 0; i < 31; i++)
		regs[i] = r->regs[i];
	regs[SP] = r->sp;
	regs[IP] = r->pc;
}

/* read_user_ip reads the ip where user mode continues. */
static inline_always __u64 read_user_ip(struct pt_regs *r) { return read_field(r, pc); }

/* get_syscall_args stores the arguments of a system call, at the entry. */
static inline_always void get_syscall_args(__u64 *args, struct pt_regs *r, int compat)
{
#pragma unroll
	for (int i = 0; i < 6; i++)
		args[i] = compat ? (__u32)r->regs[i] : r->regs[i];
}

/* regs_at_top reads the registers with which a task entered the kernel from the top of the task's kernel stack. */
static inline_always int regs_at_top(struct task_struct *task, struct pt_regs *r)
{
	return bpf_probe_read_kernel(r, sizeof(*r),
				     read_field(task, stack) + THREAD_SIZE - type_size(struct pt_regs___kernel));
}

/*
 * saved_regs reads the registers with which the current task entered the kernel. Linux before 5.15 lacks the
 * helper.
 */
static inline_always int saved_regs(struct task_struct *task, struct pt_regs *r)
{
	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return bpf_probe_read_kernel(r, sizeof(*r), bpf_task_pt_regs(bpf_get_current_task_btf()));
	return regs_at_top(task, r);
}

/*
 * thread_data returns the address of the thread's own data. The C library's struct
 * pthread, of some 2 KiB, lies between the end of the thread's stack and this address.
 */
static inline_always __u64 thread_data(struct task_struct *task) { return read_field(task, thread.uw.tp_value); }

/*
 * Where the C library stores the address of the modules' parts of thread-local data, from the thread pointer on.
 */
#define THREAD_MODULES 0

/* goroutine returns the address of Go's struct g, if the program is a Go program. */
static inline_always __u64 goroutine(__u64 *regs, __u64 tls) { return regs[GO_G]; }

/*
 * code_mask returns the bits of user-space addresses. The other bits of a return address may contain a signature
 * (pointer authentication).
 */
static inline_always __u64 code_mask(struct mm_struct *mm) { return read_field(mm, task_size) - 1; }

/* ip_of returns the ip: the return address, at a function's return. */
static inline_always __u64 ip_of(struct pt_regs *r) { return r->pc; }

/*
 * returns_from reports whether a function that the kernel made return to the trampoline is the one with this CFA
 * and return address. entry_sp is the sp at the function's entry: the CFA. A CFA by frame pointer may be too low,
 * but is above the CFAs of the function's callees.
 */
static inline_always int returns_from(__u64 entry_sp, __u64 cfa, __u64 ra_at) { return entry_sp >= cfa; }

struct interrupted {
	__u64 ip, sp, fp, lr;
};

/*
 * signal_regs reads the registers of the function that a signal interrupted: struct
 * siginfo, of 128 bytes, lies at sp, then struct ucontext.
 */
static inline_always int signal_regs(__u64 sp, struct interrupted *i)
{
	__u64 c[4]; /* uc_mcontext at 176 of ucontext: fault_address, x0 … x30, sp, pc */

	if (bpf_probe_read_user(c, sizeof(c), (void *)(sp + 128 + 176 + 8 + 8 * FP)))
		return -1;
	i->fp = c[0];
	i->lr = c[1];
	i->sp = c[2];
	i->ip = c[3];
	return 0;
}

/*
 * call_before returns the target of the call instruction that ends at ip: bl, or
 * CALL_INDIRECT for blr, also with authentication. It returns 0 if there is none.
 */
__attribute__((noinline)) __u64 call_before(__u64 ip)
{
	__u32 insn;

	if (ip & 3 || bpf_probe_read_user(&insn, sizeof(insn), (void *)(ip - 4)))
		return 0;
	if (insn >> 26 == 0x25)
		return ip - 4 + ((__s32)(insn << 6) >> 4);
	return (insn & 0xfefff000) == 0xd63f0000 ? CALL_INDIRECT : 0;
}

/* The registers of calls: at the first instruction, and after the return. At the return instruction sp is entry_sp. */
static inline_always __u64 probed_ip(struct pt_regs *r) { return r->pc; } /* at a kprobe */
static inline_always __u64 entry_sp(struct pt_regs *r) { return r->sp; }
static inline_always __u64 returned_sp(struct pt_regs *r) { return r->sp; }
static inline_always __u64 return_address(struct pt_regs *r) { return r->regs[LR]; }
static inline_always __u64 returned_value(struct pt_regs *r) { return r->regs[0]; }

/* get_call_args stores the first arguments that are integers, at a function's entry, of Go too. */
static inline_always void get_call_args(__u64 *args, struct pt_regs *r, int go)
{
#pragma unroll
	for (int i = 0; i < 6; i++)
		args[i] = r->regs[i];
}

/* current_goroutine returns the address of Go's struct g. */
static inline_always __u64 current_goroutine(struct pt_regs *r) { return r->regs[28]; }

/* With CONFIG_THREAD_INFO_IN_TASK, which is always set on arm64. */
struct task_struct___info {
	struct {
		unsigned long flags;
	} thread_info;
} __attribute__((preserve_access_index));

#define TIF_32BIT (1UL << 22) /* arch/arm64/include/asm/thread_info.h */

/* in_compat_syscall reports whether a task's system call uses the numbers of 32-bit programs. */
static inline_always int in_compat_syscall(void *task)
{
	return (read_field((struct task_struct___info *)task, thread_info.flags) & TIF_32BIT) != 0;
}

#endif

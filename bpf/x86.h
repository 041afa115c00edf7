/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine: registers, signal frames and call instructions of x86-64.
 */
#ifndef X86_H
#define X86_H

/* pt_regs is ABI, and so the same in all kernels. */
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period, addr;
};

#define USER32_CS 0x23 /* code segment of 32-bit tasks */
#define THREAD_SIZE 0x4000
#define BELOW_SP 0 /* bytes that a frame uses below sp */
#define RETURN_AT_ENTRY 1 /* at a function's entry, the return address is at sp */

/* Registers by DWARF number. There is no link register. */
enum { LR = -1, FP = 6, SP = 7, IP = 16, NUM_REGS = 17 };
enum { GO_G = 14 }; /* the register of Go's g */
enum { PHP_OPLINE = 15 }; /* the register in which PHP keeps the current instruction (Zend/zend_execute.c) */

/* is_scratch reports whether functions need not preserve a register: all but rbx, rbp, rsp, and r12 to r15. */
static inline_always int is_scratch(__s32 number) { return number < 12 && number != 3 && number != FP && number != SP; }

static inline_always int in_user_mode(struct pt_regs *r) { return (r->cs & 3) == 3; }

static inline_always int is_32_bit(struct pt_regs *r) { return r->cs == USER32_CS; }

/* get_regs stores registers by DWARF number. */
static inline_always void get_regs(__u64 *regs, struct pt_regs *r)
{
	regs[0] = r->ax;
	regs[1] = r->dx;
	regs[2] = r->cx;
	regs[3] = r->bx;
	regs[4] = r->si;
	regs[5] = r->di;
	regs[FP] = r->bp;
	regs[SP] = r->sp;
	regs[8] = r->r8;
	regs[9] = r->r9;
	regs[10] = r->r10;
	regs[11] = r->r11;
	regs[12] = r->r12;
	regs[13] = r->r13;
	regs[14] = r->r14;
	regs[15] = r->r15;
	regs[IP] = r->ip;
}

/* read_user_ip reads the ip where user mode continues. */
static inline_always __u64 read_user_ip(struct pt_regs *r) { return read_field(r, ip); }

/* get_syscall_args stores the arguments of a system call, at the entry. */
static inline_always void get_syscall_args(__u64 *args, struct pt_regs *r, int compat)
{
	if (compat) {
		args[0] = (__u32)r->bx;
		args[1] = (__u32)r->cx;
		args[2] = (__u32)r->dx;
		args[3] = (__u32)r->si;
		args[4] = (__u32)r->di;
		args[5] = (__u32)r->bp;
		return;
	}
	args[0] = r->di;
	args[1] = r->si;
	args[2] = r->dx;
	args[3] = r->r10;
	args[4] = r->r8;
	args[5] = r->r9;
}

/* regs_at_top reads the registers with which a task entered the kernel from the top of the task's kernel stack. */
static inline_always int regs_at_top(struct task_struct *task, struct pt_regs *r)
{
	return bpf_probe_read_kernel(r, sizeof(*r), read_field(task, stack) + THREAD_SIZE - sizeof(*r));
}

/*
 * saved_regs reads the registers with which the current task entered the kernel. Kernels with FRED leave a gap at
 * the top of the stack, and provide the helper.
 */
static inline_always int saved_regs(struct task_struct *task, struct pt_regs *r)
{
	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return bpf_probe_read_kernel(r, sizeof(*r), bpf_task_pt_regs(bpf_get_current_task_btf()));
	return regs_at_top(task, r);
}

/* thread_data returns the address of the thread's own data. */
static inline_always __u64 thread_data(struct task_struct *task) { return read_field(task, thread.fsbase); }

/*
 * Where the C library stores the address of the modules' parts of thread-local data, from the thread pointer on.
 */
#define THREAD_MODULES 8

/* goroutine returns the address of Go's struct g, if the program is a Go program without other thread-local data. */
static inline_always __u64 goroutine(__u64 *regs, __u64 tls)
{
	__u64 g = 0;

	bpf_probe_read_user(&g, sizeof(g), (void *)(tls - 8));
	return g;
}

/* code_mask returns the bits of a return address that contain the address. */
static inline_always __u64 code_mask(struct mm_struct *mm) { return ~0; }

/* ip_of returns the ip: the return address, at a function's return. */
static inline_always __u64 ip_of(struct pt_regs *r) { return r->ip; }

/*
 * returns_from reports whether a function that the kernel made return to the trampoline is the one with this CFA
 * and return address, by sp at the function's entry.
 */
static inline_always int returns_from(__u64 entry_sp, __u64 cfa, __u64 ra_at) { return entry_sp == ra_at; }

struct interrupted {
	__u64 ip, sp, fp, lr;
};

/* signal_regs reads the registers of the function that a signal interrupted: struct ucontext lies at sp. */
static inline_always int signal_regs(__u64 sp, struct interrupted *i)
{
	__u64 c[7]; /* from uc_mcontext's rbp on: rbp, rbx, rdx, rax, rcx, rsp, rip */

	if (bpf_probe_read_user(c, sizeof(c), (void *)(sp + 120)))
		return -1;
	i->ip = c[6];
	i->sp = c[5];
	i->fp = c[0];
	i->lr = 0;
	return 0;
}

/*
 * call_before returns the target of the call instruction that ends at ip: e8 with 4 bytes,
 * or CALL_INDIRECT for ff /2 with up to 6. It returns 0 if there is none.
 */
__attribute__((noinline)) __u64 call_before(__u64 ip)
{
	__u8 b[8]; /* the 7 bytes before ip are b[1] … b[7] */

	if (bpf_probe_read_user(b, sizeof(b), (void *)(ip - 8)))
		return 0;
	if (b[3] == 0xe8)
		return ip + *(__s32 *)&b[4];
	if ((b[6] == 0xff && (b[7] & 0x38) == 0x10) || (b[5] == 0xff && (b[6] & 0x38) == 0x10) ||
	    (b[4] == 0xff && (b[5] & 0x38) == 0x10) || (b[2] == 0xff && (b[3] & 0x38) == 0x10) ||
	    (b[1] == 0xff && (b[2] & 0x38) == 0x10))
		return CALL_INDIRECT;
	return 0;
}

/* The registers of calls: at the first instruction, and after the return. At the return instruction sp is entry_sp. */
static inline_always __u64 probed_ip(struct pt_regs *r) { return r->ip - 1; } /* at a kprobe */
static inline_always __u64 entry_sp(struct pt_regs *r) { return r->sp; }
static inline_always __u64 returned_sp(struct pt_regs *r) { return r->sp - (is_32_bit(r) ? 4 : 8); }
static inline_always __u64 return_address(struct pt_regs *r)
{
	__u64 at = 0;

	bpf_probe_read_user(&at, sizeof(at), (void *)r->sp);
	return at;
}
static inline_always __u64 returned_value(struct pt_regs *r) { return r->ax; }

/* read_reg reads a register of the context, without which the compiler would compute the field's address. */
#define read_reg(reg) (*(volatile unsigned long *)&(reg))

/*
 * get_call_args stores the first arguments that are integers, at a function's entry. Go uses other registers
 * (ABIInternal, from Go 1.17 on).
 */
static inline_always void get_call_args(__u64 *args, struct pt_regs *r, int go)
{
	__u64 ax = read_reg(r->ax), bx = read_reg(r->bx), cx = read_reg(r->cx), dx = read_reg(r->dx);
	__u64 di = read_reg(r->di), si = read_reg(r->si), r8 = read_reg(r->r8), r9 = read_reg(r->r9);

	args[0] = go ? ax : di;
	args[1] = go ? bx : si;
	args[2] = go ? cx : dx;
	args[3] = go ? di : cx;
	args[4] = go ? si : r8;
	args[5] = go ? r8 : r9;
}

/* current_goroutine returns the address of Go's struct g, in functions of ABIInternal. */
static inline_always __u64 current_goroutine(struct pt_regs *r) { return r->r14; }

/* With CONFIG_THREAD_INFO_IN_TASK, which is always set on x86. */
struct task_struct___info {
	struct {
		__u32 status;
	} thread_info;
} __attribute__((preserve_access_index));

#define TS_COMPAT 2 /* arch/x86/include/asm/thread_info.h */

/*
 * in_compat_syscall reports whether a task's system call uses the numbers of 32-bit programs. 64-bit programs can
 * use them, too.
 */
static inline_always int in_compat_syscall(void *task)
{
	return (read_field((struct task_struct___info *)task, thread_info.status) & TS_COMPAT) != 0;
}

#endif

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

/* Registers by DWARF number. There is no link register. */
enum { LR = -1, FP = 6, SP = 7, IP = 16, NUM_REGS = 17 };

/* is_scratch reports whether functions need not preserve a register: all but rbx, rbp, rsp, and r12 to r15. */
static inline_always int is_scratch(__s32 number) { return number < 12 && number != 3 && number != FP && number != SP; }

static inline_always int in_user_mode(struct pt_regs *r) { return (r->cs & 3) == 3; }

static inline_always int is_32_bit(struct pt_regs *r) { return r->cs == USER32_CS; }

/* get_regs stores registers by their DWARF numbers. */
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

/*
 * saved_regs reads the registers with which the task entered the kernel: they lie at
 * the top of its kernel stack. Kernels with FRED leave a gap there, and have the
 * helper.
 */
static inline_always int saved_regs(struct task_struct *task, struct pt_regs *r)
{
	if (enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return bpf_probe_read_kernel(r, sizeof(*r), bpf_task_pt_regs(bpf_get_current_task_btf()));
	return bpf_probe_read_kernel(r, sizeof(*r), read_field(task, stack) + THREAD_SIZE - sizeof(*r));
}

/* thread_data returns the address of the thread's own data. */
static inline_always __u64 thread_data(struct task_struct *task) { return read_field(task, thread.fsbase); }

/* goroutine returns the address of Go's struct g, if the program is a Go program without other thread-local data. */
static inline_always __u64 goroutine(__u64 *regs, __u64 tls)
{
	__u64 g = 0;

	bpf_probe_read_user(&g, sizeof(g), (void *)(tls - 8));
	return g;
}

/* code_mask returns the bits of a return address that are its address. */
static inline_always __u64 code_mask(struct mm_struct *mm) { return ~0; }

/* return_ip returns the return address, at a function's return. */
static inline_always __u64 return_ip(struct pt_regs *r) { return r->ip; }

/*
 * returns_from reports whether a function that the kernel made return to its trampoline
 * is the one with this CFA and return address, by sp at the function's entry.
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
static inline_always __u64 call_before(__u64 ip)
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

#endif

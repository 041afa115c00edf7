// A function in assembly that hides its frame: sp is aligned, and the old one is in rbx. With CFI, its call frame
// information says so; with FP, it has a frame pointer.
#include <time.h>

static volatile unsigned long sum;

void hidden_leaf(int n)
{
	for (int i = 0; i < n; i++)
		sum += i;
}

void hides(int n);

#ifndef __x86_64__
void hides(int n) { hidden_leaf(n); }
#elif defined FP
asm(".text\n.globl hides\n.type hides, @function\nhides:\n"
    "push %rbp\n mov %rsp, %rbp\n"
    "push %rbx\n mov %rsp, %rbx\n and $-1024, %rsp\n call hidden_leaf\n mov %rbx, %rsp\n pop %rbx\n"
    "pop %rbp\n ret\n.size hides, . - hides\n");
#elif defined CFI
asm(".text\n.globl hides\n.type hides, @function\nhides:\n.cfi_startproc\n"
    "push %rbx\n .cfi_def_cfa_offset 16\n .cfi_offset %rbx, -16\n mov %rsp, %rbx\n .cfi_def_cfa_register %rbx\n"
    "and $-1024, %rsp\n call hidden_leaf\n mov %rbx, %rsp\n .cfi_def_cfa %rsp, 16\n pop %rbx\n .cfi_def_cfa_offset 8\n"
    "ret\n.cfi_endproc\n.size hides, . - hides\n");
#else
asm(".text\n.globl hides\n.type hides, @function\nhides:\n"
    "push %rbx\n mov %rsp, %rbx\n and $-1024, %rsp\n call hidden_leaf\n mov %rbx, %rsp\n pop %rbx\n"
    "ret\n.size hides, . - hides\n");
#endif

int main(void)
{
	clock_t end = clock() + CLOCKS_PER_SEC / 2;

	while (clock() < end)
		hides(10000);
	return 0;
}

// Runs a function for so many ms of CPU time on a stack of its own: ends fcontext|makecontext|zero|thread MS. The stack
// begins at an entry point of fibers or threads, and with zero after a return address of 0.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

static long limit;
static char stack[1 << 16] __attribute__((aligned(16)));
volatile unsigned long sink;

static long cpu_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noinline, noclone)) void spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }

__attribute__((noinline, noclone)) void body(void) {
	while (cpu_ms() < limit) spin(100000);
	exit(0);
}

static void *start(void *arg) { body(); return arg; }

#if defined(__x86_64__)
// make_fcontext stores the address of the code that begins a fiber below the top of a stack, as Boost's does.
asm(".text\n.globl make_fcontext\n.type make_fcontext, @function\n"
	"make_fcontext:\n\tlea 1f(%rip), %rax\n\tmov %rax, -16(%rdi)\n\tlea -16(%rdi), %rax\n\tret\n"
	"\tnop\n1:\txor %rdi, %rdi\n\tcall _exit@PLT\n\thlt\n"
	".size make_fcontext, . - make_fcontext\n"
	".globl run_on\n.type run_on, @function\n"
	"run_on:\n\tmov %rdi, %rsp\n\tjmp *%rsi\n"
	".size run_on, . - run_on\n");
#elif defined(__aarch64__)
asm(".text\n.globl make_fcontext\n.type make_fcontext, @function\n"
	"make_fcontext:\n\tadr x1, 1f\n\tstr x1, [x0, #-16]!\n\tret\n"
	"\tnop\n1:\tmov x0, #0\n\tbl _exit\n"
	".size make_fcontext, . - make_fcontext\n"
	".globl run_on\n.type run_on, @function\n"
	"run_on:\n\tldr x30, [x0], #16\n\tmov sp, x0\n\tbr x1\n"
	".size run_on, . - run_on\n");
#endif
void *make_fcontext(void *top);
void run_on(void *sp, void (*function)(void));

int main(int argc, char **argv) {
	static ucontext_t fiber, back;
	pthread_t t;
	char *how = argc == 3 ? argv[1] : "", *top = stack + sizeof stack;

	limit = argc == 3 ? atol(argv[2]) : 0;
	if (!strcmp(how, "fcontext")) {
		run_on(make_fcontext(top - 8), body);
	} else if (!strcmp(how, "zero")) {
		run_on(top - 24, body);
	} else if (!strcmp(how, "makecontext")) {
		getcontext(&fiber);
		fiber.uc_stack.ss_sp = stack;
		fiber.uc_stack.ss_size = sizeof stack;
		makecontext(&fiber, body, 0);
		swapcontext(&back, &fiber);
	} else if (!strcmp(how, "thread") && !pthread_create(&t, NULL, start, NULL)) {
		pthread_join(t, NULL);
	}
	return 2;
}

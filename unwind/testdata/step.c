// Code that a walk has to get through, built without frame pointers. The test steps
// through it instruction by instruction.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile long sink;

NOINLINE static long leaf(long x) { return x * 3 + sink; }

// Saves callee-saved registers.
NOINLINE static long nonleaf(long a, long b) {
	long x = leaf(a), y = leaf(b), z = leaf(a + b);
	return leaf(x + y) + leaf(y + z) + z + x;
}

NOINLINE static long recurse(int n) { return n ? recurse(n - 1) + nonleaf(n, sink) : leaf(1); }

NOINLINE static long tail(long x) { return leaf(x + 1); }
NOINLINE static long tail2(long x) { return sink ? tail(x) : nonleaf(x, 2); }

NOINLINE static void use(volatile char *p, long n) {
	for (long i = 0; i < n; i += 16) p[i] = 1;
	sink = p[0];
}

NOINLINE static void withAlloca(long n) {
	char *p = alloca(n);
	use(p, n);
	nonleaf(n, 3);
}

NOINLINE static void vla(long n) {
	char a[n];
	use(a, n);
	char b[n * 2];
	use(b, n * 2);
}

// The stack is realigned and its old place kept in r10 (DRAP).
NOINLINE static void realigned(long n) {
	char buf[64] __attribute__((aligned(64)));
	char *p = alloca(n);
	use(p, n);
	use(buf, sizeof buf);
	nonleaf(n, 4);
}

NOINLINE static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// A callback through the C library.
NOINLINE static void sorts(void) {
	int v[] = {5, 3, 9, 1, 7};
	qsort(v, 5, sizeof *v, compare);
	sink = v[0];
}

static void handler(int sig, siginfo_t *si, void *uc) {
	(void)si, (void)uc;
	sink = nonleaf(sig, 5);
}

NOINLINE static void signals(int flags, int sig) {
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &sa, 0);
	raise(sig);
	leaf(2);
}

NOINLINE static void onAltStack(void) {
	stack_t ss;
	memset(&ss, 0, sizeof ss);
	ss.ss_size = 64 << 10;
	ss.ss_sp = malloc(ss.ss_size);
	sigaltstack(&ss, 0);
	signals(SA_ONSTACK, SIGUSR2);
}

// A signal at the very first instruction of a function, which is no return
// address.
#ifdef __x86_64__
__attribute__((naked, noinline)) static void faults(void) { __asm__("ud2; ret"); }
#define SKIP(uc) ((uc)->uc_mcontext.gregs[REG_RIP] += 2)
#else
void faults(void);
__asm__(".type faults, %function; faults: .cfi_startproc; udf #0; ret; .cfi_endproc; .size faults, . - faults");
#define SKIP(uc) ((uc)->uc_mcontext.pc += 4)
#endif

static void skipFault(int sig, siginfo_t *si, void *uc) {
	(void)sig, (void)si;
	nonleaf(1, 6);
	SKIP((ucontext_t *)uc);
}

NOINLINE static void faultAtEntry(void) {
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = skipFault;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGILL, &sa, 0);
	faults();
	leaf(3);
}

static void *thread(void *arg) {
	recurse(3);
	withAlloca((long)arg);
	return 0;
}

NOINLINE static void threads(void) {
	pthread_t t;
	if (pthread_create(&t, 0, thread, (void *)100L)) exit(2);
	pthread_join(t, 0);
}

NOINLINE static void vforks(void) {
	pid_t p = vfork();
	if (p == 0) _exit(0);
	waitpid(p, 0, 0);
	leaf(4);
}

NOINLINE void deepest(void) { __asm__ volatile("" ::: "memory"); }
NOINLINE long deep(int n) {
	if (n == 0) {
		deepest();
		return sink;
	}
	return deep(n - 1) * 3 + leaf(n);
}

// Where the test begins and ends to step.
NOINLINE void stepBegin(void) { __asm__ volatile("" ::: "memory"); }
NOINLINE void stepEnd(void) { __asm__ volatile("" ::: "memory"); }

int main(int argc, char **argv) {
	(void)argv;
	if (argc > 1)
		raise(SIGSTOP); /* the tracer begins here */
	stepBegin();
	recurse(20);
	tail(1);
	tail2(2);
	withAlloca(300);
	vla(200);
	realigned(100);
	sorts();
	signals(0, SIGUSR1);
	onAltStack();
	faultAtEntry();
	threads();
	vforks();
	char text[32];
	snprintf(text, sizeof text, "%d %s", getpid(), "x");
	sink = strlen(text);
	stepEnd();
	deep(1000);
	return 0;
}

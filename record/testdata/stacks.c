// Built without frame pointers: each argument is a way to come to spin, through
// functions whose names give the expected stack.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); // only while it runs is it sampled
	return t.tv_sec + t.tv_nsec / 1e9;
}

// On a machine that is $GPERF_SLOW times slower, it takes as much longer until the first stacks can be walked.
NOINLINE void spin(void)
{
	const char *slow = getenv("GPERF_SLOW");
	for (double end = now() + 0.1 * (slow ? atof(slow) : 1); now() < end;)
		for (int i = 0; i < 100000; i++)
			sink += i;
}

NOINLINE int recurse(int n)
{
	if (n == 0) {
		for (int i = 0; i < 10; i++) // stacks are incomplete until the recorder gets CPU time
			spin();
		return 1;
	}
	return recurse(n - 1) + (int)(sink & 1);
}

NOINLINE int vla(int n)
{
	char b[n], *c = alloca(n * 3);
	memset(b, n, n);
	memset(c, n, n);
	spin();
	return b[n / 2] + c[n];
}

static void handler(int sig)
{
	spin();
	sink++;
}

NOINLINE int signalled(int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	sigaction(SIGUSR1, &a, 0);
	raise(SIGUSR1);
	return sink & 1;
}

NOINLINE int altstack(void)
{
	stack_t s = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	sigaltstack(&s, 0);
	spin(); // tables are there when the signal comes
	return signalled(SA_ONSTACK) + 1;
}

static void last(int sig)
{
	spin();
	exit(sink & 0);
}

NOINLINE int interrupted(void)
{
	struct sigaction a = {.sa_handler = last};
	struct itimerval t = {.it_value = {0, 20000}}; // of CPU time in user space: nearly all of it is spin's
	sigaction(SIGVTALRM, &a, 0);
	setitimer(ITIMER_VIRTUAL, &t, 0);
	for (;;)
		spin();
}

static int compare(const void *a, const void *b)
{
	static int once;
	if (!once++)
		spin();
	return *(int *)a - *(int *)b;
}

NOINLINE int library(void)
{
	int a[] = {3, 1, 2};
	qsort(a, 3, sizeof *a, compare);
	return a[0];
}

NOINLINE void *thread_body(void *p)
{
	spin();
	return p + (sink & 1);
}

static void *thread_start(void *p) { return thread_body(p) + 1; }

NOINLINE int thread(void)
{
	pthread_t t;
	pthread_create(&t, 0, thread_start, 0);
	pthread_join(t, 0);
	return sink & 1;
}

NOINLINE int child(void)
{
	pid_t p = vfork();
	if (p == 0) {
		spin();
		_exit(0);
	}
	waitpid(p, 0, 0);
	return sink & 1;
}

int main(int argc, char **argv)
{
	char *w = argv[1];
	if (!strcmp(w, "recurse"))
		return recurse(atoi(argv[2])) & 0;
	if (!strcmp(w, "vla"))
		return vla(1000) & 0;
	if (!strcmp(w, "signalled"))
		return signalled(0) & 0;
	if (!strcmp(w, "altstack"))
		return altstack() & 0;
	if (!strcmp(w, "interrupted"))
		return interrupted();
	if (!strcmp(w, "library"))
		return library() & 0;
	if (!strcmp(w, "thread"))
		return thread();
	if (!strcmp(w, "child"))
		return child();
	return 9;
}

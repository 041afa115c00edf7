// contend.c: for MS milliseconds, four threads share CPU 0. Two only compute, one computes for 3 ms of CPU time and
// sleeps for 1 ms, one sleeps for 1 ms at a time. Each prints its tid, and in ns for how long it waited for the CPU.
//
//	contend MS
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long until;

static long long now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// delay returns the time for which the thread has waited for a CPU, in ns.
static long long delay(void) {
	long long ns = -1;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");

	if (!f || fscanf(f, "%*d %lld", &ns) != 1)
		exit(1);
	fclose(f);
	return ns;
}

__attribute__((noinline)) void compute(long long ns) {
	for (long long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
	     now(CLOCK_THREAD_CPUTIME_ID) < end && now(CLOCK_MONOTONIC) < until;)
		;
}

struct kind {
	long long computes, sleeps; // ns, us
	char line[100];
} kinds[4] = {{1000000000}, {1000000000}, {3000000, 1000}, {0, 1000}};

static void *run(void *arg) {
	struct kind *k = arg;

	while (now(CLOCK_MONOTONIC) < until) {
		compute(k->computes);
		if (k->sleeps) usleep(k->sleeps);
	}
	snprintf(k->line, sizeof(k->line), "%ld %lld", syscall(SYS_gettid), delay());
	return NULL;
}

int main(int argc, char **argv) {
	pthread_t threads[4];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one)) return 1;
	until = now(CLOCK_MONOTONIC) + (argc > 1 ? atoll(argv[1]) : 1000) * 1000000;
	for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run, &kinds[i]);
	for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++) puts(kinds[i].line);
	return 0;
}

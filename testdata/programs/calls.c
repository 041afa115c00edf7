/*
 * Calls of known number and duration: recursion, longjmp, a thread that exits within a call, and then exec
 * (with an argument) or exit within a call. Prints the durations of sleep_us by its own clock, in ns.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static jmp_buf back;
static volatile long total;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

NOINLINE int recurse(int depth) { return depth == 0 ? 1 : recurse(depth - 1) + 1; }

NOINLINE void jump(int i)
{
	if (i % 2)
		longjmp(back, 1);
	total += i;
}

NOINLINE void jump_within(int i)
{
	jump(i);
	total += i;
}

NOINLINE long sleep_us(const char *why, unsigned us, double unused)
{
	usleep(us);
	return us;
}

NOINLINE void *exit_thread(void *arg)
{
	sleep_us("thread", 1000, 0);
	pthread_exit(NULL);
}

NOINLINE void exit_within(void) { exit(0); }

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int i = 0; i < 10; i++)
		recurse(5);
	for (volatile int i = 0; i < 10; i++)
		if (!setjmp(back))
			jump_within(i);
	for (int i = 1; i <= 5; i++) {
		long start = now();

		sleep_us("main", i * 10000, i);
		printf("%ld\n", now() - start);
	}
	fflush(stdout);
	pthread_create(&thread, NULL, exit_thread, NULL);
	pthread_join(thread, NULL);
	if (argc > 1)
		execl("/proc/self/exe", argv[0], NULL);
	exit_within();
}

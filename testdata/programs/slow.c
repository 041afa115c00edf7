// slow.c: N requests (50), of which each computes for 2 ms, and every tenth also sleeps for MS ms (30).
//
//	slow [N] [MS]
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void compute(void)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 2000000);
	__asm__ volatile("" ::: "memory");
}

static int sleeps = 30;

__attribute__((noinline)) void flush(void)
{
	usleep(sleeps * 1000);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) int request(int number)
{
	compute();
	if (number % 10 == 3)
		flush();
	__asm__ volatile("" ::: "memory");
	return number;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 50;

	if (argc > 2)
		sleeps = atoi(argv[2]);
	for (int i = 0; i < n; i++)
		request(i);
	return 0;
}

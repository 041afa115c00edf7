// chain.c: 300 requests of 1 ms each, of which some wait for a lock. Thread holder holds it while it waits for thread
// source, which sleeps for 50 ms.
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int questions[2], answers[2];

NOINLINE void think(void)
{
	usleep(50000);
	__asm__ volatile("" ::: "memory");
}

static void *source(void *unused)
{
	char c;

	prctl(PR_SET_NAME, "source");
	while (read(questions[0], &c, 1) == 1) {
		think();
		if (write(answers[1], &c, 1) != 1)
			break;
	}
	return unused;
}

NOINLINE void ask(void)
{
	char c = 0;

	if (write(questions[1], &c, 1) != 1 || read(answers[0], &c, 1) != 1)
		exit(1);
}

NOINLINE void flush_cache(void)
{
	pthread_mutex_lock(&lock);
	ask();
	pthread_mutex_unlock(&lock);
	__asm__ volatile("" ::: "memory");
}

static void *holder(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	for (;;) {
		usleep(100000);
		flush_cache();
	}
	return unused;
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

NOINLINE void take_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	__asm__ volatile("" ::: "memory");
}

NOINLINE int request(int number)
{
	for (long long end = now() + 1000000; now() < end;)
		;
	take_lock();
	return number;
}

int main(void)
{
	pthread_t threads[2];

	if (pipe(questions) || pipe(answers))
		return 1;
	pthread_create(&threads[0], NULL, source, NULL);
	pthread_create(&threads[1], NULL, holder, NULL);
	for (int i = 0; i < 300; i++) {
		request(i);
		usleep(2000);
	}
	return 0;
}

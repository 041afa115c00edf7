// idle.c: for MS milliseconds, one thread waits for work in an event loop, 20 ms at a time, and the main thread sleeps,
// 10 ms at a time.
//
//	idle MS
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static long until;

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// aeApiPoll has the name of redis' function, by which gperf knows an event loop.
__attribute__((noinline)) int aeApiPoll(int loop) {
	struct epoll_event event;
	int n = epoll_wait(loop, &event, 1, 20);
	__asm__ volatile("" ::: "memory");
	return n;
}

static void *serve(void *unused) {
	int loop = epoll_create1(0);
	while (now() < until) aeApiPoll(loop);
	close(loop);
	return unused;
}

__attribute__((noinline)) void sleep_long(void) {
	usleep(10000);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
	pthread_t server;
	until = now() + (argc > 1 ? atol(argv[1]) : 1000);
	pthread_create(&server, NULL, serve, NULL);
	while (now() < until) sleep_long();
	pthread_join(server, NULL);
	return 0;
}

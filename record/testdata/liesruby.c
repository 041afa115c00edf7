/*
 * A program that pretends to be Ruby 3.3 and lies: its frames are many and have wrong environments, its instruction
 * sequences and strings have wrong lengths and pointers, and another thread changes them all the time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t u64;

const char ruby_version[] = "3.3.0";
__thread u64 *ruby_current_ec;

static u64 context[64];	   /* stack, its words, the frame */
static u64 stack[4096];	   /* frames of seven words at its end: pc at 0, iseq at 2, environment at 4 */
static u64 iseq[3][8];	   /* the body at 2 */
static u64 body[3][64];	   /* size at 0, code at 1, path at 8, label at 10, lines at 14 */
static u64 text[3][64];	   /* flags at 0, length at 2, characters or their address at 3 */
static u64 flags[3] = {0, 0x20, 0x80};

static volatile int stop;

static void *change(void *unused)
{
	unsigned seed = 1;

	while (!stop) {
		int i = rand_r(&seed) % 3;
		u64 *frame = stack + 4096 - 7 * (1 + rand_r(&seed) % 500);

		body[i][0] = (u64)(rand_r(&seed) % 4 ? 10 : ~0u >> i) << 32;
		body[i][8] = rand_r(&seed) % 4 ? (u64)text[rand_r(&seed) % 3] : 1ull << 50;
		body[i][10] = rand_r(&seed) % 4 ? (u64)text[rand_r(&seed) % 3] : (u64)rand_r(&seed) << 16;
		body[i][14 + rand_r(&seed) % 4] = rand_r(&seed) % 2 ? (u64)text : rand_r(&seed);
		text[i][0] = 5 | (u64)(rand_r(&seed) % 2) << 13 | (rand_r(&seed) % 5 ? 0 : 2);
		text[i][2] = rand_r(&seed) % 2 ? i : ~0ull >> rand_r(&seed) % 60;
		frame[2] = rand_r(&seed) % 8 ? (u64)iseq[i] : (u64)rand_r(&seed) << 16;
		frame[4] = rand_r(&seed) % 8 ? (u64)&flags[i] : (u64)rand_r(&seed) << 16;
		context[1] = rand_r(&seed) % 8 ? 4096 : ~0ull >> rand_r(&seed) % 60;
	}
	return unused;
}

__attribute__((noinline)) u64 rb_vm_exec(u64 n)
{
	volatile u64 sum = 0;

	while (n--)
		sum += n;
	return sum;
}

int main(int argc, char **argv)
{
	struct timespec now;
	pthread_t other;

	ruby_current_ec = context;
	context[0] = (u64)stack;
	context[1] = 4096;
	context[2] = (u64)(stack + 4096 - 7 * 500);
	for (int i = 0; i < 500; i++) {
		u64 *frame = stack + 4096 - 7 * (i + 1);

		frame[0] = (u64)stack + 8 * (i % 10);
		frame[2] = (u64)iseq[i % 3];
		frame[4] = (u64)&flags[i % 3];
	}
	for (int i = 0; i < 3; i++) {
		iseq[i][2] = (u64)body[i];
		body[i][1] = (u64)stack;
		memset(text[i], 'a' + i, sizeof(text[i]));
		text[i][3] = (u64)text;
	}
	pthread_create(&other, NULL, change, NULL);
	do {
		rb_vm_exec(1000000);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (now.tv_sec < (argc > 1 ? atoi(argv[1]) : 1));
	stop = 1;
	pthread_join(other, NULL);
	return 0;
}

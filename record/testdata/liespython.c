/*
 * A program that pretends to be Python 3.12 and lies: its frames are a circle, its code objects and strings have wrong
 * lengths and pointers, and another thread changes them all the time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t u64;

const unsigned long Py_Version = 0x030c01f0;
u64 _PyRuntime[64]; /* the newest interpreter at 40 */

static u64 interpreter[64]; /* the next one at 0, threads at 72 */
static u64 thread[64];	    /* the next one at 8, status at 24, cframe at 56, thread id at 136 */
static u64 cframe[4];	    /* the frame at 0 */
static u64 frames[3][16];   /* the code object at 0, the caller at 8, the instruction at 56, the owner at 70 */
static u64 code[64];	    /* file, name, qualified name, lines at 112; the size at 16 */
static u64 text[3][64];	    /* the length at 16, the hash at 24, state at 32 */

static volatile int stop;

static void *change(void *unused)
{
	unsigned seed = 1;

	while (!stop) {
		int i = rand_r(&seed) % 64;

		code[14 + i % 4] = (u64)text[rand_r(&seed) % 3] + (rand_r(&seed) % 4 ? 0 : 1ull << 50);
		code[2] = rand_r(&seed) % 3 ? 10 : ~0ull >> (i % 60);
		text[i % 3][2] = rand_r(&seed) % 2 ? i : ~0ull >> i;
		text[i % 3][4] = rand_r(&seed);
		frames[i % 3][0] = rand_r(&seed) % 8 ? (u64)code : (u64)rand_r(&seed) << 16;
	}
	return unused;
}

__attribute__((noinline)) u64 _PyEval_EvalFrameDefault(u64 n)
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

	_PyRuntime[5] = (u64)interpreter;
	interpreter[9] = (u64)thread;
	thread[1] = (u64)thread;
	thread[3] = 0x18;
	thread[7] = (u64)cframe;
	thread[17] = (u64)pthread_self();
	cframe[0] = (u64)frames[0];
	for (int i = 0; i < 3; i++) {
		frames[i][0] = (u64)code;
		frames[i][1] = (u64)frames[(i + 1) % 3];
		frames[i][7] = (u64)code + 200 + 2 * i;
		memset(text[i], 'a' + i, sizeof(text[i]));
		text[i][3] = i;
	}
	pthread_create(&other, NULL, change, NULL);
	do {
		_PyEval_EvalFrameDefault(1000000);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (now.tv_sec < (argc > 1 ? atoi(argv[1]) : 1));
	stop = 1;
	pthread_join(other, NULL);
	return 0;
}

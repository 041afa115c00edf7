/* A program that takes its time below 10,000 bytes of stack. */
#include <time.h>

static __attribute__((noinline)) void leaf(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

static __attribute__((noinline)) void deep(int n)
{
	volatile char room[1000];

	room[0] = n;
	if (n > 0)
		deep(n - 1);
	else
		leaf();
	room[1] = n;
}

int main(void)
{
	while (clock() < CLOCKS_PER_SEC / 2)
		deep(9);
	return 0;
}

#include <stdlib.h>

// Recursion without frame pointers: stacks need the program's unwind information.

volatile unsigned long sum;

__attribute__((noinline)) unsigned long work(unsigned long n)
{
	unsigned long s = n;
	for (int i = 0; i < 200; i++)
		s = s * 6364136223846793005UL + 1;
	sum += s;
	return s;
}

__attribute__((noinline)) unsigned long down(int n, unsigned long x)
{
	if (!n)
		return work(x);
	unsigned long r = down(n - 1, x * 3) + work(x);
	return r ^ n;
}

int main(int argc, char **argv)
{
	for (long i = 0, n = atol(argv[1]); i < n; i++)
		sum += down(20, i);
}

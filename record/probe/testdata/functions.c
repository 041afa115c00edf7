// Functions to probe: called, called with values, and inlined.
#include <stdio.h>
#include <string.h>

static inline __attribute__((always_inline)) int add(int a, int b)
{
	volatile int sum = a + b;
	return sum;
}

__attribute__((noinline)) int func_c(int n, const char *name)
{
	int sum = add(n, 2); // line 13
	return sum + (name[0] == 'x');
}

__attribute__((noinline)) int func_b(int n)
{
	int got = func_c(n, "c");
	return got + 1;
}

__attribute__((noinline)) int func_a(int n)
{
	int got = func_b(n);
	return got + 1;
}

int main(int argc, char **argv)
{
	size_t all = 0;
	for (int i = 0; i < 5; i++)
		all += func_a(i) + strlen(argv[0] + i % argc);
	printf("%zu\n", all);
	return 0;
}

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

// twice is inlined where it is called by name, and exists for calls by its address.
static inline __attribute__((always_inline)) int twice(int n)
{
	volatile int sum = n + n;
	return sum;
}

int (*volatile by_address)(int) = twice;

// A compiler that knows an argument of a function makes a copy with a name like this.
__attribute__((noinline)) int copied(int n) { return n + 1; }
__attribute__((noinline)) int copy(int n) __asm__("copied.constprop.0");
__attribute__((noinline)) int copy(int n) { return n + 2; }

int main(int argc, char **argv)
{
	size_t all = 0;
	for (int i = 0; i < 5; i++)
		all += func_a(i) + strlen(argv[0] + i % argc);
	all += twice(argc) + by_address(argc) + copied(argc) + copy(argc);
	printf("%zu\n", all);
	return 0;
}

// A program that spends its time in a function that is inlined twice.
#include <cstdlib>

namespace deep {

volatile unsigned long sink;

inline __attribute__((always_inline)) void inner(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink = sink * 31 + i;
}

inline __attribute__((always_inline)) void middle(unsigned long n)
{
	inner(n);
}

__attribute__((noinline)) void outer(unsigned long n)
{
	middle(n);
	sink++; // so that this is no jump
}

} // namespace deep

int main(int argc, char **argv)
{
	for (int i = 0; i < 100; i++)
		deep::outer(argc > 1 ? atol(argv[1]) : 1000000);
	return 0;
}

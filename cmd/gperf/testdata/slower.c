// A program that spends as much time in each of five functions, and in the third one so many
// percent more as its argument says.
#include <stdlib.h>

static volatile unsigned long sink;

static inline void work(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink = sink * 31 + i;
}

#define FUNCTION(name) __attribute__((noinline)) void name(unsigned long n) { work(n); sink++; }
FUNCTION(parse)
FUNCTION(check)
FUNCTION(hash)
FUNCTION(store)
FUNCTION(answer)

int main(int argc, char **argv)
{
	unsigned long slower = argc > 1 ? atol(argv[1]) : 0;
	for (int i = 0; i < 12; i++) {
		parse(6000000);
		check(6000000);
		hash(60000 * (100 + slower));
		store(6000000);
		answer(6000000);
	}
	return 0;
}

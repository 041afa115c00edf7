// A program whose function has the name NAME. It runs until it is killed, or with an argument for as many rounds.
#include <stdlib.h>

volatile unsigned long sink;

#ifdef FIRST // another function is at the address then
__attribute__((noinline)) void first(int n) {
	for (int i = 0; i < n; i++)
		sink += 3 * i;
	sink ^= 77;
}
#endif

__attribute__((noinline)) void NAME(unsigned long n) {
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

int main(int argc, char **argv) {
	for (long left = argc > 1 ? atol(argv[1]) : -1; left != 0; left--)
		NAME(1000000);
	return 0;
}

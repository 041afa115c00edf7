// Code to test gperf annotate: a function with a loop, branches and a call.
#include <stdlib.h>

__attribute__((noinline)) unsigned long mix(unsigned long x, int n) {
	for (int i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		if (x & 1)
			x += rand();
		x /= 3;
	}
	return x;
}

int main(int argc, char **argv) {
	unsigned long sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += mix(i, 20000);
	return sum == 1;
}

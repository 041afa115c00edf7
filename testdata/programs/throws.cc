// Calls that an exception leaves: 5 of 10 of inner and of outer.
#include <cstdio>

#define NOINLINE __attribute__((noinline))

static volatile int total;

NOINLINE int inner(int i)
{
	if (i % 2 == 0)
		throw i;
	return total += i;
}

NOINLINE int outer(int i) { return inner(i) + 1; }

int main()
{
	int caught = 0;

	for (int i = 0; i < 10; i++) {
		try {
			outer(i);
		} catch (int) {
			caught++;
		}
	}
	std::printf("%d caught\n", caught);
}

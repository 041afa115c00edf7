// Calls a function named WHO until its standard input ends.
#include <poll.h>

__attribute__((noinline)) int WHO(int n)
{
	__asm__ volatile("");
	return n + 1;
}

int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	for (int i = 0; poll(&in, 1, 1) == 0; i++)
		WHO(i);
	return 0;
}

/* Each dies_… ends with a call that ends the process, in a child. never_… is the function after it. */
#include <assert.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define separate __attribute__((noinline, noclone))
#define fail __assert_fail("no", __FILE__, __LINE__, "main")
#define DEATHS(name, call) \
	separate void dies_at_end_##name(int n) { count = n; call; } \
	separate void never_at_end_##name(int n) { count = n + 1; call; } \
	separate void dies_if_##name(int n) { if (n >= 0) call; count++; } \
	separate void never_if_##name(int n) { if (n >= 0) call; count += 2; }

volatile int count;

DEATHS(abort, abort())
DEATHS(exit, exit(n & 1))
DEATHS(assert, fail)

static void (*deaths[])(int) = {dies_at_end_abort, dies_if_abort, dies_at_end_exit, dies_if_exit, dies_at_end_assert,
	dies_if_assert};

int main(void)
{
	struct rlimit none = {};
	unsigned i;

	setrlimit(RLIMIT_CORE, &none);
	close(2);
	for (i = 0; i < sizeof(deaths) / sizeof(*deaths); i++) {
		if (fork() == 0)
			deaths[i](i);
		wait(NULL);
	}
	return 0;
}

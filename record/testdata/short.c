// Runs itself as many times as its argument says, one after the other: each process lives for
// about a millisecond, half of it in the vdso.
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--) {
		if (fork() == 0) {
			execl("/proc/self/exe", argv[0], NULL);
			_exit(127);
		}
		wait(NULL);
	}
	if (argc == 1) {
		struct timespec now;
		for (int i = 0; i < 20000; i++)
			clock_gettime(CLOCK_MONOTONIC, &now);
	}
	return 0;
}

// started.c: starts N threads (8000), four at a time, that sleep for a moment.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *sleeps(void *arg)
{
	usleep(100);
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 8000;

	for (int i = 0; i < n; i += 4) {
		pthread_t t[4];

		for (int j = 0; j < 4; j++)
			if (pthread_create(&t[j], NULL, sleeps, NULL))
				return 1;
		for (int j = 0; j < 4; j++)
			pthread_join(t[j], NULL);
	}
	return 0;
}

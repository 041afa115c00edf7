/* Two threads wait for a lock that nobody releases, and main waits for them. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void *first_waits(void *unused)
{
	pthread_mutex_lock(&lock);
	return unused + 1; /* no tail call */
}

__attribute__((noinline)) static void *second_waits(void *unused)
{
	pthread_mutex_lock(&lock);
	return unused + 2;
}

int main(void)
{
	pthread_t a, b;

	pthread_mutex_lock(&lock);
	pthread_create(&a, 0, first_waits, 0);
	pthread_create(&b, 0, second_waits, 0);
	pthread_join(a, 0);
	return pthread_join(b, 0);
}

// Requests begin in one thread and end in another, several at a time: each takes as many ms as its number times ten.
#include <pthread.h>
#include <unistd.h>

struct request {
	long id;
};

__attribute__((noinline)) void begin_request(struct request *r, int size)
{
	__asm__ volatile("" : : "r"(r), "r"(size) : "memory");
}

__attribute__((noinline)) void end_request(int status, struct request *r)
{
	__asm__ volatile("" : : "r"(r), "r"(status) : "memory");
}

static void *serve(void *arg)
{
	struct request *r = arg;

	usleep(r->id * 10000);
	end_request(200 + r->id, r);
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	struct request requests[4];

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 4; i++) {
			requests[i].id = i + 1;
			begin_request(&requests[i], 100 + i);
			pthread_create(&threads[i], NULL, serve, &requests[i]);
		}
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	return 0;
}

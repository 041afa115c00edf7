// Threads that wait: for a lock, a pipe, the disk, and time. Each prints its name, its tid, and in ns the time
// that it ran for, how much of that it waited, by its own clock, how long it was in the functions that wait, how much it
// used a CPU, and how long it was ready to run while the CPUs ran other threads; then the number of times that it waited.
//   waiter [MS] [DIR]    runs each thread for MS milliseconds (2000), and writes to a file in DIR (.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))
#define MS 1000000LL

static long long runtime = 2000 * MS;
static const char *dir = ".";

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void pause_for(long long ns)
{
	struct timespec t = {ns / (1000 * MS), ns % (1000 * MS)};

	nanosleep(&t, NULL);
}

// off returns the time for which the thread has not used a CPU, in ns.
static long long off(void) { return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID); }

// ready returns the time for which the thread was ready to run while its CPU ran other threads, in ns.
static long long ready(void)
{
	long long ns = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");

	if (!f)
		return 0;
	if (fscanf(f, "%*d %lld", &ns) != 1)
		ns = 0;
	fclose(f);
	return ns;
}

static void burn(long long ns)
{
	for (long long end = now(CLOCK_THREAD_CPUTIME_ID) + ns; now(CLOCK_THREAD_CPUTIME_ID) < end;)
		;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static volatile int done;

// holder holds the lock for 30 ms of every 32.
static void *holder(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	while (!done) {
		pthread_mutex_lock(&lock);
		pause_for(30 * MS);
		pthread_mutex_unlock(&lock);
		pause_for(2 * MS);
	}
	return NULL;
}

// writer writes to the pipe every 20 ms.
static void *writer(void *unused)
{
	prctl(PR_SET_NAME, "writer");
	while (!done) {
		pause_for(20 * MS);
		if (write(ends[1], "x", 1) != 1)
			break;
	}
	return NULL;
}

NOINLINE void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

NOINLINE void read_pipe(void)
{
	char c;

	if (read(ends[0], &c, 1) != 1)
		exit(1);
}

NOINLINE void slow_disk(void)
{
	static char block[1 << 20];
	static int fd = -1;

	if (fd < 0) {
		if (chdir(dir) || (fd = open("waiter.tmp", O_CREAT | O_RDWR, 0600)) < 0)
			exit(1);
		unlink("waiter.tmp");
	}
	if (pwrite(fd, block, sizeof(block), 0) != sizeof(block) || fsync(fd))
		exit(1);
}

NOINLINE void sleep_long(void)
{
	pause_for(50 * MS);
}

NOINLINE void sleep_short(void)
{
	pause_for(200000);
}

struct kind {
	const char *name;
	void (*wait)(void);
	long long busy; // ns of CPU time after each wait
	pthread_t thread;
	char line[200];
} kinds[] = {
	{"lock", hold_lock, 2 * MS}, {"pipe", read_pipe, 2 * MS}, {"disk", slow_disk, MS / 10},
	{"sleep", sleep_long, 5 * MS}, {"short", sleep_short, 0},
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

static void *run(void *arg)
{
	struct kind *k = arg;
	long long start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID), end, waited = 0, inside = 0;
	struct rusage used;

	prctl(PR_SET_NAME, k->name);
	do {
		inside -= now(CLOCK_MONOTONIC);
		waited -= off();
		k->wait();
		waited += off();
		inside += now(CLOCK_MONOTONIC);
		burn(k->busy);
		end = now(CLOCK_MONOTONIC);
	} while (end - start < runtime);
	getrusage(RUSAGE_THREAD, &used);
	snprintf(k->line, sizeof(k->line), "%s %ld %lld %lld %lld %lld %lld %ld", k->name, syscall(SYS_gettid),
		 end - start, waited, inside, now(CLOCK_THREAD_CPUTIME_ID) - cpu, ready(), used.ru_nvcsw);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t helpers[2];

	if (argc > 1)
		runtime = atoll(argv[1]) * MS;
	if (argc > 2)
		dir = argv[2];
	if (pipe(ends))
		return 1;
	pthread_create(&helpers[0], NULL, holder, NULL);
	pthread_create(&helpers[1], NULL, writer, NULL);
	for (int i = 0; i < KINDS; i++)
		pthread_create(&kinds[i].thread, NULL, run, &kinds[i]);
	for (int i = 0; i < KINDS; i++) {
		pthread_join(kinds[i].thread, NULL);
		puts(kinds[i].line);
	}
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(helpers[i], NULL);
	return 0;
}

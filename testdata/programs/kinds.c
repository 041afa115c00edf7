// Processes that wait, each for one kind of thing, and have its name: lock, pipe, network, poll, timer, child, stopped.
// A process that drives them wakes each of them every 20 ms.
//   kinds [TIMES]    each waits so many times (20)
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int times = 20;
static int in[2], polled[2], sockets[2];
static int *word;

static void sleep_20ms(void)
{
	struct timespec t = {0, 20 * 1000 * 1000};

	nanosleep(&t, NULL);
}

static void lock(void)
{
	syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void pipes(void)
{
	char c;

	read(in[0], &c, 1);
}

static void network(void)
{
	char c;

	recv(sockets[0], &c, 1, 0);
}

static void polls(void)
{
	struct pollfd p = {polled[0], POLLIN, 0};
	char c;

	poll(&p, 1, -1);
	read(polled[0], &c, 1);
}

static void child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_NAME, "grandchild");
		sleep_20ms();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void stopped(void)
{
	raise(SIGSTOP);
}

static pid_t start(const char *name, void (*waits)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < times; i++)
		waits();
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t stops;

	if (argc > 1)
		times = atoi(argv[1]);
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (word == MAP_FAILED || pipe(in) || pipe(polled) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) {
		perror("kinds");
		return 1;
	}
	start("lock", lock);
	start("pipe", pipes);
	start("network", network);
	start("poll", polls);
	start("timer", sleep_20ms);
	start("child", child);
	stops = start("stopped", stopped);
	prctl(PR_SET_NAME, "driver");
	for (int left = 7; left > 0;) {
		sleep_20ms();
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
		write(in[1], "", 1);
		write(polled[1], "", 1);
		write(sockets[1], "", 1);
		if (stops)
			kill(stops, SIGCONT);
		for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0; left--)
			if (pid == stops)
				stops = 0;
	}
	return 0;
}

// Built without frame pointers: a program that runs from files that are hard to open. The first argument names
// the actions before it spins in a function of the library LIBRARY, or in its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern char **environ;
volatile unsigned long sink;

// On a machine that is $GPERF_SLOW times slower, it takes as much longer until the first stacks can be walked.
NOINLINE int spin(int n)
{
	const char *slow = getenv("GPERF_SLOW");
	struct timespec t;
	double end = 0;
	do {
		for (int i = 0; i < 100000; i++)
			sink += i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		if (end == 0)
			end = t.tv_sec + 0.8 * (slow ? atof(slow) : 1);
	} while (t.tv_sec + t.tv_nsec / 1e9 < end);
	return n;
}

NOINLINE int recurse(int n) { return n == 0 ? spin(1) : recurse(n - 1) + (int)(sink & 1); }

static int fail(const char *step)
{
	perror(step);
	return 1;
}

// copy copies the file of a path to a file descriptor.
static int copy(const char *path, int to)
{
	struct stat st;
	int from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0 || fstat(from, &st))
		return -1;
	return sendfile(to, from, 0, st.st_size) == st.st_size ? close(from) : -1;
}

int main(int argc, char **argv)
{
	char *run[] = {argv[0], "run", 0}, self[4096] = "";
	if (strcmp(argv[1], "run") && readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return fail("readlink");
	if (!strcmp(argv[1], "memfd")) {
		int fd = memfd_create("hidden", MFD_CLOEXEC);
		if (fd < 0 || copy(self, fd))
			return fail("memfd");
		fexecve(fd, run, environ);
		return fail("fexecve");
	}
	if (!strcmp(argv[1], "deleted") && unlink(self))
		return fail("unlink");
	if (!strcmp(argv[1], "replaced")) { // as an upgrade does
		char new[5000];
		snprintf(new, sizeof(new), "%s.new", self);
		int fd = open(new, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
		if (fd < 0 || copy("/bin/true", fd) || rename(new, self))
			return fail("replace");
	}
	if (!strcmp(argv[1], "library")) { // this file, as a deleted library
		void *library = dlopen(argv[2], RTLD_NOW);
		int (*f)(int) = library ? dlsym(library, "recurse") : 0;
		if (!f || unlink(argv[2]))
			return fail("library");
		return f(20) < 0;
	}
	return recurse(20) < 0;
}

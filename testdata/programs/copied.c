// Runs its own code in other memory at the same addresses, as programs do that want huge pages for their code, for so
// many ms of CPU time: copied anonymous|memfd|mremap|other MS. With other, that memory has other code.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COPIED __attribute__((noinline, noclone, section("copied")))
asm(".section copied,\"ax\"\n.balign 65536\n.previous"); // the largest page of all machines
extern char __start_copied[], __stop_copied[];
volatile unsigned long sink;

COPIED void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
COPIED void hot_middle(unsigned long n) { hot_leaf(n); sink++; }

// made_leaf is the code that is there with other. It runs at any address.
__attribute__((noinline, noclone, section("made"))) void made_leaf(unsigned long n) {
	for (volatile unsigned long i = 0; i < n; i++) {}
}
asm(".section made,\"ax\"\n.balign 65536\n.previous");
extern char __start_made[];

static long cpu_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
	if (argc < 3) return 2;
	const char *how = argv[1];
	size_t page = sysconf(_SC_PAGESIZE), size = (__stop_copied - __start_copied + page - 1) / page * page;
	char *at = __start_copied, *to = at;
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void (*run)(unsigned long) = hot_middle;
	char *code = malloc(size);
	memcpy(code, at, size);
	if (!strcmp(how, "memfd")) {
		fd = memfd_create("code", 0);
		if (ftruncate(fd, size)) return 2;
		flags = MAP_SHARED;
	} else if (!strcmp(how, "other")) {
		memset(code, 0, size);
		memcpy(code, __start_made, 4096);
		run = (void (*)(unsigned long))(at + ((char *)made_leaf - __start_made));
	}
	if (!strcmp(how, "mremap")) {
		to = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	} else {
		to = mmap(at, size, PROT_READ | PROT_WRITE | PROT_EXEC, flags | MAP_FIXED, fd, 0);
	}
	if (to == MAP_FAILED) return 2;
	memcpy(to, code, size);
	if (mprotect(to, size, PROT_READ | PROT_EXEC)) return 2;
	if (to != at && mremap(to, size, size, MREMAP_FIXED | MREMAP_MAYMOVE, at) != at) return 2;
	__builtin___clear_cache(at, at + size);
	if (write(1, "ready\n", 6) != 6) return 2;
	while (cpu_ms() < atol(argv[2])) run(1000000);
	return 0;
}

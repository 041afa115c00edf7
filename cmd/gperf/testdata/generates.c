/* A program that generates a function, compiled, and names it: "map" in a perf map, "dump" in a jitdump in /tmp. It runs
 * for so many milliseconds of CPU time. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* compiled counts its argument down. */
#ifdef __x86_64__
#define MACHINE 62
static const uint8_t code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3}; /* dec %edi; jnz; ret */
#else
#define MACHINE 183
static const uint32_t code[] = {0x71000400, 0x54ffffe1, 0xd65f03c0}; /* subs w0, w0, #1; b.ne; ret */
#endif

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void write_dump(FILE *f, void *at)
{
	uint32_t head[] = {0x4a695444, 1, 40, MACHINE, 0, getpid(), 0, 0, 0, 0};
	uint32_t load[] = {0, 16 + 40 + 9 + sizeof(code)}, ids[] = {getpid(), getpid()};
	uint64_t time = now(CLOCK_MONOTONIC), fields[] = {(uint64_t)at, (uint64_t)at, sizeof(code), 1};

	fwrite(head, sizeof(head), 1, f);
	fwrite(load, sizeof(load), 1, f);
	fwrite(&time, sizeof(time), 1, f);
	fwrite(ids, sizeof(ids), 1, f);
	fwrite(fields, sizeof(fields), 1, f);
	fwrite("compiled", 9, 1, f);
	fwrite(code, sizeof(code), 1, f);
}

int main(int argc, char **argv)
{
	char path[64];
	int dump = !strcmp(argv[1], "dump");
	void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	__builtin___clear_cache(at, (char *)at + sizeof(code));
	snprintf(path, sizeof(path), dump ? "/tmp/jit-%d.dump" : "/tmp/perf-%d.map", getpid());
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	FILE *f = fdopen(fd, "w");
	if (!f || dump && mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	if (dump)
		write_dump(f, at);
	else
		fprintf(f, "%lx %zx compiled\n", (long)at, sizeof(code));
	fclose(f);
	while (now(CLOCK_PROCESS_CPUTIME_ID) < atoi(argv[2]) * 1000000ull)
		((void (*)(uint32_t))at)(1000000);
	return 0;
}

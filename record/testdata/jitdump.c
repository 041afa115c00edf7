/* A program that generates a function, and writes a jitdump with its call frame information. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static __attribute__((noinline)) void spin(void)
{
	for (volatile int i = 0; i < 2000000; i++)
		;
}

/*
 * generated calls its argument, with a frame that neither frame pointers nor guesses can find. frame is .eh_frame, 32
 * bytes after the code's start.
 */
#ifdef __x86_64__
#define MACHINE 62
static const uint8_t generated[] = {
	0x48, 0x83, 0xec, 0x68, /* sub $0x68, %rsp */
	0x48, 0x89, 0x6c, 0x24, 0x50, /* mov %rbp, 0x50(%rsp) */
	0xbd, 1, 0, 0, 0, /* mov $1, %ebp */
	0xff, 0xd7, /* call *%rdi */
	0x48, 0x8b, 0x6c, 0x24, 0x50, /* mov 0x50(%rsp), %rbp */
	0x48, 0x83, 0xc4, 0x68, /* add $0x68, %rsp */
	0xc3, /* ret */
};
static const uint8_t frame[] = {
	/* CIE: version 1, "zR", alignment 1 and -8, return address 16; pc-relative; CFA rsp + 8 */
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
	/* FDE */
	28, 0, 0, 0, 28, 0, 0, 0, 0xe0 - 32, 0xff, 0xff, 0xff, sizeof(generated), 0, 0, 0, 0,
	0x44, 0x0e, 0x70, /* after 4 bytes: CFA rsp + 0x70 */
	0x45, 0x86, 4,    /* after 5: rbp at CFA - 32 */
	0x4c, 0xc6,       /* after 12: rbp restored */
	0x44, 0x0e, 8,    /* after 4: CFA rsp + 8 */
	0, 0, 0, 0,
	0, 0, 0, 0,
};
#else
#define MACHINE 183
static const uint32_t generated[] = {
	0xd101c3ff, /* sub sp, sp, #0x70 */
	0xf9002bfe, /* str x30, [sp, #0x50] */
	0xd63f0000, /* blr x0 */
	0xf9402bfe, /* ldr x30, [sp, #0x50] */
	0x9101c3ff, /* add sp, sp, #0x70 */
	0xd65f03c0, /* ret */
	0xd503201f, /* nop */
};
static const uint8_t frame[] = {
	/* CIE: version 1, "zR", alignment 1 and -8, return address 30; pc-relative; CFA sp */
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, 0, 0, 0, 0,
	/* FDE */
	28, 0, 0, 0, 28, 0, 0, 0, 0xe0 - 32, 0xff, 0xff, 0xff, sizeof(generated), 0, 0, 0, 0,
	0x44, 0x0e, 0x70, /* after 4 bytes: CFA sp + 0x70 */
	0x44, 0x9e, 4,    /* after 4: x30 at CFA - 32 */
	0x48, 0xde,       /* after 8: x30 restored */
	0x44, 0x0e, 0,    /* after 4: CFA sp */
	0, 0, 0, 0,
	0, 0, 0, 0,
};
#endif

struct record {
	uint32_t kind, size;
	uint64_t time;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	static const uint8_t header[20];
	void (*call)(void (*)(void)) = 0;
	char path[4096];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[1], getpid());
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	if (fd < 0 || mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	FILE *f = fdopen(fd, "w");
	uint32_t head[] = {0x4a695444, 1, 40, MACHINE, 0, getpid(), 0, 0, 0, 0};
	fwrite(head, sizeof(head), 1, f);
	fflush(f);
	uint8_t *code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	/* New functions are generated while the program runs, also in the place of others. */
	for (int i = 0; i < 300; i++) {
		uint8_t *at = code + i % 100 * 64;
		memcpy(at, generated, sizeof(generated));
		__builtin___clear_cache((char *)at, (char *)at + sizeof(generated));
		struct record unwind = {4, sizeof(unwind) + 24 + sizeof(frame) + sizeof(header), now()};
		uint64_t sizes[] = {sizeof(frame) + sizeof(header), sizeof(header), 0};
		fwrite(&unwind, sizeof(unwind), 1, f);
		fwrite(sizes, sizeof(sizes), 1, f);
		fwrite(frame, sizeof(frame), 1, f);
		fwrite(header, sizeof(header), 1, f);
		char name[16];
		int n = snprintf(name, sizeof(name), "generated%d", i) + 1;
		struct record load = {0, sizeof(load) + 40 + n + sizeof(generated), now()};
		uint32_t ids[] = {getpid(), getpid()};
		uint64_t fields[] = {(uint64_t)at, (uint64_t)at, sizeof(generated), i};
		fwrite(&load, sizeof(load), 1, f);
		fwrite(ids, sizeof(ids), 1, f);
		fwrite(fields, sizeof(fields), 1, f);
		fwrite(name, n, 1, f);
		fwrite(generated, sizeof(generated), 1, f);
		fflush(f);
		call = (void (*)(void (*)(void)))at;
		if (argc > 2 && i < 290)
			continue; /* first generate, then run */
		call(spin);
		if (argc > 2)
			for (int k = 0; k < 100; k++) /* long enough for a busy recorder to read the dump */
				call(spin);
	}
	return 0;
}

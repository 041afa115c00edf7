// Functions made at run time, without CFI, with frames of several kinds. C without frame pointers calls them, and they
// call back: main, call, the first function, inner, the second, inner, the third, inner, work. The functions of the next
// generation replace them: their calls have the same addresses, their frames another layout.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

typedef void made(long generation, long depth);

static unsigned char *memory; // of the functions
#define DISTANCE 256          // between two of them
#define CALL 24               // offset of the call: the same in all functions

static volatile long sink;

NOINLINE void work(void) { sink++; }

NOINLINE void stepBegin(void) { sink++; }
NOINLINE void stepEnd(void) { sink++; }

// lose overwrites rbp, as code without frame pointers may. On arm64, compilers use x29 for nothing else.
#ifdef __x86_64__
#define lose() asm volatile("mov $0x1234567, %%ebp" ::: "rbp")
#else
#define lose()
#endif

// at returns the function of a depth.
static void *at(long depth) { return memory + depth * DISTANCE; }

NOINLINE static void call(long generation) {
	lose();
	((made *)at(0))(generation, 0);
	sink++;
}

// inner is called by the function at a depth.
NOINLINE static void inner(long generation, long depth) {
	if (depth == 0) {
		if (generation & 1)
			lose();
		((made *)at(1))(generation, 1);
	} else if (depth == 1) {
		lose();
		((made *)at(2))(generation, 2);
	} else {
		work();
	}
	sink++;
}

#define KINDS 4

#ifdef __x86_64__

#define BYTES(s) s, sizeof(s) - 1

// Code before and after the call. A byte of 0 is the size of the frame.
static const struct {
	const char *begin;
	int begins;
	const char *end;
	int ends;
} kinds[] = {
	// push %rbp; mov %rsp, %rbp; sub $0, %rsp … leave; ret
	{BYTES("\x55\x48\x89\xe5\x48\x83\xec\x00"), BYTES("\xc9\xc3")},
	// sub $0, %rsp … add $0, %rsp; ret, as in CPython's trampolines
	{BYTES("\x48\x83\xec\x00"), BYTES("\x48\x83\xc4\x00\xc3")},
	// endbr64; push %rbp; mov %rsp, %rbp; sub $0, %rsp … mov %rbp, %rsp; pop %rbp; ret
	{BYTES("\xf3\x0f\x1e\xfa\x55\x48\x8b\xec\x48\x83\xec\x00"), BYTES("\x48\x8b\xe5\x5d\xc3")},
	// push %rbp; mov %rsp, %rbp … pop %rbp; ret
	{BYTES("\x55\x48\x89\xe5"), BYTES("\x5d\xc3")},
};

// emit copies code, with the size of the frame.
static void emit(unsigned char *to, const char *code, int n, int size) {
	for (int i = 0; i < n; i++)
		to[i] = code[i] ? code[i] : size;
}

// write_function writes a function of a kind, with a frame of size bytes.
static void write_function(unsigned char *f, int k, int size) {
	void (*to)(long, long) = inner;
	if (kinds[k].begin[0] == 0x48)
		size -= 8; // it does not push rbp; the stack is aligned at the call
	memset(f, 0x90, DISTANCE); // nop
	emit(f, kinds[k].begin, kinds[k].begins, size);
	memcpy(f + CALL - 10, "\x48\xb9", 2); // movabs $inner, %rcx
	memcpy(f + CALL - 8, &to, 8);
	memcpy(f + CALL, "\xff\xd1", 2); // call *%rcx
	emit(f + CALL + 2, kinds[k].end, kinds[k].ends, size);
}

#else

#define PAIR(offset) ((offset) / 8 & 0x7f) << 15 | 30 << 10 | 31 << 5 | 29 // x29, x30, [sp, offset]

// write_function writes a function of a kind, with a frame of size bytes and the saved x29 and x30 at its top.
static void write_function(unsigned char *f, int k, int size) {
	void (*to)(long, long) = inner;
	uint32_t *begin = (uint32_t *)f, *end = (uint32_t *)(f + CALL) + 1;
	for (int i = 0; i < DISTANCE / 4; i++)
		begin[i] = 0xd503201f; // nop
	if (k == 0)
		*begin++ = 0xd503233f; // paciasp
	if (k < 2) {
		*begin++ = 0xa9800000 | PAIR(-16); // stp x29, x30, [sp, -16]!
		*begin++ = 0x910003fd;             // mov x29, sp
		if (k == 1) {
			*begin++ = 0xd10003ff | size << 10; // sub sp, sp, size
			*end++ = 0x910003bf;                // mov sp, x29
		}
		*end++ = 0xa8c00000 | PAIR(16); // ldp x29, x30, [sp], 16
	} else {
		*begin++ = 0xd10003ff | size << 10;        // sub sp, sp, size
		*begin++ = 0xa9000000 | PAIR(size - 16);   // stp x29, x30, [sp, size - 16]
		*begin++ = 0x910003fd | (size - 16) << 10; // add x29, sp, size - 16
		*end++ = 0xa9400000 | PAIR(size - 16);     // ldp x29, x30, [sp, size - 16]
		*end++ = 0x910003ff | size << 10;          // add sp, sp, size
	}
	if (k == 0)
		*end++ = 0xd50323bf; // autiasp
	*end = 0xd65f03c0;           // ret
	((uint32_t *)f)[CALL / 4 - 1] = 0x58000009 | (DISTANCE - 8 - (CALL - 4)) / 4 << 5; // ldr x9, inner
	((uint32_t *)f)[CALL / 4] = 0xd63f0120; // blr x9
	memcpy(f + DISTANCE - 8, &to, 8);
}

#endif

// make makes the function of a depth. Its kind and the size of its frame depend on the generation.
static void make(long generation, long depth) {
	write_function(at(depth), (generation + depth) % KINDS, 16 * (1 + (generation * 7 + depth) % 7));
	__builtin___clear_cache((char *)at(depth), (char *)at(depth + 1));
}

// main runs argv[1] generations, and waits argv[2] milliseconds after the first one. It ends after argv[3] seconds of
// CPU time at the latest.
int main(int argc, char **argv) {
	int generations = argc > 1 ? atoi(argv[1]) : 8;
	memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	stepBegin();
	for (long g = 0; g < generations; g++) {
		if (argc > 3 && g % 1024 == 0 && clock() / CLOCKS_PER_SEC >= atoi(argv[3]))
			break;
		for (long depth = 0; depth < 3; depth++)
			make(g, depth);
		call(g);
		if (g == 0 && argc > 2)
			usleep(1000 * atoi(argv[2]));
	}
	stepEnd();
	return 0;
}

/* Programs of a hostile user, by their first argument:
 *   python   as a program with "python" in its name: a CPython 3.12 whose objects lie, loop, and change while they are read
 *   dump     a jitdump with false sizes, counts and addresses, that grows for ever
 *   map      a function at 0x10000000 that only /tmp/perf-PID.map could name
 *   opens    threads that open and close libraries
 *   busy     a loop
 *   poison FROM TO   copies a program; the copy keeps its build ID, but most of its frames are wrong */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sink;

/* CPython 3.12: the data that a reader looks for, by name and by offset (internal/runtimes/python.go). */
uint64_t _PyRuntime[512];
const uint32_t Py_Version = 0x030c0000;

#define FRAMES 64
static uint64_t interpreter[32], thread[32], frames[FRAMES][16], codes[8][64], strings[8][16];

static uint64_t any(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	return x;
}

/* lie returns an address, or a number that is none. */
static uint64_t lie(void)
{
	switch (any() % 8) {
	case 0: return 0;
	case 1: return any();
	case 2: return 0xffffffff81000000;
	case 3: return 1ull << 32;
	case 4: return (uint64_t)&_PyRuntime;
	case 5: return (uint64_t)strings[any() % 8];
	case 6: return (uint64_t)codes[any() % 8];
	default: return (uint64_t)frames[any() % FRAMES];
	}
}

static void arrange(void)
{
	_PyRuntime[5] = (uint64_t)interpreter;
	interpreter[9] = (uint64_t)thread;
	thread[1] = (uint64_t)thread;                /* the next one: itself */
	thread[17] = pthread_self();
	thread[3] = -1;
	thread[7] = (uint64_t)frames[0];             /* the top frame */
	for (int i = 0; i < FRAMES; i++) {
		frames[i][0] = (uint64_t)codes[i % 8];
		frames[i][1] = (uint64_t)frames[(i + 1) % FRAMES]; /* a circle */
		frames[i][7] = (uint64_t)codes[i % 8] + 192 + i;
	}
	for (int i = 0; i < 8; i++) {
		codes[i][2] = 1ull << 31;            /* units of bytecode */
		codes[i][14] = codes[i][15] = codes[i][16] = codes[i][9] = (uint64_t)strings[i];
		strings[i][2] = 1ull << 32;          /* characters */
		strings[i][4] = 1 << 2 | 1 << 5 | 1 << 6;
		memcpy(&strings[i][5], "\033]0;x\007\033[2J", 11);
	}
}

static void *change(void *unused)
{
	for (unsigned n = 0;; n++) {
		uint64_t *parts[] = { frames[any() % FRAMES], codes[any() % 8], strings[any() % 8], thread, interpreter };

		parts[any() % 5][any() % 16] = lie();
		if (n % 64 == 0)
			arrange();
		usleep(500);
	}
	return unused;
}

__attribute__((noinline)) unsigned long _PyEval_EvalFrameDefault(int depth)
{
	if (depth > 0)
		return _PyEval_EvalFrameDefault(depth - 1) + depth;
	for (int i = 0; i < 20000; i++)
		sink += i;
	return sink;
}

static int python(void)
{
	pthread_t t;

	arrange();
	pthread_create(&t, 0, change, 0);
	for (;; usleep(2000))
		sink += _PyEval_EvalFrameDefault(any() % 100);
}

/* made returns a function that counts its argument down. */
static void *made(void)
{
	static const unsigned char code[] = { 0xff, 0xcf, 0x75, 0xfc, 0xc3 }; /* dec %edi; jnz; ret */
	void *at = mmap((void *)0x10000000, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	memcpy(at, code, sizeof(code));
	return at;
}

static void spin(void *at)
{
	((void (*)(unsigned))at)(100000);
	usleep(2000);
}

static int dump(void)
{
	char path[64];
	uint32_t head[] = { 0x4a695444, 1, 40, 62, 0, getpid(), 0, 0, 0, 0 };
	void *at = made();
	int fd;

	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", getpid());
	fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	write(fd, head, sizeof(head));
	mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	for (long n = 0;; n++) {
		uint32_t record[] = { any() % 5, any() % 4 ? 64 + any() % 64 : lie(), 0, 0 };
		uint64_t fields[] = { lie(), lie(), any() % 2 ? (uint64_t)at : lie(), lie(), n }, now[2];

		clock_gettime(CLOCK_MONOTONIC, (void *)now);
		now[0] = now[0] * 1000000000 + now[1];
		memcpy(record + 2, now, 8);
		if (n < 200000) {
			write(fd, record, sizeof(record));
			write(fd, fields, sizeof(fields));
			write(fd, "\033[2J\n\0bytes of code", 19);
		}
		spin(at);
	}
}

static int map(void)
{
	for (void *at = made();;)
		spin(at);
}

static void *open_close(void *name)
{
	for (;; usleep(20000)) {
		void *h = dlopen(name, RTLD_NOW);

		if (h)
			dlclose(h);
	}
}

static int opens(void)
{
	static char *names[] = { "libm.so.6", "libresolv.so.2", "libnsl.so.1", "libcrypt.so.1" };
	pthread_t t;

	for (int i = 0; i < 16; i++)
		pthread_create(&t, 0, open_close, names[i % 4]);
	pthread_join(t, 0);
	return 0;
}

static int busy(void)
{
	for (;;)
		sink++;
}

static int poison(const char *from, const char *to)
{
	static unsigned char b[1 << 22];
	FILE *f = fopen(from, "r"), *out = fopen(to, "w");
	size_t n = f ? fread(b, 1, sizeof(b), f) : 0;
	Elf64_Ehdr *h = (void *)b;
	Elf64_Shdr *s = (void *)(b + h->e_shoff);

	for (int i = 0; n && i < h->e_shnum; i++) {
		if (strcmp((char *)b + s[h->e_shstrndx].sh_offset + s[i].sh_name, ".eh_frame"))
			continue;
		for (unsigned char *p = b + s[i].sh_offset, *end = p + s[i].sh_size - 1; p < end; p++)
			if (p[0] == 0x0e && (p[1] == 16 || p[1] == 24 || p[1] == 32)) /* DW_CFA_def_cfa_offset */
				p[1] += 8;
	}
	return !out || fwrite(b, 1, n, out) != n || fclose(out);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	return !strcmp(what, "python") ? python() : !strcmp(what, "dump") ? dump() : !strcmp(what, "map") ? map() :
		!strcmp(what, "opens") ? opens() : !strcmp(what, "busy") ? busy() :
		!strcmp(what, "poison") && argc == 4 ? poison(argv[2], argv[3]) : 2;
}

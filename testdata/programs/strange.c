/* A process that is dear to follow: as many mappings of code as the kernel allows, 100,000 names, then work. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>

volatile unsigned long work;

int main(void)
{
	char name[16];

	for (int i = 0; i < 65400; i++) /* neighbours that are alike become one mapping */
		mmap(0, 4096, i & 1 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "%d\n\033[2J;", i);
		prctl(PR_SET_NAME, name);
	}
	for (;;)
		work++;
}

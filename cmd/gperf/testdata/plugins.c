// Loads, runs and unloads the libraries of its arguments in turn. It prints how often one got the address of the other.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *last = NULL;
	int same = 0;

	for (int i = 0; i < 8; i++) {
		void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
		void (*run)(unsigned long) = (void (*)(unsigned long))dlsym(library, "plugin_run");
		void *page = (void *)((unsigned long)run & ~4095UL);

		same += page == last;
		last = page;
		run(60000000);
		dlclose(library);
	}
	printf("%d\n", same);
	return 0;
}
